"""Questions are counted by kind and outcome, and answered ones are timed."""

import dataclasses

import pytest
from prometheus_client import registry

from app.api.introspection import heavy
from app.telemetry import questions
from tests.support.extender import api_worlds
from tests.support.extender.questions import post

SHOWN = registry.CollectorRegistry()
SHOWN.register(questions.ASKED)
SHOWN.register(questions.SECONDS)


def counted(kind: str, outcome: str) -> float:
    """How many questions of the kind had that outcome."""
    return SHOWN.get_sample_value("topolog_questions_total", {"kind": kind, "outcome": outcome}) or 0


def timed(kind: str) -> float:
    """How many questions of the kind were timed."""
    return SHOWN.get_sample_value("topolog_question_duration_seconds_count", {"kind": kind}) or 0


@pytest.mark.parametrize(
    ("kind", "asked", "outcome"),
    [
        ("simulate", {"pod": "shop/a-5"}, "answered"),
        ("simulate", {"pending": {}}, "answered"),
        ("fit", {"pod": "shop/none"}, "refused"),
        ("replay", {"mode": "never"}, "refused"),
        ("diff", {}, "answered"),
        ("bisect", {"waiting": {"atLeast": 1}}, "answered"),
    ],
)
def test_a_question_is_counted_once_by_its_outcome(
    six: api_worlds.World, kind: str, asked: dict[str, object], outcome: str
) -> None:
    others = [one for one in ("answered", "refused", "busy", "failed") if one != outcome]
    before, of_others = counted(kind, outcome), [counted(kind, one) for one in others]
    answered = timed(kind)
    post(six, kind, asked)
    assert counted(kind, outcome) == before + 1
    assert [counted(kind, one) for one in others] == of_others
    assert timed(kind) == answered + (outcome == "answered")


def test_a_question_that_finds_others_at_work_is_busy(six: api_worlds.World) -> None:
    turns, before = heavy.OneAtATime(patience=0.01), counted("replay", "busy")
    six.app.extensions["topolog"] = dataclasses.replace(six.app.extensions["topolog"], turns=turns)
    with turns.admitted():
        assert post(six, "replay", {}).status_code == 429
    assert counted("replay", "busy") == before + 1


def test_a_question_whose_client_has_hung_up_is_abandoned(six: api_worlds.World) -> None:
    before = counted("fit", "abandoned")
    asked = six.client.post(
        "/apis/v1/fit", json={"pod": "shop/a-5"}, environ_overrides={"topolog.hung_up": lambda: True}
    )
    assert asked.status_code == 499
    assert counted("fit", "abandoned") == before + 1
