"""SIGINT to a process of a long question: it ends with 130 and one line; a replay shows what there is."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from unittest import mock

import flask
import pytest

from app import exit_codes
from app.api.v1.questions import bodies
from tests.support import commands
from tests.support.extender import api_worlds, http_servers


class Held:
    """An API with no time for an answer, which holds the requests from one of them on."""

    def __init__(self, world: api_worlds.World) -> None:
        self.asked: list[dict[str, object]] = []
        self.held = threading.Event()
        self.released = threading.Event()
        self.answered = 1
        """Requests that are answered."""
        world.app.before_request(self._hold)

    def _hold(self) -> None:
        self.asked.append(flask.request.get_json())
        if len(self.asked) > self.answered:
            self.held.set()
            assert self.released.wait(60)


@pytest.fixture
def api(six: api_worlds.World) -> Iterator[tuple[Held, str]]:
    api_worlds.decide(six, api_worlds.pod("a-5"), api_worlds.pod("a-6"))
    held = Held(six)
    with (
        mock.patch.object(bodies.Budget, "running", return_value=False),
        http_servers.serving_http(six.app) as url,
    ):
        try:
            yield held, url
        finally:
            held.released.set()


def interrupted(api: tuple[Held, str], *arguments: str) -> tuple[int, str, str]:
    """The exit code, and what a process wrote that was interrupted while the API held its request."""
    held, url = api
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", *arguments, "--server", url],
        env=commands.environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert held.held.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait(30)
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.mark.parametrize("words", ["simulate --pending", "fit shop/a-5", "bisect shop/a-5", "replay"])
def test_before_any_answer_what_was_interrupted_is_named(api: tuple[Held, str], words: str) -> None:
    api[0].answered = 0
    code, out, err = interrupted(api, *words.split(), "--budget", "7")
    name = words.split()[0]
    assert (code, out) == (exit_codes.INTERRUPTED, "")
    assert err.strip() == f"interrupted: {name} has not answered (--budget limits its time)"
    assert [one["budget"] for one in api[0].asked] == [7]


@pytest.mark.parametrize("words", ["simulate --pending", "fit shop/a-5", "bisect shop/a-5"])
def test_a_question_that_is_not_answered_within_its_budget_is_asked_once(
    api: tuple[Held, str], words: str
) -> None:
    held, url = api
    shown = commands.called(*words.split(), "--budget", "7", "--server", url, "-o", "yaml")
    assert "complete: false" in shown.stdout.splitlines()
    assert [one["budget"] for one in held.asked] == [7]


def test_what_there_is_of_a_replay_is_shown(api: tuple[Held, str]) -> None:
    code, out, err = interrupted(api, "replay", "--budget", "7")
    assert code == exit_codes.INTERRUPTED
    assert out.startswith("1 decisions compared, 1 would have been the same")
    assert "interrupted: the answer is incomplete" in err
    assert "has not answered" not in err
    assert [one["budget"] for one in api[0].asked] == [7, 7]


def test_a_document_of_an_interrupted_replay_is_marked_incomplete(api: tuple[Held, str]) -> None:
    code, out, _ = interrupted(api, "replay", "-o", "yaml")
    assert code == exit_codes.INTERRUPTED
    assert "complete: false" in out.splitlines()
