"""What users of kubectl try: how long ago, namespaces, labels, files, and formats for scripts."""

import json
import pathlib
import time

import pytest

from app.cli.client import moment_option
from tests.support import commands
from tests.support.extender import api_worlds, questions
from tests.support.extender.questions import Run

SCALE = ("--scale", "shop/spread", "host=5")
_POLICY = """\
apiVersion: kosmos.io/v1alpha1
kind: WorkloadPolicy
metadata: {name: spread, namespace: shop}
spec:
  topologyKey: role
  labelSelector: {matchLabels: {app: web}}
  allocationType: Required
  allocationMethod: Fill
  allocationPolicy: [{name: host, replicas: 5}, {name: member, replicas: 1}]
"""


@pytest.fixture
def decided(six: api_worlds.World) -> None:
    """The two that wait were decided about; one has a label more."""
    api_worlds.decide(six, api_worlds.pod("a-5", tier="front"), api_worlds.pod("a-6"))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("24h", "1970-01-01T03:46:40.500Z"),
        ("1d", "1970-01-01T03:46:40.500Z"),
        ("1d3h", "1970-01-01T00:46:40.500Z"),
        ("90m", "1970-01-02T02:16:40.500Z"),
        ("1h30m5s", "1970-01-02T02:16:35.500Z"),
        ("0s", "1970-01-02T03:46:40.500Z"),
        ("999h", "1970-01-01T00:00:00.000Z"),
    ],
)
def test_a_duration_is_a_time_before_now(monkeypatch: pytest.MonkeyPatch, text: str, at: str) -> None:
    monkeypatch.setattr("app.cli.client.moment_option.time.time", lambda: 100_000.5)
    assert moment_option.moment(text) == at


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", "1970-01-02T03:46:40.500Z"),
        ("12:00", "1970-01-02T12:00:00.000Z"),
        ("0:07", "1970-01-02T00:07:00.000Z"),
        ("23:59:59", "1970-01-02T23:59:59.000Z"),
    ],
)
def test_a_clock_time_is_of_today_in_utc(monkeypatch: pytest.MonkeyPatch, text: str, at: str) -> None:
    monkeypatch.setattr("app.cli.client.moment_option.time.time", lambda: 100_000.5)
    assert moment_option.STRETCH.convert(text, None, None) == at


def test_a_range_ends_now(run: Run) -> None:
    run.world.now[0] = time.time()
    done = run("diff", "1", "now", "-o", "json")
    assert json.loads(done.stdout)["to"] == str(run.world.store.follower.catch_up().position)


@pytest.mark.parametrize("text", ["", "24", "f3c1/24", "24w", "h", "24h ", "-1h", "2026-07-01T00:00:00Z"])
def test_what_is_no_duration_is_left_to_the_api(text: str) -> None:
    assert moment_option.moment(text) == text


@pytest.mark.usefixtures("decided")
def test_a_range_begins_so_long_ago(run: Run) -> None:
    run.world.now[0] = time.time()
    for option in ("--since", "--from"):
        assert run("replay", option, "24h").stdout.startswith("2 decisions compared")
    none = run("replay", "--to", "24h", "--fail-on", "refused")
    assert (none.returncode, none.stdout) == (2, "")
    assert "is recorded: none was made in this range" in none.stderr
    found = run("bisect", "--exists", "node:host-1", "--since", "24h").stdout
    assert found.startswith("yes, node:host-1 exists, since")
    whole = json.loads(run("diff", "24h", "-o", "json").stdout)
    assert whole["from"].endswith("/0")
    # They were recorded just now; the time of the decisions is that of a test.
    assert run("get", "decisions", "--where", "since=24h", "-o", "name").stdout == ""
    assert len(run("get", "decisions", "--where", "until=24h", "-o", "name").stdout.split()) == 2
    assert "since: must be an offset of the log, or an RFC 3339 time" in (
        run("get", "decisions", "--where", "since=24w").stderr
    )


@pytest.mark.parametrize(
    "text", ["", "yesterday", "24w", "-5", "2026-07-01", "a/b", "24:00", "12:60", "12:0", "12:00:60", "Now"]
)
def test_what_is_no_moment_is_a_usage_error_before_any_request(text: str) -> None:
    nowhere = {"TOPOLOG_CLIENT_URL": "http://127.0.0.1:9"}
    for words in (("diff", "--", text), ("watch", "--from", text), ("get", "pods", "--at", text)):
        done = commands.called(*words, **nowhere)
        assert done.returncode == 2
        assert f"{text!r} is not a moment: write an offset of the log, a position, a time" in done.stderr


def test_a_difference_is_of_a_namespace(run: Run) -> None:
    start = str(run.world.store.follower.catch_up().offset)
    run.world.append(api_worlds.node("new"), api_worlds.pod_seen("a-5", "host-4"), api_worlds.policy(host=9))
    in_shop = [
        "counts/shop/spread|role=host",
        "objects/workloadpolicies:shop/spread",
        "pending/shop/a-5",
        "pods/shop/a-5",
    ]

    def named(*words: str) -> list[str]:
        return sorted(questions.differing(run, *words))

    assert named(start) == sorted(["nodes/new", *in_shop])
    assert named(start, "-n", "shop") == in_shop
    assert named(start, "-n", "sho") == []
    assert named("--cordon", "host-1", "--delete-pod", "shop/a-1", "-n", "shop", "--only", "nodes,pods") == [
        "pods/shop/a-1"
    ]


@pytest.mark.usefixtures("decided")
@pytest.mark.parametrize(
    ("selector", "number"),
    [("app=web", 2), ("tier=front", 1), ("tier!=front", 1), ("tier in (front,back),app", 1), ("!tier", 1)],
)
def test_a_replay_is_of_pods_with_labels(run: Run, selector: str, number: int) -> None:
    assert run("replay", "-l", selector).stdout.startswith(f"{number} decisions compared")
    both = run("replay", "-l", selector, "--where", "verb=bind")
    assert "no decision of the range can be compared: none is selected" in both.stderr


@pytest.mark.usefixtures("decided")
def test_objects_and_situations_come_from_files(run: Run, tmp_path: pathlib.Path) -> None:
    file, situation = tmp_path / "policy.yaml", tmp_path / "situation.json"
    file.write_text(_POLICY)
    spelled = run("replay", *SCALE, "-o", "name").stdout
    assert len(spelled.split()) == 2
    assert run("replay", "-f", str(file), "-o", "name").stdout == spelled
    assert run("replay", "-f", "-", "-o", "name", stdin=_POLICY).stdout == spelled
    run("simulate", "shop/a-5", *SCALE, "--save", str(situation))
    assert run("replay", "--situation", str(situation), "-o", "name").stdout == spelled
    assert questions.differing(run, "-f", str(file)) == ["objects/workloadpolicies:shop/spread"]
    assert run("shadow", "set", "strict", "-f", str(file), "-o", "name").stdout == "strict\n"
    run("simulate", "shop/a-5", "--at", "9", "--save", str(situation))
    done = run("replay", "--situation", str(situation))
    assert done.returncode == 2
    assert "not of the moment `at`: use --from and --to" in done.stderr


@pytest.mark.usefixtures("decided")
def test_decisions_are_counted_by_a_facet(run: Run) -> None:
    reason = "workload policy shop/spread: no capacity (host 3/3, member 1/1)"
    shown = run("get", "decisions", "--facet", "reason", "--facet", "outcome")
    assert shown.stdout.splitlines() == [
        "FACET    DECISIONS  VALUE",
        "outcome  2          refused",
        f"reason   2          {reason}",
    ]
    assert run("get", "decisions", "--facet", "reason", "-n", "none").stderr == "nothing found\n"
    assert run("get", "decisions", "--facet", "verb", "-o", "name").stdout == "verb/filter\n"
    assert run("get", "decisions", "--facet", "object", "-o", "name").stdout == "object/policy:shop/spread\n"
    of_pods = ("get", "decisions", "-o", "jsonpath=$.items[*].pod.name", "--where")
    named = [run(*of_pods, f"object=policy:shop/{name}").stdout.split() for name in ("spread", "other")]
    assert [len(one) for one in named] == [2, 0]
    path = "jsonpath=$.facets[*].values[*].count"
    assert run("get", "decisions", "--facet", "verb", "--where", "pod=shop/a-5", "-o", path).stdout == "1\n"
    api_worlds.decide(run.world, api_worlds.pod("a-1"))
    names = ("get", "decisions", "--facet", "outcome", "--facet", "verb")
    cut = run(*names, "--limit", "1", "-o", "name")
    assert sorted(one.partition("/")[0] for one in cut.stdout.split()) == ["outcome", "verb"]
    assert "more values of outcome" in run(*names, "--limit", "1").stderr
    for wrong in (("pods", "--facet", "verb"), ("decisions", "--facet", "verb", "-w")):
        assert "--facet counts decisions" in run("get", *wrong).stderr


@pytest.mark.usefixtures("decided")
@pytest.mark.parametrize(
    ("words", "names", "path", "found"),
    [
        (("simulate", "shop/a-5", *SCALE), "shop/a-5", "$.placed[*].pod", "shop/a-5"),
        (("fit", "shop/a-5", "--allow", "objects"), "", "$.changes[0].cost", "1"),
        (("bisect", "--exists", "node:host-1"), "/3", "$.since.event.type", "NodeSeen"),
        (("diff", "2", "3"), "", "$.sections.nodes.began", "1"),
        (("replay", *SCALE), "-0", "$.classes.admitted", "2"),
    ],
)
def test_answers_have_the_formats_for_scripts(
    run: Run, words: tuple[str, ...], names: str, path: str, found: str
) -> None:
    named = run(*words, "-o", "name")
    if names:
        assert names in named.stdout
    else:
        assert (named.returncode, "'name' is not one of table, wide, json" in named.stderr) == (2, True)
    assert run(*words, "-o", f"jsonpath={path}").stdout == f"{found}\n"
    wrong = run(*words, "-o", "jsonpath={.x}{.y}")
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_a_rare_event_is_found_behind_many_others(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API covers a part of the log for one page."""
    listed = json.loads(run("get", "events", "-o", "json").stdout)["items"]
    last = listed[-1]
    assert sum(one["type"] == last["type"] for one in listed) < len(listed) - 3
    monkeypatch.setattr("app.api.v1.events._WINDOW", 2)
    found = run("get", "events", "--where", f"type={last['type']}", "-o", "name")
    assert found.stdout.splitlines()[-1] == f"events/{last['offset']}"
    few = run("get", "events", "--limit", "5", "-o", "json")
    assert json.loads(few.stdout)["items"] == listed[:5]
    assert "more" in run("get", "events", "--limit", "5").stderr
    assert run("get", "events").stderr == ""
