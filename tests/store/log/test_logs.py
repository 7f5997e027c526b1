"""append and read against a real server: what the function checks, and that a refusal changes nothing."""

import threading
from typing import Any

import msgspec
import pytest

from app.domain import events, model
from app.kube.watch import kinds
from app.store import errors, keys, stores
from app.store.log import batches, readers
from app.store.server import connections
from tests.support.store import materialised, writers

NOTHING = batches.Batch(events=())


def everything(store: stores.Store) -> dict[bytes, object]:
    """All keys of the cluster in the server, except the sessions."""
    client = store.client
    return {
        b"log": client.xrange(store.keys.log),
        b"meta": client.hgetall(store.keys.meta),
        b"versions": client.hgetall(store.keys.versions),
        b"counts": client.hgetall(store.keys.counts),
    }


def test_offsets_are_dense_and_entries_come_back_in_order(store: stores.Store) -> None:
    first = store.log.append(batches.Batch(events=[writers.seen("u1"), writers.seen("u2")]))
    second = store.log.append(batches.Batch(events=[writers.seen("u3")]))
    assert (first.first, first.last, second.first, second.last) == (1, 2, 3, 3)
    entries = store.log.read(0)
    assert [entry.offset for entry in entries] == [1, 2, 3]
    assert [entry.event for entry in entries] == [writers.seen("u1"), writers.seen("u2"), writers.seen("u3")]
    assert entries[2].at_ms == second.at_ms
    assert store.log.read(2) == entries[2:]
    assert store.log.read(0, limit=2) == entries[:2]
    assert store.log.read(3) == []
    assert store.log.head() == model.Position(store.log.incarnation, 3)


@pytest.mark.parametrize("at", [None, "text"])
def test_entries_are_read_whole_without_the_time_of_the_head(store: stores.Store, at: str | None) -> None:
    store.log.append(batches.Batch(events=[writers.seen("u1"), writers.seen("u2")]))
    entries = store.log.read(0)
    if at is None:
        store.client.hdel(store.keys.meta, "at")
    else:
        store.client.hset(store.keys.meta, "at", at)
    assert store.log.read(0) == entries
    reader = store.log.reader()
    assert [(read.head, read.head_ms) for read in (reader.read(0), reader.read(2))] == [(2, 0), (2, 0)]
    reader.close()


def test_an_entry_whose_time_was_overwritten_is_read(
    store: stores.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "CHUNK", 2)
    store.log.append(batches.Batch(events=[writers.seen(f"u{number}") for number in range(6)]))
    client: Any = store.client
    kept = client.xrange(store.keys.log)
    client.delete(store.keys.log)
    for identity, fields in kept:
        wrong = {b"t": b"text"} if identity in (b"2-0", b"5-0") else {}
        client.xadd(store.keys.log, {**fields, **wrong}, id=identity)
    reader = store.log.reader()
    times = [at for read in reader.read_all(0) for at in read.times]
    reader.close()
    assert [bool(at) for at in times] == [True, False, True, True, False, True]
    assert [entry.at_ms for entry in store.log.read(0)] == times


def test_the_next_read_is_requested_ahead(store: stores.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(10):
        store.log.append(batches.Batch(events=[writers.seen(f"u{number}") for number in range(250)]))
    reader = store.log.reader()
    send = reader._wire.send
    sent: list[connections.Packed] = []

    def counted(packed: connections.Packed, *, timeout: float | None = None) -> None:
        sent.append(packed)
        send(packed, timeout=timeout)

    monkeypatch.setattr(reader._wire, "send", counted)
    found = [(len(sent), read.last) for read in reader.read_all(0)]
    reader.close()
    assert found == [(1, 1000), (3, 2000), (3, 2500)]


def test_a_connection_that_the_server_closed_does_not_fail_a_read(store: stores.Store) -> None:
    """As after a restart of the server: connections are kept between reads."""
    store.log.append(batches.Batch(events=[writers.seen("u")]))
    assert [read.last for read in store.log.read_all(0)] == [store.log.head().offset]
    client: Any = store.client
    assert client.client_kill_filter(_type="normal", skipme=True)
    assert [read.last for read in store.log.read_all(0)] == [store.log.head().offset]


def test_entries_are_dated_by_the_server(store: stores.Store) -> None:
    def now() -> int:
        seconds, microseconds = store.client.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    before = now()
    appended = store.log.append(batches.Batch(events=[writers.seen("u1")]))
    assert before <= appended.at_ms <= now()
    assert [entry.at_ms for entry in store.log.read(0)] == [appended.at_ms]


def test_versions_counts_and_marks_are_written_in_the_same_call(store: stores.Store) -> None:
    batch = batches.Batch(
        events=[writers.seen("u1"), writers.seen("u2"), events.PodGone("u1", "blue", "pod-u1")],
        increments={"blue/p|zone=a": 2, "blue/p|zone=b": 0},
        marks={"rv:pods": "123"},
    )
    store.log.append(batch)
    assert materialised.versions(store) == {"pod:u2": 2}
    assert materialised.counts(store) == {"blue/p|zone=a": 2}
    store.client.hset(store.keys.meta, "tomorrow", "a:b")
    assert store.log.resume_versions() == {"rv:pods": "123"}, "a field of a later version is no mark"
    store.log.append(batches.Batch(events=[], increments={"blue/p|zone=a": -2}, marks={"rv:pods": "124"}))
    assert materialised.counts(store) == {}
    assert store.log.resume_versions() == {"rv:pods": "124"}
    assert store.log.head().offset == 3


def test_a_batch_without_events_takes_no_offset(store: stores.Store) -> None:
    appended = store.log.append(batches.Batch(events=(), marks={"rv:nodes": "1"}))
    assert (appended.first, appended.last) == (1, 0)


@pytest.mark.parametrize(
    ("guard", "subjects"),
    [
        pytest.param(batches.Guard(head=0), ("head",), id="head has moved on"),
        pytest.param(batches.Guard(head=2), ("head",), id="head is not there yet"),
        pytest.param(batches.Guard(versions={"pod:u1": 0}), ("pod:u1",), id="exists already"),
        pytest.param(batches.Guard(versions={"pod:u1": 2}), ("pod:u1",), id="another version"),
        pytest.param(
            batches.Guard(versions={"pod:u1": 1, "node:n": 4, "pod:u2": 7}), ("node:n", "pod:u2"), id="absent"
        ),
    ],
)
def test_a_broken_expectation_is_a_conflict_that_names_it(
    store: stores.Store, guard: batches.Guard, subjects: tuple[str, ...]
) -> None:
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    before = everything(store)
    with pytest.raises(errors.Conflict) as refused:
        store.log.append(batches.Batch(events=[writers.seen("u2")], increments={"c": 1}), guard)
    assert refused.value.subjects == subjects
    assert everything(store) == before


def test_a_ceiling_bounds_the_count_after_the_batch(store: stores.Store) -> None:
    one_more = batches.Batch(events=[writers.seen("u1")], increments={"blue/p|zone=a": 1})
    guard = batches.Guard(ceilings={"blue/p|zone=a": 2, "blue/p|zone=unheard": 0})
    store.log.append(one_more, guard)
    store.log.append(one_more, guard)
    before = everything(store)
    with pytest.raises(errors.CeilingReached) as refused:
        store.log.append(one_more, guard)
    assert (refused.value.key, refused.value.count, refused.value.ceiling) == ("blue/p|zone=a", 2, 2)
    assert everything(store) == before
    # Increments without a ceiling commute: they are not held up.
    store.log.append(one_more)
    assert materialised.counts(store) == {"blue/p|zone=a": 3}


def test_a_lower_epoch_never_writes_again(store: stores.Store) -> None:
    first, second = "9", "10"
    store.log.append(NOTHING, batches.Guard(epoch=first))
    store.log.append(NOTHING, batches.Guard(epoch=second))
    with pytest.raises(errors.Fenced) as refused:
        store.log.append(batches.Batch(events=[writers.seen("u1")]), batches.Guard(epoch=first))
    assert refused.value.epoch == second
    assert store.log.head().offset == 0
    store.log.append(batches.Batch(events=[writers.seen("u1")]), batches.Guard(epoch=second))
    # Placements carry no epoch: they come from any replica.
    store.log.append(batches.Batch(events=[writers.seen("u2")]))


def test_epochs_are_compared_as_text_beyond_what_a_number_can_hold(store: stores.Store) -> None:
    huge = "9007199254740993"  # 2^53 + 1: the same double as 2^53
    store.log.append(NOTHING, batches.Guard(epoch=huge))
    with pytest.raises(errors.Fenced):
        store.log.append(NOTHING, batches.Guard(epoch="9007199254740992"))
    with pytest.raises(errors.Fenced):
        store.log.append(NOTHING, batches.Guard(epoch="999"))
    store.log.append(NOTHING, batches.Guard(epoch="340282366920938463463374607431768211456"))
    assert store.log.state().epoch == "340282366920938463463374607431768211456"


def test_of_two_writers_with_one_epoch_only_the_first_writes(store: stores.Store) -> None:
    store.log.append(NOTHING, batches.Guard(epoch="7", writer="one"))
    with pytest.raises(errors.Fenced, match="one holds epoch 7"):
        store.log.append(NOTHING, batches.Guard(epoch="7", writer="other"))
    store.log.append(NOTHING, batches.Guard(epoch="7", writer="one"))
    store.log.append(NOTHING, batches.Guard(epoch="8", writer="other"))
    with pytest.raises(errors.Fenced, match="other holds epoch 8"):
        store.log.append(NOTHING, batches.Guard(epoch="7", writer="one"))


def test_each_entry_has_the_epoch_of_its_writer(store: stores.Store) -> None:
    store.log.append(batches.Batch(events=[writers.seen("u1"), writers.seen("u2")]), batches.Guard(epoch="5"))
    store.log.append(batches.Batch(events=[writers.seen("u3")]))
    store.log.append(batches.Batch(events=[writers.seen("u4")]), batches.Guard(epoch="12"))
    assert writers.epochs(store.log) == [(1, "5"), (2, "5"), (3, ""), (4, "12")]


def test_more_increments_than_one_redis_call_can_take(store: stores.Store) -> None:
    increments = {f"blue/p|zone=host-{i}": i % 3 for i in range(12_000)}
    store.log.append(batches.Batch(events=[], increments=increments))
    expected = {key: by for key, by in increments.items() if by}
    assert materialised.counts(store) == expected
    store.log.append(batches.Batch(events=[], increments={key: -by for key, by in increments.items()}))
    assert materialised.counts(store) == {}


def test_a_batch_is_bounded(store: stores.Store) -> None:
    full = [writers.seen(f"u{i}") for i in range(batches.MAX_EVENTS)]
    assert store.log.append(batches.Batch(events=full)).last == batches.MAX_EVENTS
    with pytest.raises(ValueError, match="limit is 1000"):
        store.log.append(batches.Batch(events=[*full, writers.seen("more")]))


def test_marks_cannot_overwrite_what_the_log_stands_on(store: stores.Store) -> None:
    with pytest.raises(ValueError, match="marks must not"):
        store.log.append(batches.Batch(events=(), marks={keys.HEAD: "0"}))


def test_a_repeated_call_returns_the_same_and_changes_nothing(store: stores.Store) -> None:
    call = raw_call(store, sequence=5)
    first = store.client.fcall(keys.function("append"), 5, *call)
    before = everything(store)
    again = store.client.fcall(keys.function("append"), 5, *call)
    assert first[0] == b"OK"
    assert again == [b"REPEATED", *first[1:]]
    assert everything(store) == before


def test_a_call_older_than_the_session_is_refused(store: stores.Store) -> None:
    store.client.fcall(keys.function("append"), 5, *raw_call(store, sequence=10))
    before = everything(store)
    # 9 < 10 although "9" > "10" as text: a straggler from before the last call.
    assert store.client.fcall(keys.function("append"), 5, *raw_call(store, sequence=9)) == [b"STALE", b"10"]
    assert everything(store) == before


def test_a_session_is_forgotten_after_a_day(store: stores.Store) -> None:
    store.client.fcall(keys.function("append"), 5, *raw_call(store, sequence=1))
    assert 86_000 < store.client.ttl(store.keys.session("raw")) <= 86_400


def raw_call(store: stores.Store, *, sequence: int) -> list[str | bytes | int]:
    names = store.keys
    return [
        *(names.log, names.meta, names.versions, names.counts, names.session("raw")),
        *(store.log.incarnation, 0, "", sequence, "", "", "", 1, 1, 0, 0, 1, 0),
        *(b'{"v":1,"type":"PodGone","uid":"u","namespace":"n","name":"x"}', "pod:u", 0, "c", 1),
    ]


def test_a_flush_is_noticed_by_writers_and_readers(store: stores.Store) -> None:
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    store.client.delete(store.keys.log, store.keys.meta, store.keys.versions, store.keys.counts)
    with pytest.raises(errors.Rewound):
        store.log.append(batches.Batch(events=[writers.seen("u2")]))
    with pytest.raises(errors.Rewound):
        store.log.read(0)
    assert not store.log.report_loss(store.log.seen)


def test_a_writer_notices_that_what_it_wrote_is_lost(store: stores.Store) -> None:
    store.log.append(batches.Batch(events=[writers.seen("u1"), writers.seen("u2")]))
    store.client.hset(store.keys.meta, keys.HEAD, "1")
    with pytest.raises(errors.Rewound):
        store.log.append(batches.Batch(events=[writers.seen("u3")]))


def test_a_hole_and_a_trimmed_start_are_distinguished(store: stores.Store) -> None:
    store.log.append(batches.Batch(events=[writers.seen(f"u{i}") for i in range(6)]))
    store.client.xdel(store.keys.log, "4-0")
    with pytest.raises(errors.Gap, match="offset 4"):
        store.log.read(0)
    with pytest.raises(errors.Gap, match="offset 4"):
        store.log.read(3)
    assert [entry.offset for entry in store.log.read(4)] == [5, 6]
    store.client.xtrim(store.keys.log, minid="5-0", approximate=False)
    with pytest.raises(errors.Trimmed) as refused:
        store.log.read(2)
    assert refused.value.oldest == 5


def test_threads_append_side_by_side(store: stores.Store) -> None:
    offsets: list[int] = []

    def write(name: int) -> None:
        for i in range(50):
            batch = batches.Batch(events=[writers.seen(f"u{name}-{i}")], increments={"c": 1})
            offsets.append(store.log.append(batch).first)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(offsets) == list(range(1, 401))
    assert materialised.counts(store) == {"c": 400}


def test_a_waiting_reader_gets_an_entry_as_soon_as_it_is_appended(store: stores.Store) -> None:
    done, reader = threading.Event(), store.log.reader()

    def wait() -> None:
        reader.wait_for_entries(0, milliseconds=60_000)
        done.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    store.log.append(batches.Batch(events=[writers.seen("u1")]))
    assert done.wait(30)
    waiter.join()
    reader.wait_for_entries(1, milliseconds=1)


def test_a_waiting_reader_gets_the_entries_in_the_same_round_trip(store: stores.Store) -> None:
    reader = store.log.reader()
    assert reader.wait_for_entries(0, milliseconds=1).events == []
    first = store.log.append(batches.Batch(events=[writers.seen("u1")]))
    store.log.append(batches.Batch(events=[writers.seen("u2")]))
    read = reader.wait_for_entries(1, first.at_ms, milliseconds=60_000)
    assert (read.after, read.last, read.head) == (1, 2, 2)
    with pytest.raises(errors.Rewound):
        reader.wait_for_entries(3, 1, milliseconds=1)
    # The reply is that of this request, not of one before.
    assert reader.wait_for_entries(0, milliseconds=1).last == 2


def test_what_is_appended_can_be_compared_field_by_field(store: stores.Store) -> None:
    appended = store.log.append(batches.Batch(events=[writers.seen("u1")]))
    assert msgspec.structs.asdict(appended) == {
        "first": 1,
        "last": 1,
        "repeated": False,
        "at_ms": store.log.read(0)[0].at_ms,
    }


def test_the_store_and_the_watches_name_marks_alike() -> None:
    assert keys.MARKS == kinds.MARKS
