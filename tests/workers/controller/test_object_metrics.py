"""Metrics of objects stop at a number of series and expose how many are left out."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import pytest
from prometheus_client import registry as prometheus_registry
from prometheus_client import samples

from app.domain import events, model, projections, snapshots
from app.framework import capabilities, registry, views
from app.plugins.elastic_quota import plugin as elastic_quota
from app.plugins.workload_policy import plugin as workload_policy
from app.plugins.workload_policy import policy_model
from tests.support import declared
from tests.support.decisions import fake_plugins, small_quotas
from tests.support.monitoring import samples as counted
from workers.controller import object_metrics

PODS, DESIRED, EXCESS, OMITTED = (
    "topolog_object_domain_pods",
    "topolog_object_domain_desired_pods",
    "topolog_object_excess",
    "topolog_object_series_omitted",
)

T = TypeVar("T")


def collected(
    plugins: Sequence[capabilities.Plugin], snapshot: snapshots.Snapshot, limit: int, *, leads: bool = True
) -> dict[str, list[samples.Sample]]:
    """Name -> samples, through a registry of Prometheus."""
    shown = prometheus_registry.CollectorRegistry()
    shown.register(
        object_metrics.ObjectMetrics(
            registry.Registry(list(plugins)), lambda: snapshot, lambda: leads, limit=limit
        )
    )
    return {metric.name: metric.samples for metric in shown.collect()}


def policies(count: int) -> snapshots.Snapshot:
    """So many policies, each with three domains."""
    projection = projections.Projection(snapshots.empty(schema=declared.SCHEMA))
    projection.apply_all(
        [
            declared.observed(
                policy_model.WorkloadPolicy(
                    uid=f"u{number}",
                    namespace=f"ns{number % 100}",
                    name=f"p{number:05}",
                    topology_key="zone",
                    selector=model.Selector(labels={"app": f"a{number}"}),
                    allocations=tuple(policy_model.Allocation(zone, number % 7) for zone in "abc"),
                )
            )
            for number in range(count)
        ]
    )
    return projection.finish()


@pytest.mark.parametrize("limit", [2_000, 1_999, 1])
def test_with_10000_policies_the_series_stop_at_the_limit_and_the_rest_is_counted(limit: int) -> None:
    found = collected([workload_policy.WorkloadPolicy()], policies(10_000), limit)
    assert len(found[PODS]) == len(found[DESIRED]) == limit // 2
    (omitted,) = found[OMITTED]
    assert omitted.value == 10_000 * 3 * 2 - limit // 2 * 2


def test_the_same_objects_are_shown_at_every_scrape() -> None:
    plugins = [workload_policy.WorkloadPolicy()]
    first = [sample.labels for sample in collected(plugins, policies(300), 100)[PODS]]
    again = [sample.labels for sample in collected(plugins, policies(300), 100)[PODS]]
    assert first == again
    assert len({tuple(labels.items()) for labels in first}) == 50


def test_the_limit_holds_for_all_plugins_together() -> None:
    keys = tuple(views.Measured("ns", f"n{number}", "d") for number in range(3))
    plugins = [fake_plugins.Measuring("A", keys=keys), fake_plugins.Measuring("B", keys=keys)]
    found = collected(plugins, snapshots.empty(schema=declared.SCHEMA), 8)
    shown = [(sample.labels["plugin"], sample.labels["name"]) for sample in found[PODS]]
    assert shown == [("A", "n0"), ("A", "n1"), ("A", "n2"), ("B", "n0")]
    assert [sample.value for sample in found[OMITTED]] == [4]


def test_a_domain_that_is_listed_twice_is_one_series() -> None:
    twice = policy_model.WorkloadPolicy(
        uid="u",
        namespace="ns",
        name="p",
        topology_key="zone",
        selector=model.Selector(labels={"app": "a"}),
        allocations=(policy_model.Allocation("a", 1), policy_model.Allocation("a", 2)),
    )
    snapshot = projections.project(snapshots.empty(schema=declared.SCHEMA), declared.observed(twice))
    assert len(collected([workload_policy.WorkloadPolicy()], snapshot, 100)[PODS]) == 1


@dataclass(frozen=True, slots=True)
class Raising(fake_plugins.Idle):
    """Raises in one of its methods."""

    method: str = ""

    def exceeded(self, snapshot: snapshots.Snapshot) -> dict[views.Limited, float]:
        return self._answer("exceeded", {})

    def measured(self, snapshot: snapshots.Snapshot) -> list[views.Measured]:
        return self._answer("measured", [views.Measured("ns", f"n{number}", "d") for number in range(3)])

    def measure(self, snapshot: snapshots.Snapshot, key: views.Measured) -> views.Measure:
        return self._answer("measure", views.Measure(1, 1))

    def _answer(self, method: str, answer: T) -> T:
        if method == self.method:
            raise RuntimeError(method)
        return answer


@pytest.mark.parametrize("method", ["exceeded", "measured", "measure"])
def test_a_plugin_that_raises_takes_no_samples_of_others(method: str) -> None:
    keys, above = (views.Measured("ns", "n", "d"),), (views.Limited("ns", "q", "cpu"),)
    others = [fake_plugins.Measuring("Y", keys=keys), fake_plugins.Exceeding("Z", found=above)]
    raising = Raising("Raising", method=method)
    failures = functools.partial(
        counted.value, "topolog_plugin_failures_total", plugin="Raising", method=method
    )
    before = failures()
    found = collected([raising, *others], snapshots.empty(schema=declared.SCHEMA), 20)
    assert "Y" in {sample.labels["plugin"] for sample in found[PODS]}
    assert {sample.labels["plugin"] for sample in found[EXCESS]} == {"Z"}
    assert failures() == before + 1


def test_a_standby_exposes_none() -> None:
    found = collected([workload_policy.WorkloadPolicy()], policies(3), 100, leads=False)
    assert found == {PODS: [], DESIRED: [], EXCESS: [], OMITTED: []}


def test_objects_above_their_limits_come_before_domains() -> None:
    keys = tuple(views.Measured("ns", f"n{number}", "d") for number in range(3))
    above = tuple(views.Limited("ns", f"q{number}", "cpu") for number in (2, 0, 1))
    plugins = [fake_plugins.Measuring("A", keys=keys), fake_plugins.Exceeding("B", found=above)]
    empty = snapshots.empty(schema=declared.SCHEMA)
    found = collected(plugins, empty, 6)
    assert [(one.labels["plugin"], one.labels["name"], one.value) for one in found[EXCESS]] == [
        ("B", "q0", 1.0),
        ("B", "q1", 1.0),
        ("B", "q2", 1.0),
    ]
    assert [one.labels["name"] for one in found[PODS]] == ["n0"]
    assert [one.value for one in found[OMITTED]] == [4]
    (only,) = collected(plugins, empty, 1)[EXCESS]
    assert only.labels["name"] == "q0"


@pytest.mark.scenario("EQ-19")
def test_a_quota_above_its_runtime_exposes_by_how_much_until_it_is_within_it() -> None:
    most = {"cpu": 10 * small_quotas.CORE, "memory": 4 * small_quotas.GIB}
    quota = msgspec.structs.replace(small_quotas.quota("q", 0, 10), max=most)
    running = [small_quotas.pod(name, cpu, "q", memory=3, node="n1") for name, cpu in (("a", 7), ("b", 6))]
    small = small_quotas.cluster(small_quotas.node("n1", 100, 100), quota, *running)
    quotas = elastic_quota.ElasticQuota()
    found = collected([quotas], small.snapshot, 100)[EXCESS]
    assert {one.labels["resource"]: one.value for one in found} == {"cpu": 3.0, "memory": 2 * 1024**3}
    assert {(one.labels["plugin"], one.labels["name"]) for one in found} == {("ElasticQuota", "q")}
    small.take(events.PodGone(uid=running[0].uid, namespace="apps", name="a"))
    assert collected([quotas], small.snapshot, 100)[EXCESS] == []
