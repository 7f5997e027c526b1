"""A real process of ``topolog view``, and the commands that ask it."""

import io
import json
import os
import pathlib
import re
import signal
import socket
import urllib.request

import pytest

from app import cli, exit_codes, plugins
from app.cli.get import resources
from app.cli.viewer import proxies
from app.framework import registry
from app.store.bundles import bundle_reader
from tests.support import commands
from tests.support.browser.seen_worlds import Seen, ask
from tests.support.extender import api_worlds

MANY = range(30)
AT = "at=40"
_WATCHED = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "app.view_process":
            sys.exit(f"niceness {os.getpriority(os.PRIO_PROCESS, 0)}, policy {os.sched_getscheduler(0)}")

sys.meta_path.insert(0, Watch())
sys.argv[1:] = ["view"]
from app import cli
cli.main()
"""
"""``topolog view`` up to the import of its server."""
SPENT = re.compile(rb'"spentMs": ?[0-9]+')
PATHS = (
    f"nodes?{AT}",
    f"pods?{AT}",
    f"pending?{AT}",
    f"pending/reasons?{AT}",
    f"topology?{AT}",
    f"cluster?{AT}",
    f"map?{AT}",
    f"map?{AT}&color=quota:shop/spread",
    f"map?{AT}&levels=zone,role",
    "frames?from=3&to=40",
    "series?of=quota:shop/spread&from=3&to=40",
    "moments?from=3&to=40",
    f"pods/shop/web-1/life?{AT}",
    f"pods/shop/web-3/explain?{AT}",
    f"decisions/facets?{AT}",
    "diff?from=3&to=40",
    f"plugins/WorkloadPolicy/policies?{AT}",
)
SCALED = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+1"}}]
QUESTIONS = (
    ("simulate", {"pending": {}, "situation": {"at": "40", "overrides": SCALED}}),
    ("simulate", {"pod": "shop/web-3", "situation": {"at": "40"}, "candidates": "roomy"}),
    ("fit", {"pod": "shop/web-3", "situation": {"at": "40"}, "candidates": "all"}),
    ("diff", {"from": {"at": "3"}, "to": {"at": "40", "overrides": SCALED}}),
    ("replay", {"to": "40", "overrides": SCALED}),
    ("replay", {"to": "40", "overrides": SCALED, "mode": "chain"}),
    ("bisect", {"fits": "shop/web-3", "to": "40"}),
)


@pytest.fixture(scope="module")
def here(seen: Seen) -> api_worlds.World:
    """The API in this process, with the plugins of the other one, a decision, many nodes and domains."""
    usual = registry.Registry([plugin() for plugin in plugins.USUAL])
    made = api_worlds.world(seen.world.store, usual)
    api_worlds.decide(made, api_worlds.pod("web-3"))
    seen.world.append(*(api_worlds.node(f"n-{at}", role=f"role-{at}", zone=f"zone-{at % 3}") for at in MANY))
    seen.world.append(api_worlds.policy())
    return made


@pytest.mark.parametrize("path", PATHS)
def test_its_answers_have_the_bytes_of_another_process(seen: Seen, here: api_worlds.World, path: str) -> None:
    """Nothing in them follows the order of hashes, which every process has for itself."""
    with urllib.request.urlopen(f"{seen.viewer.url}/apis/v1/{path}", timeout=20) as reply:
        assert reply.read() == here.client.get(f"/apis/v1/{path}").data


@pytest.mark.parametrize(("name", "question"), QUESTIONS)
def test_its_answers_to_questions_have_the_bytes_of_another_process(
    seen: Seen, here: api_worlds.World, name: str, question: dict[str, object]
) -> None:
    request = urllib.request.Request(
        f"{seen.viewer.url}/apis/v1/{name}",
        json.dumps(question).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        mine = reply.read()
    other = here.client.post(f"/apis/v1/{name}", json=question).data
    assert SPENT.sub(b"", mine) == SPENT.sub(b"", other)


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
    assert os.getpriority(os.PRIO_PROCESS, int(worker)) == min(19, own + 1)


@pytest.mark.parametrize(
    ("chosen", "niceness", "policy"),
    [
        ({}, 10, os.SCHED_IDLE),
        ({"TOPOLOG_VIEW_IDLE": "false", "TOPOLOG_VIEW_NICE": "3"}, 3, os.sched_getscheduler(0)),
    ],
)
def test_its_priority_is_lower_before_it_imports_the_server(
    chosen: dict[str, str], niceness: int, policy: int
) -> None:
    """The import takes a second of CPU time, at every start."""
    done = commands.run(["-c", _WATCHED], environ={"TOPOLOG_STORE_URL": "redis://127.0.0.1:1", **chosen})
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert done.stderr == f"niceness {min(19, own + niceness)}, policy {policy}\n"


SECRET = "n0t-to-be-l0gged"
_POD = {
    "metadata": {"name": SECRET, "namespace": "shop", "labels": {"app": "web", SECRET: SECRET}},
    "spec": {"nodeSelector": {SECRET: SECRET}, "containers": [{"name": SECRET, "env": [{"value": SECRET}]}]},
}
BODIES = (
    ("simulate", {"pod": _POD, "candidates": "all"}, 200),
    ("simulate", {"pods": [_POD, _POD], "candidates": "roomy"}, 400),
    ("simulate", {"pod": f"shop/{SECRET}"}, 404),
    ("simulate", {"pod": _POD, "situation": {"overrides": [{"op": SECRET}]}}, 400),
    ("simulate", {SECRET: SECRET}, 400),
    ("fit", {"pod": _POD, "candidates": "all"}, 200),
    ("fit", {"pod": _POD, "candidates": [SECRET]}, 400),
    ("diff", {"to": {"overrides": [{"op": "addNodes", "count": 2, "prefix": SECRET}]}}, 200),
    ("diff", {"to": {"at": SECRET}}, 400),
    ("replay", {"where": f"{SECRET}=1"}, 400),
    ("replay", {"namespace": SECRET, "overrides": [{"op": "addPods", "pod": _POD}]}, 200),
    ("bisect", {"exists": f"node:{SECRET}"}, 200),
    ("bisect", {"fits": f"shop/{SECRET}"}, 404),
)


@pytest.mark.scenario("WI-11")
@pytest.mark.usefixtures("here")
def test_nothing_of_a_question_is_logged(seen: Seen) -> None:
    found = [
        ask(seen, f"/apis/v1/{name}", "POST", json.dumps(question).encode())[0]
        for name, question, _ in BODIES
    ]
    assert found == [status for _, _, status in BODIES]
    assert ask(seen, "/apis/v1/simulate", "POST", f'{{"pod": "{SECRET}'.encode())[0] == 400
    assert "serving probes and metrics" in seen.viewer.log()
    assert SECRET not in seen.viewer.log()


def test_a_bundle_is_sent_while_it_is_made(seen: Seen) -> None:
    with urllib.request.urlopen(f"{seen.viewer.url}/apis/v1/export?from=3", timeout=20) as reply:
        assert (reply.headers["Content-Type"], reply.headers["Content-Length"]) == ("application/x-tar", None)
        found = bundle_reader.read(io.BytesIO(reply.read()))
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
        ["TYPE", "NAME"],
        ["NodeSeen", "member-1"],
        ["NodeSeen", "member-2"],
    ]
    one = ("watch", "--from", "0", "--count", "1", "--server", seen.viewer.url)
    header, row = commands.called(*one, "-o", "wide").stdout.splitlines()
    assert header.split() == ["OFFSET", "AT", "TYPE", "NAME", "OBJECT", "DATA"]
    assert [row.index(value) for value in ("1 ", "NodeSeen")] == [0, header.index("TYPE")]
    wide = row.split(maxsplit=5)
    assert wide[2:5] == ["NodeSeen", "member-1", "node:member-1"]
    assert json.loads(wide[5]) == listed[0]["data"]
    assert commands.called(*one, "-o", "name").stdout == "events/1\n"
    two = ("watch", "--from", "0", "--count", "2", "--server", seen.viewer.url)
    chosen = commands.called(*two, "-o", "custom-columns=AT:.offset,WHAT:.type").stdout
    assert [line.split() for line in chosen.splitlines()] == [
        ["AT", "WHAT"],
        ["1", "NodeSeen"],
        ["2", "NodeSeen"],
    ]


def test_watch_names_a_position_that_cannot_be_resumed(seen: Seen) -> None:
    done = commands.called("watch", "--from", "99999", "--server", seen.viewer.url)
    assert done.returncode == 2
    assert done.stderr.startswith("topolog: --from: offset 99999 is beyond the head of the log")
    wrong = commands.called("watch", "--type", "Foo", "--server", seen.viewer.url)
    assert (wrong.returncode, wrong.stderr.partition("of: ")[0]) == (2, "topolog: --type: Must be one ")


def test_a_port_that_is_taken_has_its_exit_code(seen: Seen) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = commands.called("dashboard", "--no-browser", "--port", str(port), "--server", seen.viewer.url)
    assert done.returncode == exit_codes.PORT_IN_USE
    assert done.stderr == f"topolog: cannot listen on port {port}: Address already in use\n"


def test_an_interrupt_ends_the_dashboard_as_other_commands(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: proxies.Proxy) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(proxies.Proxy, "serve_forever", interrupted)
    former = signal.getsignal(signal.SIGTERM)
    try:
        done = commands.called("dashboard", "--no-browser", "--server", seen.viewer.url)
    finally:
        signal.signal(signal.SIGTERM, former)
    assert done.returncode == exit_codes.INTERRUPTED


def test_get_raw_prints_what_the_api_answers(seen: Seen) -> None:
    done = commands.called("get", "--raw", "/apis/v1/map?at=9&color=pods", "--server", seen.viewer.url)
    assert json.loads(done.stdout) == ask(seen, "/apis/v1/map?at=9&color=pods")[1]
    twice = commands.called("get", "--raw", "/apis/v1/map?at=9&at=3", "--server", seen.viewer.url)
    assert (twice.returncode, "at: is given more than once" in twice.stderr) == (2, True), twice.stderr
    wrong = commands.called("get", "--raw", "apis/v1/map", "--server", seen.viewer.url)
    assert (wrong.returncode, "does not begin with a slash" in wrong.stderr) == (2, True)
    moved = commands.called("get", "--raw", "/", "--server", seen.viewer.url)
    assert moved.returncode == exit_codes.UNREACHABLE
    assert f"{seen.viewer.url} redirects / to /dashboard/ (HTTP 302), which is not followed" in moved.stderr
    both = commands.called("get", "nodes", "--raw", "/apis/v1/map", "--server", seen.viewer.url)
    assert both.returncode == 2
    neither = commands.called("get", "--server", seen.viewer.url)
    assert (neither.returncode, "--raw" in neither.stderr) == (2, True)


# -- the API and the commands --------------------------------------------------------------------

BY_ANOTHER_COMMAND = {"/apis/v1/watch": "watch", "/apis/v1/export": "bundle"}
"""Replies without an end, or of bytes."""
REQUIRED = {
    "/apis/v1/diff": "?from=3&to=40",
    "/apis/v1/frames": "?from=3&to=40",
    "/apis/v1/moments": "?from=3&to=40",
    "/apis/v1/series": "?of=quota:shop/spread&from=3&to=40",
}
NAMES = {"pods": "shop/web-1", "policies": "shop/spread", "nodes": "member-1"}
"""Collection -> an item at offset 40."""
ASKED = re.compile(r"\"(?:GET|POST|PUT|DELETE)?(/(?:apis/v1|debug/flags)[^\"?]*)\"")


def test_every_get_of_the_api_has_a_command(seen: Seen, here: api_worlds.World) -> None:
    document = ask(seen, "/openapi.json")[1]["paths"]
    assert BY_ANOTHER_COMMAND.keys() <= document.keys()
    missing = {}
    for path, item in document.items():
        if "get" not in item or "__" in path or path in BY_ANOTHER_COMMAND:
            continue
        collection = path.partition("/{")[0].rpartition("/")[2]
        # Where this log has no item, the command gets as far as the route.
        name = NAMES.get(collection, "none/none" if "{namespace}" in path else "none")
        asked = re.sub(r"\{namespace\}/\{name\}|\{\w+\}", name, path) + REQUIRED.get(path, "")
        done = commands.called("get", "--raw", asked, "--server", seen.viewer.url)
        if done.returncode != 0 and ("none" not in asked or "no such path" in done.stderr):
            missing[asked] = done.stderr
    assert missing == {}


def test_every_path_that_a_command_asks_is_in_the_api(seen: Seen) -> None:
    document = ask(seen, "/openapi.json")[1]["paths"]
    known = [re.compile(re.sub(r"\\\{\w+\\\}", r"[^/]+", re.escape(path))) for path in document]
    assert known
    folder = pathlib.Path(cli.__file__).parent
    found = {
        re.sub(r"\{[^}]*\}", "shop/web-1" if "/pods/" in path else "x", path)
        for file in folder.rglob("*.py")
        for path in ASKED.findall(file.read_text())
    }
    enabled = {plugin.__name__ for plugin in plugins.USUAL}
    found |= {
        f"/apis/v1/{one.path}"
        for one in resources.RESOURCES.values()
        if not one.path.startswith("plugins/") or one.path.split("/")[1] in enabled
    }
    found -= {"/apis/v1/x"}  # a name that the caller gives, of the lists and questions here
    assert len(found) > 20
    assert [path for path in sorted(found) if not any(one.fullmatch(path) for one in known)] == []
