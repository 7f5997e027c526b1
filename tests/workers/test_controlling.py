"""The controller: who is woken, what is released, what people are told.

Not here: which pods a plugin wants woken (tests/plugins).
"""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from app import plugins, settings
from app.domain import events, model, projecting, snapshots
from app.framework import configuring, registry
from app.kube import binding, conditions, event_posting
from app.simulation import faults
from app.store import logs, opening, records
from tests.kube import clocks
from tests.workers import conftest
from workers import announcing, compacting, controlling, settling, telling

Json = dict[str, Any]
Start = Callable[[], conftest.Recording]
LABEL = "workload-policy/kosmos.io"


def pending(cluster: conftest.Cluster, name: str, policy: str = "p", *, refused: bool = True) -> model.Pod:
    """A pod that asks for the policy, and was refused everywhere at its first attempt."""
    pod = cluster.pod(name, **{"app": "x", LABEL: policy})
    if refused:
        cluster.refuse(name)
    return pod


def room(cluster: conftest.Cluster, name: str) -> str:
    """What the pod was told of room; empty if nothing."""
    pod = json.loads(cluster.client.get(f"/api/v1/namespaces/ns/pods/{name}"))
    said = {one["type"]: one.get("message", "") for one in pod["status"].get("conditions", [])}
    message: str = said.get(conditions.ROOM, "")
    return message


def told(cluster: conftest.Cluster) -> list[str]:
    found = json.loads(cluster.client.get("/api/v1/namespaces/ns/pods"))["items"]
    return sorted(name for name in (one["metadata"]["name"] for one in found) if room(cluster, name))


def events_of(cluster: conftest.Cluster) -> list[tuple[str, str, str, int]]:
    """(pod, reason, message, count) of every Kubernetes Event."""
    found = json.loads(cluster.client.get("/api/v1/namespaces/ns/events"))["items"]
    return [(one["involvedObject"]["name"], one["reason"], one["message"], one["count"]) for one in found]


@pytest.fixture
def built() -> registry.Registry:
    names = tuple(kind.name for kind in plugins.IN_TREE)
    return configuring.build(plugins.IN_TREE, enabled=names, weights={}, score_max=10, args={})


@pytest.fixture
def controller(
    again: Callable[..., opening.Store], cluster_side: conftest.Cluster, built: registry.Registry
) -> Iterator[Callable[[], controlling.Controller]]:
    """Starts a controller on a store of its own."""
    started: list[tuple[controlling.Controller, threading.Thread]] = []

    def start() -> controlling.Controller:
        made = controlling.Controller(again(indexed=built.indexed()), cluster_side.client, built)
        thread = threading.Thread(target=made.run, daemon=True)
        thread.start()
        started.append((made, thread))
        conftest.eventually(lambda: made.subscribed, "the controller listens")
        return made

    yield start
    for made, thread in started:
        made.stop()
        thread.join(conftest.LIMIT)
        assert not thread.is_alive()


# -- room -------------------------------------------------------------------------------------


@pytest.mark.scenario("WP-7")
def test_a_policy_that_appears_wakes_as_many_pods_as_it_has_room_for(
    recorded: Start, controller: Callable[[], object], cluster_side: conftest.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    for at in range(4):
        pending(cluster_side, f"p{at}")
    pending(cluster_side, "other", policy="another")
    recorded().ready()
    controller()
    cluster_side.policy("p", host=2)
    conftest.eventually(lambda: len(told(cluster_side)) == 2, "two pods are told")
    first = {name: room(cluster_side, name) for name in told(cluster_side)}
    assert all("workload policy ns/p" in message for message in first.values())
    cluster_side.edit_policy("p", allocationPolicy=[{"name": "host", "replicas": 3}])
    conftest.eventually(lambda: len(told(cluster_side)) == 3, "the third one too")
    assert "other" not in told(cluster_side)
    again = {name: room(cluster_side, name) for name in first}
    assert all(again[name] != first[name] for name in first)  # only a change wakes a pod


def test_a_pod_that_was_not_tried_yet_is_told_once_it_is_refused(
    recorded: Start, controller: Callable[[], object], cluster_side: conftest.Cluster
) -> None:
    """It is in kube-scheduler's queue; its refusal, seen later, may be older than the room."""
    cluster_side.node("n", zone="host")
    for name in ("queued", "placed", "ended"):
        pending(cluster_side, name, refused=False)
    pending(cluster_side, "refused")
    recording = recorded().ready()
    controller()
    cluster_side.policy("p", host=9)
    conftest.eventually(lambda: told(cluster_side) == ["refused"], "who was refused is told")
    cluster_side.bind("placed", "n")
    cluster_side.end_pod("ended")
    cluster_side.refuse("queued")
    conftest.eventually(lambda: told(cluster_side) == ["queued", "refused"], "who is refused later, too")
    said = room(cluster_side, "queued")
    cluster_side.refuse("queued", "0/2 nodes are available")
    pending(cluster_side, "last", refused=False)
    # Pods and policies come by watches of their own: which is seen first is left to chance otherwise.
    recording.until(lambda one: one.pod_named("ns", "last") is not None, "the pod is recorded")
    cluster_side.edit_policy("p", allocationPolicy=[{"name": "host", "replicas": 8}])
    conftest.eventually(
        lambda: room(cluster_side, "queued") not in (said, ""), "who is known to wait is told"
    )
    cluster_side.refuse("last")
    conftest.eventually(lambda: told(cluster_side) == ["last", "queued", "refused"], "and who comes to wait")


def test_room_that_came_while_no_controller_was_there(
    recorded: Start, controller: Callable[[], object], cluster_side: conftest.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    pending(cluster_side, "p0")
    cluster_side.policy("p", host=2)
    recorded().ready()
    controller()
    conftest.eventually(lambda: told(cluster_side) == ["p0"], "the pod is told")


def test_room_that_a_slow_controller_never_heard_of(
    recorded: Start,
    again: Callable[..., opening.Store],
    built: registry.Registry,
    cluster_side: conftest.Cluster,
) -> None:
    """The log is trimmed before it was read on: then the state is looked at instead of the events."""
    cluster_side.node("n", zone="host")
    pending(cluster_side, "p0")
    recorded().ready()
    store, go_on, reached = again(indexed=built.indexed()), threading.Event(), threading.Event()

    def blocked(before: snapshots.Snapshot, after: snapshots.Snapshot, entry: logs.Entry) -> None:
        reached.set()
        go_on.wait(conftest.LIMIT)

    made = controlling.Controller(store, cluster_side.client, built)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    conftest.eventually(lambda: made.subscribed, "the controller listens")
    store.follower.subscribe(blocked)
    cluster_side.node("another")
    assert reached.wait(conftest.LIMIT)
    heard = store.follower.snapshot.offset
    cluster_side.policy("p", host=2)
    cluster_side.node("third")
    other = again(indexed=built.indexed())
    conftest.eventually(lambda: "third" in other.follower.catch_up().nodes, "all of it is in the log")
    compaction = settings.Compaction(events=1, keep=0, reader_timeout=0.05)
    conftest.eventually(lambda: _trimmed(other, compaction) > heard + 1, "what was not heard is trimmed")
    go_on.set()
    conftest.eventually(lambda: told(cluster_side) == ["p0"], "the pod is told of the room")
    assert store.follower.jumps == 1
    made.stop()
    thread.join(conftest.LIMIT)


def _trimmed(store: opening.Store, compaction: settings.Compaction) -> int:
    """The oldest offset, once the compactor has done what it may."""
    compacting.Compactor(store, compaction).turn()
    return store.log.oldest()


class Announcing:
    """An announcer on a virtual clock with a registry that announces whatever it is told to."""

    def __init__(
        self, cluster: conftest.Cluster, pods: tuple[model.Pod, ...], *, burst: float = 100.0
    ) -> None:
        self.clock = clocks.VirtualClock()
        seen = [events.PodSeen(pod=pod) for pod in pods]
        self.snapshot = projecting.project_all(snapshots.empty(), seen)
        self.announcer = announcing.Announcer(
            cluster.client,
            registry.Registry(()),
            lambda: self.snapshot,
            self.clock,
            now=lambda: "2026-01-01T00:00:00Z",
            burst=burst,
            rate=2.0,
        )
        self.announcer.note(pods, "room", model.Position("i", 7))

    def drain(self) -> None:
        while self.announcer.turn(timeout=0.0):
            pass


def test_a_pod_is_told_again_if_the_server_had_no_time(cluster_side: conftest.Cluster) -> None:
    pod = pending(cluster_side, "p0")
    saying = Announcing(cluster_side, (pod,))
    cluster_side.server.faults.add(faults.Kind.FAIL, faults.calls("PATCH", "/status"), times=2, status=429)
    saying.drain()
    assert room(cluster_side, "p0") == "room (as of event 7)"
    assert len(saying.clock.waits) == 3  # one for the bucket, two after refusals


def test_pods_are_told_no_faster_than_the_bucket_allows(cluster_side: conftest.Cluster) -> None:
    pods = tuple(pending(cluster_side, f"p{at}") for at in range(6))
    saying = Announcing(cluster_side, pods, burst=2.0)
    saying.drain()
    assert len(told(cluster_side)) == 6
    assert saying.clock.now - 1000.0 == pytest.approx(2.0)  # four of six waited half a second each


def test_a_pod_that_is_gone_or_another_one_is_left_alone(cluster_side: conftest.Cluster) -> None:
    gone, replaced = pending(cluster_side, "gone"), pending(cluster_side, "replaced")
    for name in ("gone", "replaced"):
        cluster_side.end_pod(name)
    pending(cluster_side, "replaced")
    Announcing(cluster_side, (gone, replaced)).drain()
    assert told(cluster_side) == []


def test_a_pod_that_no_longer_waits_is_not_told(cluster_side: conftest.Cluster) -> None:
    pod = pending(cluster_side, "p0")
    saying = Announcing(cluster_side, (pod,))
    saying.snapshot = projecting.project(saying.snapshot, events.PodPlaced(pod=pod, node="n"))
    saying.drain()
    assert told(cluster_side) == []


# -- promises ---------------------------------------------------------------------------------


class Settling:
    """A settler on a virtual clock over one placement."""

    def __init__(self, cluster: conftest.Cluster, pod: model.Pod, version: str = "") -> None:
        self.clock = clocks.VirtualClock()
        placed = events.PodPlaced(pod=pod, node="n", resource_version=version)
        self.snapshot = projecting.project(snapshots.empty(), placed)
        self.released: list[tuple[str, str]] = []
        self.settler = settling.Settler(
            binding.ApiBinder(cluster.client), lambda: self.snapshot, self._release, self.clock
        )

    def _release(self, uid: str, promise: model.Position, cause: events.Cause, reason: str) -> bool:
        assert promise == self.snapshot.promise(uid)
        self.released.append((uid, cause))
        return True

    def after(self, *seconds: float) -> list[tuple[str, str]]:
        self.settler.turn()
        for one in seconds:
            self.clock.now += one
            self.settler.turn()
        return self.released


def version(cluster: conftest.Cluster, pod: model.Pod) -> str:
    """The pod's resourceVersion now."""
    found: str = cluster.server.objects.get("pods", (pod.namespace, pod.name))["metadata"]["resourceVersion"]
    return found


def test_a_placement_whose_binding_is_fenced_is_released_after_half_a_minute(
    cluster_side: conftest.Cluster,
) -> None:
    """Somebody has written to the pod: the Binding carries a version that the pod does not have any more."""
    pod = pending(cluster_side, "p0")
    before = version(cluster_side, pod)
    cluster_side.server.objects.change("pods", (pod.namespace, pod.name), noted)
    assert version(cluster_side, pod) != before
    assert Settling(cluster_side, pod, before).after(29.0) == []
    assert Settling(cluster_side, pod, before).after(29.0, 1.5) == [(pod.uid, "unbound")]


@pytest.mark.parametrize("fenced", [True, False], ids=["same version", "no version"])
def test_a_binding_that_nothing_fences_is_waited_for(cluster_side: conftest.Cluster, fenced: bool) -> None:
    """The API server may be working on it for a minute."""
    pod = pending(cluster_side, "p0")
    settler = Settling(cluster_side, pod, version(cluster_side, pod) if fenced else "")
    assert settler.after(31.0, 31.0, binding.UNFENCED - 63.0) == []
    assert settler.after(31.0) == [(pod.uid, "unbound")]


def noted(pod: dict[str, Any]) -> dict[str, Any]:
    pod["status"]["message"] = "a test says so"
    return pod


def test_a_pod_that_is_gone_is_released(cluster_side: conftest.Cluster) -> None:
    pod = pending(cluster_side, "p0")
    cluster_side.end_pod("p0")
    pending(cluster_side, "p0")
    assert Settling(cluster_side, pod).after(31.0) == [(pod.uid, "gone")]


@pytest.mark.parametrize("node", ["n", "elsewhere"])
def test_a_bound_pod_is_left_to_the_watch(cluster_side: conftest.Cluster, node: str) -> None:
    pod = pending(cluster_side, "p0")
    cluster_side.bind("p0", node)
    assert Settling(cluster_side, pod).after(31.0, 31.0) == []


def test_a_promise_made_anew_of_the_same_node_is_young(cluster_side: conftest.Cluster) -> None:
    """Between two looks it was taken back and made again: its Binding may be under way."""
    pod = pending(cluster_side, "p0")
    settler = Settling(cluster_side, pod)
    assert settler.after(31.0, 31.0) == []
    again = (
        events.PlacementReleased(pod.uid, pod.namespace, pod.name, "n", "a test says so", "refused"),
        events.PodPlaced(pod=pod, node="n"),
    )
    settler.snapshot = projecting.project_all(settler.snapshot, again)
    assert settler.after(31.0, 31.0) == []
    assert settler.after(31.0) == [(pod.uid, "unbound")]


def test_a_promise_at_the_same_offset_of_another_incarnation_is_young(
    cluster_side: conftest.Cluster,
) -> None:
    pod = pending(cluster_side, "p0")
    settler = Settling(cluster_side, pod)
    assert settler.after(31.0, 31.0) == []
    settler.snapshot = projecting.project(snapshots.empty(incarnation="new"), events.PodPlaced(pod, "n"))
    assert settler.after(31.0, 31.0) == []
    assert settler.after(31.0) == [(pod.uid, "unbound")]


def test_time_alone_releases_nothing(cluster_side: conftest.Cluster) -> None:
    pod = pending(cluster_side, "p0")
    cluster_side.server.stop()
    assert Settling(cluster_side, pod).after(31.0, 3600.0, 3600.0) == []


def test_a_released_promise_is_in_the_log_and_wakes_who_waits(
    recorded: Start, controller: Callable[[], controlling.Controller], cluster_side: conftest.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    cluster_side.policy("p", host=1)
    stuck, waits = pending(cluster_side, "stuck"), pending(cluster_side, "waits")
    recording = recorded().ready()
    snapshot = recording.snapshot
    placed = events.PodPlaced(pod=stuck, node="n")
    projection = projecting.Projection(snapshot)
    projection.apply(placed)
    promise = recording.store.log.append(logs.Batch(events=(placed,), increments=projection.increments))
    made = controller()
    recording.until_counts(host=1)
    incarnation = snapshot.position.incarnation
    another = model.Position(incarnation, promise.first - 1)
    assert not made.release(stuck.uid, another, "unbound", "it was another promise")
    meant = model.Position(incarnation, promise.first)
    assert made.release(stuck.uid, meant, "unbound", "a test says so")
    recording.until_counts()
    conftest.eventually(lambda: waits.name in told(cluster_side), "the waiting pod is told")
    conftest.eventually(lambda: bool(events_of(cluster_side)), "people are told")
    assert events_of(cluster_side) == [
        ("stuck", telling.RELEASED, "no longer placed on node n: a test says so", 1)
    ]


# -- what people are told ---------------------------------------------------------------------


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
def clock() -> clocks.VirtualClock:
    return clocks.VirtualClock()


@pytest.fixture
def poster(cluster_side: conftest.Cluster, clock: clocks.VirtualClock) -> event_posting.Poster:
    return event_posting.Poster(cluster_side.client, clock, now=lambda: f"{clock.now}", burst=5.0, rate=1.0)


FULL = "workload policy ns/p: no room (host 3/3, member 1/1)"


def test_a_refusal_everywhere_is_an_event_with_the_numbers(
    cluster_side: conftest.Cluster, poster: event_posting.Poster
) -> None:
    pod, records = pending(cluster_side, "p0"), Records()
    records.found = [decision(1, pod, {FULL: 6})]
    teller = telling.Teller(records, poster)
    teller.turn()
    assert events_of(cluster_side) == []  # what was decided before this process began is old
    records.found += [
        decision(2, pod, {FULL: 6}),
        decision(3, pod, {FULL: 6}),
        decision(4, pod, {FULL: 6}, kept=2),
        decision(5, pod, {FULL: 6}, verb="preempt"),
    ]
    teller.turn()
    teller.turn()
    said = f"refused on all 6 nodes that were offered: {FULL}"
    assert events_of(cluster_side) == [("p0", telling.REFUSED, said, 1)]


def test_several_reasons_come_with_their_counts(cluster_side: conftest.Cluster) -> None:
    pod = pending(cluster_side, "p0")
    assert telling.sentence(decision(1, pod, {"a": 1, "b": 5})) == (
        "refused on all 6 nodes that were offered: b (5); a (1)"
    )
    assert telling.sentence(decision(1, pod, {"a": 1})) == "refused on the only node that was offered: a"


def test_the_same_words_are_one_event_that_counts(
    cluster_side: conftest.Cluster, poster: event_posting.Poster, clock: clocks.VirtualClock
) -> None:
    pod = pending(cluster_side, "p0")
    for _ in range(10):
        poster.post(pod, "R", "m")
        clock.now += 40
    (event,) = events_of(cluster_side)
    assert event == ("p0", "R", "m", 9)  # the ninth was said after more than five minutes


def test_an_event_that_expired_is_made_anew(
    cluster_side: conftest.Cluster, poster: event_posting.Poster, clock: clocks.VirtualClock
) -> None:
    pod = pending(cluster_side, "p0")
    poster.post(pod, "R", "m")
    for one in cluster_side.server.objects.all("events"):
        cluster_side.server.objects.remove("events", ("ns", one["metadata"]["name"]))
    clock.now += 301
    poster.post(pod, "R", "m")
    assert [count for *_, count in events_of(cluster_side)] == [1]


def test_events_are_few(
    cluster_side: conftest.Cluster, poster: event_posting.Poster, clock: clocks.VirtualClock
) -> None:
    pods = [pending(cluster_side, f"p{at}") for at in range(20)]
    for pod in pods:
        poster.post(pod, "R", "m")
    assert (len(events_of(cluster_side)), poster.dropped) == (5, 15)
    clock.now += 3
    for pod in pods:
        poster.post(pod, "R", "other words")
    assert len(events_of(cluster_side)) == 8


def test_a_server_that_is_away_harms_nobody(
    cluster_side: conftest.Cluster, poster: event_posting.Poster
) -> None:
    pod = pending(cluster_side, "p0")
    cluster_side.server.stop()
    poster.post(pod, "R", "m")
    assert poster.dropped == 1


def test_events_that_are_not_taken_are_logged_once(
    cluster_side: conftest.Cluster, poster: event_posting.Poster
) -> None:
    pods, records = [pending(cluster_side, f"p{at}") for at in range(5)], Records()
    records.found = [decision(1, pods[0], {FULL: 6})]
    teller = telling.Teller(records, poster)
    teller.turn()
    cluster_side.server.faults.add(
        faults.Kind.FAIL, lambda asked: asked.path.endswith("/events"), times=3, status=403
    )
    with structlog.testing.capture_logs() as lines:
        for number, pod in enumerate(pods, 2):
            records.found.append(decision(number, pod, {FULL: 6}))
            teller.turn()
    assert [(line["log_level"], line["event"], line["pod"]) for line in lines] == [
        ("warning", "events about pods are not taken", "ns/p0")
    ]
    assert "403" in lines[0]["error"]
    assert [name for name, *_ in events_of(cluster_side)] == ["p3", "p4"]
