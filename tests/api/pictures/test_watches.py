"""The stream of events: nothing missing, nothing twice, and every interruption named."""

import dataclasses
import itertools
import time
from collections import Counter
from typing import Any

import pytest

from app.api.introspection import arrivals, services
from app.api.v1.pictures import watches
from app.domain import events, model, snapshots
from app.store import errors as store_errors
from app.store.log import readers
from app.store.state import followers
from tests.support import declared, polling
from tests.support.extender import api_worlds, stream_messages
from tests.support.extender.error_shape import assert_problem, items


def messages(world: api_worlds.World, query: str = "", last: str = "") -> list[stream_messages.Message]:
    """(id, event, data) of each message; the streams of these worlds end when they have caught up."""
    headers = {"Last-Event-ID": last} if last else {}
    with world.client.get(f"/apis/v1/watch{query}", headers=headers) as response:
        assert response.status_code == 200
        assert response.mimetype == "text/event-stream"
        return stream_messages.parsed(response.get_data(as_text=True))


def facts(found: list[stream_messages.Message]) -> list[dict[str, Any]]:
    """The data of the events among the messages."""
    return [data for _, kind, data in found if kind not in ("head", "gap", "incarnation", "end")]


def test_a_stream_has_every_event_behind_its_position_once(still: api_worlds.World) -> None:
    listed = items(still.client.get("/apis/v1/events?limit=1000"))
    assert facts(messages(still, "?from=0")) == listed
    assert facts(messages(still, "?from=5")) == listed[5:]
    found = messages(still, "?from=0")
    at = next(identity for identity, kind, data in found if data.get("offset") == 7)
    assert facts(messages(still, last=at)) == listed[7:]
    assert facts(messages(still, "?from=3", last=at)) == listed[7:]
    assert facts(messages(still)) == []


def test_a_stream_begins_with_the_head(still: api_worlds.World) -> None:
    position = str(still.store.follower.catch_up().position)
    first, *_ = messages(still)
    assert first[:2] == (position, "head")
    assert first[2]["position"] == position


@pytest.mark.timeout(60)
def test_a_stream_ends_before_its_connection_and_announces_that(process: api_worlds.Process) -> None:
    """A connection on which others were answered before has less time left than a stream may take."""
    world = api_worlds.world(process(), stream_seconds=3600.0)
    last = world.append(api_worlds.node("a"), api_worlds.node("b"))
    world.store.follower.catch_up()
    ends = {"topolog.ends": time.monotonic() + watches._MARGIN}
    with world.client.get("/apis/v1/watch?from=0&tick=50", environ_overrides=ends) as response:
        *_, summary, end = stream_messages.parsed(response.get_data(as_text=True))
    assert (summary[1], summary[2]["types"]["NodeSeen"]) == ("head", 2)
    assert (end[0].rpartition("/")[2], *end[1:]) == (str(last), "end", {})


@pytest.mark.timeout(60)
def test_a_stream_of_events_ends_before_its_connection_without_another_message(
    process: api_worlds.Process,
) -> None:
    """Clients of it may take every other message for an event."""
    world = api_worlds.world(process(), stream_seconds=3600.0)
    last = world.append(api_worlds.node("a"), api_worlds.node("b"))
    world.store.follower.catch_up()
    ends = {"topolog.ends": time.monotonic() + watches._MARGIN}
    with world.client.get("/apis/v1/watch?from=0", environ_overrides=ends) as response:
        found = stream_messages.parsed(response.get_data(as_text=True))
    assert "end" not in {kind for _, kind, _ in found}
    assert facts(found)[-1]["offset"] == last


@pytest.mark.parametrize(
    "query",
    [
        "type=NodeSeen",
        "object=pod:shop/web-1",
        "object=node:host-1",
        "object=policy:shop/spread",
        "object=policies:shop",
        "object=workloadpolicies:shop/spread",
        "namespace=shop",
    ],
)
def test_a_filtered_stream_equals_the_filtered_list(still: api_worlds.World, query: str) -> None:
    found = facts(messages(still, f"?from=0&{query}"))
    listed = items(still.client.get("/apis/v1/events?limit=1000"))
    if query.startswith("namespace"):
        expected = [one for one in listed if one["name"].startswith("shop/")]
    else:
        expected = items(still.client.get(f"/apis/v1/events?limit=1000&{query}"))
    assert found == expected != []


def test_a_tick_sends_one_summary_instead_of_events(world: api_worlds.World) -> None:
    start = world.store.follower.catch_up().position
    world.append(api_worlds.node("a"), api_worlds.node("b"), api_worlds.pod_seen("late"))
    last = str(world.store.follower.catch_up().position)
    *found, _ = messages(world, f"?from={start.offset}&tick=50")
    assert {kind for _, kind, _ in found} == {"head"}
    assert found[-1][2]["position"] == last
    summed: dict[str, int] = {}
    for _, _, data in found:
        for kind, number in data["types"].items():
            summed[kind] = summed.get(kind, 0) + number
    assert summed == {"NodeSeen": 2, "PodSeen": 1}
    assert [name for _, _, data in found for name in data["objects"]] == [
        "node:a",
        "node:b",
        "pod:uid-late",
    ]


@pytest.mark.parametrize(
    ("wanted", "types", "objects"),
    [
        ("type=NodeSeen", {"NodeSeen": 2}, ["node:a", "node:b"]),
        ("object=node:b", {"NodeSeen": 1}, ["node:b"]),
        ("namespace=shop", {"PodSeen": 1}, ["pod:uid-late"]),
        ("namespace=none", {}, []),
    ],
)
def test_a_summary_has_the_wanted_events_only(
    world: api_worlds.World, wanted: str, types: dict[str, int], objects: list[str]
) -> None:
    start = world.store.follower.catch_up().position
    world.append(api_worlds.node("a"), api_worlds.node("b"), api_worlds.pod_seen("late"))
    last = str(world.store.follower.catch_up().position)
    *found, _ = messages(world, f"?from={start.offset}&tick=50&{wanted}")
    assert {kind for _, kind, _ in found} == {"head"}
    assert [data["types"] for _, _, data in found if data["types"]] == ([types] if types else [])
    assert [name for _, _, data in found for name in data["objects"]] == objects
    assert not types or found[-1][2]["position"] == last


def test_while_the_log_is_not_read_the_head_is_sent_with_its_age(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lag = [0.2]
    monkeypatch.setattr(followers.Follower, "lag_seconds", property(lambda _: lag[0]))
    monkeypatch.setattr(watches, "_POLL", 0.01)
    given: services.Services = world.app.extensions["topolog"]
    start = world.store.follower.catch_up().position
    stream = watches._Stream(given.streams, given, {"tick": 50}, start, 60.0).messages()

    def ages(number: int) -> list[float]:
        """Of the heads among so many pieces."""
        text = b"".join(next(stream) for _ in range(number)).decode()
        return [data["age"] for _, kind, data in stream_messages.parsed(text) if kind == "head"]

    assert ages(6) == [0.2]
    lag[0] = 6.5
    assert set(found := ages(6)) == {6.5}
    assert len(found) > 1
    lag[0] = 0.1
    assert ages(6) == [0.1]


def test_a_summary_has_what_arrived_while_it_was_due(world: api_worlds.World) -> None:
    given: services.Services = world.app.extensions["topolog"]
    start = world.store.follower.catch_up().position
    given.streams.enter("operator@example")
    stream = watches._Stream(given.streams, given, {"tick": 50}, start, 60.0).messages()
    assert b"event: head" in next(stream)
    world.append(api_worlds.node("a"))
    world.store.follower.catch_up()
    assert next(stream) == b""
    world.append(api_worlds.node("b"))
    last = world.store.follower.catch_up().position
    assert next(stream).startswith(b"id: %b\nevent: head\n" % str(last).encode())
    given.streams.leave("operator@example")


def test_a_stream_pauses_between_unwanted_events_for_its_sender(
    past: api_worlds.World, head: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "_READ", 50)
    given: services.Services = past.app.extensions["topolog"]
    start = model.Position(past.store.follower.snapshot.position.incarnation, 0)
    stream = watches._Stream(given.streams, given, {"type": "FlagSet"}, start, 0.0)
    pauses = [piece for piece in stream.messages() if piece == b""]
    assert len(pauses) >= head // 50


class Unreadable:
    """Arrivals of a store that went away behind the position of a stream."""

    def __init__(self, error: store_errors.StoreError) -> None:
        self._error = error

    def wait(self, *_: object) -> snapshots.Snapshot:
        return dataclasses.replace(snapshots.empty(schema=declared.SCHEMA), position=model.Position("a", 9))

    def after(self, *_: object) -> list[readers.Entry]:
        raise self._error


@pytest.mark.parametrize("error", [store_errors.StoreAway("it is away"), store_errors.Trimmed(3)])
def test_a_stream_waits_while_nothing_can_be_read(
    still: api_worlds.World, monkeypatch: pytest.MonkeyPatch, error: store_errors.StoreError
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    unreadable: Any = Unreadable(error)
    given: services.Services = still.app.extensions["topolog"]
    stream = watches._Stream(unreadable, given, {}, model.Position("a", 5), 60.0).messages()
    assert list(itertools.islice(stream, 4))[1:] == [b":\n\n"] * 3
    assert slept == [1.0] * 3


def test_a_stretch_that_was_not_watched_is_a_gap(world: api_worlds.World) -> None:
    start = world.store.follower.catch_up().offset
    world.append(events.Relisted("pods", since="5", until="9", reason="the watch was too old"))
    world.store.follower.catch_up()
    gaps = [data for _, kind, data in messages(world, f"?from={start}") if kind == "gap"]
    assert [(gap["from"], gap["to"]) for gap in gaps] == [(start, start + 1)]
    assert "too old" in gaps[0]["reason"]


@pytest.mark.parametrize("query", ["", "&type=Relisted", "&type=NodeSeen", "&tick=50"])
def test_a_client_that_continues_from_any_message_misses_nothing(world: api_worlds.World, query: str) -> None:
    """The connection may end between a gap and the event that shows it."""
    start = world.store.follower.catch_up().offset
    world.append(
        api_worlds.node("a"),
        events.Relisted("pods", since="5", until="9", reason="the watch was too old"),
        api_worlds.node("b"),
    )
    world.store.follower.catch_up()

    def sent(found: list[stream_messages.Message]) -> Counter[str]:
        """Type -> number of events, as such or in summaries."""
        summed = Counter[str](data["type"] for data in facts(found))
        for _, kind, data in found:
            summed.update(data["types"] if kind == "head" else {})
        return summed

    whole = messages(world, f"?from={start}{query}")
    assert "gap" in [kind for _, kind, _ in whole]
    for at, (identity, _, _) in enumerate(whole):
        rest = messages(world, f"?{query.lstrip('&')}", last=identity)
        assert sent(whole[: at + 1]) + sent(rest) == sent(whole), whole[at]


@pytest.mark.scenario("UI-7")
def test_events_that_were_trimmed_before_this_process_read_them_are_a_gap(
    process: api_worlds.Process,
) -> None:
    """It continues from a checkpoint; what it holds from before and what it reads then are not one run."""
    here, other = api_worlds.filled(process()), api_worlds.world(process())
    given, follower = here.app.extensions["topolog"], here.store.follower
    arrived: list[int] = []
    given.streams.enter("operator@example")
    follower.subscribe(lambda before, after, entry: arrived.append(entry.offset))
    last = here.append(api_worlds.node("read"))
    polling.eventually(lambda: arrived == [last], "the event before the jump")
    follower.stop()
    oldest = other.append(*(api_worlds.node(f"missed-{at}") for at in range(7)))
    compacted = other.store.follower.catch_up()
    other.store.checkpoints.write(compacted, other.store.histories.appended_ms(oldest) or 0)
    other.store.client.delete(other.store.keys.readers)
    other.store.log.trim(oldest, oldest, reader_timeout=60)
    follower.start()
    polling.eventually(lambda: follower.jumps == 1, "the jump")
    head = other.append(api_worlds.node("later"))
    polling.eventually(lambda: arrived == [last, head], "the event after the jump")
    start = model.Position(follower.snapshot.position.incarnation, last)
    stream = watches._Stream(given.streams, given, {}, start, 0.0)
    found = stream_messages.parsed(b"".join(stream.messages()).decode())
    gaps = [(data["from"], data["to"]) for _, kind, data in found if kind == "gap"]
    assert gaps == [(last + 1, oldest - 1)]
    assert [data["offset"] for data in facts(found)] == [oldest, head]
    given.streams.leave("operator@example")


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("from=99999", 400, "BadRequest"),
        ("from=yesterday", 400, "BadRequest"),
        ("tick=1", 400, "BadRequest"),
        ("type=Nonsense", 400, "BadRequest"),
        ("from=other/3", 410, "PositionGone"),
    ],
)
def test_a_position_that_cannot_be_resumed_is_named(
    still: api_worlds.World, query: str, status: int, code: str
) -> None:
    assert_problem(still.client.get(f"/apis/v1/watch?{query}"), status, code)


def test_places_are_bounded_and_released(still: api_worlds.World) -> None:
    held = still.app.extensions["topolog"].streams
    for _ in range(arrivals.EACH):
        held.enter("operator@example")
    try:
        assert_problem(still.client.get("/apis/v1/watch"), 429, "TooManyRequests")
    finally:
        for _ in range(arrivals.EACH):
            held.leave("operator@example")
    for _ in range(2 * arrivals.EACH):
        assert messages(still)
