"""``topolog replay`` against a real API: a gate for a changed policy."""

import json
import pathlib
import re
from collections.abc import Iterator

import flask
import pytest

from app.cli.questions import differences, question_options
from app.store.server import embedded
from app.verbs.questions import replays
from tests.support import how_to_pages
from tests.support.extender import api_worlds, questions


@pytest.fixture
def six(store_server: embedded.Server, cluster: str) -> Iterator[api_worlds.World]:
    """F6 with its ten decisions."""
    with api_worlds.processes(store_server, cluster) as start:
        made = api_worlds.world(start())
        questions.live(made)
        yield made


def policy(folder: pathlib.Path, host: int) -> str:
    """A file with shop/spread, as it would be changed."""
    file = folder / f"policy-{host}.yaml"
    file.write_text(
        "apiVersion: kosmos.io/v1alpha1\nkind: WorkloadPolicy\nmetadata: {name: spread, namespace: shop}\n"
        "spec:\n  topologyKey: role\n  labelSelector: {matchLabels: {app: web}}\n"
        "  allocationType: Required\n  allocationMethod: Fill\n"
        f"  allocationPolicy: [{{name: host, replicas: {host}}}, {{name: member, replicas: 1}}]\n"
    )
    return str(file)


@pytest.mark.scenario("WI-5")
@pytest.mark.parametrize(
    ("host", "fail_on", "code"),
    [(2, "refused", 1), (5, "refused", 0), (5, "refused,admitted", 1), (5, None, 1), (3, None, 0)],
)
def test_the_gate_fails_for_the_named_classes_only(
    run: questions.Run, tmp_path: pathlib.Path, host: int, fail_on: str | None, code: int
) -> None:
    gate = ("--fail-on", fail_on) if fail_on else ()
    done = run("replay", "--set-policy", policy(tmp_path, host), *gate)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("10 decisions compared, ")
    if host == 2:
        assert "refused: 1" in done.stdout
        assert "\n  of policy:shop/spread: 5\n" in done.stdout
        assert "refused  " in done.stdout
        assert "4 -> 0" in done.stdout


@pytest.mark.parametrize("most", [2, 100])
def test_a_failing_gate_names_the_pod_that_fails_it(
    run: questions.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, most: int
) -> None:
    """Although decisions before it differ in their reasons, also if the range is answered in parts."""
    monkeypatch.setattr(replays, "MOST", most)
    gate = ("replay", "--set-policy", policy(tmp_path, 2), "--fail-on", "refused", "--limit", "1")
    lines = run(*gate).stdout.splitlines()
    assert lines[-2].startswith("refused  ")
    assert " shop/a-4 " in lines[-2]
    assert lines[-1] == "(4 more decisions)"
    named = run(*gate, "-o", "name")
    assert named.stdout.split() == [lines[-2].split()[1]]
    assert named.stderr.startswith("note: each decision is computed on its own snapshot: ")
    assert named.stderr.endswith("\nnote: 4 more decisions (--limit)\n")


def test_the_output_of_the_page_is_what_the_gate_prints(run: questions.Run, tmp_path: pathlib.Path) -> None:
    page = (how_to_pages.ROOT / "docs/how-to/policy-gate.md").read_text()
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    done = run("replay", "-f", policy(tmp_path, 2), "--fail-on", "refused", "--limit", "2")
    identity = re.compile(r"[0-9]{13}-[0-9]+")
    assert identity.sub("ID", done.stdout) == identity.sub("ID", shown)


@pytest.mark.parametrize("lasts", [True, False])
def test_a_part_that_is_refused_for_a_while_is_asked_for_again(
    run: questions.Run, monkeypatch: pytest.MonkeyPatch, lasts: bool
) -> None:
    """And what there is by then is shown if it is refused for a minute."""
    waited: list[float] = []
    parts = iter((False, True, lasts))
    monkeypatch.setattr(replays, "MOST", 2)
    monkeypatch.setattr("app.cli.client.outages.time.sleep", waited.append)

    def busy() -> flask.Response | None:
        if not next(parts, lasts):
            return None
        return flask.Response(
            json.dumps({"message": "another question", "reasonCode": "TooManyRequests"}), 429
        )

    run.world.app.before_request(busy)
    done = run("replay", "--scale", "shop/spread", "host=2")
    compared = f"{2 if lasts else 10} decisions compared"
    assert (done.returncode, done.stdout.splitlines()[0].partition(",")[0]) == (5 if lasts else 1, compared)
    assert done.stderr.startswith("topolog: another question; trying again for ")
    assert (len(waited) > 1, "the answer is incomplete" in done.stderr) == (lasts, lasts)


def test_the_answer_is_json_with_all_classes(run: questions.Run) -> None:
    reply = json.loads(run("replay", "--scale", "shop/spread", "host=5", "-o", "json").stdout)
    assert (reply["classes"]["admitted"], reply["examined"], reply["continue"]) == (2, 10, None)
    assert len(run("replay", "--scale", "shop/spread", "host=5", "-o", "name").stdout.split()) == 5


def test_a_gate_without_anything_to_compare_does_not_pass(run: questions.Run) -> None:
    done = run("replay", "-n", "elsewhere", "--fail-on", "refused")
    assert done.returncode == 2
    assert "no decision of the range can be compared: none is selected" in done.stderr


@pytest.mark.parametrize("command", ["replay", "simulate"])
def test_a_gate_over_a_policy_with_a_misspelt_field_does_not_pass(
    run: questions.Run, tmp_path: pathlib.Path, command: str
) -> None:
    file = pathlib.Path(policy(tmp_path, 5))
    file.write_text(file.read_text().replace("allocationType:", "allocationTyp:"))
    asked = ["--fail-on", "refused"] if command == "replay" else ["--pending"]
    done = run(command, "--set-policy", str(file), *asked)
    assert (done.returncode, done.stdout) == (2, "")
    text = "workloadpolicies have no field spec.allocationTyp; did you mean allocationType?"
    assert f"--set-policy: manifest: {text}" in done.stderr


@pytest.mark.parametrize("text", ["", "# no policy\n", "kind: List\nitems: []\n"])
def test_a_gate_over_a_file_without_policies_does_not_pass(
    run: questions.Run, tmp_path: pathlib.Path, text: str
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(text)
    done = run("replay", "-f", str(file), "--fail-on", "refused")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"topolog: {file} contains no object\n"


@pytest.mark.parametrize("chain", [(), ("--chain",)])
def test_a_gate_over_a_range_without_records_names_the_cause(
    run: questions.Run, tmp_path: pathlib.Path, chain: tuple[str, ...]
) -> None:
    done = run("replay", "--to", "2", "--set-policy", policy(tmp_path, 2), "--fail-on", "refused", *chain)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "topolog: no decision from offset 0 to 2 is recorded: none was made in this range\n"
    )


@pytest.mark.parametrize("chain", [(), ("--chain",)])
@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("allocationType: Required", "allocationType: Requird", "spec.allocationType must be one of"),
        ("kind: WorkloadPolicy", "kind: WorkloadPolicyy", "there is no kind WorkloadPolicyy of kosmos.io"),
        ("kosmos.io/v1alpha1", "kosmo.io/v1alpha1", "there is no kind WorkloadPolicy of kosmo.io/v1alpha1"),
    ],
)
def test_a_gate_over_an_invalid_policy_does_not_pass(
    run: questions.Run, tmp_path: pathlib.Path, before: str, after: str, words: str, chain: tuple[str, ...]
) -> None:
    file = pathlib.Path(policy(tmp_path, 2))
    file.write_text(file.read_text().replace(before, after))
    done = run("replay", "-f", str(file), "--fail-on", "refused", *chain)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("topolog: --set-policy: ")
    assert words in done.stderr


@pytest.fixture
def without_namespace(tmp_path: pathlib.Path) -> str:
    """A file with shop/spread as ``policy`` writes it, that names no namespace."""
    file = pathlib.Path(policy(tmp_path, 2))
    file.write_text(file.read_text().replace(", namespace: shop", ""))
    return str(file)


def test_the_namespace_of_a_gate_is_that_of_its_policy(run: questions.Run, without_namespace: str) -> None:
    done = run("replay", "-n", "shop", "-f", without_namespace, "--fail-on", "refused")
    assert done.returncode == 1, done.stderr
    assert "refused: 1" in done.stdout
    named = run("diff", "-n", "shop", "-f", without_namespace, "-o", "json")
    assert [row["name"] for row in json.loads(named.stdout)["sections"]["objects"]["rows"]] == [
        "workloadpolicies:shop/spread"
    ]


def test_the_namespace_of_a_shadow_is_that_of_its_policy(run: questions.Run, without_namespace: str) -> None:
    done = run("shadow", "set", "s", "-n", "shop", "-f", without_namespace)
    assert done.returncode == 0, done.stderr
    (override,) = run.world.store.follower.catch_up().shadows["s"].overrides
    assert override["manifest"]["metadata"]["namespace"] == "shop"


@pytest.mark.parametrize(
    "command", [("replay",), ("diff",), ("simulate", "--pending"), ("shadow", "set", "s")]
)
def test_a_policy_of_no_namespace_is_refused(
    run: questions.Run, without_namespace: str, command: tuple[str, ...]
) -> None:
    done = run(*command, "--set-policy", without_namespace)
    assert (done.returncode, done.stdout) == (2, "")
    text = "a namespace is required; name it in metadata.namespace"
    assert done.stderr == f"topolog: --set-policy: manifest.metadata: {text}\n"


@pytest.mark.parametrize(
    ("words", "most"),
    [
        *(((), most) for most in (2, 3, 100)),
        *((("--where", "pod=shop/a-1"), most) for most in (2, 3, 100)),
        (("--chain",), 100),
    ],
)
def test_a_gate_with_a_misspelt_name_does_not_pass(
    run: questions.Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], most: int
) -> None:
    """Also if the range is answered in parts, of which some compare nothing."""
    monkeypatch.setattr(replays, "MOST", most)
    done = run("replay", "--scale", "shop/sprad", "host=2", "--budget", "20", *words)
    assert done.returncode == 2, done.stdout
    assert "compared, " in done.stdout
    text = "topolog: an override applies to no decision of the range; at the latest: --scale: policy: there"
    assert f"{text} is no workload policy shop/sprad at " in done.stderr
    assert "note: --scale changed nothing at any decision" in done.stderr


def test_a_chain_that_is_incomplete_fails_although_an_override_applied_to_none_so_far(
    run: questions.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "MOST", 2)
    done = run("replay", "--chain", "--scale", "shop/sprad", "host=2", "--budget", "20")
    assert (done.returncode, done.stdout.partition(",")[0]) == (1, "2 decisions compared"), done.stderr
    assert "incomplete: more time is needed (--budget)" in done.stderr
    assert "applies to no decision" not in done.stderr


def test_only_a_gate_requests_an_order_of_the_decisions(run: questions.Run) -> None:
    """An earlier version of the server refuses the field."""
    asked: list[set[str]] = []

    def noted() -> None:
        asked.append({"first"} & flask.request.get_json().keys())

    run.world.app.before_request(noted)
    run("replay", "--scale", "shop/spread", "host=2")
    run("replay", "--scale", "shop/spread", "host=2", "--fail-on", "refused")
    assert asked == [set(), {"first"}]


def test_the_objects_of_a_range_in_several_parts_are_added_up(
    run: questions.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(replays, "MOST", 2)
    done = run("replay", "--set-policy", policy(tmp_path, 2))
    assert "10 decisions compared, 5 would have been the same\n" in done.stdout
    assert "\n  of policy:shop/spread: 5\n" in done.stdout


def test_the_objects_with_the_most_differences_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    found: question_options.Document = {
        "examined": 90,
        "same": 0,
        "classes": {name: 0 for name in differences.CLASSES} | {"refused": 90},
        "skipped": {},
        "idle": [],
        "by": {"object": {f"policy:shop/p{number:02}": number for number in range(1, 13)}},
    }
    differences.show_numbers(found)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == ["  of policy:shop/p12: 12", "  of policy:shop/p11: 11"]
    assert lines[11:] == ["  of policy:shop/p03: 3", "  of 2 other objects: -o json"]
    # The objects that are too many to be counted by name have none.
    differences.show_numbers({**found, "by": {"object": {"": 200, **found["by"]["object"]}}})
    rest = "  of more objects, which are not counted by name: 200"
    assert capsys.readouterr().out.splitlines() == [*lines, rest]
    differences.show_numbers({**found, "by": {"object": {"": 200, "policy:shop/p01": 1}}})
    assert capsys.readouterr().out.splitlines()[2:] == ["  of policy:shop/p01: 1", rest]
    # An earlier version of the server counts none.
    differences.show_numbers({**found, "by": {"verb": {"filter": 90}}})
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_gate_in_several_parts_notes_what_is_no_longer_recorded(
    run: questions.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = run.world.store
    kept = [one.id for one in store.decisions.latest()][5]
    store.client.xtrim(store.keys.decisions, minid=kept, approximate=False)
    monkeypatch.setattr(replays, "MOST", 2)
    done = run("replay", "--from", "10", "--fail-on", "refused")
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        "6 decisions compared, 6 would have been the same",
    )
    oldest = store.decisions.get(kept)
    assert oldest is not None
    assert f"note: decisions before offset {oldest.position.offset} are no longer recorded" in done.stderr
    assert len(done.stderr.splitlines()) == len(set(done.stderr.splitlines()))


@pytest.mark.scenario("WI-11")
def test_a_mistake_is_one_line(run: questions.Run) -> None:
    assert "refusd is not one of refused, admitted" in run("replay", "--fail-on", "refusd").stderr
    done = run("replay", "--override", '{"op": "cordn"}')
    assert (done.returncode, done.stdout) == (2, "")
    assert "topolog: --override: op: there is no operation 'cordn'" in done.stderr
    assert "topolog: --verb: invalid enum value 'foo'; known: " in run("replay", "--verb", "foo").stderr
    assert "topolog: --where: there is no field 'x'" in run("replay", "--where", "x=1").stderr
    reverse = run("replay", "--from", "9", "--to", "5")
    assert reverse.stderr == "topolog: --from: offset 9 is after to, which is offset 5\n"


@pytest.mark.scenario("WI-6")
def test_a_chain_shows_what_would_have_become_of_the_pods(run: questions.Run) -> None:
    done = run("replay", "--chain", "--scale", "shop/spread", "host=2")
    assert done.returncode == 1, done.stderr
    assert "3 pods on the same node\n0 pods on another node\n1 pod placed then" in done.stdout
    assert "shop/spread|role=host  3    2      2     2" in done.stdout
    assert "the scores of kube-scheduler" in done.stderr
    assert "--choice requires --chain" in run("replay", "--choice", "best").stderr
