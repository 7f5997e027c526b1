"""A replay of a range of which no decision is recorded names the cause instead of finding no difference."""

import dataclasses

import pytest

from app.store.decisions import decision_log
from app.verbs.questions import replays
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem
from tests.support.extender.questions import ask, live, post


@pytest.fixture
def lived(process: api_worlds.Process) -> api_worlds.World:
    """F6 with its ten decisions."""
    made = api_worlds.world(process())
    live(made)
    return made


def offset(world: api_worlds.World, identity: str) -> int:
    found = world.store.decisions.get(identity)
    assert found is not None
    return found.position.offset


def refused(world: api_worlds.World, words: tuple[str, ...], **asked: object) -> None:
    for mode in ("each", "chain"):
        assert_problem(post(world, "replay", {"mode": mode, **asked}), 404, "NotRecorded", *words)


def test_no_decision_was_made(six: api_worlds.World) -> None:
    refused(six, ("no decision from offset", "none was made in this range"))


def test_recording_is_off(six: api_worlds.World) -> None:
    given = six.app.extensions["topolog"]
    store = six.store
    off = decision_log.DecisionLog(store.client, store.keys, store.follower, kept=0)
    six.app.extensions["topolog"] = dataclasses.replace(given, decisions=off)
    refused(six, ("recording is off (store.decisions_kept: 0)",))


def test_decisions_outside_the_range_are_not_in_it(lived: api_worlds.World) -> None:
    ids = [one.id for one in lived.store.decisions.latest()][::-1]
    first = offset(lived, ids[0])
    refused(lived, ("to 2 is recorded", "none was made in this range"), to="2")
    lived.append(api_worlds.node("later"))
    head = lived.store.follower.catch_up().offset
    refused(lived, (f"from offset {head} to {head}", "none was made"), **{"from": str(head)})
    # A selection that leaves none of those that are recorded is an answer.
    assert ask(lived, "replay", namespace="elsewhere", to=str(first))["examined"] == 0


def test_an_answer_in_parts_names_removed_records_in_the_first(
    lived: api_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [one.id for one in lived.store.decisions.latest()][::-1]
    before, oldest = offset(lived, ids[3]), offset(lived, ids[4])
    lived.store.client.xtrim(lived.store.keys.decisions, minid=ids[4], approximate=False)
    monkeypatch.setattr(replays, "MOST", 4)
    note = f"decisions before offset {oldest} are no longer recorded"
    first = ask(lived, "replay", **{"from": str(before)})
    assert (first["examined"], first["complete"], note in first["limits"]) == (4, False, True)
    rest = ask(lived, "replay", **{"from": str(before), "continue": first["continue"]})
    assert (rest["examined"], rest["complete"], note in rest["limits"]) == (2, True, False)
    chain = ask(lived, "replay", mode="chain", **{"from": str(before)})
    assert (chain["complete"], note in chain["limits"]) == (False, True)


def test_removed_records_are_named(lived: api_worlds.World) -> None:
    ids = [one.id for one in lived.store.decisions.latest()][::-1]
    before, oldest = offset(lived, ids[3]), offset(lived, ids[4])
    assert before < oldest
    limits = ask(lived, "replay", **{"from": str(before)})["limits"]
    assert not any("no longer recorded" in limit for limit in limits)
    lived.store.client.xtrim(lived.store.keys.decisions, minid=ids[4], approximate=False)
    refused(lived, (f"to {before} is recorded", "the oldest that is kept is of 2026-07-01"), to=str(before))
    for mode in ("each", "chain"):
        answer = ask(lived, "replay", mode=mode, **{"from": str(before)})
        assert answer["examined"] == 6
        assert f"decisions before offset {oldest} are no longer recorded" in answer["limits"]
        later = ask(lived, "replay", mode=mode, **{"from": str(oldest)})
        assert not any("no longer recorded" in limit for limit in later["limits"])
