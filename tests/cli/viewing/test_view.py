"""A real process of ``topolog view``, and the commands that ask it."""

import io
import json
import os
import pathlib
import urllib.request

import pytest

from app.store.bundles import reading
from tests.support import commands
from tests.support.browser.seen_worlds import Seen, ask


def test_it_answers_as_the_api_of_an_extender_does(seen: Seen) -> None:
    for path in ("/apis/v1/nodes?at=9", "/apis/v1/map?at=9", "/apis/v1/diff?from=3"):
        assert ask(seen, path)[1] == seen.world.client.get(path).json


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/filter"), ("POST", "/bind"), ("PUT", "/debug/flags/s")]
)
def test_it_decides_and_changes_nothing(seen: Seen, method: str, path: str) -> None:
    before = seen.world.store.follower.catch_up().position
    status, found = ask(seen, path, method, b"{}")
    assert status in (404, 415)
    assert set(found) == {"message", "reasonCode"}
    assert seen.world.store.follower.catch_up().position == before


def test_its_priority_is_lower_than_that_of_a_process_of_a_user(seen: Seen) -> None:
    assert seen.viewer.process is not None
    children = pathlib.Path(f"/proc/{seen.viewer.process.pid}/task/{seen.viewer.process.pid}/children")
    (worker,) = children.read_text().split()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, int(worker)) == min(19, own + 10)


def test_a_bundle_is_sent_while_it_is_made(seen: Seen) -> None:
    with urllib.request.urlopen(f"{seen.viewer.url}/apis/v1/export?from=3", timeout=20) as reply:
        assert (reply.headers["Content-Type"], reply.headers["Content-Length"]) == ("application/x-tar", None)
        found = reading.read(io.BytesIO(reply.read()))
    assert (found.about.first, found.about.last) == (3, seen.world.store.follower.catch_up().offset)
    assert found.about.by == "anonymous"


def test_watch_prints_the_events_behind_a_position(seen: Seen) -> None:
    listed = ask(seen, "/apis/v1/events?limit=1000")[1]["items"]
    done = commands.called("watch", "--from", "3", "--count", "5", "-o", "json", "--server", seen.viewer.url)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == listed[3:8]
    table = commands.called(
        "watch", "--from", "0", "--type", "NodeSeen", "--count", "2", "--server", seen.viewer.url
    )
    assert [line.split()[2:] for line in table.stdout.splitlines()] == [
        ["NodeSeen", "member-1"],
        ["NodeSeen", "member-2"],
    ]


def test_watch_names_a_position_that_cannot_be_resumed(seen: Seen) -> None:
    done = commands.called("watch", "--from", "99999", "--server", seen.viewer.url)
    assert done.returncode == 2
    assert "beyond the head of the log" in done.stderr


def test_get_raw_prints_what_the_api_answers(seen: Seen) -> None:
    done = commands.called("get", "--raw", "/apis/v1/map?at=9&color=pods", "--server", seen.viewer.url)
    assert json.loads(done.stdout) == ask(seen, "/apis/v1/map?at=9&color=pods")[1]
    wrong = commands.called("get", "--raw", "apis/v1/map", "--server", seen.viewer.url)
    assert (wrong.returncode, "does not begin with a slash" in wrong.stderr) == (2, True)
    both = commands.called("get", "nodes", "--raw", "/apis/v1/map", "--server", seen.viewer.url)
    assert both.returncode == 2
    neither = commands.called("get", "--server", seen.viewer.url)
    assert (neither.returncode, "--raw" in neither.stderr) == (2, True)
