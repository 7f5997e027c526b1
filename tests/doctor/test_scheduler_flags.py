"""The flags of leader election of kube-schedulers, which replace what their files have (S12, S14)."""

import dataclasses
import pathlib
from collections.abc import Iterator

import pytest
import yaml

from app.doctor.scheduler import configurations, fleet_checks, scheduler_pods
from tests.support.doctor import clusters, configz_servers, runs

NAME = "topolog-kube-scheduler"
OURS = f"{clusters.HOME}/topolog-scheduler"
PATH = "/etc/scheduler.yaml"


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[clusters.Cluster]:
    with clusters.running(tmp_path) as made:
        yield made


def add_two(cluster: clusters.Cluster, *flags: str, elected: bool) -> None:
    """Two schedulers that read one ConfigMap, with these flags."""
    cluster.add_config(NAME, document(elected=elected))
    for name in ("a", "b"):
        cluster.add_scheduler(f"topolog-extender-{name}", config_map=NAME, flags=flags)


def document(*, elected: bool) -> clusters.Json:
    shipped = clusters.shipped("sidecar")
    return {**shipped, "leaderElection": {**shipped["leaderElection"], "leaderElect": elected}}


def read(source: str, *, elected: bool) -> configurations.SchedulerConfiguration:
    return configurations.read(yaml.safe_dump(document(elected=elected)), source)[0]


WITHOUT = ("problem", "2 without leader election")
SHARED = ("ok", f"2 share the Lease {OURS}")
FLAGS = {
    "none": ([], True, SHARED),
    "none, and no election in the file": ([], False, WITHOUT),
    "no election": (["--leader-elect=false"], True, WITHOUT),
    "no election, as Go reads it": (["--leader-elect=F"], True, WITHOUT),
    "an election": (["--leader-elect=true"], False, SHARED),
    "an election, as Go reads it": (["--leader-elect=1"], False, SHARED),
    "an election, without a value": (["--leader-elect"], False, SHARED),
    "the last one": (["--leader-elect=false", "--leader-elect=true"], False, SHARED),
    "another name": (
        ["--leader-elect-resource-name", "o"],
        True,
        ("ok", f"2 share the Lease {clusters.HOME}/o"),
    ),
    "another namespace": (
        ["--leader-elect-resource-namespace=n"],
        True,
        ("ok", "2 share the Lease n/topolog-scheduler"),
    ),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_replace_the_leader_election_of_the_file(cluster: clusters.Cluster, name: str) -> None:
    flags, elected, (verdict, seen) = FLAGS[name]
    add_two(cluster, *flags, elected=elected)
    (found,) = runs.doctor("scheduler", environ=cluster.environ).of("S12")
    assert found["verdict"] == verdict
    assert found["seen"].startswith(seen)


def test_schedulers_of_one_file_with_other_flags_have_other_leases(cluster: clusters.Cluster) -> None:
    add_two(cluster, elected=True)
    cluster.add_scheduler("topolog-extender-c", config_map=NAME, flags=["--leader-elect-resource-name=o"])
    (found,) = runs.doctor("scheduler", environ=cluster.environ).of("S12")
    assert found["verdict"] == "problem"
    assert f"topolog-extender-c ({clusters.HOME}/o)" in found["seen"]


@pytest.mark.parametrize("flag", ["true", "false"])
def test_a_running_configuration_equals_the_file_with_the_flags(cluster: clusters.Cluster, flag: str) -> None:
    elected = flag == "true"
    add_two(cluster, f"--leader-elect={flag}", elected=not elected)
    with configz_servers.serving({"componentconfig": document(elected=elected)}, None) as url:
        (found,) = runs.doctor("scheduler", "--configz", url, environ=cluster.environ).of("S14")
    assert (found["verdict"], found["seen"]) == (
        "ok",
        f"equal to ConfigMap {clusters.HOME}/{NAME}, kube-scheduler.yaml",
    )


def test_with_a_file_alone_a_leader_election_by_flags_is_unsure(
    cluster: clusters.Cluster, tmp_path: pathlib.Path
) -> None:
    def asked(*written: clusters.Json) -> clusters.Json:
        """S14 of these files beside a running configuration with leader election."""
        options: list[str] = []
        for number, one in enumerate(written):
            file = tmp_path / f"scheduler-{number}.yaml"
            file.write_text(yaml.safe_dump(one))
            options += ["--file", str(file)]
        with configz_servers.serving({"componentconfig": document(elected=True)}, None) as url:
            run = runs.doctor("scheduler", *options, "--configz", url, environ=cluster.environ)
        (found,) = run.of("S14")
        return found

    assert asked(document(elected=True))["verdict"] == "ok"
    found = asked(document(elected=False))
    assert (found["verdict"], "--leader-elect-resource-name" in found["fix"]) == ("unsure", True)
    assert asked({**document(elected=False), "percentageOfNodesToScore": 7})["verdict"] == "problem"
    other = {**document(elected=True), "percentageOfNodesToScore": 7}
    for order in ((other, document(elected=False)), (document(elected=False), other)):
        assert asked(*order)["verdict"] == "unsure"


PLAIN, ELECTED = scheduler_pods.ElectionFlags(), scheduler_pods.ElectionFlags(elected=True)


def unread(name: str, election: scheduler_pods.ElectionFlags) -> scheduler_pods.Scheduler:
    """A static pod whose file is on its node."""
    pod = f"kube-system/{name}"
    return scheduler_pods.Scheduler(
        pod, "n1", (1, 37), "kube-scheduler:v1.37.0", "", True, file=PATH, election=election, unseen="on n1"
    )


def test_an_answer_counts_for_those_with_the_same_flags() -> None:
    """It has the flags of the one that was asked in it."""
    live = dataclasses.replace(read("live", elected=True), form=configurations.LIVE)
    (found,) = fleet_checks.leases([unread(name, ELECTED) for name in ("a", "b")], [live])
    assert found.verdict == "ok"
    both = fleet_checks.leases([unread("a", ELECTED), unread("b", PLAIN)], [live])
    assert [one.verdict for one in both] == ["unsure", "unsure"]
