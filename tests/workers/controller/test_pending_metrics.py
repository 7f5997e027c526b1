"""Metrics of pending pods: each pod is counted once, by what refuses it."""

import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Generator
from concurrent import futures
from unittest import mock

import pytest
import structlog
from prometheus_client import registry as prometheus_registry

from app.domain import events, model, projections, snapshots
from app.framework import registry
from app.plugins.workload_policy import plugin as workload_policy
from app.verbs.explain import pending_groups
from tests.support import declared
from tests.support.extender import api_worlds, server_processes
from workers.controller import pending_metrics

PODS, OLDEST = "topolog_pending_pods", "topolog_pending_oldest_seconds"
CREATED = "2026-07-01T10:00:00Z"
NOW = datetime.datetime.fromisoformat("2026-07-01T10:30:00+00:00").timestamp()
Steps = Generator[None, None, list[pending_groups.Group]]
PLUGINS = registry.Registry([workload_policy.WorkloadPolicy()])


def snapshot(*pods: model.Pod) -> snapshots.Snapshot:
    """One node and these pods; the policy that some of them name does not exist."""
    projection = projections.Projection(snapshots.empty(schema=declared.SCHEMA))
    projection.apply_all([api_worlds.node("n1", role="host"), *(events.PodSeen(pod=pod) for pod in pods)])
    return projection.finish()


def pod(name: str, *, created: str = CREATED, unscheduled: str = "", policy: str = "") -> model.Pod:
    labels = {api_worlds.POLICY_LABEL: policy} if policy else {}
    return model.Pod(
        uid=name, namespace="shop", name=name, labels=labels, created=created, unscheduled=unscheduled
    )


class Scraped:
    """A collector whose snapshot, clock and leadership the test sets."""

    def __init__(self, *pods: model.Pod) -> None:
        self.snapshot = snapshot(*pods)
        self.leads = True
        self.clock = 0.0
        self._shown = prometheus_registry.CollectorRegistry()
        self._shown.register(
            pending_metrics.PendingMetrics(
                PLUGINS,
                lambda: self.snapshot,
                lambda: self.leads,
                wall=lambda: NOW,
                monotonic=lambda: self.clock,
            )
        )

    def values(self, name: str) -> dict[str, float]:
        """Refuser -> value."""
        found = (metric for metric in self._shown.collect() if metric.name == name)
        return {sample.labels["by"]: sample.value for metric in found for sample in metric.samples}


def test_every_pending_pod_is_counted_once_by_what_refuses_it() -> None:
    scraped = Scraped(
        *(pod(f"a{number}", policy="absent") for number in range(4)),
        *(pod(f"b{number}", policy="other") for number in range(2)),
        *(pod(f"c{number}", unscheduled=f"0/1 nodes: {number} Insufficient cpu") for number in range(3)),
        pod("d"),
    )
    assert scraped.values(PODS) == {"WorkloadPolicy": 6, "kube-scheduler": 3, "none": 1}
    assert sum(scraped.values(PODS).values()) == len(scraped.snapshot.waiting)


def test_the_age_is_that_of_the_oldest_pod() -> None:
    scraped = Scraped(
        pod("young", policy="absent", created="2026-07-01T10:29:00Z"),
        pod("old", policy="absent"),
        pod("other", policy="other", created="2026-07-01T10:20:00Z"),
        pod("new", created="not a time"),
    )
    assert scraped.values(OLDEST) == {"WorkloadPolicy": 1800.0, "kube-scheduler": 0.0, "none": 0.0}


def test_every_refuser_has_a_series_before_its_first_pod() -> None:
    assert Scraped().values(PODS) == {"WorkloadPolicy": 0, "kube-scheduler": 0, "none": 0}


def test_on_standby_there_is_no_series() -> None:
    scraped = Scraped(pod("a"))
    scraped.leads = False
    assert scraped.values(PODS) == scraped.values(OLDEST) == {}


@pytest.mark.parametrize(("later", "pods"), [(pending_metrics.EVERY - 1, 1), (pending_metrics.EVERY, 2)])
def test_groups_are_computed_again_after_ten_seconds(later: float, pods: int) -> None:
    scraped = Scraped(pod("a"))
    assert scraped.values(PODS)["none"] == 1
    scraped.snapshot = snapshot(pod("a"), pod("b"))
    scraped.clock = later
    assert scraped.values(PODS)["none"] == pods


def test_scrapes_that_arrive_together_compute_the_groups_once() -> None:
    scraped, computed = Scraped(pod("a")), pending_groups.stepwise

    def slow(snapshot: snapshots.Snapshot, plugins: registry.Registry) -> Steps:
        time.sleep(0.2)
        return computed(snapshot, plugins)

    with mock.patch.object(pending_groups, "stepwise", side_effect=slow) as called:
        with futures.ThreadPoolExecutor(3) as scrapes:
            found = list(scrapes.map(scraped.values, [PODS] * 3))
        assert called.call_count == 1
    assert found == [{"WorkloadPolicy": 0, "kube-scheduler": 0, "none": 1}] * 3


def stepped(step: Callable[[], object]) -> contextlib.AbstractContextManager[object]:
    """Patches the computation: ``step`` is called before each pod."""
    computed = pending_groups.stepwise

    def steps(snapshot: snapshots.Snapshot, plugins: registry.Registry) -> Steps:
        one = computed(snapshot, plugins)
        while True:
            step()
            try:
                yield next(one)
            except StopIteration as end:
                found: list[pending_groups.Group] = end.value
                return found

    return mock.patch.object(pending_groups, "stepwise", side_effect=steps)


def test_a_scrape_during_a_computation_has_the_groups_of_the_former_one() -> None:
    scraped, begun, going_on = Scraped(pod("a")), threading.Event(), threading.Event()
    assert scraped.values(PODS)["none"] == 1

    def wait() -> None:
        begun.set()
        assert going_on.wait(server_processes.PATIENCE)

    scraped.snapshot = snapshot(pod("a"), pod("b"))
    scraped.clock = pending_metrics.EVERY
    with stepped(wait), futures.ThreadPoolExecutor(1) as thread:
        computing = thread.submit(scraped.values, PODS)
        try:
            assert begun.wait(server_processes.PATIENCE)
            assert scraped.values(PODS)["none"] == 1
        finally:
            going_on.set()
        assert computing.result()["none"] == 2


def test_a_scrape_computes_a_part_and_pauses_so_that_the_groups_take_a_tenth_of_the_time() -> None:
    scraped = Scraped(*(pod(f"p{number}") for number in range(10)))
    shown: list[dict[str, float]] = []
    spent = 0.0

    def second() -> None:
        nonlocal spent
        spent += 1.0
        scraped.clock += 1.0

    with stepped(second):
        while not shown or not shown[-1]:
            before = spent
            shown.append(scraped.values(PODS))
            assert spent - before <= pending_metrics.LONGEST
            scraped.clock += 1.0
    assert shown[-1]["none"] == 10
    assert not any(shown[:-1])
    assert spent <= (scraped.clock + pending_metrics.SHARE * pending_metrics.LONGEST) / 10
    assert spent >= scraped.clock / 12


def test_groups_are_kept_from_the_end_of_their_computation_on() -> None:
    scraped = Scraped(pod("a"))
    with stepped(lambda: setattr(scraped, "clock", scraped.clock + 0.75)):
        assert scraped.values(PODS)["none"] == 1
    assert scraped.clock == 1.5
    scraped.snapshot = snapshot()
    scraped.clock = 1.5 + pending_metrics.SHARE * 1.5 - 0.1
    assert scraped.values(PODS)["none"] == 1
    scraped.clock += 0.1
    assert scraped.values(PODS)["none"] == 0


def test_a_computation_that_the_end_of_the_leadership_interrupts_is_not_continued() -> None:
    scraped = Scraped(pod("a"))
    with stepped(lambda: setattr(scraped, "clock", scraped.clock + pending_metrics.LONGEST)):
        assert scraped.values(PODS) == {}
    scraped.leads = False
    assert scraped.values(PODS) == {}
    scraped.snapshot = snapshot(pod("b"), pod("c"))
    scraped.leads = True
    assert scraped.values(PODS)["none"] == 2


def test_pods_that_a_failing_plugin_does_not_let_through_are_those_of_the_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scraped = Scraped(pod("a", policy="absent"), pod("b"))
    broken = mock.Mock(side_effect=RuntimeError("broken"))
    monkeypatch.setattr(workload_policy.WorkloadPolicy, "filter", broken)
    values = scraped.values(PODS)
    assert (values["WorkloadPolicy"], values["none"]) == (1, 1)


def test_while_a_plugin_raises_there_is_no_series_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    scraped = Scraped(pod("a", policy="absent"))
    with monkeypatch.context() as broken, structlog.testing.capture_logs() as lines:
        broken.setattr(
            workload_policy.WorkloadPolicy, "pod_class", mock.Mock(side_effect=RuntimeError("broken"))
        )
        for _ in range(3):
            assert scraped.values(PODS) == scraped.values(OLDEST) == {}
            scraped.clock += pending_metrics.EVERY
    assert [line["event"] for line in lines] == ["cannot compute why pods are pending"]
    scraped.clock += pending_metrics.EVERY
    assert scraped.values(PODS)["WorkloadPolicy"] == 1
