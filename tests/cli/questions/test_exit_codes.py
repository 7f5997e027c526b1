"""The exit code of an answer: 0 fits, nothing differs, is there; 1 does not fit, differs, is not there."""

import pytest

from app import exit_codes
from tests.support.extender import api_worlds, questions

SCALE = "--scale shop/spread host=+2"
ANSWERS = {
    f"simulate shop/a-5 {SCALE}": exit_codes.OK,
    "simulate shop/a-5": exit_codes.NEGATIVE,
    f"simulate --pending {SCALE}": exit_codes.OK,
    "simulate --pending": exit_codes.NEGATIVE,
    "simulate shop/none": exit_codes.NEGATIVE,
    f"fit shop/a-5 {SCALE}": exit_codes.OK,
    "fit shop/a-5": exit_codes.NEGATIVE,
    "diff 5 5": exit_codes.OK,
    "diff 5 9": exit_codes.NEGATIVE,
    "replay": exit_codes.OK,
    f"replay {SCALE}": exit_codes.NEGATIVE,
    f"replay {SCALE} --fail-on refused": exit_codes.OK,
    "bisect shop/a-5": exit_codes.OK,
    "bisect --exists node:none": exit_codes.OK,
    "bisect shop/none": exit_codes.NEGATIVE,
    "explain shop/a-5": exit_codes.OK,
    "explain a-5 -n shop": exit_codes.OK,
    "explain none -n shop": exit_codes.NEGATIVE,
    "get nodes host-1": exit_codes.OK,
    "get nodes none": exit_codes.NEGATIVE,
    "get nodes -l role=none": exit_codes.OK,
    "shadow show none": exit_codes.NEGATIVE,
    "shadow delete none": exit_codes.NEGATIVE,
    "explain a-5": exit_codes.USAGE,
    "simulate": exit_codes.USAGE,
    "simulate --pending --cordon none": exit_codes.USAGE,
    "diff 5 99999": exit_codes.USAGE,
    "replay --fail-on nothing": exit_codes.USAGE,
    "bisect": exit_codes.USAGE,
    "watch --type Nothing": exit_codes.USAGE,
}


@pytest.fixture
def decided(six: api_worlds.World) -> None:
    """The two that wait were decided about."""
    api_worlds.decide(six, api_worlds.pod("a-5"), api_worlds.pod("a-6"))


@pytest.mark.usefixtures("decided")
def test_each_answer_has_its_code(run: questions.Run) -> None:
    found = {words: run(*words.split()) for words in ANSWERS}
    assert {words: done.returncode for words, done in found.items()} == ANSWERS
    for done in found.values():
        assert "Traceback" not in done.stderr
