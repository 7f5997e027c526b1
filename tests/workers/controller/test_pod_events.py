"""Kubernetes Events: which refusals are posted, in which words, and how often."""

import pytest
import structlog

from app.domain import model, snapshots
from app.framework import effects
from app.kube import call_limits
from app.kube.writes import event_recorders
from app.simulation.apiserver import faults
from app.store.decisions import records
from tests.support import declared
from tests.support.kube import fake_clock
from tests.support.monitoring import samples
from tests.support.workers import clusters, pending_pods
from workers.controller import event_poster, pod_events


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


def gang(name: str) -> effects.Involved:
    return effects.Involved("scheduling.x-k8s.io/v1alpha1", "PodGroup", "ns", name, f"uid-{name}")


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
        self._poster = event_poster.EventPoster(recorder)
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
    pod, records = pending_pods.pending(cluster_side, "p0"), Records()
    records.found = [decision(1, pod, {FULL: 6})]
    publisher = Publishing(records, poster)
    publisher.run_once()
    assert pending_pods.events_of(cluster_side) == []  # what was decided before this process began is old
    records.found += [
        decision(2, pod, {FULL: 6}),
        decision(3, pod, {FULL: 6}),
        decision(4, pod, {FULL: 6}, kept=2),
        decision(5, pod, {FULL: 6}, verb="preempt"),
    ]
    publisher.run_once()
    publisher.run_once()
    message = f"refused on all 6 nodes that were offered: {FULL}"
    assert pending_pods.events_of(cluster_side) == [("p0", pod_events.REFUSED, message, 1)]


def test_several_reasons_come_with_their_counts(cluster_side: clusters.Cluster) -> None:
    pod = pending_pods.pending(cluster_side, "p0")
    assert pod_events.sentence(decision(1, pod, {"a": 1, "b": 5})) == (
        "refused on all 6 nodes that were offered: b (5); a (1)"
    )
    assert pod_events.sentence(decision(1, pod, {"a": 1})) == "refused on the only node that was offered: a"


def test_equal_messages_are_one_event_with_a_count(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    pod = pending_pods.pending(cluster_side, "p0")
    for _ in range(10):
        poster.post(pod, "R", "m")
        clock.now += 40
    (event,) = pending_pods.events_of(cluster_side)
    assert event == ("p0", "R", "m", 9)  # the ninth came after more than five minutes


def test_an_event_may_be_about_another_object_than_a_pod(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder
) -> None:
    group = gang("train")
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
    pod = pending_pods.pending(cluster_side, "p0")
    poster.post(pod, "R", "m")
    for one in cluster_side.server.objects.all("events"):
        cluster_side.server.objects.remove("events", ("ns", one["metadata"]["name"]))
    clock.now += 301
    poster.post(pod, "R", "m")
    assert [count for *_, count in pending_pods.events_of(cluster_side)] == [1]


def test_events_are_few(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    pods = [pending_pods.pending(cluster_side, f"p{at}") for at in range(20)]
    for pod in pods:
        poster.post(pod, "R", "m")
    assert (len(pending_pods.events_of(cluster_side)), poster.dropped) == (5, 15)
    clock.now += 3
    for pod in pods:
        poster.post(pod, "R", "other words")
    assert len(pending_pods.events_of(cluster_side)) == 8


def test_beyond_the_rate_events_of_pods_are_dropped_and_the_latest_of_a_group_waits(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    pods = [pending_pods.pending(cluster_side, f"p{at}") for at in range(8)]
    group = gang("train")
    queue = event_poster.EventPoster(poster)
    for pod in pods:
        queue.submit(effects.PostEvent(pod, "R", "m"), "")
    queue.run_once()
    assert (len(pending_pods.events_of(cluster_side)), poster.dropped) == (5, 3)
    for missing in (3, 8):
        queue.submit(effects.PostEvent(group, "GangWaiting", f"{missing} missing"), "")
        queue.run_once()
    assert len(pending_pods.events_of(cluster_side)) == 5
    clock.now += 1
    queue.submit(effects.PostEvent(pods[0], "R", "other words"), "")
    queue.run_once()
    assert pending_pods.events_of(cluster_side)[5:] == [("train", "GangWaiting", "8 missing", 1)]
    assert poster.dropped == 4
    clock.now += 60
    queue.run_once()
    assert len(pending_pods.events_of(cluster_side)) == 6


def test_events_about_groups_wait_for_the_rate_in_their_order(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    pods = [pending_pods.pending(cluster_side, f"p{at}") for at in range(5)]
    queue = event_poster.EventPoster(poster)
    for pod in pods:
        queue.submit(effects.PostEvent(pod, "R", "m"), "")
    queue.run_once()
    for name in ("a", "b", "c"):
        queue.submit(effects.PostEvent(gang(name), "GangWaiting", "m"), "")
    queue.run_once()
    posted = []
    for _ in range(3):
        clock.now += 1
        queue.run_once()
        posted.append({name for name, *_ in pending_pods.events_of(cluster_side)})
    names = {pod.name for pod in pods}
    assert posted == [names | {"a"}, names | {"a", "b"}, names | {"a", "b", "c"}]


def test_pods_and_other_objects_take_turns(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    queue, pods = event_poster.EventPoster(poster), pending_pods.pending(cluster_side, "p0")
    for second in range(40):
        for number in range(3):
            queue.submit(effects.PostEvent(gang(f"g{second}-{number}"), "GangPlaced", "m"), "")
            queue.submit(effects.PostEvent(pods, "R", f"m{second}-{number}"), "")
        queue.run_once()
        clock.now += 1
    posted = [name for name, *_ in pending_pods.events_of(cluster_side)]
    assert len(posted) == 44
    assert posted.count("p0") == 22


def test_an_event_has_the_time_at_which_it_was_submitted_and_is_dropped_after_a_minute(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder, clock: fake_clock.VirtualClock
) -> None:
    queue = event_poster.EventPoster(poster)
    began, before = clock.now, samples.value("topolog_kubernetes_events_dropped_total")
    for number in range(100):
        queue.submit(effects.PostEvent(gang(f"g{number:02}"), "GangPlaced", "m"), "")
    for _ in range(100):
        queue.run_once()
        clock.now += 1
    made = cluster_side.server.objects.all("events")
    assert [one["involvedObject"]["name"] for one in made] == [f"g{number:02}" for number in range(65)]
    assert {one[key] for one in made for key in ("firstTimestamp", "lastTimestamp")} == {f"{began}"}
    assert poster.dropped == 35
    assert samples.value("topolog_kubernetes_events_dropped_total") == before + 35


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (faults.FaultKind.FAIL, 429),
        (faults.FaultKind.FAIL, 503),
        (faults.FaultKind.DROP, 0),
        (faults.FaultKind.LOSE, 0),
    ],
)
def test_an_event_about_a_group_waits_for_a_server_that_is_busy_or_away(
    cluster_side: clusters.Cluster,
    poster: event_recorders.EventRecorder,
    clock: fake_clock.VirtualClock,
    kind: faults.FaultKind,
    status: int,
) -> None:
    queue = event_poster.EventPoster(poster)
    for count, call in enumerate([faults.calls("POST", "/events"), faults.calls("PATCH", "")], 1):
        queue.submit(effects.PostEvent(gang("a"), "GangWaiting", "m"), "")
        cluster_side.server.faults.add(kind, call, status=status)
        with structlog.testing.capture_logs() as lines:
            queue.run_once()
        assert [line["event"] for line in lines] == ["cannot post Events"]
        clock.now += 1
        queue.run_once()
        assert pending_pods.events_of(cluster_side) == [("a", "GangWaiting", "m", count)]
        clock.now += 301
    assert poster.dropped == 0


def test_an_event_that_is_refused_again_and_again_delays_no_other_one(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder
) -> None:
    queue = event_poster.EventPoster(poster)
    fault = cluster_side.server.faults.add(
        faults.FaultKind.FAIL, lambda asked: b"uid-a" in asked.body, times=100, status=500
    )
    for name in ("a", "b"):
        queue.submit(effects.PostEvent(gang(name), "GangWaiting", "m"), "")
    for _ in range(2):
        queue.run_once()
    assert [name for name, *_ in pending_pods.events_of(cluster_side)] == ["b"]
    for _ in range(50):
        queue.run_once()
    assert (fault.struck, poster.dropped) == (12, 1), "it delays no other calls for good"


def test_an_unreachable_server_ends_nothing(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder
) -> None:
    pod = pending_pods.pending(cluster_side, "p0")
    cluster_side.server.stop()
    poster.post(pod, "R", "m")
    assert poster.dropped == 1


def test_events_that_cannot_be_posted_are_logged_once(
    cluster_side: clusters.Cluster, poster: event_recorders.EventRecorder
) -> None:
    pods, records = [pending_pods.pending(cluster_side, f"p{at}") for at in range(5)], Records()
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
    assert [name for name, *_ in pending_pods.events_of(cluster_side)] == ["p3", "p4"]
