"""The Leases of kube-schedulers: of those with different names, and where not all are read (S12)."""

import dataclasses
import pathlib
from collections.abc import Iterator

import pytest
import yaml

from app.doctor.scheduler import configurations, fleet_checks, scheduler_pods
from app.framework import doctor_checks
from app.simulation.apiserver import faults
from tests.support import how_to_pages
from tests.support.doctor import clusters, configz_servers, runs

PATH = "/etc/scheduler.yaml"


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[clusters.Cluster]:
    """The only kube-scheduler is a static pod with a file on its node."""
    with clusters.running(tmp_path) as made:
        add_static(made, "kube-scheduler-n1")
        yield made


def add_static(cluster: clusters.Cluster, name: str, path: str = PATH) -> None:
    cluster.add_scheduler(name, namespace="kube-system", flags=[f"--config={path}"])


def add_read(cluster: clusters.Cluster) -> None:
    """A scheduler whose configuration is in a ConfigMap."""
    cluster.add_config("topolog-kube-scheduler", clusters.shipped("sidecar"))
    cluster.add_scheduler("topolog-extender-a", config_map="topolog-kube-scheduler")


def leases(cluster: clusters.Cluster, *arguments: str) -> list[tuple[str, str]]:
    found = runs.doctor("scheduler", *arguments, environ=cluster.environ).of("S12")
    return sorted((one["verdict"], one["subject"]) for one in found)


def asked(cluster: clusters.Cluster, name: str, *, elected: bool = True) -> list[tuple[str, str]]:
    """The same with the answer of a kube-scheduler with a profile of this name."""
    document = {
        **clusters.shipped("sidecar"),
        "profiles": [{"schedulerName": name}],
        "leaderElection": {"leaderElect": elected},
    }
    with configz_servers.serving({"componentconfig": document}, None) as url:
        return leases(cluster, "--configz", url)


UNSURE = ("unsure", "pod kube-system/kube-scheduler-n1")
READ = ("ok", "schedulers named topolog-scheduler")


def test_the_lease_of_a_scheduler_whose_file_is_on_a_node_is_unsure(cluster: clusters.Cluster) -> None:
    """It may have the name of another one."""
    assert leases(cluster) == [("ok", "schedulers")]
    add_read(cluster)
    run = runs.doctor("scheduler", environ=cluster.environ)
    (found,) = [one for one in run.of("S12") if one["verdict"] != "ok"]
    assert (found["verdict"], found["subject"]) == UNSURE
    assert found["seen"].startswith("/etc/scheduler.yaml is a file on node n1")
    assert "leaderElection" in found["fix"]
    assert found["fix"].endswith(" --configz https://127.0.0.1:10259")


@pytest.mark.parametrize(("elected", "verdict"), [(True, "ok"), (False, "problem")])
def test_the_answer_of_a_scheduler_is_that_of_all_with_the_same_path(
    cluster: clusters.Cluster, elected: bool, verdict: str
) -> None:
    add_read(cluster)
    add_static(cluster, "kube-scheduler-n2")
    expected = sorted([(verdict, "schedulers named default-scheduler"), READ])
    assert asked(cluster, "default-scheduler", elected=elected) == expected


def test_the_answer_of_a_scheduler_whose_configuration_is_read_is_not_that_of_another_one(
    cluster: clusters.Cluster,
) -> None:
    add_read(cluster)
    assert asked(cluster, "topolog-scheduler") == [READ, UNSURE]


def test_one_answer_is_not_that_of_schedulers_with_several_paths(cluster: clusters.Cluster) -> None:
    add_static(cluster, "kube-scheduler-n2", "/etc/other.yaml")
    other = ("unsure", "pod kube-system/kube-scheduler-n2")
    assert asked(cluster, "default-scheduler") == [UNSURE, other]


def test_the_right_to_read_the_configuration_of_a_scheduler_is_named(cluster: clusters.Cluster) -> None:
    add_read(cluster)
    cluster.api.faults.add(
        faults.FaultKind.FAIL, lambda request: "configmaps" in request.path.split("/"), status=403, times=1000
    )
    found = runs.doctor("scheduler", environ=cluster.environ).of("S12")
    fixes = {one["subject"]: one["fix"] for one in found if one["verdict"] == "unsure"}
    assert fixes.keys() == {"pod kube-system/kube-scheduler-n1", f"pod {clusters.HOME}/topolog-extender-a"}
    assert fixes[f"pod {clusters.HOME}/topolog-extender-a"].startswith("bind the ClusterRole topolog-doctor ")


USUAL = configurations.DEFAULT_LEASE
OWN = f"{clusters.HOME}/topolog-scheduler"


def scheduler(names: str, lease: str = USUAL, *, elected: bool = True) -> scheduler_pods.Scheduler:
    """One with profiles of these names, which are separated by spaces."""
    profiles = tuple(configurations.Profile(name) for name in names.split())
    made = configurations.SchedulerConfiguration(
        "file", configurations.FILE, profiles=profiles, elected=elected, lease=lease
    )
    pod = "-".join(("kube-system/of", *names.split()))
    return scheduler_pods.Scheduler(pod, "n1", (1, 37), "", "", False, configuration=made)


def replica(of: scheduler_pods.Scheduler) -> scheduler_pods.Scheduler:
    return dataclasses.replace(of, pod=f"{of.pod}-2")


DEFAULT = scheduler("default-scheduler")
WRONG: dict[str, tuple[list[scheduler_pods.Scheduler], list[tuple[str, str]]]] = {
    "the default one, and another with its Lease": (
        [DEFAULT, scheduler("ours")],
        [("problem", f"Lease {USUAL}")],
    ),
    "two with one Lease of their own": (
        [DEFAULT, scheduler("ours", OWN), scheduler("theirs", OWN)],
        [("problem", f"Lease {OWN}")],
    ),
    "replicas of two with one Lease": (
        [DEFAULT, replica(DEFAULT), scheduler("ours"), replica(scheduler("ours"))],
        [("problem", f"Lease {USUAL}")],
    ),
    "two with a name in common": (
        [scheduler("default-scheduler ours"), scheduler("ours")],
        [("problem", f"Lease {USUAL}")],
    ),
    "the default one is not seen": (
        [scheduler("ours")],
        [("warning", "pod kube-system/of-ours")],
    ),
    "each with its Lease": ([DEFAULT, scheduler("ours", OWN)], []),
    "replicas": ([DEFAULT, replica(DEFAULT), scheduler("ours", OWN), replica(scheduler("ours", OWN))], []),
    "the same names in another order": (
        [scheduler("default-scheduler b"), scheduler("b default-scheduler")],
        [],
    ),
    "one without leader election": ([DEFAULT, scheduler("ours", elected=False)], []),
    "one without leader election, alone": ([scheduler("ours", elected=False)], []),
    "one in place of the default one": ([DEFAULT], []),
    "the default one with another Lease": ([scheduler("default-scheduler", OWN), scheduler("ours")], []),
}


@pytest.mark.parametrize("name", WRONG)
def test_schedulers_with_different_names_need_different_leases(name: str) -> None:
    schedulers, wrong = WRONG[name]
    found = [one for one in fleet_checks.leases(schedulers) if one.verdict != "ok"]
    assert [(one.verdict, one.subject) for one in found] == wrong


def test_the_schedulers_of_a_lease_are_named_with_what_to_change() -> None:
    def shared(*others: scheduler_pods.Scheduler) -> doctor_checks.Result:
        (found,) = [one for one in fleet_checks.leases([DEFAULT, *others]) if one.subject == f"Lease {USUAL}"]
        return found

    ours = scheduler("ours")
    found = shared(replica(DEFAULT), replica(DEFAULT), ours)
    assert "kube-system/of-default-scheduler (default-scheduler), kube-system/of-ours (ours)" in found.seen
    assert "another one in those of another name" in found.fix
    # Each of two that have a name in common could place its pods if they had different Leases.
    found = shared(scheduler("default-scheduler ours"))
    assert found.seen.endswith("(default-scheduler, ours)")
    assert found.fix == "the same profiles in all of them"


def test_the_readme_has_no_lease_of_another_scheduler(cluster: clusters.Cluster) -> None:
    """A second scheduler as in the README runs beside the usual one."""
    cluster.api.objects.remove("pods", ("kube-system", "kube-scheduler-n1"))
    cluster.add_scheduler("kube-scheduler-n1", namespace="kube-system")
    (block,) = how_to_pages.fenced(how_to_pages.ROOT / "README.md", "yaml")
    cluster.add_config("second", yaml.safe_load(block))
    cluster.add_scheduler("second", config_map="second")
    assert leases(cluster) == [("ok", "schedulers named default-scheduler"), READ]
