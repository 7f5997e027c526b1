"""``topolog simulate`` against a real API."""

import json
import pathlib

import pytest
import yaml

from app.api.v1.questions import bodies
from tests.support.extender.questions import Run, manifest


@pytest.mark.scenario("WI-2")
def test_pending_pods_are_placed_with_a_raised_quota(run: Run) -> None:
    done = run("simulate", "--pending", "-n", "shop", "--scale", "shop/spread", "host=+1")
    assert done.returncode == 1, done.stderr
    assert "as it is:   0 of 2 pods are placed" in done.stdout
    assert "situation:  1 of 2 pods are placed" in done.stdout
    assert "shop/spread|role=host  3       4" in done.stdout
    assert "candidates are the nodes that the pod fits on by kube-scheduler's rules" in done.stderr
    more = run("simulate", "--pending", "--scale", "shop/spread", "host=+2", "-o", "name")
    assert (more.returncode, more.stdout.split()) == (0, ["shop/a-5", "shop/a-6"])


def test_one_pod_is_compared_with_the_answer_as_it_is(run: Run) -> None:
    done = run("simulate", "a-5", "-n", "shop", "--scale", "shop/spread", "host=9", "--cordon", "host-1")
    assert done.returncode == 0, done.stderr
    assert "as it is:   0 of 6 nodes fit" in done.stdout
    assert "situation:  3 of 5 nodes fit" in done.stdout
    refused = run("simulate", "shop/a-5")
    assert refused.returncode == 1
    assert "would fit:  host needs 1 more replica" in refused.stdout


def test_a_pod_that_kube_scheduler_itself_refuses_gets_its_reason_and_no_advice(run: Run) -> None:
    large = manifest("large")
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    asked = ("-f", "-", "--candidates", "roomy")
    reason = "0 of 6 nodes fit by kube-scheduler's own rules: 6 Insufficient cpu\n"
    simulated = run("simulate", *asked, stdin=json.dumps(large))
    assert (simulated.returncode, simulated.stdout) == (1, f"as it is:   {reason}situation:  {reason}")
    fitted = run("fit", *asked, stdin=json.dumps(large))
    assert fitted.stdout == f"{reason}no change is known that would let it fit\n"


def test_an_override_that_changes_nothing_is_named(run: Run, tmp_path: pathlib.Path) -> None:
    """As it may be a misspelt one."""
    none = '{"op": "deletePods", "pods": {"namespace": "shopp"}}'
    some = '{"op": "cordon", "nodes": ["host-2"]}'
    given = ("--cordon", "host-1", "--scale", "shop/spread", "host=3", "--override", some, "--override", none)
    first = tmp_path / "first.json"
    first.write_text(json.dumps({"overrides": [json.loads(none)]}))
    for command in (
        ("simulate", "--pending"),
        ("simulate", "shop/a-5"),
        ("fit", "shop/a-5"),
        ("diff", "--from-situation", str(first)),
    ):
        notes = [line for line in run(*command, *given).stderr.splitlines() if "nothing" in line]
        expected = [f"note: {one} changes nothing" for one in ("--scale", "--override (number 2)")]
        of_the_first = ["note: override 1 of the first situation changes nothing"]
        assert notes == (of_the_first if command[0] == "diff" else []) + expected


def test_nodes_are_named_or_selected_by_their_labels(run: Run) -> None:
    asked = ("simulate", "a-5", "-n", "shop", "--scale", "shop/spread", "host=9", "--candidates", "all")
    named = run(*asked, *(part for at in range(1, 5) for part in ("--remove-node", f"host-{at}")))
    selected = run(*asked, "--remove-node", "role=host")
    assert "as it is:   0 of 6 nodes fit" in named.stdout
    assert "of 2 nodes fit" in named.stdout
    assert (selected.returncode, selected.stdout) == (named.returncode, named.stdout)
    both = run(*asked, "--cordon", "role=host", "--cordon", "member-1", "-o", "json")
    assert json.loads(both.stdout)["situation"]["events"]["NodeSeen"] == 5
    none = run(*asked, "--cordon", "role=hosts")
    assert (none.returncode, none.stdout) == (2, "")
    assert "topolog: --cordon: no node has the labels role=hosts at" in none.stderr


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("role!=host", "Invalid value for --cordon: role: only a=b,c=d selects here"),
        ("role=host,", "Invalid value for '--cordon': 'role=host,' is not a selector"),
        ("role=a,role=b", "Invalid value for --cordon: role: only a=b,c=d selects here"),
    ],
)
def test_labels_that_select_no_nodes_are_a_usage_error(run: Run, given: str, text: str) -> None:
    done = run("simulate", "shop/a-5", "--cordon", given)
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def test_the_wide_table_has_the_refusals_too(run: Run) -> None:
    done = run("simulate", "shop/a-5", "-o", "wide")
    assert done.returncode == 1, done.stderr
    assert "PLUGIN          REFUSED  REASON" in done.stdout
    assert "REASON" not in run("simulate", "shop/a-5").stdout


def test_rows_that_are_not_shown_are_counted(run: Run) -> None:
    """One row is shown of four hosts, and that of the chosen one, of two pods and of two counts."""
    one = run("simulate", "shop/a-5", "--scale", "shop/spread", "host=+2", "--top", "1")
    chosen = one.stdout.partition("chosen:")[2].split()[0]
    rows = [line.split()[0] for line in one.stdout.partition("NODE ")[2].splitlines()[1:-1]]
    assert sorted({"host-1", chosen}) == rows, one.stdout
    left = f"({4 - len(rows)} more nodes)\n"
    assert one.stdout.endswith(left), one.stdout
    more = ("--scale", "shop/spread", "host=+1", "--scale", "shop/spread", "member=+1")
    several = run("simulate", "--pending", *more, "--top", "1")
    assert "\n(1 more pod)\n" in several.stdout
    assert several.stdout.endswith("(1 more count)\n"), several.stdout
    assert "more" not in run("simulate", "--pending", *more).stdout
    named = run("simulate", "--pending", *more, "--top", "1", "-o", "name")
    assert len(named.stdout.split()) == 1
    assert named.stderr.splitlines() == [*several.stderr.splitlines(), "note: 1 more pod (--top)"]
    assert "more" not in run("simulate", "--pending", *more, "-o", "name").stderr


def test_pods_that_were_not_tried_are_noted_beside_names(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies.Budget, "running", lambda *_: False)
    named = run("simulate", "--pending", "--scale", "shop/spread", "host=+2", "-o", "name")
    assert (named.returncode, named.stdout) == (1, "shop/a-5\n")
    assert "incomplete: more time is needed (--budget)" in named.stderr.splitlines()


def test_a_dry_run_of_a_preemption_is_shown_for_the_situation(run: Run) -> None:
    done = run("simulate", "shop/a-5", "--scale", "shop/spread", "host=9", "--preemption")
    assert done.returncode == 0, done.stderr
    assert "shop/a-5 (priority 0) needs no eviction: 4 nodes admit it as they are." in done.stdout
    several = run("simulate", "--pending", "--preemption")
    assert (several.returncode, "--preemption requires one pod" in several.stderr) == (2, True)


def test_pods_of_a_file_are_placed_in_its_order(run: Run, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(yaml.safe_dump_all([manifest("z-2"), manifest("z-1")]))
    done = run("simulate", "-f", str(file), "--scale", "shop/spread", "host=+1", "-o", "json")
    assert done.returncode == 1, done.stderr
    assert [one["pod"] for one in json.loads(done.stdout)["placed"]] == ["shop/z-2"]
    listed = json.dumps({"kind": "List", "items": [manifest("z-3")]})
    one = run("simulate", "-f", "-", "--scale", "shop/spread", "host=+1", "-o", "yaml", stdin=listed)
    assert yaml.safe_load(one.stdout)["placed"][0]["pod"] == "shop/z-3"


def test_a_saved_situation_can_be_used_again(run: Run, tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "situation.json"
    first = run(
        "simulate",
        "--pending",
        "--scale",
        "shop/spread",
        "host=+2",
        "--cordon",
        "host-1",
        "--save",
        str(saved),
    )
    again = run("simulate", "--pending", "--situation", str(saved))
    assert first.stdout == again.stdout
    assert [one["op"] for one in json.loads(saved.read_text())["overrides"]] == ["cordon", "scalePolicy"]


def test_a_policy_of_a_file_replaces_the_present_one(run: Run, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        "kind: WorkloadPolicy\nmetadata: {name: spread, namespace: shop}\n"
        "spec: {topologyKey: role, labelSelector: {matchLabels: {app: web}}, allocationType: Required,\n"
        "  allocationPolicy: [{name: member, replicas: 9}]}\n"
    )
    done = run("simulate", "--pending", "--set-policy", str(file), "-o", "json")
    assert done.returncode == 0, done.stderr
    placed = [one["node"] for one in json.loads(done.stdout)["placed"]]
    assert placed
    assert set(placed) <= {"member-1", "member-2"}


@pytest.mark.scenario("WI-11")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "name pods, or use -f FILE or --pending"),
        (("shop/a-5", "--pending"), 2, "name pods"),
        (("shop/a-5", "-l", "a=b"), 2, "-l requires --pending"),
        (("shop/a-5", "--like", "host-1"), 2, "--like requires --add-nodes"),
        (("shop/a-5", "--scale", "shop/spread", "host"), 2, "host is not NAME=VALUE"),
        (("shop/a-5", "--override", "{"), 2, "not JSON"),
        (("shop/a-5", "--weights", "WorkloadPolicy=x"), 2, "x is not a number"),
        (("--pending", "-l", "app!=web"), 2, "app: only a=b,c=d selects here"),
        (("--pending", "-l", "app in (a,b)"), 2, "app: only a=b,c=d selects here"),
        (("--pending", "-l", "app=a,app=b"), 2, "app: only a=b,c=d selects here"),
        (
            ("-f", "/proc/nonexistent/pod.yaml"),
            2,
            "cannot read /proc/nonexistent/pod.yaml: No such file or directory",
        ),
        (("-f", "/"), 2, "cannot read /: Is a directory"),
        (("-f", "/dev/null"), 2, "/dev/null contains no object"),
        (("-f", "-"), 2, "standard input contains no object"),
        (("shop/a-5", "--save", "/proc/nonexistent/a"), 2, "cannot write /proc/nonexistent/a: No such file"),
        (("shop/a-5", "--cordon", "n9"), 2, "topolog: --cordon: there is no node n9 at"),
        (
            ("shop/a-5", "--scale", "spread", "host=+1"),
            2,
            "topolog: --scale: policy: must be NAMESPACE/NAME",
        ),
        (
            ("shop/a-5", "--scale", "shop/spread", "zone-z=+1"),
            2,
            "topolog: --scale: allocations.zone-z: the policy does not list the domain: only a number can be"
            " set; it lists host, member",
        ),
        (
            ("shop/a-5", "--scale", "shop/none", "host=3", "--delete-pod", "shop/none"),
            2,
            "topolog: --delete-pod: there is no pod shop/none at",
        ),
        (("shop/a-5", "--scale", "shop/none", "host=3"), 2, "topolog: --scale: policy: there is no"),
        (
            ("shop/a-5", "--override", '{"op": "cordon", "nodes": ["n9"]}'),
            2,
            "--override: nodes[0]: there is",
        ),
        (("shop/a-5", "--candidates", "n9"), 2, "topolog: --candidates: there is no node n9 at"),
        (("shop/a-5", "--at", "99999"), 2, "topolog: --at: offset 99999 is beyond the head of the log"),
        (("shop/none",), 1, "cannot find pod shop/none"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(
    run: Run, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = run("simulate", *arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_place_of_what_is_not_yaml_or_not_utf_8_is_named(run: Run, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_bytes(b"kind: \xff")
    assert run("simulate", "-f", str(file)).stderr == f"topolog: cannot read {file}: byte 6 is not UTF-8\n"
    file.write_text("a: [1\n")
    done = run("simulate", "-f", str(file))
    assert f"topolog: {file} is not YAML in line 2: expected ',' or ']'" in done.stderr


def test_a_value_that_its_tag_does_not_allow_is_named_with_its_line(run: Run, tmp_path: pathlib.Path) -> None:
    """A date is text, as kubectl reads it."""
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {day: 2026-02-30, a: !!bool x}}\n"
    )
    done = run("simulate", "-f", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{file} is not YAML in line 3: found a value that cannot be read as bool" in done.stderr
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {day: 2026-02-30}}\n")
    assert run("simulate", "-f", str(file)).returncode in (0, 1)


def test_a_refusal_names_the_file_of_the_override(run: Run, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "situation.json"
    file.write_text(
        '{"overrides": [{"op": "cordon", "nodes": ["host-1"]}, {"op": "cordon", "nodes": ["n8"]}]}'
    )
    kept = run("simulate", "shop/a-5", "--situation", str(file), "--cordon", "n9")
    assert "topolog: situation.overrides[1].nodes[0]: there is no node n8 at" in kept.stderr
    file.write_text('{"overrides": [{"op": "cordon", "nodes": ["host-1"]}]}')
    typed = run("simulate", "shop/a-5", "--situation", str(file), "--cordon", "n9")
    assert "topolog: --cordon: there is no node n9 at" in typed.stderr


@pytest.mark.parametrize("command", ["simulate", "fit"])
def test_a_file_without_a_pod_is_refused_with_what_it_has(
    run: Run, tmp_path: pathlib.Path, command: str
) -> None:
    file = tmp_path / "dep.yaml"
    file.write_text("kind: Deployment\nmetadata: {name: web}\n---\nkind: Service\nmetadata: {name: web}\n")
    done = run(command, "-f", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Invalid value for -f: {file}: contains no Pod, only Deployment, Service" in done.stderr
