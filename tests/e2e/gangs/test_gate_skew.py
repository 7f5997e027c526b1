"""The gate of kube-scheduler's own gangs is on in the API server alone, or in kube-scheduler alone.

Two zones have 6 GPUs each; a member requests one.
"""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.doctor import runs
from tests.support.e2e import (
    clusters,
    installations,
    kube_schedulers,
    native_groups,
    native_worlds,
    workloads,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.since("1.35", "gangs"),
]

NAMESPACE = "skewed"
SIZE = 4


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path, form: native_groups.Form) -> Iterator[clusters.Cluster]:
    """A control plane with the gates; its kube-scheduler is started without them."""
    with native_worlds.cluster(binary, form) as made:
        yield made


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    with native_worlds.topolog(cluster, NAMESPACE) as installed:
        yield installed


@pytest.fixture(scope="module")
def scheduler(topolog: installations.Installation) -> kube_schedulers.Scheduler:
    return topolog.start_scheduler(feature_gates={})


def add_members(cluster: clusters.Cluster, form: native_groups.Form, gang: str, *numbers: int) -> None:
    for number in numbers:
        assert form.marked(native_worlds.add_member(cluster, form, NAMESPACE, gang, number))


def nodes(cluster: clusters.Cluster, gang: str) -> list[str]:
    found = (pod["spec"].get("nodeName", "") for pod in cluster.pods(NAMESPACE, labels=f"gang={gang}"))
    return sorted(filter(None, found))


def asked_about(topolog: installations.Installation, gang: str) -> set[str]:
    """The members that kube-scheduler has called the extender about."""
    found = {call["pod"].rpartition("/")[2] for call in topolog.extenders[0].calls()}
    return {name for name in found if name.startswith(f"{gang}-")}


def gates_seen(
    cluster: clusters.Cluster, topolog: installations.Installation, running: kube_schedulers.Scheduler
) -> tuple[str, str]:
    """The verdict of the doctor about the gates of a running kube-scheduler, and what it saw."""
    run = runs.doctor(
        *("scheduler", "--configz", running.url, "--server-cert", str(topolog.tls / "server.crt")),
        environ={"TOPOLOG_KUBE_KUBECONFIG": str(cluster.kubeconfig())},
    )
    (found,) = run.of("S19")
    return found["verdict"], found["seen"]


def test_without_the_gate_of_kube_scheduler_topolog_keeps_a_gang_together(
    cluster: clusters.Cluster,
    topolog: installations.Installation,
    scheduler: kube_schedulers.Scheduler,
    form: native_groups.Form,
) -> None:
    """kube-scheduler asks about each member at once, alone; the mark of the pod does not stop it."""
    form.create(cluster, NAMESPACE, "whole", minimum=SIZE, key=native_worlds.ZONE)
    add_members(cluster, form, "whole", *range(SIZE - 1))
    polling.eventually(lambda: len(asked_about(topolog, "whole")) == SIZE - 1, "members are asked about")
    polling.throughout(lambda: not nodes(cluster, "whole"), "an incomplete gang waits", during=3.0)
    add_members(cluster, form, "whole", SIZE - 1)
    polling.eventually(lambda: len(nodes(cluster, "whole")) == SIZE, "the gang is bound", within=60)
    assert len({node[0] for node in nodes(cluster, "whole")}) == 1
    if form.has_pod_groups:
        group = cluster.api().get(f"{form.path(NAMESPACE)}/whole")
        assert "conditions" not in group.get("status", {})


def test_without_the_gate_of_kube_scheduler_a_gang_that_does_not_fit_waits_whole(
    cluster: clusters.Cluster,
    topolog: installations.Installation,
    scheduler: kube_schedulers.Scheduler,
    form: native_groups.Form,
) -> None:
    """8 of 12 GPUs are left."""
    form.create(cluster, NAMESPACE, "large", minimum=9)
    add_members(cluster, form, "large", *range(9))
    polling.eventually(lambda: len(asked_about(topolog, "large")) == 9, "members are asked about")
    polling.throughout(lambda: not nodes(cluster, "large"), "no member is bound", during=5.0)
    shown = topolog.ask(f"/apis/v1/plugins/Coscheduling/gangs/{NAMESPACE}/{form.shown('large')}")
    assert (shown["family"], shown["state"]) == ("native", "waiting")
    assert shown["missing"] == f"8 of 9 seats in the cluster; {native_worlds.GPU} 1 of 9 missing"


def test_the_doctor_finds_that_kube_scheduler_lacks_the_gate(
    cluster: clusters.Cluster,
    topolog: installations.Installation,
    scheduler: kube_schedulers.Scheduler,
    form: native_groups.Form,
) -> None:
    verdict, seen = gates_seen(cluster, topolog, scheduler)
    assert verdict == "warning"
    assert seen.startswith(f"off, and the API server serves {form.version}/")
    agreeing = topolog.start_scheduler("agreeing")
    assert gates_seen(cluster, topolog, agreeing)[0] == "ok"


def test_without_the_gate_of_the_api_server_kube_scheduler_places_no_pod_and_the_doctor_finds_it(
    binary: pathlib.Path, form: native_groups.Form
) -> None:
    """kube-scheduler waits for a list of the kind and goes no further."""
    with clusters.Cluster(binary) as cluster, installations.Installation(cluster) as topolog:
        cluster.start_controller_manager()
        cluster.add_nodes("n1")
        cluster.add_namespace(NAMESPACE)
        stuck = topolog.start_scheduler(feature_gates=form.gates, ready=False)
        cluster.api().create(f"/api/v1/namespaces/{NAMESPACE}/pods", workloads.pod(NAMESPACE, "plain"))

        def verdict() -> tuple[str, str]:
            return gates_seen(cluster, topolog, stuck)

        polling.eventually(lambda: verdict()[0] == "problem", "the doctor finds it", within=60, seen=verdict)
        assert verdict()[1].startswith(f"on, and the API server does not serve {form.version}/")
        polling.throughout(
            lambda: bool(workloads.pending(cluster, NAMESPACE)), "the pod has no node", during=5.0
        )
        assert topolog.extenders[0].calls() == []
        stuck.process.kill()
        right = topolog.start_scheduler(feature_gates={})
        polling.eventually(
            lambda: not workloads.pending(cluster, NAMESPACE), "the pod is bound without the gate", within=60
        )
        assert gates_seen(cluster, topolog, right)[0] == "ok"
