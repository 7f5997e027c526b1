"""How pods are woken: repeated after refusals, at a limited rate, within one leadership."""

import pytest
import structlog

from app.domain import events, model, projections, snapshots
from app.framework import effects
from app.kube import call_limits
from app.simulation.apiserver import faults
from tests.support import declared
from tests.support.kube import fake_clock
from tests.support.workers import clusters, pending_pods
from workers.controller import wakeups


class Waking:
    """A waker on a virtual clock."""

    def __init__(
        self, cluster: clusters.Cluster, pods: tuple[model.Pod, ...], *, burst: float = 100.0
    ) -> None:
        self.clock, self.term = fake_clock.VirtualClock(), "term"
        self.snapshot = snapshots.empty(schema=declared.SCHEMA)
        limit = call_limits.CallLimit(self.clock, term=lambda: self.term, burst=burst, rate=2.0)
        self.waker = wakeups.Waker(
            cluster.client, lambda: self.snapshot, limit, self.clock, now=lambda: "2026-01-01T00:00:00Z"
        )
        self.wake(*pods)

    def wake(self, *pods: model.Pod) -> None:
        """Queue wake-ups of pods that wait, in the present leadership."""
        seen = [events.PodSeen(pod=pod) for pod in pods]
        self.snapshot = projections.project_all(self.snapshot, seen)
        found = effects.WakePods(pods, "capacity", refused=True)
        self.waker.submit(found, model.Position("i", 7), self.term)

    def drain(self) -> None:
        while self.waker.run_once(timeout=0.0):
            pass


def test_a_wakeup_is_repeated_if_the_server_was_busy(cluster_side: clusters.Cluster) -> None:
    pod = pending_pods.pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    cluster_side.server.faults.add(
        faults.FaultKind.FAIL, faults.calls("PATCH", "/status"), times=2, status=429
    )
    waking.drain()
    assert pending_pods.wakeup(cluster_side, "p0") == "capacity (as of event 7)"
    assert waking.clock.waits, "the calls after a refusal wait"


@pytest.mark.parametrize("kind", [faults.FaultKind.DROP, faults.FaultKind.FAIL])
def test_a_wakeup_is_repeated_until_the_server_takes_it(
    cluster_side: clusters.Cluster, kind: faults.FaultKind
) -> None:
    pod = pending_pods.pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    cluster_side.server.faults.add(kind, faults.calls("PATCH", "/status"), times=30, status=503)
    waking.drain()
    assert pending_pods.wakeup(cluster_side, "p0") == "capacity (as of event 7)"
    assert waking.waker.noted(pod.uid) == model.Position("i", 7)
    assert waking.clock.now - 1000.0 > 100, "with the backoff of all calls"


def test_a_pod_that_cannot_be_woken_yet_delays_no_other_one(cluster_side: clusters.Cluster) -> None:
    first, second = pending_pods.pending(cluster_side, "p0"), pending_pods.pending(cluster_side, "p1")
    waking = Waking(cluster_side, (first, second))
    cluster_side.server.faults.add(
        faults.FaultKind.FAIL, faults.calls("PATCH", "/p0/status"), times=9, status=500
    )
    assert waking.waker.run_once(timeout=0.0)
    assert waking.waker.run_once(timeout=0.0)
    assert pending_pods.woken(cluster_side) == ["p1"]
    waking.snapshot = projections.project(waking.snapshot, events.placed(first, "n"))
    waking.drain()
    assert pending_pods.woken(cluster_side) == ["p1"], "a pod that no longer waits is not tried again"


def test_a_wakeup_that_conflicts_is_repeated_after_growing_pauses_and_delays_no_other_one(
    cluster_side: clusters.Cluster,
) -> None:
    first, second = pending_pods.pending(cluster_side, "p0"), pending_pods.pending(cluster_side, "p1")
    waking = Waking(cluster_side, (first,))
    of_first = faults.calls("PATCH", "/p0/status")
    fault = cluster_side.server.faults.add(faults.FaultKind.FAIL, of_first, times=1000, status=409)
    for _ in range(100):
        waking.drain()
        waking.clock.now += 0.1
    assert 2 <= fault.struck <= 4
    waking.wake(second)
    waking.drain()
    assert pending_pods.woken(cluster_side) == ["p1"]
    assert waking.clock.waits == [], "no other call is delayed"
    cluster_side.server.faults.clear()
    waking.clock.now += 60
    waking.drain()
    assert pending_pods.woken(cluster_side) == ["p0", "p1"]


def test_a_wakeup_that_may_not_be_written_is_not_repeated(cluster_side: clusters.Cluster) -> None:
    pod = pending_pods.pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    cluster_side.server.faults.add(faults.FaultKind.FAIL, faults.calls("PATCH", "/status"), status=403)
    with structlog.testing.capture_logs() as logged:
        waking.drain()
    assert [one["pod"] for one in logged if one["event"] == "cannot wake a pod"] == ["ns/p0"]
    assert pending_pods.woken(cluster_side) == []
    assert waking.waker.noted(pod.uid) is not None


def test_a_wakeup_ends_with_its_leadership_and_counts_as_none(cluster_side: clusters.Cluster) -> None:
    pod = pending_pods.pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    waking.term = "next"
    waking.drain()
    assert pending_pods.woken(cluster_side) == []
    assert waking.waker.noted(pod.uid) is None
    waking.wake(pod)
    waking.drain()
    assert pending_pods.woken(cluster_side) == ["p0"]


def test_a_wakeup_that_too_many_others_displace_counts_as_none(
    cluster_side: clusters.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = tuple(pending_pods.pending(cluster_side, f"p{at}") for at in range(3))
    monkeypatch.setattr(wakeups, "MAX_PODS", 2)
    waking = Waking(cluster_side, pods[:2])
    cluster_side.server.faults.add(faults.FaultKind.FAIL, faults.calls("PATCH", "/p0/status"), status=503)
    waking.waker.run_once(timeout=0.0)
    waking.wake(pods[2])
    assert waking.waker.dropped == 1
    assert waking.waker.noted(pods[1].uid) is None
    waking.drain()
    assert pending_pods.woken(cluster_side) == ["p0", "p2"]


def test_pods_are_woken_no_faster_than_the_bucket_allows(cluster_side: clusters.Cluster) -> None:
    pods = tuple(pending_pods.pending(cluster_side, f"p{at}") for at in range(6))
    waking = Waking(cluster_side, pods, burst=2.0)
    waking.drain()
    assert len(pending_pods.woken(cluster_side)) == 6
    assert waking.clock.now - 1000.0 == pytest.approx(2.0)  # four of six waited half a second each


def test_a_pod_that_is_gone_or_another_one_is_left_alone(cluster_side: clusters.Cluster) -> None:
    gone, replaced = (
        pending_pods.pending(cluster_side, "gone"),
        pending_pods.pending(cluster_side, "replaced"),
    )
    for name in ("gone", "replaced"):
        cluster_side.end_pod(name)
    pending_pods.pending(cluster_side, "replaced")
    Waking(cluster_side, (gone, replaced)).drain()
    assert pending_pods.woken(cluster_side) == []


def test_a_pod_that_no_longer_waits_is_not_woken(cluster_side: clusters.Cluster) -> None:
    pod = pending_pods.pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    waking.snapshot = projections.project(waking.snapshot, events.placed(pod, "n"))
    waking.drain()
    assert pending_pods.woken(cluster_side) == []
