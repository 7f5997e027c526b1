"""``topolog doctor all``, and the form of all reports."""

import json
import pathlib
import re

import pytest
import yaml
from click import testing

from app import cli
from tests.project import reference_pages
from tests.support import commands
from tests.support.doctor import clusters, runs
from tests.support.monitoring import installations

AWAY = "rediss://someone:hunter2@127.0.0.1:9/0?ssl_password=hunter3"
NOWHERE = {
    "TOPOLOG_STORE_URL": AWAY,
    "TOPOLOG_SERVER_HEALTH_PORT": "9",
    "TOPOLOG_CLIENT_URL": "https://127.0.0.1:9",
}


def shown(*arguments: str, **environ: str) -> str:
    bare = {
        "XDG_STATE_HOME": "/proc/nonexistent",
        "KUBECONFIG": "/proc/nonexistent",
        "HOME": "/proc/nonexistent",
    }
    done = testing.CliRunner().invoke(cli.topolog, ["doctor", *arguments], env={**bare, **NOWHERE, **environ})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output


def test_everything_makes_the_checks_of_every_area() -> None:
    run = runs.doctor("all", environ=NOWHERE)
    assert run.code == 1
    assert {one["id"][0] for one in run.checks} == {"S", "C", "T", "R", "P", "Q"}
    # What could not be seen is not ok.
    assert {one["verdict"] for one in run.checks} == {"unsure", "problem"}
    assert run.wrong()["Q28"] == "problem"


@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_no_output_has_a_password(output: str) -> None:
    text = shown("all", "-o", output)
    assert "hunter" not in text
    assert "127.0.0.1:9" in text


def test_a_table_has_a_line_for_each_result_and_wide_all_of_it() -> None:
    checks = json.loads(shown("all", "-o", "json"))["checks"]
    table, wide = shown("all", "-o", "table").splitlines(), shown("all", "-o", "wide").splitlines()
    assert table[0].split() == ["VERDICT", "ID", "SUBJECT", "SEEN"]
    assert len(table) == len(wide) == len(checks) + 1
    for line, one in zip(wide[1:], checks, strict=True):
        assert [line.split()[0], line.split()[1]] == [one["verdict"], one["id"]]
        assert one["fix"].split()[0] in line
        assert line.endswith(one["docs"])


def test_json_and_yaml_are_the_same_document() -> None:
    one, other = json.loads(shown("all", "-o", "json")), yaml.safe_load(shown("all", "-o", "yaml"))
    for document in (one, other):
        document.pop("at")
    assert one == other
    assert one["counts"]["problem"] == sum(each["verdict"] == "problem" for each in one["checks"])


def test_the_text_has_the_worst_first_and_fits_into_a_bug_report() -> None:
    lines = shown("all").splitlines()
    verdicts = [line.split()[0] for line in lines if re.match(r"[A-Z]{6,}", line)]
    assert verdicts == sorted(verdicts, key=["PROBLEM", "UNSURE", "WARNING"].index)
    assert verdicts[0] == "PROBLEM"
    assert max(map(len, lines)) <= 100
    assert re.fullmatch(r"(1 problem|\d+ problems), \d+ unsure, (1 warning|\d+ warnings), \d+ ok", lines[-1])


def test_what_is_unsure_for_one_reason_is_shown_once() -> None:
    text = shown("cluster")
    assert text.count("UNSURE") == 1
    assert text.count("cannot load the credentials") == 1


def test_every_check_can_be_listed_and_skipped() -> None:
    listed = {line.split()[0] for line in shown("all", "--list").splitlines()[1:]}
    assert listed == {check.id for checks in reference_pages.AREAS.values() for check in checks}
    skips = [part for name in sorted(listed) for part in ("--skip", name)]
    run = runs.doctor("all", *skips, environ=NOWHERE)
    assert (run.checks, run.code) == ([], 0)


def test_an_unknown_id_is_a_usage_error() -> None:
    assert runs.doctor("all", "--skip", "X99", environ=NOWHERE).code == 2


def test_help_of_every_area_names_its_source() -> None:
    for area in reference_pages.AREAS:
        done = commands.called("doctor", area, "--help")
        assert done.returncode == 0
        assert "-o, --output" in done.stdout


def test_a_real_installation_is_seen_in_every_area(
    healthy: installations.Installation, tmp_path: pathlib.Path
) -> None:
    """No API server here has the pods of Topolog or a kube-scheduler: the test of the real one does."""
    urls = [f"http://127.0.0.1:{one.health}" for one in healthy.processes.values()]
    tls = healthy.stage.folder / "tls"
    port = healthy.processes["extender"].port
    given = {
        "TOPOLOG_STORE_URL": healthy.server.url,
        "TOPOLOG_CLUSTER": "stage",
        "TOPOLOG_KUBE_KUBECONFIG": str(healthy.stage.kubeconfig),
        "TOPOLOG_CLIENT_URL": f"https://127.0.0.1:{port}",
        "TOPOLOG_CLIENT_CERT": str(tls / "viewer.crt"),
        "TOPOLOG_CLIENT_KEY": str(tls / "viewer.key"),
        "TOPOLOG_CLIENT_CA": str(tls / "ca.crt"),
    }
    named = [part for url in urls for part in ("--process", url)]
    run = runs.doctor("all", *named, environ=given)
    assert {name for name, verdict in run.wrong().items() if verdict == "problem"} == set()
    for area in "RPQ":
        assert [one for one in run.checks if one["id"][0] == area and one["verdict"] == "ok"], area
    assert clusters.HOME in run.text


def test_a_large_cluster_is_read_in_pages_and_at_most_twice(tmp_path: pathlib.Path) -> None:
    """So that a run takes seconds: checks of one area are made on the same lists."""
    pods, page = 5_000, 500
    with clusters.running(tmp_path) as cluster:
        cluster.add_node("n1", zone="a")
        for number in range(pods):
            label = {"workload-policy/kosmos.io": "spread"}
            cluster.add_pod(f"web-{number}", labels=label, schedulerName="topolog-scheduler")
        before = len(cluster.api.seen)
        run = runs.doctor("all", environ=NOWHERE | cluster.environ)
        asked = [one.path for one in cluster.api.seen[before:]]
    assert run.of("P07"), "the pods were examined"
    lists = asked.count("/api/v1/pods")
    assert 0 < lists <= 2 * pods / page
    assert len(asked) < lists + 150, "no request for each pod"
