"""The controller: which pods are woken, which placements released, which Events posted.

Not here: which pods a plugin wants woken (tests/plugins), and which placements are void (test_settling).
"""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from app import plugins, settings
from app.domain import events, model, projections, snapshots
from app.framework import effects, registry, registry_builder
from app.kube import call_limits
from app.kube.writes import event_recorders, pod_conditions
from app.simulation.apiserver import faults
from app.store import stores
from app.store.decisions import records
from app.store.log import batches, readers
from tests.support import declared
from tests.support.kube import fake_clock
from tests.support.workers import clusters, recordings
from workers.compactor import compactors
from workers.controller import controllers, pod_events, wakeups

Json = dict[str, Any]
Start = Callable[[], recordings.Recording]
LABEL = "workload-policy/kosmos.io"


def pending(cluster: clusters.Cluster, name: str, policy: str = "p", *, refused: bool = True) -> model.Pod:
    """A pod of the policy that was refused on all nodes at its first attempt."""
    pod = cluster.pod(name, **{"app": "x", LABEL: policy})
    if refused:
        cluster.refuse(name)
    return pod


def wakeup(cluster: clusters.Cluster, name: str) -> str:
    """The message of the pod's wake-up; empty if it was not woken."""
    pod = json.loads(cluster.client.get(f"/api/v1/namespaces/ns/pods/{name}"))
    messages = {one["type"]: one.get("message", "") for one in pod["status"].get("conditions", [])}
    message: str = messages.get(pod_conditions.CAPACITY_AVAILABLE, "")
    return message


def woken(cluster: clusters.Cluster) -> list[str]:
    found = json.loads(cluster.client.get("/api/v1/namespaces/ns/pods"))["items"]
    return sorted(name for name in (one["metadata"]["name"] for one in found) if wakeup(cluster, name))


def events_of(cluster: clusters.Cluster) -> list[tuple[str, str, str, int]]:
    """(pod, reason, message, count) of every Kubernetes Event."""
    found = json.loads(cluster.client.get("/api/v1/namespaces/ns/events"))["items"]
    return [(one["involvedObject"]["name"], one["reason"], one["message"], one["count"]) for one in found]


@pytest.fixture
def built() -> registry.Registry:
    names = tuple(kind.name for kind in plugins.USUAL)
    return registry_builder.build(plugins.USUAL, enabled=names, weights={}, score_max=10, args={})


@pytest.fixture
def controller(
    again: Callable[..., stores.Store], cluster_side: clusters.Cluster, built: registry.Registry
) -> Iterator[Callable[[], controllers.Controller]]:
    """Starts a controller with a separate connection to the store."""
    started: list[tuple[controllers.Controller, threading.Thread]] = []

    def start() -> controllers.Controller:
        made = controllers.Controller(again(indexed=built.indexed()), cluster_side.client, built)
        thread = threading.Thread(target=made.run, daemon=True)
        thread.start()
        started.append((made, thread))
        recordings.eventually(lambda: made.subscribed, "the controller listens")
        return made

    yield start
    for made, thread in started:
        made.stop()
        thread.join(recordings.LIMIT)
        assert not thread.is_alive()


# -- wake-ups ---------------------------------------------------------------------------------


@pytest.mark.scenario("WP-7")
def test_a_new_policy_wakes_as_many_pods_as_it_has_capacity_for(
    recorded: Start, controller: Callable[[], object], cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    for at in range(4):
        pending(cluster_side, f"p{at}")
    pending(cluster_side, "other", policy="another")
    recorded().ready()
    controller()
    cluster_side.policy("p", host=2)
    recordings.eventually(lambda: len(woken(cluster_side)) == 2, "two pods are woken")
    first = {name: wakeup(cluster_side, name) for name in woken(cluster_side)}
    assert all("workload policy ns/p" in message for message in first.values())
    cluster_side.edit_policy("p", allocationPolicy=[{"name": "host", "replicas": 3}])
    recordings.eventually(lambda: len(woken(cluster_side)) == 3, "the third one too")
    assert "other" not in woken(cluster_side)
    again = {name: wakeup(cluster_side, name) for name in first}
    assert all(again[name] != first[name] for name in first)  # only a change wakes a pod


def test_a_pod_that_was_not_tried_yet_is_woken_once_it_is_refused(
    recorded: Start, controller: Callable[[], object], cluster_side: clusters.Cluster
) -> None:
    """It is in kube-scheduler's queue; its refusal, observed later, may be older than the capacity."""
    cluster_side.node("n", zone="host")
    for name in ("queued", "placed", "ended"):
        pending(cluster_side, name, refused=False)
    pending(cluster_side, "refused")
    recording = recorded().ready()
    controller()
    cluster_side.policy("p", host=9)
    recordings.eventually(lambda: woken(cluster_side) == ["refused"], "the refused pod is woken")
    cluster_side.bind("placed", "n")
    cluster_side.end_pod("ended")
    cluster_side.refuse("queued")
    recordings.eventually(
        lambda: woken(cluster_side) == ["queued", "refused"], "the pod that is refused later, too"
    )
    former = wakeup(cluster_side, "queued")
    cluster_side.refuse("queued", "0/2 nodes are available")
    pending(cluster_side, "last", refused=False)
    # Pods and policies come by watches of their own: which is seen first is left to chance otherwise.
    recording.until(lambda one: one.pod_named("ns", "last") is not None, "the pod is recorded")
    cluster_side.edit_policy("p", allocationPolicy=[{"name": "host", "replicas": 8}])
    recordings.eventually(
        lambda: wakeup(cluster_side, "queued") not in (former, ""), "a pod that is known to wait is woken"
    )
    cluster_side.refuse("last")
    recordings.eventually(
        lambda: woken(cluster_side) == ["last", "queued", "refused"], "and a pod that begins to wait"
    )


def test_capacity_that_became_available_without_a_controller(
    recorded: Start, controller: Callable[[], object], cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    pending(cluster_side, "p0")
    cluster_side.policy("p", host=2)
    recorded().ready()
    controller()
    recordings.eventually(lambda: woken(cluster_side) == ["p0"], "the pod is woken")


def test_capacity_that_a_slow_controller_has_not_read_of(
    recorded: Start,
    again: Callable[..., stores.Store],
    built: registry.Registry,
    cluster_side: clusters.Cluster,
) -> None:
    """The log is trimmed before it is read: then the state is used instead of the events."""
    cluster_side.node("n", zone="host")
    pending(cluster_side, "p0")
    recorded().ready()
    store, go_on, reached = again(indexed=built.indexed()), threading.Event(), threading.Event()

    def blocked(before: snapshots.Snapshot, after: snapshots.Snapshot, entry: readers.Entry) -> None:
        reached.set()
        go_on.wait(recordings.LIMIT)

    made = controllers.Controller(store, cluster_side.client, built)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    recordings.eventually(lambda: made.subscribed, "the controller listens")
    store.follower.subscribe(blocked)
    cluster_side.node("another")
    assert reached.wait(recordings.LIMIT)
    read = store.follower.snapshot.offset
    cluster_side.policy("p", host=2)
    cluster_side.node("third")
    other = again(indexed=built.indexed())
    recordings.eventually(lambda: "third" in other.follower.catch_up().nodes, "all of it is in the log")
    compaction = settings.Compaction(events=1, keep=0, reader_timeout=0.05)
    recordings.eventually(lambda: _trimmed(other, compaction) > read + 1, "unread events are trimmed")
    go_on.set()
    recordings.eventually(lambda: woken(cluster_side) == ["p0"], "the pod is woken")
    assert store.follower.jumps == 1
    made.stop()
    thread.join(recordings.LIMIT)


def _trimmed(store: stores.Store, compaction: settings.Compaction) -> int:
    """The oldest offset, once the compactor has done what it may."""
    compactors.Compactor(store, compaction).run_once()
    return store.log.oldest()


class Waking:
    """A waker on a virtual clock."""

    def __init__(
        self, cluster: clusters.Cluster, pods: tuple[model.Pod, ...], *, burst: float = 100.0
    ) -> None:
        self.clock, self.term = fake_clock.VirtualClock(), "term"
        self.snapshot = snapshots.empty(schema=declared.SCHEMA)
        limit = call_limits.CallLimit(self.clock, term=lambda: self.term, burst=burst, rate=2.0)
        self.waker = wakeups.Waker(
            cluster.client, lambda: self.snapshot, limit, now=lambda: "2026-01-01T00:00:00Z"
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
    pod = pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    cluster_side.server.faults.add(
        faults.FaultKind.FAIL, faults.calls("PATCH", "/status"), times=2, status=429
    )
    waking.drain()
    assert wakeup(cluster_side, "p0") == "capacity (as of event 7)"
    assert waking.clock.waits, "the calls after a refusal wait"


@pytest.mark.parametrize("kind", [faults.FaultKind.DROP, faults.FaultKind.FAIL])
def test_a_wakeup_is_repeated_until_the_server_takes_it(
    cluster_side: clusters.Cluster, kind: faults.FaultKind
) -> None:
    pod = pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    cluster_side.server.faults.add(kind, faults.calls("PATCH", "/status"), times=30, status=503)
    waking.drain()
    assert wakeup(cluster_side, "p0") == "capacity (as of event 7)"
    assert waking.waker.noted(pod.uid) == model.Position("i", 7)
    assert waking.clock.now - 1000.0 > 100, "with the backoff of all calls"


def test_a_pod_that_cannot_be_woken_yet_delays_no_other_one(cluster_side: clusters.Cluster) -> None:
    first, second = pending(cluster_side, "p0"), pending(cluster_side, "p1")
    waking = Waking(cluster_side, (first, second))
    cluster_side.server.faults.add(
        faults.FaultKind.FAIL, faults.calls("PATCH", "/p0/status"), times=9, status=500
    )
    assert waking.waker.run_once(timeout=0.0)
    assert waking.waker.run_once(timeout=0.0)
    assert woken(cluster_side) == ["p1"]
    waking.snapshot = projections.project(waking.snapshot, events.placed(first, "n"))
    waking.drain()
    assert woken(cluster_side) == ["p1"], "a pod that no longer waits is not tried again"


def test_a_wakeup_that_may_not_be_written_is_not_repeated(cluster_side: clusters.Cluster) -> None:
    pod = pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    cluster_side.server.faults.add(faults.FaultKind.FAIL, faults.calls("PATCH", "/status"), status=403)
    with structlog.testing.capture_logs() as logged:
        waking.drain()
    assert [one["pod"] for one in logged if one["event"] == "cannot wake a pod"] == ["ns/p0"]
    assert woken(cluster_side) == []
    assert waking.waker.noted(pod.uid) is not None


def test_a_wakeup_ends_with_its_leadership_and_counts_as_none(cluster_side: clusters.Cluster) -> None:
    pod = pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    waking.term = "next"
    waking.drain()
    assert woken(cluster_side) == []
    assert waking.waker.noted(pod.uid) is None
    waking.wake(pod)
    waking.drain()
    assert woken(cluster_side) == ["p0"]


def test_a_wakeup_that_too_many_others_displace_counts_as_none(
    cluster_side: clusters.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = tuple(pending(cluster_side, f"p{at}") for at in range(3))
    monkeypatch.setattr(wakeups, "MAX_PODS", 2)
    waking = Waking(cluster_side, pods[:2])
    cluster_side.server.faults.add(faults.FaultKind.FAIL, faults.calls("PATCH", "/p0/status"), status=503)
    waking.waker.run_once(timeout=0.0)
    waking.wake(pods[2])
    assert waking.waker.dropped == 1
    assert waking.waker.noted(pods[1].uid) is None
    waking.drain()
    assert woken(cluster_side) == ["p0", "p2"]


def test_pods_are_woken_no_faster_than_the_bucket_allows(cluster_side: clusters.Cluster) -> None:
    pods = tuple(pending(cluster_side, f"p{at}") for at in range(6))
    waking = Waking(cluster_side, pods, burst=2.0)
    waking.drain()
    assert len(woken(cluster_side)) == 6
    assert waking.clock.now - 1000.0 == pytest.approx(2.0)  # four of six waited half a second each


def test_a_pod_that_is_gone_or_another_one_is_left_alone(cluster_side: clusters.Cluster) -> None:
    gone, replaced = pending(cluster_side, "gone"), pending(cluster_side, "replaced")
    for name in ("gone", "replaced"):
        cluster_side.end_pod(name)
    pending(cluster_side, "replaced")
    Waking(cluster_side, (gone, replaced)).drain()
    assert woken(cluster_side) == []


def test_a_pod_that_no_longer_waits_is_not_woken(cluster_side: clusters.Cluster) -> None:
    pod = pending(cluster_side, "p0")
    waking = Waking(cluster_side, (pod,))
    waking.snapshot = projections.project(waking.snapshot, events.placed(pod, "n"))
    waking.drain()
    assert woken(cluster_side) == []


# -- placements -----------------------------------------------------------------------------


def test_a_released_placement_is_in_the_log_and_wakes_waiting_pods(
    recorded: Start, controller: Callable[[], controllers.Controller], cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    cluster_side.policy("p", host=1)
    stuck, waits = pending(cluster_side, "stuck"), pending(cluster_side, "waits")
    recording = recorded().ready()
    snapshot = recording.snapshot
    placed = events.placed(stuck, "n")
    projection = projections.Projection(snapshot)
    projection.apply(placed)
    placement = recording.store.log.append(batches.Batch(events=(placed,), increments=projection.increments))
    made = controller()
    recording.until_counts(host=1)
    incarnation = snapshot.position.incarnation
    another = model.Position(incarnation, placement.first - 1)
    assert not made.release(stuck.uid, another, "unbound", "another placement")
    meant = model.Position(incarnation, placement.first)
    assert made.release(stuck.uid, meant, "unbound", "a reason")
    recording.until_counts()
    recordings.eventually(lambda: waits.name in woken(cluster_side), "the waiting pod is woken")
    recordings.eventually(lambda: bool(events_of(cluster_side)), "an Event is posted")
    assert events_of(cluster_side) == [
        ("stuck", pod_events.RELEASED, "no longer placed on node n: a reason", 1)
    ]


# -- Kubernetes Events -------------------------------------------------------------------------


def decision(
    number: int, pod: model.Pod, reasons: dict[str, int], *, kept: int = 0, verb: str = "filter"
) -> records.Decision:
    return records.Decision(
        verb=verb,
        kept=kept,
        outcome="kept" if kept else "refused",
        count=sum(reasons.values()),
        id=f"{number}-0",
        position=model.Position("i", 1),
        pod=pod,
        candidates=b"",
        configuration="c",
        at="",
        milliseconds=0.1,
        reasons=reasons,
    )


class Records:
    """Decision records as the store would give them."""

    def __init__(self) -> None:
        self.found: list[records.Decision] = []

    def latest(self, *, limit: int = 100) -> list[records.Decision]:
        return self.found[::-1][:limit]


@pytest.fixture
def clock() -> fake_clock.VirtualClock:
    return fake_clock.VirtualClock()


@pytest.fixture
def poster(cluster_side: clusters.Cluster, clock: fake_clock.VirtualClock) -> event_recorders.EventRecorder:
    limit = call_limits.CallLimit(clock, term=lambda: "")
    return event_recorders.EventRecorder(
        cluster_side.client, clock, now=lambda: f"{clock.now}", limit=limit, burst=5.0, rate=1.0
    )


class Publishing:
    """A publisher of the given records, whose Events are posted at once."""

    def __init__(self, found: Records, recorder: event_recorders.EventRecorder) -> None:
        self._poster = pod_events.PodEventPoster(recorder)
        self._publisher = pod_events.PodEventPublisher(
            found, lambda: snapshots.empty(schema=declared.SCHEMA), self._submit
        )

    def _submit(self, found: effects.Effect, snapshot: snapshots.Snapshot) -> None:
        assert isinstance(found, effects.PostEvent)
        self._poster.submit(found, "")

    def run_once(self) -> None:
        self._publisher.run_once()
        self._poster.run_once()


FULL = "workload policy ns/p: no capacity (host 3/3, member 1/1)"


def test_a_refusal_everywhere_is_an_event_with_the_numbers(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder
) -> None:
    pod, records = pending(cluster_side, "p0"), Records()
    records.found = [decision(1, pod, {FULL: 6})]
    publisher = Publishing(records, poster)
    publisher.run_once()
    assert events_of(cluster_side) == []  # what was decided before this process began is old
    records.found += [
        decision(2, pod, {FULL: 6}),
        decision(3, pod, {FULL: 6}),
        decision(4, pod, {FULL: 6}, kept=2),
        decision(5, pod, {FULL: 6}, verb="preempt"),
    ]
    publisher.run_once()
    publisher.run_once()
    message = f"refused on all 6 nodes that were offered: {FULL}"
    assert events_of(cluster_side) == [("p0", pod_events.REFUSED, message, 1)]


def test_several_reasons_come_with_their_counts(cluster_side: clusters.Cluster) -> None:
    pod = pending(cluster_side, "p0")
    assert pod_events.sentence(decision(1, pod, {"a": 1, "b": 5})) == (
        "refused on all 6 nodes that were offered: b (5); a (1)"
    )
    assert pod_events.sentence(decision(1, pod, {"a": 1})) == "refused on the only node that was offered: a"


def test_equal_messages_are_one_event_with_a_count(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    pod = pending(cluster_side, "p0")
    for _ in range(10):
        poster.post(pod, "R", "m")
        clock.now += 40
    (event,) = events_of(cluster_side)
    assert event == ("p0", "R", "m", 9)  # the ninth came after more than five minutes


def test_an_event_may_be_about_another_object_than_a_pod(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder
) -> None:
    group = effects.Involved("scheduling.x-k8s.io/v1alpha1", "PodGroup", "ns", "train", "uid-train")
    poster.post(group, "GangWaiting", "2 of 3 members exist")
    (made,) = cluster_side.server.objects.all("events")
    assert made["involvedObject"] == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "namespace": "ns",
        "name": "train",
        "uid": "uid-train",
    }


def test_an_event_that_expired_is_recreated(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    pod = pending(cluster_side, "p0")
    poster.post(pod, "R", "m")
    for one in cluster_side.server.objects.all("events"):
        cluster_side.server.objects.remove("events", ("ns", one["metadata"]["name"]))
    clock.now += 301
    poster.post(pod, "R", "m")
    assert [count for *_, count in events_of(cluster_side)] == [1]


def test_events_are_few(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    pods = [pending(cluster_side, f"p{at}") for at in range(20)]
    for pod in pods:
        poster.post(pod, "R", "m")
    assert (len(events_of(cluster_side)), poster.dropped) == (5, 15)
    clock.now += 3
    for pod in pods:
        poster.post(pod, "R", "other words")
    assert len(events_of(cluster_side)) == 8


def test_beyond_the_rate_events_of_pods_are_dropped_and_the_latest_of_a_group_waits(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    pods = [pending(cluster_side, f"p{at}") for at in range(8)]
    group = effects.Involved("scheduling.x-k8s.io/v1alpha1", "PodGroup", "ns", "train", "uid-train")
    queue = pod_events.PodEventPoster(poster)
    for pod in pods:
        queue.submit(effects.PostEvent(pod, "R", "m"), "")
    queue.run_once()
    assert (len(events_of(cluster_side)), poster.dropped) == (5, 3)
    for missing in (3, 8):
        queue.submit(effects.PostEvent(group, "GangWaiting", f"{missing} missing"), "")
        queue.run_once()
    assert len(events_of(cluster_side)) == 5
    clock.now += 1
    queue.submit(effects.PostEvent(pods[0], "R", "other words"), "")
    queue.run_once()
    assert events_of(cluster_side)[5:] == [("train", "GangWaiting", "8 missing", 1)]
    assert poster.dropped == 4
    clock.now += 60
    queue.run_once()
    assert len(events_of(cluster_side)) == 6


def test_an_unreachable_server_ends_nothing(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder
) -> None:
    pod = pending(cluster_side, "p0")
    cluster_side.server.stop()
    poster.post(pod, "R", "m")
    assert poster.dropped == 1


def test_events_that_cannot_be_posted_are_logged_once(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder
) -> None:
    pods, records = [pending(cluster_side, f"p{at}") for at in range(5)], Records()
    records.found = [decision(1, pods[0], {FULL: 6})]
    publisher = Publishing(records, poster)
    publisher.run_once()
    cluster_side.server.faults.add(
        faults.FaultKind.FAIL, lambda asked: asked.path.endswith("/events"), times=3, status=403
    )
    with structlog.testing.capture_logs() as lines:
        for number, pod in enumerate(pods, 2):
            records.found.append(decision(number, pod, {FULL: 6}))
            publisher.run_once()
    assert [(line["log_level"], line["event"], line["about"]) for line in lines] == [
        ("warning", "cannot post Events", "ns/p0")
    ]
    assert "403" in lines[0]["error"]
    assert [name for name, *_ in events_of(cluster_side)] == ["p3", "p4"]
