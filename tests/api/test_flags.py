"""Debug flags: Koordinator's sentences, one call for every process, an event for the audit."""

import threading
import time

import pytest

from app.api.introspection import times
from app.domain import events
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, assert_stamped, body, items


@pytest.mark.parametrize("method", ["put", "post"])
@pytest.mark.parametrize(
    ("letter", "body", "sentence"),
    [
        ("s", "100", "successfully set debugTopNScores to 100\n"),
        ("s", " 100\n", "successfully set debugTopNScores to 100\n"),
        ("s", "-1", "successfully set debugTopNScores to -1\n"),
        ("f", "true", "successfully set debugFilterFailure to true\n"),
        ("f", "t", "successfully set debugFilterFailure to t\n"),
        ("v", "5", "successfully set klog.logging.verbosity to 5\n"),
        ("d", "1", "successfully set debugDiagnosis to 1\n"),
    ],
)
def test_a_flag_is_set_with_koordinators_sentence(
    still: api_worlds.World, method: str, letter: str, body: str, sentence: str
) -> None:
    response = still.client.open(f"/debug/flags/{letter}", method=method.upper(), data=body)
    assert (response.status_code, response.text, response.mimetype) == (200, sentence, "text/plain")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert_stamped(response)


@pytest.mark.parametrize(
    ("letter", "body"),
    [
        ("s", ""),
        ("s", "many"),
        ("s", "1_0"),
        ("s", "٣"),
        ("s", "9" * 30),
        ("s", "9" * 19),
        ("v", str(2**31)),
        ("f", "yes"),
        ("f", "NaN"),
        ("d", "2"),
        ("d", '{"a": 1}'),
    ],
)
def test_a_bad_value_is_400_and_changes_nothing(still: api_worlds.World, letter: str, body: str) -> None:
    before = still.store.follower.catch_up().offset
    response = still.client.put(f"/debug/flags/{letter}", data=body)
    assert_problem(response, 400, "BadRequest", "cannot set")
    assert still.store.follower.catch_up().offset == before


@pytest.mark.parametrize(
    ("query", "data", "headers", "status", "code", "message"),
    [
        ("", b"\xff\xfe1", {}, 400, "BadRequest", "not UTF-8 text"),
        ("", b"1" * 1025, {}, 413, "BodyTooLarge", "the value is larger than 1024 bytes"),
        ("", b"1", {"Content-Encoding": "gzip"}, 415, "UnsupportedMediaType", "without Content-Encoding"),
        ("?ttl=soon", b"1", {}, 400, "BadRequest", "ttl"),
        ("?ttl=0s", b"1", {}, 400, "BadRequest", "ttl"),
        ("?ttl=1000h", b"1", {}, 400, "BadRequest", "at most 168h"),
        ("?pod=web-1", b"1", {}, 400, "BadRequest", "pod"),
        ("?node=n", b"1", {}, 400, "BadRequest", "node"),
    ],
)
def test_a_bad_request_is_refused(
    still: api_worlds.World,
    query: str,
    data: bytes,
    headers: dict[str, str],
    status: int,
    code: str,
    message: str,
) -> None:
    response = still.client.post(f"/debug/flags/s{query}", data=data, headers=headers)
    assert_problem(response, status, code, message)


def test_an_unknown_flag_is_404_for_every_method(still: api_worlds.World) -> None:
    for method in ("GET", "PUT", "POST"):
        assert_problem(still.client.open("/debug/flags/db", method=method, data="1"), 404, "NotFound")


def test_a_flag_reaches_other_processes_and_is_audited(
    world: api_worlds.World, process: api_worlds.Process
) -> None:
    other = api_worlds.world(process())
    world.client.put("/debug/flags/s?ttl=5m&pod=shop/web-3", data="100")
    shown = body(other.client.get("/debug/flags/s"))
    assert shown["value"] == "100"
    assert shown["pod"] == "shop/web-3"
    assert shown["until"] == "2026-07-01T10:05:00.000Z"
    (entry,) = other.store.histories.part(1, kind="FlagSet").entries
    assert isinstance(entry.event, events.FlagSet)
    assert entry.event.by == "operator@example"
    assert body(other.client.get("/apis/v1/events?type=FlagSet"))["items"][0]["object"] == "flag:s"


def test_a_follower_receives_a_flag_without_polling(
    world: api_worlds.World, process: api_worlds.Process
) -> None:
    store = process()
    assert store.follower.wait_until_caught_up(timeout=10)
    reached = threading.Event()
    store.follower.subscribe(lambda before, after, entry: reached.set())
    world.client.put("/debug/flags/f", data="true")
    assert reached.wait(10)
    assert store.follower.snapshot.flags["f"].value == "true"


def test_a_flag_ends_by_itself(world: api_worlds.World) -> None:
    world.client.put("/debug/flags/s?ttl=1m", data="7")
    assert body(world.client.get("/debug/flags/s"))["value"] == "7"
    world.now[0] += 61
    assert body(world.client.get("/debug/flags/s"))["value"] == "0"
    assert [one["value"] for one in items(world.client.get("/apis/v1/flags"))] == ["0", "false", "0", "false"]


def test_a_flag_of_the_past_has_the_value_that_was_in_force_then(world: api_worlds.World) -> None:
    """It ends without an event, so that the moment itself has to be compared."""
    world.now[0] = began = time.time()
    world.client.put("/debug/flags/s?ttl=1m", data="7")
    offset = world.store.follower.catch_up().offset
    world.append(api_worlds.node("later"))
    world.now[0] += 3600
    expected = {
        "": "0",
        f"?at={offset}": "7",
        f"?at={times.rfc3339(began + 30)}": "7",
        f"?at={times.rfc3339(began + 61)}": "0",
    }
    found = {query: items(world.client.get(f"/apis/v1/flags{query}"))[0] for query in expected}
    assert {query: one["value"] for query, one in found.items()} == expected


def test_a_flag_on_the_second_page_has_the_value_of_the_time_of_the_first(world: api_worlds.World) -> None:
    world.client.put("/debug/flags/f?ttl=1m", data="true")
    first = world.client.get("/apis/v1/flags?limit=1")
    world.append(api_worlds.node("meanwhile"))
    world.now[0] += 61
    token = body(first)["metadata"]["continue"]
    (second,) = items(world.client.get(f"/apis/v1/flags?limit=1&continue={token}"))
    assert (second["name"], second["value"]) == ("f", "true")
