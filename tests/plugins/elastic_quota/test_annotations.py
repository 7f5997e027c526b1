"""Koordinator's annotations on quotas: what they hold, and for which quotas they are computed again."""

import json
from typing import Any

import pytest
from hypothesis import given

from app.domain import events, model, projections, snapshots
from app.framework import effects
from app.plugins.elastic_quota import annotations, kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from tests.support import declared
from tests.support.decisions import quota_histories, scheduling_driver, small_quotas
from tests.support.decisions.small_quotas import CORE, GIB, node, pod, quota

PLUGIN = ElasticQuota(koordinator_annotations=True)
PREFIX = "quota.scheduling.koordinator.sh/"


def small(*things: scheduling_driver.Thing) -> scheduling_driver.Cluster:
    """A team that is divided between two, one of which uses little."""
    return small_quotas.cluster(
        node("n1", 100),
        quota("team", 40, 80, is_parent=True),
        quota("blue", 20, 50, parent="team"),
        quota("green", 20, 70, parent="team", lends=False),
        pod("runs", 10, "blue", node="n1"),
        pod("firm", 5, "blue", node="n1", firm=True),
        pod("waits", 45, "blue", firm=True),
        *things,
    )


def found(
    cluster: scheduling_driver.Cluster, changes: effects.Changes | None = None
) -> dict[str, dict[str, str | None]]:
    """Quota -> name of the annotation -> value."""
    patches = list(PLUGIN.reconcile(cluster.snapshot, changes or effects.Changes()))
    assert all(isinstance(one, effects.PatchStatus) for one in patches)
    return {
        one.identity: {key.removeprefix(PREFIX): value for key, value in one.annotations.items()}
        for one in patches
        if isinstance(one, effects.PatchStatus)
    }


def cores(annotated: dict[str, str | None]) -> dict[str, str]:
    return {key: json.loads(value or "{}").get("cpu", "") for key, value in annotated.items()}


def test_they_hold_requests_and_runtimes_of_the_quota_and_of_those_below_it() -> None:
    seen = {name: cores(annotated) for name, annotated in found(small()).items()}
    nothing = {"guaranteed": "0", "allocated": "0"}
    assert seen["quotas/blue"] == nothing | {
        "runtime": "50",
        "request": "60",
        "child-request": "60",
        "non-preemptible-request": "50",
        "non-preemptible-used": "5",
    }
    # Not lending, it requests its min.
    assert seen["quotas/green"] == nothing | {
        "runtime": "20",
        "request": "20",
        "child-request": "0",
        "non-preemptible-request": "0",
        "non-preemptible-used": "0",
    }
    assert seen["quotas/team"] == nothing | {
        "runtime": "70",
        "request": "70",
        "child-request": "70",
        "non-preemptible-request": "50",
        "non-preemptible-used": "5",
    }


@given(quota_histories.happened)
def test_they_are_those_of_the_view(history: list[events.AnyEvent]) -> None:
    latest = projections.project_all(snapshots.empty(schema=declared.SCHEMA), history)
    view = {one.path: one for one in PLUGIN.shown().endpoints}["quotas/<name>"]
    for held in latest.all(kinds.QUOTAS).values():
        written = annotations.Writer(latest, PLUGIN).of(held)
        if any(written.values()):
            shown: Any = view.handle(latest, {"name": held.name})
            fields = {
                _field(key.removeprefix(PREFIX)): json.loads(value or "") for key, value in written.items()
            }
            assert fields == {field: shown[field] for field in fields}


def _field(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(word.title() for word in rest)


def test_they_are_resource_lists_in_the_resources_of_max() -> None:
    most = {"cpu": 8 * CORE, "memory": 8 * GIB, "nvidia.com/gpu": 8}
    cluster = small_quotas.cluster(
        node("n1", 4, 3),
        quota("blue", max=most),
        pod("p", 1, "blue", node="n1", memory=3),
    )
    seen = found(cluster)["quotas/blue"]
    assert seen["request"] == '{"cpu":"1","memory":"3Gi","nvidia.com/gpu":"0"}'
    assert set(seen) == set(annotations.NAMES)


def test_a_quota_without_a_runtime_loses_them() -> None:
    cluster = small_quotas.cluster(
        node("n1", 32),
        quota("lost", parent="absent"),
        quota("blue"),
        quota("blue", namespace="other", created="2026-01-02T00:00:00Z"),
        quota("koordinator-default-quota"),
    )
    seen = found(cluster)
    kept = {name for name, annotated in seen.items() if any(annotated.values())}
    assert kept == {"quotas/blue"}
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("event", "computed"),
    [
        (events.PodSeen(pod=pod("other", 1, "green")), True),
        (events.NodeSeen(node=node("n2", 16)), True),
        (kinds.QUOTAS.observed(quota("red")), True),
        (events.FlagSet(flag=model.Flag(name="v", value="1")), False),
    ],
    ids=["a pod of another quota", "a node", "a quota", "a flag"],
)
def test_whatever_changes_the_runtime_of_one_concerns_all(event: events.AnyEvent, computed: bool) -> None:
    cluster = small()
    before = cluster.snapshot
    cluster.take(event)
    seen = found(cluster, effects.Changes(before, (event,)))
    assert ("quotas/blue" in seen) == computed
    if computed:
        assert seen == found(cluster)


def test_without_the_argument_there_are_none() -> None:
    patches = list(ElasticQuota().reconcile(small().snapshot, effects.Changes()))
    assert len(patches) == 3
    assert all(isinstance(one, effects.PatchStatus) and not one.annotations for one in patches)
