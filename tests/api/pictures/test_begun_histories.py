"""The stream of events over a history that begins again: what is behind its start, and what was lost."""

import itertools
import threading
from typing import Any
from unittest import mock

import pytest

from app.api.v1.pictures import watches
from app.domain import events, model, projections
from app.store import errors as store_errors
from app.store.log import batches, incarnations, readers
from app.store.state import log_cursors
from tests.support import polling
from tests.support.extender import api_worlds, stream_messages
from tests.support.extender.error_shape import body


def rewound(world: api_worlds.World, before: model.Position, last: int) -> model.Position:
    """The head of a new incarnation behind a position, until which what was lost is known."""
    begun = incarnations.new((before.incarnation,))
    event = events.StoreRewound(before.incarnation, before.offset + 1, last, "a test", relisting=("pods",))
    guard = batches.Guard(epoch="9", writer="w")
    assert world.store.log.rewind(event, begun, found=before.incarnation, guard=guard)
    world.store.log.follow(begun)
    world.store.log.append(batches.Batch(events=[api_worlds.node("later")]))
    return model.Position(begun, before.offset + 2)


def begin_again(world: api_worlds.World, before: model.Position, last: int) -> model.Position:
    """The same, which the follower has read."""
    end = rewound(world, before, last)
    polling.eventually(lambda: world.store.follower.snapshot.position == end, "the new history")
    return end


@pytest.mark.scenario("UI-7")
@pytest.mark.parametrize("known", [True, False])
def test_history_that_begins_again_is_announced_with_what_was_lost(
    world: api_worlds.World, known: bool
) -> None:
    """A stream was ahead of what the store still has; it misses nothing of the history that began."""
    before = world.store.follower.catch_up().position
    sent = model.Position(before.incarnation, before.offset + 3)
    given = world.app.extensions["topolog"]
    stream = watches._Stream(given.streams, given, {}, sent, 0.0)
    last = sent.offset if known else before.offset
    end = begin_again(world, before, last)
    begun = end.incarnation
    first, announced, *rest = stream_messages.parsed(b"".join(stream.messages()).decode())
    assert first[:2] == (str(sent), "head")
    start = f"{begun}/{before.offset + 1}"
    assert announced == (
        f"{begun}/{before.offset}",
        "incarnation",
        {"from": str(sent), "to": start},
    )
    assert body(world.client.get("/apis/v1/lag"))["began"] == before.offset + 1
    (wall,) = body(world.client.get(f"/apis/v1/moments?from={before.offset}"))["incarnations"]
    assert (wall["offset"], wall["former"]) == (before.offset + 1, before.incarnation)
    assert (wall["lostFrom"], wall["lostTo"], wall["reason"]) == (before.offset + 1, last, "a test")
    lost = [(data["from"], data["to"]) for _, kind, data in rest if kind == "gap"]
    assert lost == ([(before.offset + 1, before.offset + 3)] if known else [])
    assert [(identity, kind) for identity, kind, _ in rest if kind != "gap"] == [
        (start, "StoreRewound"),
        (str(end), "NodeSeen"),
    ]


def test_a_history_that_cannot_be_read_yet_is_announced_later_with_all_its_events(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.store.follower.catch_up().position
    given = world.app.extensions["topolog"]
    end = begin_again(world, before, before.offset)
    monkeypatch.setattr(watches, "_POLL", 0.01)
    read, failed = given.histories.entries, [store_errors.StoreAway("it is away")] * 2

    def away(*asked: object, **more: object) -> list[readers.Entry]:
        if failed:
            raise failed.pop()
        found: list[readers.Entry] = read(*asked, **more)
        return found

    monkeypatch.setattr(given.histories, "entries", away)
    stream = watches._Stream(given.streams, given, {}, before, 0.0)
    found = stream_messages.parsed(b"".join(stream.messages()).decode())
    start = f"{end.incarnation}/{before.offset + 1}"
    assert [(identity, kind) for identity, kind, _ in found if kind != "head"] == [
        (f"{end.incarnation}/{before.offset}", "incarnation"),
        (start, "StoreRewound"),
        (str(end), "NodeSeen"),
    ]
    assert failed == []


def test_a_history_whose_start_is_no_longer_kept_begins_with_a_gap(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.store.follower.catch_up().position
    given = world.app.extensions["topolog"]
    end = begin_again(world, before, before.offset)
    read = given.histories.entries

    def trimmed(since: int, *asked: object, **more: object) -> list[readers.Entry]:
        if since < end.offset:
            raise store_errors.Trimmed(end.offset)
        found: list[readers.Entry] = read(since, *asked, **more)
        return found

    monkeypatch.setattr(given.histories, "entries", trimmed)
    stream = watches._Stream(given.streams, given, {}, before, 0.0)
    found = stream_messages.parsed(b"".join(stream.messages()).decode())
    assert [(identity, kind) for identity, kind, _ in found if kind != "head"] == [
        (f"{end.incarnation}/{before.offset}", "incarnation"),
        (f"{end.incarnation}/{before.offset + 1}", "gap"),
        (str(end), "NodeSeen"),
    ]


@pytest.mark.parametrize("part", [False, True])
def test_a_history_that_is_still_being_read_is_announced_when_it_has_been_read(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch, part: bool
) -> None:
    """The snapshot is empty or of its first event then, and what began it is not known from either."""
    before = world.store.follower.catch_up().position
    (first,) = world.store.histories.entries(1, 1)
    monkeypatch.setattr(watches, "_POLL", 0.01)
    read: Any = log_cursors.LogCursor._read
    reading, proceed = threading.Event(), threading.Event()

    def slowly(cursor: log_cursors.LogCursor, *asked: object, **more: object) -> bool:
        if cursor.snapshot.position.incarnation != before.incarnation and not reading.is_set():
            if part:
                cursor._publish(projections.project(cursor.snapshot, first.event), first.at_ms)
            reading.set()
            assert proceed.wait(timeout=30)
        return bool(read(cursor, *asked, **more))

    monkeypatch.setattr(log_cursors.LogCursor, "_read", slowly)
    given = world.app.extensions["topolog"]
    end = rewound(world, before, before.offset + 1)
    assert reading.wait(timeout=30)
    assert world.store.follower.snapshot.position == model.Position(end.incarnation, int(part))
    stream = watches._Stream(given.streams, given, {}, before, 0.0).messages()
    while_read = [next(stream) for _ in range(5)]
    proceed.set()
    found = stream_messages.parsed(b"".join((*while_read, *stream)).decode())
    start = f"{end.incarnation}/{before.offset + 1}"
    assert [(identity, kind) for identity, kind, _ in found if kind != "head"] == [
        (f"{end.incarnation}/{before.offset}", "incarnation"),
        (f"{end.incarnation}/{before.offset}", "gap"),
        (start, "StoreRewound"),
        (str(end), "NodeSeen"),
    ]
    assert while_read[1:] == [b":\n\n"] * 4


@pytest.mark.parametrize("error", [store_errors.Damaged("it is damaged"), store_errors.Unreadable("newer")])
def test_a_history_whose_start_cannot_be_read_is_announced(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch, error: store_errors.StoreError
) -> None:
    """The error stays however often it is read; the client continues from the announcement."""
    found = _of_unreadable(world, monkeypatch, error)
    announced = [(identity, kind) for identity, kind, _ in found if kind != "head"]
    assert [kind for _, kind in announced] == ["incarnation"]


def test_nothing_is_announced_while_the_store_is_away(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream waits, also after the time at which one that has caught up ends."""
    found = _of_unreadable(world, monkeypatch, store_errors.StoreAway("it is away"))
    assert {kind for _, kind, _ in found} == {"head"}


def _of_unreadable(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch, error: store_errors.StoreError
) -> list[stream_messages.Message]:
    """What a stream has while every read behind the start of a new incarnation fails."""
    before = world.store.follower.catch_up().position
    given = world.app.extensions["topolog"]
    begin_again(world, before, before.offset)
    monkeypatch.setattr(watches, "_POLL", 0.01)
    monkeypatch.setattr(given.histories, "entries", mock.Mock(side_effect=error))
    stream = watches._Stream(given.streams, given, {}, before, 0.0).messages()
    pieces = list(itertools.islice(stream, 20))
    assert len(pieces) == 20
    return stream_messages.parsed(b"".join(pieces).decode())
