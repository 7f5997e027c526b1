"""?at=: the cluster as it was, by offset, by position, by time."""

import time

import pytest

from app.api.introspection import moments, times
from app.store import errors
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body, items


def test_an_offset_shows_the_cluster_of_then(world: api_worlds.World) -> None:
    before = world.store.follower.catch_up().offset
    world.append(api_worlds.node("new"))
    assert world.client.get("/apis/v1/nodes/new").status_code == 200
    then = world.client.get(f"/apis/v1/nodes/new?at={before}")
    assert then.status_code == 404
    response = world.client.get(f"/apis/v1/nodes?at={before}")
    assert response.headers["X-Topolog-Position"].endswith(f"/{before}")
    assert len(items(response)) == 6


def test_the_position_header_of_a_reply_is_a_valid_moment(world: api_worlds.World) -> None:
    first = world.client.get("/apis/v1/pending")
    world.append(api_worlds.pod_seen("web-9"))
    again = world.client.get("/apis/v1/pending", query_string={"at": first.headers["X-Topolog-Position"]})
    assert [one["name"] for one in items(again)] == [one["name"] for one in items(first)] == ["web-3"]
    assert len(items(world.client.get("/apis/v1/pending"))) == 2


def test_a_time_shows_what_had_happened_by_then(world: api_worlds.World) -> None:
    (last,) = world.store.log.read(world.store.follower.catch_up().offset - 1)
    world.now[0] = last.at_ms / 1000 + 3600
    at = times.rfc3339(last.at_ms / 1000)
    shown = world.client.get("/apis/v1/nodes", query_string={"at": at})
    assert len(items(shown)) == 6
    early = world.client.get("/apis/v1/nodes", query_string={"at": "2020-01-01T00:00:00+01:00"})
    assert items(early) == []
    gone = world.client.get("/apis/v1/nodes/host-1", query_string={"at": "2020-01-01T00:00:00+01:00"})
    assert gone.status_code == 404
    assert body(gone)["message"].endswith("/0, before the first event of the log")
    position = shown.headers["X-Topolog-Position"]
    none = world.client.get("/apis/v1/nodes/none", query_string={"at": at})
    assert body(none)["message"] == f"cannot find node none at {position}"
    assert body(world.client.get("/apis/v1/nodes/none"))["message"] == "cannot find node none"


def test_a_time_after_that_of_the_process_is_past_where_the_store_is_ahead(world: api_worlds.World) -> None:
    offset = world.store.follower.catch_up().offset
    (last,) = world.store.log.read(offset - 1)
    time.sleep(0.01)  # The next event has a later time.
    world.append(api_worlds.node("new"))
    world.now[0] = last.at_ms / 1000 - 3600

    def names(seconds: float) -> set[str]:
        at = times.rfc3339(last.at_ms / 1000 + seconds)
        return {one["name"] for one in items(world.client.get(f"/apis/v1/nodes?at={at}"))}

    assert "host-1" in names(0)
    assert "new" not in names(0)
    assert "new" in names(30)
    refused = world.client.get(f"/apis/v1/nodes?at={times.rfc3339(last.at_ms / 1000 + 120)}")
    assert refused.status_code == 400
    assert "is in the future; it is 20" in body(refused)["message"]


def test_the_age_of_the_past_counts_from_its_last_event(world: api_worlds.World) -> None:
    offset = world.store.follower.catch_up().offset
    (last,) = world.store.log.read(offset - 1)
    world.append(api_worlds.node("new"))
    world.now[0] = last.at_ms / 1000 + 90
    response = world.client.get(f"/apis/v1/nodes?at={offset}")
    assert float(response.headers["X-Topolog-Age"]) == pytest.approx(90, abs=0.01)
    assert body(response)["metadata"]["asOf"] == times.rfc3339(last.at_ms / 1000)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("0", moments.At(offset=0)),
        ("i/7", moments.At(offset=7, incarnation="i")),
        ("1970-01-01T00:00:01Z", moments.At(time_ms=1000)),
        ("1970-01-01t01:00:00.25+01:00", moments.At(time_ms=250)),
        ("1970-01-01T01:00:00 01:00", moments.At(time_ms=0)),
    ],
)
def test_moments_are_read_as_people_write_them(text: str, at: moments.At) -> None:
    assert moments.parse(text) == at


@pytest.mark.parametrize(
    "text", ["", "/", "1/", "-1", "1.5", "now", "2026-07-01", "2026-02-30T00:00:00Z", "٣"]
)
def test_an_invalid_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        moments.parse(text)


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-01:00", "0001-01-01T00:59:59+01:00"])
def test_a_time_whose_year_is_none_in_utc_is_refused_with_the_accepted_form(
    still: api_worlds.World, text: str
) -> None:
    """What is not a number of milliseconds since 1970 is no error of the server."""
    words = "an RFC 3339 time with its zone, such as 2026-07-01T12:00:00Z"
    for path in ("nodes?at", "events?from", "decisions?since", "decisions/facets?pickedSince"):
        name, _, parameter = path.partition("?")
        response = still.client.get(f"/apis/v1/{name}", query_string={parameter: text})
        assert_problem(response, 400, "BadRequest", words, repr(text))
    refused = still.client.put("/apis/v1/shadows/strict", json={"until": text})
    assert_problem(refused, 400, "BadRequest", "until")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("1h30m", 5400), ("1h1m1s", 3661)])
def test_durations(text: str, seconds: int) -> None:
    assert times.seconds(text) == seconds


def test_a_past_moment_that_waits_for_others_is_answered_429(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(offset: int, fold: object, attended: object) -> object:
        raise errors.Busy(5.0)

    monkeypatch.setattr(world.store.histories._folds, "at", busy)
    monkeypatch.setattr(world.store.follower, "nearest", lambda offset: None)
    response = world.client.get("/apis/v1/nodes?at=3")
    assert_problem(response, 429, "TooManyRequests", "other positions of the past are being read")
    assert response.headers["Retry-After"] == "1"
