"""The decisions since a moment: none is missed because records are late, and reading ends."""

import time
from collections.abc import Iterable
from unittest import mock

import msgspec
import pytest

from app.api.introspection import times
from app.api.v1 import decisions
from app.store import errors
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, body, items


def decided(world: api_worlds.World, *seconds: float) -> None:
    """Filter a pod at each of these times of the wall clock, and record them in this order."""
    for at, when in enumerate(seconds):
        api_worlds.decide(world, api_worlds.pod(f"late-{at}"), at=times.rfc3339(when), offered=["host-1"])


def filtered(world: api_worlds.World, since: object) -> list[str]:
    """The pods that were filtered since then, newest record first, as the list and the facets have them."""
    query = f"verb=filter&since={since}"
    found = items(world.client.get(f"/apis/v1/decisions?{query}"))
    counted = body(world.client.get(f"/apis/v1/decisions/facets?{query}"))
    assert (counted["examined"], counted["complete"]) == (len(found), True)
    return [one["pod"]["name"] for one in found]


def names(numbers: Iterable[int]) -> list[str]:
    return [f"late-{at}" for at in numbers]


def test_a_late_record_hides_none_behind_it(world: api_worlds.World) -> None:
    """Several extenders append: the record of an earlier decision may be behind that of a later one."""
    now = world.now[0]
    decided(world, now - 2.0, now - 0.010, now - 0.060, now - 0.005, now - 0.070)
    assert filtered(world, times.rfc3339(now - 0.020)) == names((3, 1))


def test_an_offset_selects_by_the_position_of_a_decision(world: api_worlds.World) -> None:
    """A record of a decision at an earlier offset may be the last one."""
    former = world.store.follower.catch_up()
    since = world.append(api_worlds.policy(host=9))
    decided(world, world.now[0])
    late = world.store.decisions.latest(limit=2)[1]
    earlier = msgspec.structs.replace(late, position=former.position)
    world.store.decisions._send([earlier.encoded()[0]])
    assert filtered(world, since) == names((0,))
    assert filtered(world, f"{world.store.log.incarnation}/{since}") == names((0,))
    assert filtered(world, since - 1) == names((0, 0))
    assert filtered(world, since + 50) == []


@pytest.mark.parametrize("error", [errors.ArchiveAway("it is away"), errors.Damaged("it is damaged")])
def test_an_offset_whose_time_cannot_be_read_selects_all_the_same(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch, error: errors.StoreError
) -> None:
    """Its time only saves reading: the log may be trimmed there, and the archive away."""
    since = world.append(api_worlds.policy(host=9))
    decided(world, world.now[0])
    monkeypatch.setattr(world.store.histories, "appended_ms", mock.Mock(side_effect=error))
    assert filtered(world, since) == names((0,))
    assert filtered(world, since + 50) == []


def test_decisions_of_a_former_incarnation_are_earlier(world: api_worlds.World) -> None:
    """Their offsets are those of other events."""
    world.append(*(api_worlds.node(f"lost-{at}") for at in range(5)))
    decided(world, world.now[0])
    former = world.begin_again()
    assert filtered(world, former.offset) == []
    found = items(world.client.get(f"/apis/v1/decisions?until={former.offset}&verb=filter"))
    assert [one["pod"]["name"] for one in found] == names((0,))
    for name in ("since", "until"):
        response = world.client.get(f"/apis/v1/decisions?{name}={former}")
        assert_problem(response, 410, "PositionGone")


@pytest.mark.parametrize("by", ["time", "offset"])
def test_reading_ends_with_records_that_are_too_old_to_be_late(
    world: api_worlds.World, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    decided(world, *(world.now[0] - at for at in range(5, 0, -1)))
    monkeypatch.setattr(decisions, "_AHEAD_MS", -1)
    monkeypatch.setattr(decisions, "_CHUNK", 1)
    search = mock.Mock(wraps=world.store.decisions.search)
    monkeypatch.setattr(world.store.decisions, "search", search)
    world.now[0] = time.time()
    since = times.rfc3339(world.now[0] + 30) if by == "time" else world.append(api_worlds.policy(host=9))
    assert items(world.client.get(f"/apis/v1/decisions?since={since}")) == []
    assert search.call_count == 1
