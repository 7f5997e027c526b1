"""``topolog get`` works like kubectl: namespaces, order, chosen columns, and what changes."""

import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import IO, Any

import msgspec
import pytest
import yaml
from click import testing

from app import cli
from app.cli.client import api_client
from app.cli.get import lists
from app.domain import events
from tests.support import commands
from tests.support.browser.seen_worlds import Seen
from tests.support.extender import api_worlds

BARE = dict.fromkeys((name for name in os.environ if name.startswith(("TOPOLOG_", "TLS_"))), None)


def get(seen: Seen, *arguments: str) -> testing.Result:
    return testing.CliRunner().invoke(cli.topolog, ["get", *arguments, "--server", seen.viewer.url], env=BARE)


def lines(seen: Seen, *arguments: str) -> list[str]:
    done = get(seen, *arguments)
    assert done.exit_code == 0, done.stderr
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module", autouse=True)
def another_namespace(seen: Seen) -> None:
    """A pod beside those of shop, and decisions about one of each."""
    far = msgspec.structs.replace(
        api_worlds.pod("batch-1", app="batch"), namespace="ml", labels={"app": "batch"}
    )
    seen.world.append(events.PodSeen(pod=far))
    api_worlds.decide(seen.world, far, api_worlds.pod("web-3"))


# -- namespaces ----------------------------------------------------------------------------------


def test_pods_are_listed_with_their_state_and_node(seen: Seen) -> None:
    assert lines(seen, "pods") == [
        "POD STATE NODE PRIORITY OWNER CREATED",
        "ml/batch-1 pending - 0 - 2026-07-01T10:00:00Z",
        "shop/job-1 bound host-2 0 - 2026-07-01T10:00:00Z",
        "shop/web-1 bound host-1 0 - 2026-07-01T10:00:00Z",
        "shop/web-2 placed member-1 0 - 2026-07-01T10:00:00Z",
        "shop/web-3 pending - 0 - 2026-07-01T10:00:00Z",
    ]


@pytest.mark.parametrize(
    ("kind", "names"),
    [("pods", ["ml/batch-1"]), ("pending", ["ml/batch-1"]), ("policies", []), ("groups", [])],
)
def test_a_namespace_selects_its_items(seen: Seen, kind: str, names: list[str]) -> None:
    assert lines(seen, kind, "-n", "ml", "-o", "name") == [f"{kind}/{name}" for name in names]
    everything = lines(seen, kind, "-A", "-o", "name")
    assert everything == lines(seen, kind, "-o", "name")
    assert set(everything) > {f"{kind}/{name}" for name in names}


def test_decisions_and_events_are_of_a_namespace_too(seen: Seen) -> None:
    pods = lines(seen, "decisions", "-n", "ml", "-o", "jsonpath=$.items[*].pod.namespace")
    assert set(pods) == {"ml"}
    assert lines(seen, "decisions", "-n", "ml", "--where", "verb=filter", "-o", "name")
    assert not lines(seen, "decisions", "-n", "ml", "--where", "verb=bind,kept>0", "-o", "name")
    names = lines(seen, "events", "-n", "ml", "-o", "jsonpath=$.items[*].name")
    assert names == ["ml/batch-1"]


def test_a_namespace_is_found_behind_the_limit(seen: Seen) -> None:
    """The limit is of what is shown, not of what is read."""
    assert lines(seen, "pending", "-n", "shop", "--limit", "1", "-o", "name") == ["pending/shop/web-3"]
    done = get(seen, "events", "-n", "shop", "--limit", "2")
    assert len(done.stdout.splitlines()) == 3
    assert "more (--limit)" in done.stderr


def test_the_namespace_is_that_of_a_name(seen: Seen) -> None:
    assert lines(seen, "pods", "web-1", "-n", "shop", "-o", "jsonpath=$.node") == ["host-1"]
    assert lines(seen, "pods/web-1", "pods/shop/web-2", "-n", "shop", "-o", "jsonpath=$.node") == [
        "host-1",
        "member-1",
    ]
    missing = get(seen, "pods", "web-1", "-n", "ml")
    assert (missing.exit_code, "ml/web-1" in missing.stderr) == (1, True)


@pytest.mark.parametrize("name", ["events/9", "pending/shop/web-3"])
def test_a_name_is_found_behind_what_a_list_reads(
    seen: Seen, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "_PAGE", 1)
    monkeypatch.setattr(lists, "_MOST", 1)
    assert lines(seen, name, "-o", "name") == [name]
    assert lines(seen, name, "-o", "jsonpath=$.name") == ["shop/web-2" if "9" in name else "web-3"]


def test_an_event_is_asked_by_its_offset_alone(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    page = lists._page

    def counted(client: api_client.ExtenderClient, path: str, query: Mapping[str, object]) -> dict[str, Any]:
        asked.append((path, query["from"], query["to"]))
        return page(client, path, query)

    monkeypatch.setattr(lists, "_page", counted)
    assert lines(seen, "events/9", "-o", "jsonpath=$.type") == ["PlacementsCommitted"]
    assert asked == [("/apis/v1/events", "9", "9")]


@pytest.mark.parametrize("name", ["0", "09", "999999", "2026-07-01T10:00:00Z", "-1", "x", "9" * 30])
def test_an_offset_that_the_log_has_not_is_not_found(seen: Seen, name: str) -> None:
    done = get(seen, f"events/{name}")
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"cannot find event {name}" in done.stderr


# -- order and columns ---------------------------------------------------------------------------


def test_a_list_is_sorted_before_it_is_cut(seen: Seen) -> None:
    by_capacity = lines(
        seen, "nodes", "--sort-by", ".remaining.cpu", "-o", "jsonpath=$.items[*].remaining.cpu"
    )
    assert by_capacity == ["7500m"] * 3 + ["8"] * 3
    first = lines(seen, "nodes", "--sort-by", "{.name}", "--limit", "2", "-o", "jsonpath=$.items[*].name")
    assert first == ["host-1", "host-2"]
    cut = get(seen, "nodes", "--sort-by", "$.name", "--limit", "2")
    assert "... and 4 more (--limit)" in cut.stderr


def test_a_path_without_any_value_names_the_fields(seen: Seen) -> None:
    done = get(seen, "nodes", "--sort-by", ".cpu")
    assert done.exit_code == 2
    text = " ".join(done.stderr.split())
    assert "--sort-by: no item has a value at '.cpu'; the first one has ." in text
    assert ".name, " in text


def test_several_names_are_a_stream_of_documents(seen: Seen) -> None:
    names = ("pods/shop/web-1", "nodes/host-2")
    alone = [json.loads(get(seen, name, "-o", "json").stdout) for name in names]
    assert list(yaml.safe_load_all(get(seen, *names, "-o", "yaml").stdout)) == alone
    assert [json.loads(line) for line in get(seen, *names, "-o", "json").stdout.splitlines()] == alone
    pods = ("pods/shop/web-1", "pods/shop/job-1", "-o", "custom-columns=POD:.name,NODE:.node")
    assert lines(seen, *pods) == ["POD NODE", "web-1 host-1", "job-1 host-2"]
    assert lines(seen, *pods, "--no-headers") == ["web-1 host-1", "job-1 host-2"]


def test_columns_are_those_that_were_chosen(seen: Seen, tmp_path: pathlib.Path) -> None:
    spec = "NAME:.name,ROLE:.labels.role,LEFT:{.remaining['cpu','pods']},NONE:$.nothing"
    shown = lines(seen, "nodes", "-o", f"custom-columns={spec}")
    assert shown[:2] == ["NAME ROLE LEFT NONE", "host-1 host 7500m, 109 -"]
    file = tmp_path / "columns"
    file.write_text("NAME  ROLE\n.name .labels.role\n")
    assert lines(seen, "nodes", "-o", f"custom-columns-file={file}")[1] == "host-1 host"
    assert lines(seen, "pods", "shop/web-1", "-o", "custom-columns=N:.node") == ["N", "host-1"]
    assert lines(seen, "nodes", "-o", "custom-columns=N:.name", "--no-headers")[0] == "host-1"


@pytest.mark.parametrize("output", ["table", "wide"])
def test_a_table_may_have_no_headings(seen: Seen, output: str) -> None:
    assert lines(seen, "nodes", "-o", output, "--no-headers") == lines(seen, "nodes", "-o", output)[1:]


# -- what changes --------------------------------------------------------------------------------


class Watching:
    """A process of ``topolog get --watch``; its lines, as it writes them."""

    def __init__(self, seen: Seen, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "get", *arguments, "-w", "--server", seen.viewer.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=commands.environment({}),
        )
        self._out: queue.Queue[str] = queue.Queue()
        self._err: queue.Queue[str] = queue.Queue()
        assert self.process.stdout
        assert self.process.stderr
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, found), daemon=True)
            for pipe, found in ((self.process.stdout, self._out), (self.process.stderr, self._err))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(pipe: IO[str], found: queue.Queue[str]) -> None:
        with pipe:
            for line in pipe:
                found.put(line)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(30)
        for reader in self._readers:
            reader.join(30)

    def line(self) -> str:
        return " ".join(self._out.get(timeout=60).split())

    def notice(self) -> str:
        return self._err.get(timeout=60).strip()

    def nothing_else(self) -> bool:
        return self._out.empty()

    def interrupted(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@contextlib.contextmanager
def watching(seen: Seen, *arguments: str) -> Iterator[Watching]:
    made = Watching(seen, *arguments)
    try:
        yield made
    finally:
        made.end()


def test_a_watch_prints_the_list_then_each_change_and_what_is_gone(seen: Seen) -> None:
    with watching(seen, "pods", "-n", "shop", "-o", "custom-columns=POD:.name,NODE:.node") as watch:
        first = [watch.line() for _ in range(5)]
        assert first == ["POD NODE", "job-1 host-2", "web-1 host-1", "web-2 member-1", "web-3 -"]
        seen.world.append(api_worlds.pod_seen("web-9"))
        assert watch.line() == "web-9 -"
        seen.world.append(api_worlds.pod_seen("web-9", "host-3"))
        assert watch.line() == "web-9 host-3"
        seen.world.append(events.PodGone(uid="uid-web-9", namespace="shop", name="web-9"))
        assert watch.notice() == "pods/shop/web-9 is gone"
        assert watch.nothing_else()
        assert watch.interrupted() == 130


def test_a_watch_of_one_item_prints_documents(seen: Seen) -> None:
    with watching(seen, "pods", "shop/web-8", "-o", "json") as refused:
        assert refused.process.wait(30) == 1
    seen.world.append(api_worlds.pod_seen("web-8"))
    with watching(seen, "pods", "web-8", "-n", "shop", "-o", "json") as watch:
        assert json.loads(watch.line())["node"] == ""
        seen.world.append(api_worlds.pod_seen("web-8", "host-4"))
        assert json.loads(watch.line())["node"] == "host-4"
        seen.world.append(events.PodGone(uid="uid-web-8", namespace="shop", name="web-8"))
        assert watch.notice() == "pods/shop/web-8 is gone"
        watch.process.terminate()
        assert watch.process.wait(30) == 130


def test_a_watch_of_decisions_ends_with_the_newest(seen: Seen) -> None:
    with watching(seen, "decisions", "-n", "ml", "-o", "jsonpath=$.verb") as watch:
        assert [watch.line() for _ in range(2)] == ["prioritize", "filter"]
        far = seen.world.store.follower.catch_up().pod_named("ml", "batch-1")
        assert far is not None
        api_worlds.decide(seen.world, far)
        assert [watch.line() for _ in range(2)] == ["filter", "prioritize"]
