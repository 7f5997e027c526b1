"""The Leases of kube-schedulers whose configurations are not all read (S12)."""

import pathlib
from collections.abc import Iterator

import pytest

from app.simulation.apiserver import faults
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
