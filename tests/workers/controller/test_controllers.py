"""The controller: which pods are woken, and which placements released.

Not here: which pods a plugin wants woken (tests/plugins), and which placements are void
(test_orphaned_placements).
"""

import threading
from collections.abc import Callable, Iterator

import pytest

from app import plugins, settings
from app.domain import events, model, projections, snapshots
from app.framework import registry, registry_builder
from app.store import stores
from app.store.log import batches, readers
from tests.support import bind_times
from tests.support.workers import clusters, pending_pods, recordings
from workers.compactor import compactors
from workers.controller import controllers, pod_events

Start = Callable[[], recordings.Recording]


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
        made = controllers.Controller(
            again(indexed=built.indexed()), cluster_side.client, built, old=bind_times.OLD
        )
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


@pytest.mark.scenario("WP-7")
def test_a_new_policy_wakes_as_many_pods_as_it_has_capacity_for(
    recorded: Start, controller: Callable[[], object], cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    for at in range(4):
        pending_pods.pending(cluster_side, f"p{at}")
    pending_pods.pending(cluster_side, "other", policy="another")
    recorded().ready()
    controller()
    cluster_side.policy("p", host=2)
    recordings.eventually(lambda: len(pending_pods.woken(cluster_side)) == 2, "two pods are woken")
    first = {name: pending_pods.wakeup(cluster_side, name) for name in pending_pods.woken(cluster_side)}
    assert all("workload policy ns/p" in message for message in first.values())
    cluster_side.edit_policy("p", allocationPolicy=[{"name": "host", "replicas": 3}])
    recordings.eventually(lambda: len(pending_pods.woken(cluster_side)) == 3, "the third one too")
    assert "other" not in pending_pods.woken(cluster_side)
    again = {name: pending_pods.wakeup(cluster_side, name) for name in first}
    assert all(again[name] != first[name] for name in first)  # only a change wakes a pod


def test_a_pod_that_was_not_tried_yet_is_woken_once_it_is_refused(
    recorded: Start, controller: Callable[[], object], cluster_side: clusters.Cluster
) -> None:
    """It is in kube-scheduler's queue; its refusal, observed later, may be older than the capacity."""
    cluster_side.node("n", zone="host")
    for name in ("queued", "placed", "ended"):
        pending_pods.pending(cluster_side, name, refused=False)
    pending_pods.pending(cluster_side, "refused")
    recording = recorded().ready()
    controller()
    cluster_side.policy("p", host=9)
    recordings.eventually(lambda: pending_pods.woken(cluster_side) == ["refused"], "the refused pod is woken")
    cluster_side.bind("placed", "n")
    cluster_side.end_pod("ended")
    cluster_side.refuse("queued")
    recordings.eventually(
        lambda: pending_pods.woken(cluster_side) == ["queued", "refused"],
        "the pod that is refused later, too",
    )
    former = pending_pods.wakeup(cluster_side, "queued")
    cluster_side.refuse("queued", "0/2 nodes are available")
    pending_pods.pending(cluster_side, "last", refused=False)
    # Pods and policies come by watches of their own: which is seen first is left to chance otherwise.
    recording.until(lambda one: one.pod_named("ns", "last") is not None, "the pod is recorded")
    cluster_side.edit_policy("p", allocationPolicy=[{"name": "host", "replicas": 8}])
    recordings.eventually(
        lambda: pending_pods.wakeup(cluster_side, "queued") not in (former, ""),
        "a pod that is known to wait is woken",
    )
    cluster_side.refuse("last")
    recordings.eventually(
        lambda: pending_pods.woken(cluster_side) == ["last", "queued", "refused"],
        "and a pod that begins to wait",
    )


def test_capacity_that_became_available_without_a_controller(
    recorded: Start, controller: Callable[[], object], cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    pending_pods.pending(cluster_side, "p0")
    cluster_side.policy("p", host=2)
    recorded().ready()
    controller()
    recordings.eventually(lambda: pending_pods.woken(cluster_side) == ["p0"], "the pod is woken")


def test_capacity_that_a_slow_controller_has_not_read_of(
    recorded: Start,
    again: Callable[..., stores.Store],
    built: registry.Registry,
    cluster_side: clusters.Cluster,
) -> None:
    """The log is trimmed before it is read: then the state is used instead of the events."""
    cluster_side.node("n", zone="host")
    pending_pods.pending(cluster_side, "p0")
    recorded().ready()
    store, go_on, reached = again(indexed=built.indexed()), threading.Event(), threading.Event()

    def blocked(before: snapshots.Snapshot, after: snapshots.Snapshot, entry: readers.Entry) -> None:
        reached.set()
        go_on.wait(recordings.LIMIT)

    made = controllers.Controller(store, cluster_side.client, built, old=bind_times.OLD)
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
    recordings.eventually(lambda: pending_pods.woken(cluster_side) == ["p0"], "the pod is woken")
    assert store.follower.jumps == 1
    made.stop()
    thread.join(recordings.LIMIT)


def _trimmed(store: stores.Store, compaction: settings.Compaction) -> int:
    """The oldest offset, once the compactor has done what it may."""
    compactors.Compactor(store, compaction).run_once()
    return store.log.oldest()


def test_a_released_placement_is_in_the_log_and_wakes_waiting_pods(
    recorded: Start, controller: Callable[[], controllers.Controller], cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    cluster_side.policy("p", host=1)
    stuck, waits = pending_pods.pending(cluster_side, "stuck"), pending_pods.pending(cluster_side, "waits")
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
    recordings.eventually(lambda: waits.name in pending_pods.woken(cluster_side), "the waiting pod is woken")
    recordings.eventually(lambda: bool(pending_pods.events_of(cluster_side)), "an Event is posted")
    assert pending_pods.events_of(cluster_side) == [
        ("stuck", pod_events.RELEASED, "no longer placed on node n: a reason", 1)
    ]
