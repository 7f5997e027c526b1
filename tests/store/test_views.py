"""The views can be lost or damaged: the log says what they were."""

import threading

import pytest

from app.domain import events, model, projecting, snapshots
from app.store import logs, opening, views
from tests.store import writing


def policy(name: str) -> events.PolicySeen:
    return events.PolicySeen(
        policy=model.WorkloadPolicy(uid=name, namespace="blue", name=name, topology_key="zone")
    )


def node(number: int) -> events.NodeSeen:
    labels = {"zone": f"z{number % 2}"}
    return events.NodeSeen(node=model.Node(name=f"n{number}", uid=str(number), labels=labels))


def write_history(store: opening.Store) -> snapshots.Snapshot:
    snapshot = store.follower.catch_up()
    history: list[events.AnyEvent] = [
        *(
            events.NodeSeen(node=model.Node(name=f"n{i}", uid=str(i), labels={"zone": f"z{i % 2}"}))
            for i in range(4)
        ),
        policy("p"),
        *(writing.seen(f"u{i}", f"n{i % 4}") for i in range(20)),
        *(events.PodPlaced(pod=writing.pod(f"u{i}"), node="n1") for i in range(20, 25)),
        events.PodGone(uid="u3", namespace="blue", name="pod-u3"),
        events.NodeGone(name="n2", uid="2"),
        policy("q"),
    ]
    for event in history:
        writing.facts(store.log, snapshot, [event])
        snapshot = projecting.project(snapshot, event)
    return snapshot


@pytest.mark.scenario("WP-15")
def test_wiped_views_are_rebuilt_as_they_were(store: opening.Store) -> None:
    expected = write_history(store)
    before = store.client.hgetall(store.keys.counts), store.client.hgetall(store.keys.versions)
    assert before[0]
    store.client.delete(store.keys.counts, store.keys.versions)
    rebuilt = views.rebuild(store.client, store.keys, store.log)
    assert (store.client.hgetall(store.keys.counts), store.client.hgetall(store.keys.versions)) == before
    assert dict(rebuilt.counts) == dict(expected.counts)
    assert views.differences(store.client, store.keys, store.log) == []
    # And the log goes on from there.
    writing.facts(store.log, store.follower.catch_up(), [writing.seen("later", "n1")])
    assert views.differences(store.client, store.keys, store.log) == []


@pytest.mark.scenario("WP-15")
def test_a_replay_from_nothing_gives_nodes_pods_and_promises_again(store: opening.Store) -> None:
    expected = write_history(store)
    replayed = views.folded(store.log)
    assert replayed.position == expected.position
    assert replayed.nodes == expected.nodes
    assert replayed.pods == expected.pods
    assert replayed.placements == expected.placements
    assert replayed.versions == expected.versions


@pytest.mark.scenario("WP-15")
def test_the_same_event_twice_counts_once(store: opening.Store) -> None:
    snapshot = write_history(store)
    again = writing.seen("u0", "n0")
    projection = projecting.Projection(snapshot)
    projection.apply(again)
    assert not any(projection.increments.values())
    writing.facts(store.log, snapshot, [again, again])
    assert store.log.counts() == dict(snapshot.counts)


def test_planted_differences_are_named(store: opening.Store) -> None:
    write_history(store)
    client, names = store.client, store.keys
    (key, count), *_ = sorted(store.log.counts().items())
    client.hset(names.counts, key, count + 1)
    client.hset(names.counts, "blue/ghost|zone=z9", 1)
    client.hdel(names.versions, "node:n0")
    assert views.differences(client, names, store.log) == [
        views.Difference("counts", "blue/ghost|zone=z9", 1, 0),
        views.Difference("counts", key, count + 1, count),
        views.Difference("versions", "node:n0", 0, 1),
    ]
    views.rebuild(client, names, store.log)
    assert views.differences(client, names, store.log) == []


def test_a_rebuild_beside_a_writer_ends_at_one_offset(store: opening.Store) -> None:
    def write() -> None:
        for i in range(300):
            store.log.append(logs.Batch(events=[writing.seen(f"w{i}")]))

    write_history(store)
    store.client.delete(store.keys.versions)
    writer = threading.Thread(target=write)
    writer.start()
    views.rebuild(store.client, store.keys, store.log)
    writer.join()
    assert views.differences(store.client, store.keys, store.log) == []
