"""The same question at a resolved position has the same answer, whatever has happened since."""

import re

import pytest

from tests.support.extender import api_worlds
from tests.support.extender.questions import live, post

SCALED = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+1"}}]
_SPENT = re.compile(rb'"spentMs": ?[0-9]+')


@pytest.fixture
def lived(process: api_worlds.Process) -> api_worlds.World:
    """F6 with its ten decisions."""
    made = api_worlds.world(process())
    live(made)
    return made


def questions(at: str) -> list[tuple[str, dict[str, object]]]:
    situation = {"at": at, "overrides": SCALED}
    return [
        ("simulate", {"pod": "shop/a-5", "situation": situation}),
        ("simulate", {"pod": "shop/a-5", "situation": situation, "candidates": "roomy"}),
        ("simulate", {"pending": {}, "situation": situation}),
        ("fit", {"pod": "shop/a-5", "situation": {"at": at}, "candidates": "roomy"}),
        ("diff", {"from": {"at": "0"}, "to": situation}),
        ("replay", {"to": at, "overrides": SCALED}),
        ("replay", {"to": at, "overrides": SCALED, "mode": "chain"}),
        ("bisect", {"fits": "shop/a-5", "to": at}),
    ]


def test_the_same_question_at_a_resolved_position_has_the_same_bytes(lived: api_worlds.World) -> None:
    at = str(lived.store.follower.catch_up().position)
    before = [post(lived, question, asked) for question, asked in questions(at)]
    lived.append(api_worlds.policy(host=9, member=9), api_worlds.pod_seen("a-7"), api_worlds.node("new"))
    lived.now[0] += 1000
    lived.store.histories._cache.clear()
    again = api_worlds.world(lived.store)
    for (question, asked), first in zip(questions(at), before, strict=True):
        second = post(again, question, asked)
        assert first.status_code == 200, first.text
        assert _SPENT.sub(b"", first.data) == _SPENT.sub(b"", second.data), question
