"""What the doctor reads in the log about real kube-schedulers, whose configurations it is not shown.

Two of them run with mistakes. The scenario is played once: pods are placed by both, the extender is away for
a while, and one of them ends before a pod that it would place.
"""

import pathlib
from collections.abc import Mapping

import pytest

from tests.support import polling
from tests.support.doctor import runs, witnessed
from tests.support.e2e import api_client, clusters, installations, kube_schedulers, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
NAMESPACE = "witnessed"
POLICY = "spread"
NODES = 150
"""More than the hundred of which kube-scheduler takes no sample."""
SAMPLING, IGNORING = "sampling", "ignoring"

EXPECTED: dict[str, dict[str, str]] = {
    # None of its calls failed: nothing shows what it would do then.
    SAMPLING: {"S01": "ok", "S02": "warning", "S03": "unsure", "S04": "problem", "S07": "warning"},
    IGNORING: {"S01": "ok", "S02": "ok", "S03": "problem", "S04": "ok", "S07": "ok"},
}
"""Scheduler -> what its calls show."""


def start(
    cluster: clusters.Cluster,
    topolog: installations.Installation,
    name: str,
    *,
    without: tuple[str, ...] = (),
    entry: Mapping[str, object] | None = None,
    **fields: object,
) -> kube_schedulers.Scheduler:
    """A kube-scheduler with the configuration of deploy/, but for these fields of it and of its entry."""
    config = kube_schedulers.configuration(
        DEPLOY / "scheduler" / "kube-scheduler-service.yaml",
        extender=f"https://127.0.0.1:{topolog.extenders[0].port}",
        ca=topolog.tls / "ca.crt",
        certificate=topolog.tls / "scheduler.crt",
        key=topolog.tls / "scheduler.key",
        scheduler_name=name,
    )
    (own,) = config["extenders"]
    config["extenders"] = [
        {key: value for key, value in {**own, **(entry or {})}.items() if key not in without}
    ]
    return cluster.start_scheduler(name, config | fields)


def add(cluster: clusters.Cluster, name: str, scheduler: str, *, cpu: str = "10m") -> None:
    """A pod under the policy."""
    labels = {"app": "web", workloads.POLICY_LABEL: POLICY}
    pod = workloads.pod(NAMESPACE, name, scheduler=scheduler, **labels)
    cluster.apply({**pod, "spec": workloads.spec(scheduler, cpu)})


def get(cluster: clusters.Cluster, name: str) -> api_client.Object:
    return cluster.api().get(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")


def place(cluster: clusters.Cluster, name: str, scheduler: str) -> None:
    """The same, bound."""
    add(cluster, name, scheduler)
    polling.eventually(
        lambda: get(cluster, name)["spec"].get("nodeName"),
        f"{name} is bound",
        seen=lambda: get(cluster, name),
    )


@pytest.fixture(scope="module", autouse=True)
def played(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    """All that happens before the doctor is asked."""
    cluster.add_nodes(*(f"n{number}" for number in range(NODES)), labels={"zone": "a"})
    cluster.add_namespace(NAMESPACE)
    cluster.apply(workloads.policy(NAMESPACE, POLICY, "zone", "web", a=20))
    sampling = start(
        cluster,
        topolog,
        SAMPLING,
        percentageOfNodesToScore=10,
        entry={"nodeCacheCapable": False},
        without=("bindVerb",),
    )
    start(cluster, topolog, IGNORING, entry={"ignorable": True})
    for name in (SAMPLING, IGNORING):
        place(cluster, f"{name}-first", name)
    polling.eventually(lambda: topolog.quotas(NAMESPACE, POLICY) == {"a": 2}, "both are recorded")
    witnessed.next_second()
    (extender,) = topolog.extenders
    extender.process.kill()
    place(cluster, "without-an-extender", IGNORING)
    extender.start()
    place(cluster, "after-that", IGNORING)
    place(cluster, "sampled-again", SAMPLING)
    sampling.process.stop()
    add(cluster, "without-a-call", SAMPLING)
    add(cluster, "larger-than-any-node", IGNORING, cpu="1k")
    polling.eventually(
        lambda: workloads.scheduled(get(cluster, "larger-than-any-node")).get("reason") == "Unschedulable",
        "kube-scheduler has tried it",
    )


def doctor(cluster: clusters.Cluster, topolog: installations.Installation) -> runs.Run:
    environ = {
        "TOPOLOG_KUBE_KUBECONFIG": str(cluster.kubeconfig()),
        "TOPOLOG_CLIENT_URL": f"https://127.0.0.1:{topolog.extenders[0].port}",
        "TOPOLOG_CLIENT_CERT": str(topolog.tls / "viewer.crt"),
        "TOPOLOG_CLIENT_KEY": str(topolog.tls / "viewer.key"),
        "TOPOLOG_CLIENT_CA": str(topolog.tls / "ca.crt"),
    }
    return runs.doctor("scheduler", environ=environ)


def seen(run: runs.Run, check: str, scheduler: str) -> str:
    """What was seen of one check in the calls of one scheduler."""
    (found,) = [one["seen"] for one in run.of(check) if one["subject"] == f"calls of {scheduler}"]
    return str(found)


def test_the_mistakes_of_each_scheduler_are_found_in_its_calls(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    def verdicts() -> dict[str, dict[str, str]]:
        run = doctor(cluster, topolog)
        return {
            name: {one["id"]: one["verdict"] for one in run.checks if one["subject"] == f"calls of {name}"}
            for name in EXPECTED
        }

    polling.eventually(lambda: verdicts() == EXPECTED, "all is found", seen=verdicts)
    run = doctor(cluster, topolog)
    assert f"offered 100 of {NODES} nodes" in seen(run, "S02", SAMPLING)
    assert f"offered {NODES} of {NODES} nodes" in seen(run, "S02", IGNORING)
    assert "without a call of bind" in seen(run, "S04", SAMPLING)
    assert "carried whole nodes" in seen(run, "S07", SAMPLING)
    assert f"{NAMESPACE}/without-an-extender was bound" in seen(run, "S03", IGNORING)


def test_a_pod_without_a_call_is_found_and_one_that_fits_nowhere_is_none(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    (found,) = doctor(cluster, topolog).of("S15")
    assert (found["verdict"], found["seen"]) == (
        "problem",
        f"the log has no call about {NAMESPACE}/without-a-call",
    )
