"""``topolog doctor scheduler`` on a cluster: its kube-schedulers, Topolog's pods, the API server, the log."""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml

from app.doctor import api_reader
from app.doctor.scheduler import configurations, entry_checks, examination, fleet_checks
from app.kube.client import clients
from app.serving.tls import certificate_issuer
from app.simulation.apiserver import faults
from tests.support.doctor import clusters, runs
from tests.support.kube import plain_access

HOME = clusters.HOME
LABEL = {"workload-policy/kosmos.io": "spread"}


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A sound cluster: the usual scheduler, and two of ours with one Lease."""
    files = certificate_issuer.issue(tmp_path / "tls", [clusters.SERVICE]).files
    with clusters.running(tmp_path) as made:
        made.add_node("n1")
        made.add_config("topolog-kube-scheduler", clusters.shipped("sidecar"))
        made.add_scheduler("kube-scheduler-n1", namespace="kube-system", hostNetwork=True)
        for name in ("a", "b"):
            made.add_scheduler(f"topolog-extender-{name}", config_map="topolog-kube-scheduler")
            made.add_own_pod(f"topolog-recorder-{name}", "recorder")
        pems = (files[name].read_bytes() for name in ("server.crt", "server.key", "ca.crt"))
        made.add_certificate(*pems)
        yield made


def doctor(cluster: clusters.Cluster, *arguments: str, **environ: str) -> runs.Run:
    return runs.doctor("scheduler", *arguments, environ={**cluster.environ, **environ})


RIGHT = {
    "S01",
    "S02",
    "S03",
    "S04",
    "S05",
    "S06",
    "S07",
    "S08",
    "S09",
    "S10",
    "S11",
    "S12",
    "S13",
    "S15",
    "S16",
    "S17",
    "S19",
}
"""Checks that a sound cluster passes."""


def test_a_sound_cluster_has_nothing_wrong(cluster: clusters.Cluster, tmp_path: pathlib.Path) -> None:
    run = doctor(cluster)
    assert (run.wrong(), run.code) == ({}, 0)
    assert run.right() == RIGHT
    # No part of the key: not even its first line.
    for line in (tmp_path / "tls" / "server.key").read_text().splitlines()[1:-1]:
        assert line not in run.text


def configured(**fields: object) -> Callable[[clusters.Cluster], None]:
    """Another configuration in the ConfigMap."""

    def change(cluster: clusters.Cluster) -> None:
        document = {**clusters.shipped("sidecar"), **fields}
        cluster.api.objects.remove("configmaps", (HOME, "topolog-kube-scheduler"))
        cluster.add_config("topolog-kube-scheduler", document)

    return change


def with_entry(**fields: object) -> Callable[[clusters.Cluster], None]:
    (entry,) = clusters.shipped("sidecar")["extenders"]
    return configured(extenders=[{**entry, **fields}])


def default_profile(cluster: clusters.Cluster) -> None:
    configured(profiles=[{"schedulerName": "default-scheduler"}])(cluster)


def more_nodes(cluster: clusters.Cluster) -> None:
    configured(percentageOfNodesToScore=0)(cluster)
    for number in range(100):
        cluster.add_node(f"node-{number}")


def other_scheduler(cluster: clusters.Cluster) -> None:
    """Another scheduler of the same name, with a Lease of its own."""
    document = clusters.shipped("sidecar")
    document["leaderElection"] = {"leaderElect": True}
    cluster.add_config("another", document)
    cluster.add_scheduler("another", config_map="another")


def of_version(tag: str) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        cluster.add_scheduler("of-another-version", config_map="topolog-kube-scheduler", tag=tag)

    return change


def served(version: str) -> Callable[[clusters.Cluster], None]:
    def change(cluster: clusters.Cluster) -> None:
        cluster.api.router.reviews.version = version

    return change


def on_host(cluster: clusters.Cluster) -> None:
    with_entry(urlPrefix=f"https://{clusters.SERVICE}")(cluster)
    for name in ("a", "b"):
        cluster.change("pods", HOME, f"topolog-extender-{name}", hostNetwork=True)


def with_gates(*flags: str, served: bool, tag: str = "v1.37.0") -> Callable[[clusters.Cluster], None]:
    """One scheduler, with these flags, on an API server that serves gangs or does not."""

    def change(cluster: clusters.Cluster) -> None:
        for name in ("topolog-extender-a", "topolog-extender-b"):
            cluster.api.objects.remove("pods", (HOME, name))
        cluster.add_scheduler("gated", config_map="topolog-kube-scheduler", flags=flags, tag=tag)
        cluster.serve_gangs(served)

    return change


ON = "--feature-gates=GenericWorkload=true"
OFF = "--feature-gates=GenericWorkload=false"
BETA = ("--feature-gates", "A=false,AllBeta=true")

MISTAKES: dict[str, tuple[Callable[[clusters.Cluster], None], dict[str, str]]] = {
    "no entry": (configured(extenders=[]), {"S01": "problem"}),
    "a sample of many nodes": (more_nodes, {"S02": "warning"}),
    "a sample of one node": (configured(percentageOfNodesToScore=0), {}),
    "ignorable": (with_entry(ignorable=True), {"S03": "problem"}),
    "a Service's name on the host network": (on_host, {"S09": "problem"}),
    "placed by the scheduler that calls them": (default_profile, {"S11": "problem", "S12": "problem"}),
    "no leader election": (configured(leaderElection={"leaderElect": False}), {"S12": "problem"}),
    "two Leases": (other_scheduler, {"S12": "problem"}),
    "a newer scheduler": (of_version("v1.38.0"), {"S13": "problem"}),
    "a much older scheduler": (of_version("v1.35.2"), {"S13": "problem"}),
    "a scheduler one minor version older": (of_version("v1.36.3"), {}),
    "a tag that names no version": (of_version("latest"), {"S13": "unsure"}),
    "an older API server": (served("v1.36.0"), {"S13": "problem"}),
    "an API server of a provider": (served("v1.37.3-gke.100+x"), {}),
    "gangs in the API server alone": (with_gates(served=True), {"S19": "warning"}),
    "gangs switched off in kube-scheduler": (with_gates(ON, OFF, served=True), {"S19": "warning"}),
    "gangs in kube-scheduler alone": (with_gates(ON, served=False), {"S19": "problem"}),
    "beta gates in kube-scheduler alone": (with_gates(*BETA, served=False), {"S19": "problem"}),
    "gangs of another version": (with_gates(ON, served=True, tag="v1.36.3"), {"S19": "problem"}),
    "gangs in both": (with_gates(ON, served=True), {}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_found_and_nothing_else(cluster: clusters.Cluster, name: str) -> None:
    change, expected = MISTAKES[name]
    change(cluster)
    assert doctor(cluster).wrong() == expected


@pytest.mark.parametrize(
    ("version", "tag"),
    [("v1.36.3", "v1.36.3"), ("v1.36.3+k3s1", "v1.36.3"), ("v1.36.3-eks-113cf36", "v1.36.3")],
)
def test_the_image_that_fits_an_api_server_has_no_suffix_of_its_distribution(
    cluster: clusters.Cluster, version: str, tag: str
) -> None:
    served(version)(cluster)
    wrong = [one for one in doctor(cluster).of("S13") if one["verdict"] == "problem"]
    assert {one["fix"] for one in wrong} == {f"the image kube-scheduler:{tag}"}


def test_a_scheduler_whose_file_is_on_a_node_is_unsure(cluster: clusters.Cluster) -> None:
    cluster.change(
        "pods", HOME, "topolog-extender-a", volumes=[{"name": "scheduler", "hostPath": {"path": "/etc"}}]
    )
    cluster.change(
        "pods", HOME, "topolog-extender-b", volumes=[{"name": "scheduler", "hostPath": {"path": "/etc"}}]
    )
    run = doctor(cluster)
    assert run.wrong()["S01"] == "problem"  # The usual scheduler calls nothing.
    seen = [one for one in run.of("S01") if one["verdict"] == "unsure"]
    assert len(seen) == 2
    assert "on node n1, in no ConfigMap" in seen[0]["seen"]
    (one, other) = sorted(each["fix"] for each in seen)
    assert one.startswith("on node n1: topolog doctor scheduler --file /etc/")
    forward = f"kubectl -n {HOME} port-forward pod/topolog-extender-a 10259, then topolog doctor scheduler"
    assert f"{forward} --configz https://127.0.0.1:10259" in one
    assert "pod/topolog-extender-b" in other


@pytest.fixture
def static(cluster: clusters.Cluster) -> clusters.Cluster:
    """The only kube-scheduler is a static pod with a file on its node, as kubeadm runs it."""
    for name in ("topolog-extender-a", "topolog-extender-b"):
        cluster.api.objects.remove("pods", (HOME, name))
    cluster.api.objects.remove("pods", ("kube-system", "kube-scheduler-n1"))
    cluster.add_scheduler(
        "kube-scheduler-n1", namespace="kube-system", flags=["--config=/etc/scheduler.yaml"]
    )
    return cluster


def test_pods_of_a_scheduler_whose_file_is_on_a_node_are_unsure(static: clusters.Cluster) -> None:
    """It may call the extender by the name that the pods have."""
    static.add_pod("waits", labels=LABEL)
    run = doctor(static)
    for identity in ("S11", "S15"):
        (found,) = run.of(identity)
        assert found["verdict"] == "unsure"
        assert found["seen"].startswith(
            "whether default-scheduler calls is not known: /etc/scheduler.yaml is"
        )
        assert found["fix"].startswith("on node n1: topolog doctor scheduler --file /etc/scheduler.yaml")


def test_pods_of_a_scheduler_that_is_read_are_not_affected_by_another(static: clusters.Cluster) -> None:
    static.add_scheduler("another", namespace="kube-system")
    run = doctor(static)
    assert [one["verdict"] for each in ("S11", "S15") for one in run.of(each)] == ["ok", "ok"]


def test_without_a_kube_scheduler_in_a_pod_own_pods_are_unsure(static: clusters.Cluster) -> None:
    static.api.objects.remove("pods", ("kube-system", "kube-scheduler-n1"))
    (found,) = doctor(static).of("S11")
    assert (found["verdict"], "no pod runs one" in found["seen"]) == ("unsure", True)


LOG = (2, 3, 4, 7)
"""Checks that the log could answer; no extender is running here."""


@pytest.mark.parametrize(
    ("resource", "lost"),
    [
        ("pods", {f"S{number:02}": "unsure" for number in (1, *LOG, *range(11, 16), 19)}),
        ("podgroups", {"S19": "unsure"}),
        ("nodes", {}),
        ("secrets", {"S09": "unsure"}),
        ("configmaps", {"S01": "problem", **{f"S{number:02}": "unsure" for number in (*LOG, 12)}}),
        ("version", {"S13": "unsure"}),
    ],
)
def test_what_may_not_be_read_is_unsure(
    cluster: clusters.Cluster, resource: str, lost: Mapping[str, str]
) -> None:
    cluster.api.faults.add(
        faults.FaultKind.FAIL,
        lambda request: resource in request.path.split("/"),
        status=403,
        times=1000,
    )
    run = doctor(cluster)
    assert run.wrong() == lost
    if lost:
        assert run.code == 1
        runs.refused(run, resource)


def test_no_cluster_is_unsure(tmp_path: pathlib.Path) -> None:
    run = runs.doctor("scheduler")
    assert set(run.wrong().values()) == {"unsure"}
    assert "kubeconfig" in run.text
    away = doctor_without_server(tmp_path)
    assert set(away.wrong().values()) == {"unsure"}


def doctor_without_server(folder: pathlib.Path) -> runs.Run:
    with clusters.running(folder) as gone:
        environ = gone.environ
    return runs.doctor("scheduler", environ=environ)


# -- the log as a witness -----------------------------------------------------------------------


def examined(cluster: clusters.Cluster, called: Callable[[str], bool]) -> list[Any]:
    reader = api_reader.ApiReader(clients.Client(plain_access.of(cluster.api.url)))
    expected = entry_checks.Expected(2.0, 3.5, 10)
    given = examination.Given(expected, interested=lambda pod: bool(pod.labels), called=called)
    return [one for one in examination.of_cluster(given, reader) if one.id == "S15"]


def test_a_pod_that_waits_without_a_call_is_found(cluster: clusters.Cluster) -> None:
    cluster.add_pod("called", labels=LABEL, schedulerName="topolog-scheduler")
    cluster.add_pod("silent", labels=LABEL, schedulerName="topolog-scheduler")
    # None of these is sent to the extender, or recorded if it is.
    cluster.add_pod("of-another-scheduler", labels=LABEL)
    cluster.add_pod("of-no-plugin", schedulerName="topolog-scheduler")
    cluster.add_pod("gated", labels=LABEL, schedulerName="topolog-scheduler", schedulingGates=[{"name": "g"}])
    cluster.add_pod("bound", labels=LABEL, schedulerName="topolog-scheduler", nodeName="n1")
    asked: list[str] = []

    def called(pod: str) -> bool:
        asked.append(pod)
        return pod == "shop/called"

    (found,) = examined(cluster, called)
    assert (found.verdict, found.seen) == ("problem", "the log has no call about shop/silent")
    assert sorted(asked) == ["shop/called", "shop/silent"]
    (found,) = examined(cluster, lambda _: True)
    assert found.verdict == "ok"


def test_a_pod_that_kube_scheduler_itself_refuses_everywhere_needs_no_call(
    cluster: clusters.Cluster,
) -> None:
    add_tried(cluster, "refused", "Unschedulable")
    add_tried(cluster, "unreached", "SchedulerError")
    (found,) = examined(cluster, lambda _: False)
    assert (found.verdict, found.seen) == ("problem", "the log has no call about shop/unreached")
    cluster.api.objects.remove("pods", ("shop", "unreached"))
    (found,) = examined(cluster, lambda _: False)
    assert found.verdict == "ok"


def add_tried(cluster: clusters.Cluster, name: str, reason: str) -> None:
    """A pod that kube-scheduler has tried in vain."""
    cluster.add_pod(name, labels=LABEL, schedulerName="topolog-scheduler")
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    cluster.api.objects.change(
        "pods", ("shop", name), lambda pod: {**pod, "status": {**pod["status"], "conditions": [condition]}}
    )


def test_an_extender_that_does_not_answer_is_unsure(cluster: clusters.Cluster) -> None:
    cluster.add_pod("silent", labels=LABEL, schedulerName="topolog-scheduler")
    run = doctor(cluster, "--server", "https://127.0.0.1:9")
    assert run.wrong() == {"S15": "unsure"}
    assert "--server-name" in run.of("S15")[0]["fix"]


# -- a running configuration --------------------------------------------------------------------


def test_a_running_configuration_is_compared_with_the_written_ones() -> None:
    def read(source: str, **fields: object) -> configurations.SchedulerConfiguration:
        document = {**clusters.shipped("sidecar"), **fields}
        return configurations.read(yaml.safe_dump(document), source)[0]

    live = read("live")
    other = read("other", percentageOfNodesToScore=50, profiles=[{"schedulerName": "other"}])
    (entry,) = clusters.shipped("sidecar")["extenders"]
    older = read("older", extenders=[{**entry, "weight": 1, "httpTimeout": "30s"}])
    assert fleet_checks.current(live, [other, read("same")]).verdict == "ok"
    found = fleet_checks.current(live, [older])
    assert (found.verdict, found.seen) == (
        "problem",
        "differs from older in extenders[0]: weight, extenders[0]: timeout",
    )
    found = fleet_checks.current(live, [other])
    assert found.seen == "differs from other in profiles, percentageOfNodesToScore"
    assert fleet_checks.current(live, [read("none", extenders=[])]).seen == "differs from none in extenders"
    assert fleet_checks.current(live, []).verdict == "unsure"
    restart = "kubectl -n a rollout restart deployment/b"
    assert fleet_checks.current(live, [older], {"older": restart}).fix == restart


def test_credentials_are_sent_only_to_a_verified_address(
    cluster: clusters.Cluster, tmp_path: pathlib.Path
) -> None:
    by_http = ("http://scheduler.example:10259", "--configz-ca", str(tmp_path / "tls" / "ca.crt"))
    for asked in (("https://scheduler.example:10259",), by_http):
        run = doctor(cluster, "--configz", *asked)
        assert run.wrong() == {"S14": "unsure"}
        assert "carries credentials" in run.text
    assert "kubectl -n kube-system port-forward pod/kube-scheduler-n1 10259" in run.of("S14")[0]["fix"]
    run = doctor(cluster, "--configz", "https://127.0.0.1:9")
    assert run.wrong() == {"S14": "unsure"}
    assert "port-forward" in run.text
