"""``topolog get`` shows all of a list, or states on standard error what is missing."""

import functools
import json
import types
from collections.abc import Callable, Iterator

import pytest
from click import testing

from app import cli
from app.cli.client import streams
from app.cli.get import get, list_watch, lists
from tests.support import commands
from tests.support.browser.seen_worlds import Seen
from tests.support.extender import api_worlds

NODES = ["host-1", "host-2", "host-3", "host-4", "member-1", "member-2"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table has two rows, and a request three items."""
    monkeypatch.setattr(get, "_SHOWN", 2)
    monkeypatch.setattr(lists, "_PAGE", 3)
    monkeypatch.setattr(streams, "TICK", 60.0)  # No read takes as long.


def asked(seen: Seen, *arguments: str) -> testing.Result:
    runner = testing.CliRunner()
    done = runner.invoke(
        cli.topolog, ["get", *arguments, "--server", seen.viewer.url], env=commands.environment({})
    )
    assert done.exit_code == 0, done.stderr
    return done


def changing(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> None:
    """The log moves once for each change, after the first read, and then the stream ends."""

    def positions(_: object) -> Iterator[str]:
        yield "0"
        for number, change in enumerate(changes, 1):
            change()
            yield str(number)

    monkeypatch.setattr(streams, "positions", positions)


def test_a_watch_shows_changes_of_all_items(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    last = api_worlds.node("zz-1", role="host")
    changing(monkeypatch, lambda: seen.world.append(last))
    done = asked(seen, "nodes", "-w", "-o", "jsonpath=$.name")
    assert done.stdout.split() == [*NODES, "zz-1"]
    assert done.stderr == ""


def test_a_long_list_is_not_read_for_positions_that_arrived_meanwhile(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asked(seen, "nodes", "-o", "jsonpath=$.items[*].name").stdout.split()
    clock = iter(range(0, 1000, 150))  # Each read takes 150 s, and then 150 s pass.
    monkeypatch.setattr(list_watch, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    added = [
        functools.partial(seen.world.append, api_worlds.node(f"zzz-{at}", role="host")) for at in range(5)
    ]
    changing(monkeypatch, *added)
    done = asked(seen, "nodes", "-w", "-o", "jsonpath=$.name")
    assert done.stdout.split() == [*before, "zzz-0", "zzz-1", "zzz-2"]


def test_a_watch_with_a_limit_states_how_many_it_watches(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    changing(monkeypatch, lambda: None, lambda: None)
    total = len(asked(seen, "nodes", "--limit", "99").stdout.splitlines()) - 1
    done = asked(seen, "nodes", "-w", "--limit", "4", "-o", "jsonpath=$.name")
    assert done.stdout.split() == NODES[:4]
    assert done.stderr == f"only the first 4 of {total} nodes are watched (--limit)\n"


def test_a_watch_of_decisions_begins_with_the_newest(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        api_worlds.decide(seen.world, api_worlds.pod("web-3"))
    changing(monkeypatch)
    done = asked(seen, "decisions", "-w", "-o", "jsonpath=$.id")
    assert (len(done.stdout.split()), done.stderr) == (2, "")


# -- formats for programs ------------------------------------------------------------------------


def test_a_table_has_the_first_items_and_the_number_of_the_others(seen: Seen) -> None:
    done = asked(seen, "nodes")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["NAME", *NODES[:2]]
    total = len(asked(seen, "nodes", "--limit", "99").stdout.splitlines()) - 1
    assert done.stderr == f"... and {total - 2} more (--limit)\n"


@pytest.mark.parametrize(
    "output", ["name", "json", "yaml", "jsonpath=$.items[*].name", "custom-columns=N:.name"]
)
@pytest.mark.parametrize("condition", ["", "-l role"])
def test_what_programs_read_is_complete(seen: Seen, output: str, condition: str) -> None:
    done = asked(seen, "nodes", *condition.split(), "-o", output)
    assert all(name in done.stdout for name in NODES)
    assert done.stderr == ""
    if output == "json":
        assert json.loads(done.stdout)["metadata"]["remaining"] == 0


@pytest.mark.parametrize(
    "output", ["name", "json", "yaml", "jsonpath=$.items[*].name", "custom-columns=N:.name"]
)
def test_what_a_limit_leaves_out_is_noted_in_each_format(seen: Seen, output: str) -> None:
    done = asked(seen, "nodes", "--limit", "5", "-o", output)
    assert NODES[4] in done.stdout
    assert NODES[5] not in done.stdout
    assert "more (--limit)\n" in done.stderr


def test_events_for_programs_are_limited_and_noted(seen: Seen) -> None:
    done = asked(seen, "events", "-o", "name")
    assert done.stdout.split() == ["events/1", "events/2"]
    assert done.stderr == "... and maybe more (--limit)\n"
