"""Decision records: small, searchable, and never delaying a verb."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import events, model, snapshots
from app.store import errors, schemas, stores
from app.store.decisions import bitmaps, decision_log, records
from app.store.log import batches, logs
from app.store.server import connections, embedded
from app.store.state import followers
from tests.support import declared
from tests.support.campaigns import sizes

names = st.sets(st.integers(0, 60).map(lambda i: f"n{i}"))


@given(names, names)
@settings(max_examples=sizes.examples(100), deadline=None)
def test_a_packed_set_is_the_set_again(candidates: set[str], known: set[str]) -> None:
    order = sorted(known)
    places = {name: place for place, name in enumerate(order)}
    packed = bitmaps.pack(candidates, order)
    assert bitmaps.pack(candidates, order, places) == packed
    assert bitmaps.unpack(packed, order) == candidates


@given(st.sets(st.integers(0, 250), max_size=60))
@settings(max_examples=sizes.examples(50), deadline=None)
def test_few_of_many_are_packed_alike_by_their_places(chosen: set[int]) -> None:
    order = [f"n{i:03}" for i in range(240)]
    candidates = frozenset(f"n{i:03}" for i in chosen)
    places = {name: place for place, name in enumerate(order)}
    packed = bitmaps.pack(candidates, order, places)
    assert packed == bitmaps.pack(candidates, order)
    assert bitmaps.unpack(packed, order) == candidates


def test_packing_is_small() -> None:
    known = [f"node-{i:05d}" for i in range(5000)]
    half = random.Random(1).sample(known, 2500)
    assert len(bitmaps.pack(frozenset(known), known)) < 10
    assert len(bitmaps.pack(frozenset(half), known)) < 700


@pytest.fixture
def recording(store: stores.Store) -> Iterator[decision_log.DecisionLog]:
    nodes = [events.NodeSeen(node=model.Node(name=f"n{i}", uid=str(i))) for i in range(10)]
    store.log.append(batches.Batch(events=nodes))
    store.follower.catch_up()
    store.decisions.start()
    yield store.decisions
    store.decisions.stop()


def draft(store: stores.Store, **changes: object) -> records.Draft:
    made = records.Draft(
        position=store.follower.snapshot.position,
        verb="filter",
        pod=model.Pod(uid="u1", namespace="blue", name="one"),
        names=frozenset(("n1", "n2", "unheard-of")),
        configuration="abc",
        kept=1,
        outcome="kept",
        at="2026-01-01T00:00:00Z",
        milliseconds=0.5,
        reasons={"workload policy blue/p: no capacity (a 3/3)": 2},
        plugins=("WorkloadPolicy",),
    )
    return msgspec.structs.replace(made, **changes)


def test_a_record_comes_back_with_its_candidates(
    recording: decision_log.DecisionLog, store: stores.Store
) -> None:
    recording.record(draft(store))
    recording.stop()
    (found,) = recording.latest()
    assert recording.get(found.id) == found
    assert (found.pod.key, found.count, found.kept, found.outcome) == ("blue/one", 3, 1, "kept")
    snapshot = store.histories.at(found.position.offset)
    assert recording.candidates(found, snapshot) == {"n1", "n2", "unheard-of"}
    assert (recording.written, recording.dropped) == (1, 0)


def test_the_condition_of_a_pod_is_left_out_before_what_its_decision_depends_on(
    recording: decision_log.DecisionLog, store: stores.Store
) -> None:
    labels = {"app": "x" * 60}
    sent = model.Pod(uid="u", namespace="ns", name="p", labels=labels, unscheduled="m" * records.LONGEST_POD)
    recording.record(draft(store, pod=sent))
    recording.stop()
    (found,) = recording.latest()
    assert found.pod == msgspec.structs.replace(sent, unscheduled="")
    assert (found.shortened, recording.shortened) == ((), 0)


def test_equal_candidates_are_one_set(recording: decision_log.DecisionLog, store: stores.Store) -> None:
    for names in (["n1", "n2"], ["n1", "n2"], ["n2", "n3"], sorted(store.follower.catch_up().nodes)):
        recording.record(draft(store, names=frozenset(names)))
    recording.stop()
    every, other, again, first = recording.latest()
    snapshot = store.histories.at(first.position.offset)
    found = recording.candidates(first, snapshot)
    assert found == {"n1", "n2"}
    assert recording.candidates(again, snapshot) is found
    assert recording.candidates(other, snapshot) == {"n2", "n3"}
    assert recording.candidates(every, snapshot) is snapshot.topology.everywhere
    # The same bitmap over other nodes is another set.
    store.log.append(batches.Batch(events=[events.NodeSeen(node=model.Node(name="a-new-one", uid="x"))]))
    later = store.follower.catch_up()
    moved = msgspec.structs.replace(every, position=later.position)
    assert recording.candidates(moved, later) is later.topology.everywhere
    assert later.topology.everywhere != snapshot.topology.everywhere


def test_candidates_are_those_of_their_own_position(
    recording: decision_log.DecisionLog, store: stores.Store
) -> None:
    most = frozenset(f"n{i}" for i in range(9))
    earlier = draft(store, names=most)
    store.log.append(batches.Batch(events=[events.NodeSeen(node=model.Node(name="a-new-one", uid="x"))]))
    store.follower.catch_up()
    recording.record(earlier)
    recording.record(draft(store, names=most))
    recording.record(draft(store, names=most, position=model.Position(store.log.incarnation, 999)))
    recording.stop()
    unknown, later, before = recording.latest()
    assert before.position.offset < later.position.offset
    for found in (later, before):
        assert recording.candidates(found, store.histories.at(found.position.offset)) == most
    with pytest.raises(errors.StoreError, match="was taken at"):
        recording.candidates(before, store.histories.at(later.position.offset))
    # Where the nodes are not at hand, the names are spelled out.
    assert bitmaps.unpack(unknown.candidates, ()) == most


def test_records_are_found_by_their_fields(recording: decision_log.DecisionLog, store: stores.Store) -> None:
    other = model.Pod(uid="u2", namespace="green", name="two")
    recording.record(draft(store))
    recording.record(draft(store, pod=other, verb="bind", outcome="bound", node="n3", reasons={}, plugins=()))
    recording.record(draft(store, verb="preempt", victims={"n4": ("u9",)}))
    recording.stop()
    newest = recording.latest()
    assert [found.verb for found in newest] == ["preempt", "bind", "filter"]
    assert [found.verb for found in recording.latest(limit=2)] == ["preempt", "bind"]
    rest = recording.search(records.DecisionQuery(), before=newest[1].id)
    assert [found.verb for found in rest.records] == ["filter"]
    for wanted, verbs in (
        (records.DecisionQuery(pod="green/two"), ["bind"]),
        (records.DecisionQuery(pod="u1"), ["preempt", "filter"]),
        (records.DecisionQuery(node="n3"), ["bind"]),
        (records.DecisionQuery(node="n4"), ["preempt"]),
        (records.DecisionQuery(plugin="WorkloadPolicy", verb="filter"), ["filter"]),
        (records.DecisionQuery(reason="no capacity"), ["preempt", "filter"]),
        (records.DecisionQuery(outcome="bound"), ["bind"]),
        (records.DecisionQuery(outcome="unheard-of"), []),
    ):
        assert [found.verb for found in recording.search(wanted).records] == verbs
    latest = recording.search(records.DecisionQuery(reason="no capacity"), limit=1)
    assert [found.verb for found in latest.records] == ["preempt"]


def test_records_are_found_by_the_objects_that_they_concern(
    recording: decision_log.DecisionLog, store: stores.Store
) -> None:
    def concerned(snapshot: snapshots.Snapshot, pod: model.Pod) -> Iterator[str]:
        yield f"gang:{pod.namespace}/train"
        yield from (f"policy:{pod.namespace}/p{number}" for number in range(len(snapshot.nodes) * 2))

    snapshot = store.follower.snapshot
    green = model.Pod(uid="u2", namespace="green", name="two")
    recording.record(draft(store, snapshot=snapshot, concerned=concerned))
    recording.record(draft(store, snapshot=snapshot, concerned=concerned, pod=green))
    recording.record(draft(store, snapshot=snapshot))
    recording.stop()
    without, second, first = recording.latest()
    assert without.objects == ()
    assert first.objects == ("gang:blue/train", *(f"policy:blue/p{number}" for number in range(15)))
    for wanted, found in (
        ("gang:blue/train", [first]),
        ("policy:green/p1", [second]),
        ("policy:green/p", []),
    ):
        assert recording.search(records.DecisionQuery(object=wanted)).records == found


@pytest.mark.parametrize("identity", ["", "0-0", "1-1", "x", "+", "-", "1", "9" * 40 + "-0", "\u0661-\u0661"])
def test_an_id_that_names_no_record_finds_none(recording: decision_log.DecisionLog, identity: str) -> None:
    assert recording.get(identity) is None


FOREIGN: tuple[dict[str, bytes], ...] = (
    {"d": b"no JSON"},
    {"d": b"{}"},
    {"d": b'{"verb":"\xff"}'},
    {"d": b'{"position":' + b"[" * 100_000},
    {"d": b"[1]"},
    {"surplus": b"x"},
)
"""Entries that Topolog does not write."""
UNREADABLE = (
    b"",
    b"\x00",
    b"\x93",
    msgspec.msgpack.encode(["some", b"\x00"]),
    msgspec.msgpack.encode(["few"]),
)
"""Candidates that it does not write."""


def test_entries_that_are_not_records_hide_none(store: stores.Store) -> None:
    client: Any = store.client
    damaged = [records.Decision.of(draft(store), packed, ()).encoded()[0] for packed in UNREADABLE]
    unreadable = (*FOREIGN, *({"d": raw} for raw in damaged))
    recording = decision_log.DecisionLog(client, store.keys, store.follower)
    foreign: list[str] = []

    def add_foreign() -> None:
        foreign.extend(client.xadd(store.keys.decisions, fields).decode() for fields in unreadable)

    for outcome in ("first", "second"):
        add_foreign()
        recording.record(draft(store, outcome=outcome))
        recording.start()
        recording.stop()
    add_foreign()
    with structlog.testing.capture_logs() as lines:
        newest, oldest = recording.latest()
        assert (newest.outcome, oldest.outcome) == ("second", "first")
        for limit in range(1, 4):
            assert [one.id for one in recording.since("0-0", limit=limit)] == [oldest.id, newest.id][:limit]
        assert recording.since(newest.id) == []
        stored = [identity for page in recording.stored(0, None) for identity, _ in page]
        assert stored == [oldest.id, newest.id]
        assert [recording.get(identity) for identity in foreign] == [None] * len(foreign)
        assert recording.get(newest.id) == newest
    assert {line["id"] for line in lines if "not a decision record" in line["event"]} == set(foreign)


def test_a_long_history_is_searched_page_by_page(store: stores.Store) -> None:
    kept = decision_log.DecisionLog(store.client, store.keys, store.follower, kept=5000)
    kept.record(draft(store, outcome="first"))
    for i in range(1200):
        kept.record(draft(store, milliseconds=float(i)))
    kept.start()
    kept.stop()
    assert kept.written == 1201
    found = kept.search(records.DecisionQuery(outcome="first"))
    assert len(found.records) == 1


def test_a_search_returns_how_far_it_went(store: stores.Store) -> None:
    kept = decision_log.DecisionLog(store.client, store.keys, store.follower, kept=5000)
    for i in range(1100):
        kept.record(draft(store, outcome="even" if i % 2 == 0 else "odd"))
    kept.start()
    kept.stop()
    ids = [found.id for found in kept.latest(limit=2000)]
    none, even = records.DecisionQuery(outcome="none"), records.DecisionQuery(pod="blue/one", outcome="even")
    assert kept.search(none) == ([], None, 1100)
    assert kept.search(none, max_scanned=550) == ([], ids[599], 600)
    assert kept.search(none, max_scanned=550, before=ids[599]) == ([], None, 500)
    found = kept.search(even, limit=10)
    assert [one.id for one in found.records] == ids[1:20:2]
    assert (found.behind, found.scanned) == (ids[19], 20)
    assert kept.search(records.DecisionQuery(), before=ids[-1]) == ([], None, 0)


def test_a_search_ends_with_a_number_of_bytes(store: stores.Store) -> None:
    kept = decision_log.DecisionLog(store.client, store.keys, store.follower, kept=5000)
    for _ in range(10):
        kept.record(draft(store, error="x" * 2000))
    kept.start()
    kept.stop()
    ids = [found.id for found in kept.latest(limit=2000)]
    found = kept.search(records.DecisionQuery(), most_bytes=5000)
    assert ([one.id for one in found.records], found.behind, found.scanned) == (ids[:3], ids[2], 3)
    assert [one.id for one in kept.search(records.DecisionQuery(), most_bytes=1).records] == ids[:1]


def test_a_full_queue_drops_and_counts(store: stores.Store) -> None:
    small = decision_log.DecisionLog(store.client, store.keys, store.follower, queued=3)
    for _ in range(5):
        small.record(draft(store))
    assert (small.waiting, small.dropped) == (3, 2)
    small.start()
    small.stop()
    assert (small.waiting, small.written, small.dropped) == (0, 3, 2)


def test_nothing_is_recorded_if_none_are_kept(store: stores.Store) -> None:
    none = decision_log.DecisionLog(store.client, store.keys, store.follower, kept=0)
    none.start()
    none.record(draft(store))
    none.stop()
    assert (none.waiting, none.dropped, none.latest()) == (0, 0, [])


def test_only_about_so_many_records_are_kept(store: stores.Store) -> None:
    few = decision_log.DecisionLog(store.client, store.keys, store.follower, kept=100)
    for _ in range(1000):
        few.record(draft(store))
    few.start()
    few.stop()
    # Redis trims whole nodes of the stream: about a hundred records more may stay.
    assert 100 <= len(few.latest(limit=1000)) <= 250


def test_a_record_that_cannot_be_written_does_no_harm_to_the_others(
    recording: decision_log.DecisionLog, store: stores.Store
) -> None:
    recording.record(draft(store, error="\ud800"))
    recording.stop()
    recording.start()
    recording.record(draft(store, verb="bind"))
    recording.stop()
    assert (recording.written, recording.dropped) == (1, 1)


def test_a_plugin_that_cannot_name_its_objects_costs_no_record(
    recording: decision_log.DecisionLog, store: stores.Store
) -> None:
    def failing(snapshot: snapshots.Snapshot, pod: model.Pod) -> Iterator[str]:
        yield "gang:blue/train"
        raise ValueError("no such group")

    with structlog.testing.capture_logs() as lines:
        recording.record(draft(store, snapshot=store.follower.snapshot, concerned=failing))
        recording.record(draft(store, verb="bind"))
        recording.stop()
    assert [(one.verb, one.objects) for one in recording.latest()] == [("bind", ()), ("filter", ())]
    assert (recording.written, recording.dropped) == (2, 0)
    (line,) = lines
    assert line["event"] == "cannot name the objects of a decision"
    assert "no such group" in line["error"]


def test_a_store_that_is_away_is_counted_not_raised() -> None:
    server = embedded.Server()
    client = connections.connect(server.url, timeout=2.0)
    names = declared.names("gone")
    schemas.migrate(client, names, declared.SCHEMA, incarnation="i")
    log = logs.Log(client, names, "i")
    follower = followers.Follower(log, schema=declared.SCHEMA)
    recording = decision_log.DecisionLog(client, names, follower)
    server.stop()
    for _ in range(3):
        recording.record(
            records.Draft(
                position=follower.snapshot.position,
                verb="filter",
                pod=model.Pod(uid="u", namespace="n", name="x"),
                names=(),
                configuration="",
                kept=0,
                outcome="error",
                at="",
                milliseconds=0.1,
            )
        )
    recording.start()
    recording.stop()
    assert (recording.written, recording.dropped) == (0, 3)


def test_many_threads_may_record(recording: decision_log.DecisionLog, store: stores.Store) -> None:
    one = draft(store)

    def record() -> None:
        for _ in range(100):
            recording.record(one)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recording.stop()
    assert (recording.written, recording.dropped) == (400, 0)
