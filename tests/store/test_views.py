"""Counts and versions that were lost or damaged are restored from the log by the auditor's repair."""

import threading

import pytest

from app.domain import events, model, projections, snapshots
from app.domain.audit import attribution, findings
from app.plugins.workload_policy import policy_model
from app.store import raw_access, stores
from app.store.log import batches
from app.store.state import followers
from tests.support import declared
from tests.support.store import materialised, view_oracle, writers
from workers.auditor import repairs


def policy(name: str) -> events.ObjectObserved:
    return declared.observed(
        policy_model.WorkloadPolicy(uid=name, namespace="blue", name=name, topology_key="zone")
    )


def node(number: int) -> events.NodeSeen:
    labels = {"zone": f"z{number % 2}"}
    return events.NodeSeen(node=model.Node(name=f"n{number}", uid=str(number), labels=labels))


def write_history(store: stores.Store) -> snapshots.Snapshot:
    snapshot = store.follower.catch_up()
    history: list[events.AnyEvent] = [
        *(
            events.NodeSeen(node=model.Node(name=f"n{i}", uid=str(i), labels={"zone": f"z{i % 2}"}))
            for i in range(4)
        ),
        policy("p"),
        *(writers.seen(f"u{i}", f"n{i % 4}") for i in range(20)),
        *(events.placed(writers.pod(f"u{i}"), "n1") for i in range(20, 25)),
        events.PodGone(uid="u3", namespace="blue", name="pod-u3"),
        events.NodeGone(name="n2", uid="2"),
        policy("q"),
    ]
    for event in history:
        writers.facts(store.log, snapshot, [event])
        snapshot = projections.project(snapshot, event)
    return snapshot


def compared(store: stores.Store, snapshot: snapshots.Snapshot) -> tuple[dict[str, int], dict[str, int]]:
    """By how much counts and versions differ from the snapshot, as the auditor finds it."""
    look = raw_access.RawReader(store.client, store.keys).view(snapshot.offset)
    assert look.head == snapshot.offset
    return (
        attribution.apart(look.counts, snapshot.counts),
        attribution.apart(look.versions, snapshot.versions),
    )


def repair(store: stores.Store, snapshot: snapshots.Snapshot) -> list[findings.Repair]:
    counts, versions = compared(store, snapshot)
    return repairs.Repairs(store.log, "auditor").views(snapshot, counts, versions, findings.Board())


def stored(store: stores.Store) -> tuple[dict[str, int], dict[str, int]]:
    versions = materialised.versions(store)
    versions.pop("store:views", None)
    return materialised.counts(store), versions


@pytest.mark.scenario("WP-15")
def test_wiped_views_are_restored_by_the_repair(store: stores.Store) -> None:
    expected = write_history(store)
    before = stored(store)
    assert before == (dict(expected.counts), dict(expected.versions))
    assert before[0]
    store.client.delete(store.keys.counts, store.keys.versions)
    assert {one.what for one in repair(store, expected)} == {"counts", "versions"}
    counts, versions = stored(store)
    # The repair is now the latest event about each subject.
    assert (counts, versions.keys()) == (before[0], before[1].keys())
    assert view_oracle.differences(store) == []
    # And appends continue from there.
    writers.facts(store.log, store.follower.catch_up(), [writers.seen("later", "n1")])
    assert view_oracle.differences(store) == []


@pytest.mark.scenario("WP-15")
def test_a_replay_of_the_log_restores_nodes_pods_and_placements(store: stores.Store) -> None:
    expected = write_history(store)
    replayed = followers.Follower(store.log, schema=declared.SCHEMA).catch_up()
    assert replayed.position == expected.position
    assert replayed.nodes == expected.nodes
    assert replayed.pods == expected.pods
    assert replayed.placements == expected.placements
    assert replayed.versions == expected.versions


@pytest.mark.scenario("WP-15")
def test_the_same_event_twice_counts_once(store: stores.Store) -> None:
    snapshot = write_history(store)
    again = writers.seen("u0", "n0")
    projection = projections.Projection(snapshot)
    projection.apply(again)
    assert not any(projection.increments.values())
    writers.facts(store.log, snapshot, [again, again])
    assert materialised.counts(store) == dict(snapshot.counts)


def test_planted_differences_are_found_and_repaired(store: stores.Store) -> None:
    expected = write_history(store)
    client, names = store.client, store.keys
    (key, count), *_ = sorted(materialised.counts(store).items())
    client.hset(names.counts, key, count + 1)
    client.hset(names.counts, "blue/ghost|zone=z9", 1)
    client.hdel(names.versions, "node:n0")
    assert view_oracle.differences(store) == [
        view_oracle.Difference("counts", "blue/ghost|zone=z9", 1, 0),
        view_oracle.Difference("counts", key, count + 1, count),
        view_oracle.Difference("versions", "node:n0", 0, 1),
    ]
    assert compared(store, expected)[0] == {key: 1, "blue/ghost|zone=z9": 1}
    repair(store, expected)
    # The repair itself is the latest event about the node.
    assert view_oracle.differences(store) == []


def test_a_repair_beside_a_writer_leaves_no_difference(store: stores.Store) -> None:
    def write() -> None:
        for i in range(100):
            store.log.append(batches.Batch(events=[writers.seen(f"w{i}")]))

    expected = write_history(store)
    store.client.delete(store.keys.versions)
    counts, versions = compared(store, expected)
    writer = threading.Thread(target=write)
    writer.start()
    made = repairs.Repairs(store.log, "auditor").views(expected, counts, versions, findings.Board())
    writer.join()
    assert [one.what for one in made] == ["versions"]
    assert view_oracle.differences(store) == []
