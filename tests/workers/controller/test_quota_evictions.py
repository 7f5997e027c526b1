"""What a quota reclaims, from pods to the Eviction API: a recorder, a real store and a controller."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from app import plugins
from app.framework import configuring
from app.kube import backoffs
from app.plugins.coscheduling import options
from app.plugins.elastic_quota.trees import membership
from app.simulation import populations
from app.store import stores
from tests.support.workers import clusters, recordings
from workers.controller import controllers, evictions

Json = dict[str, Any]
Start = Callable[[], recordings.Recording]
Control = Callable[..., controllers.Controller]


class FastClock(backoffs.RealClock):
    """Twenty seconds of the controller are one of the test."""

    def monotonic(self) -> float:
        return super().monotonic() * 20


@pytest.fixture
def control(again: Callable[..., stores.Store], cluster_side: clusters.Cluster) -> Iterator[Control]:
    """Starts controllers with these arguments of ElasticQuota."""
    with contextlib.ExitStack() as ending:

        def start(**arguments: str | bool) -> controllers.Controller:
            built = configuring.build(
                plugins.IN_TREE,
                enabled=("ElasticQuota", "Coscheduling"),
                weights={},
                score_max=10,
                args={"ElasticQuota": arguments},
            )
            store = again(indexed=built.indexed())
            made = controllers.Controller(store, cluster_side.client, built, clock=FastClock())
            thread = threading.Thread(target=made.run, daemon=True)
            thread.start()
            ending.callback(thread.join, recordings.LIMIT)
            ending.callback(made.stop)
            recordings.eventually(lambda: made.subscribed, "the controller listens")
            return made

        yield start


def quota(cluster: clusters.Cluster, name: str, least: str, most: str) -> None:
    metadata = {"namespace": "quotas", "name": name}
    spec = {"min": {"cpu": least}, "max": {"cpu": most}}
    cluster.server.objects.create("elasticquotas", {"metadata": metadata, "spec": spec})


def pod(
    cluster: clusters.Cluster,
    name: str,
    of: str,
    cpu: str,
    *,
    priority: int = 0,
    node: str = "n",
    labels: Mapping[str, str] = MappingProxyType({}),
) -> None:
    made = populations.pod("ns", name, {membership.LABEL: of, **labels}, node=node, cpu=cpu)
    made["spec"]["priority"] = priority
    if node:
        made["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    cluster.server.objects.create("pods", made)


def evicted(cluster: clusters.Cluster) -> list[str]:
    """The pods whose eviction was requested, in order."""
    return [one.path.split("/")[-2] for one in cluster.server.seen if one.path.endswith("/eviction")]


def terminating(cluster: clusters.Cluster) -> set[str]:
    return {
        one["metadata"]["name"]
        for one in cluster.server.objects.all("pods")
        if "deletionTimestamp" in one["metadata"]
    }


def used(cluster: clusters.Cluster, name: str) -> str:
    path = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/quotas/elasticquotas/{name}"
    found: Json = json.loads(cluster.client.get(path))
    return str(found.get("status", {}).get("used", {}).get("cpu"))


def events(cluster: clusters.Cluster, reason: str) -> list[str]:
    found = cluster.server.objects.all("events")
    return [one["involvedObject"]["name"] for one in found if one["reason"] == reason]


def full(cluster: clusters.Cluster) -> None:
    """A quota of 4 cores in use by a firm pod, two victims of 1 core and an important one; one that waits."""
    cluster.node("n")
    quota(cluster, "team", "1", "4")
    pod(cluster, "firm", "team", "1", labels={membership.PREEMPTIBLE: "false"})
    pod(cluster, "low", "team", "1", priority=1)
    pod(cluster, "lowest", "team", "1")
    pod(cluster, "important", "team", "1", priority=100)
    pod(cluster, "asks", "team", "2", priority=100, node="")
    cluster.refuse("asks")


@pytest.mark.scenario("EQ-26", "TR-17")
def test_less_important_pods_are_evicted_one_by_one_and_no_other(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    full(cluster_side)
    recorded().ready()
    made = control(quota_preemption="evict")
    recordings.eventually(lambda: terminating(cluster_side) == {"low", "lowest"}, "both are evicted")
    assert evicted(cluster_side) == ["lowest", "low"]
    recordings.eventually(
        lambda: sorted(events(cluster_side, evictions.EVICTED)) == ["low", "lowest"], "both have an Event"
    )
    assert [one for one in cluster_side.server.seen if one.method == "DELETE"] == []
    # Their kubelets end them, and nothing is left to evict for the pod that still waits.
    for name in ("low", "lowest"):
        cluster_side.end_pod(name)
    recordings.eventually(lambda: used(cluster_side, "team") == "2", "their cores are free")
    assert made.evictor.run_once() == 0
    assert evicted(cluster_side) == ["lowest", "low"]


def another_quota(cluster: clusters.Cluster) -> None:
    """A quota in which a pod is evicted, after the pods of all quotas that have waited longer."""
    quota(cluster, "other", "0", "1")
    pod(cluster, "single", "other", "1", node="n")
    pod(cluster, "waits", "other", "1", priority=9, node="")
    cluster.refuse("waits")


@pytest.mark.scenario("EQ-26")
def test_no_pod_is_evicted_for_a_gang_that_would_still_wait(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    gang = {options.LABEL: "g", options.MINIMUM_LABEL: "2"}
    for number in range(2):
        cluster_side.node(f"n{number}")
        pod(cluster_side, f"low{number}", "team", "1", node=f"n{number}")
        pod(cluster_side, f"g{number}", "team", "1", priority=9, node="", labels=gang)
        cluster_side.refuse(f"g{number}")
    cluster_side.node("n")
    quota(cluster_side, "team", "0", "2")
    another_quota(cluster_side)
    recorded().ready()
    control(quota_preemption="evict", runtime=False)
    recordings.eventually(lambda: terminating(cluster_side) == {"single"}, "the pod of the other quota goes")
    assert evicted(cluster_side) == ["single"]


@pytest.mark.scenario("TR-17")
def test_by_default_no_pod_is_evicted(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    full(cluster_side)
    recorded().ready()
    made = control()
    recordings.eventually(
        lambda: any(one.path.endswith("/team/status") for one in cluster_side.server.seen),
        "the quota is reconciled",
    )
    assert made.evictor.run_once() == 0
    assert evicted(cluster_side) == []
    assert terminating(cluster_side) == set()


@pytest.mark.scenario("EQ-19", "TR-17")
def test_a_quota_above_its_runtime_loses_its_least_important_pods(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    """A cluster of 64 cores: team may use 32 as soon as others request the 32 of their min."""
    cluster_side.node("n")
    quota(cluster_side, "team", "32", "64")
    quota(cluster_side, "others", "32", "64")
    pod(cluster_side, "keeps", "team", "32", priority=10)
    pod(cluster_side, "borrows", "team", "4")
    recorded().ready()
    control(overuse="evict")
    pod(cluster_side, "returns", "others", "32", node="")
    recordings.eventually(lambda: terminating(cluster_side) == {"borrows"}, "what it borrowed is evicted")
    assert evicted(cluster_side) == ["borrows"]


def test_a_gang_is_not_reduced_below_its_minimum(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    """The least important pod is a member of a gang of two; the plugin of gangs objects."""
    cluster_side.node("n")
    quota(cluster_side, "team", "0", "3")
    member = {
        "pod-group.scheduling.sigs.k8s.io": "gang",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    pod(cluster_side, "member-0", "team", "1", labels=member)
    pod(cluster_side, "member-1", "team", "1", priority=100, labels=member)
    pod(cluster_side, "other", "team", "1", priority=100)
    pod(cluster_side, "asks", "team", "1", priority=50, node="")
    cluster_side.refuse("asks")
    another_quota(cluster_side)
    recorded().ready()
    made = control(quota_preemption="evict", runtime=False)
    recordings.eventually(lambda: terminating(cluster_side) == {"single"}, "the pod of the other quota goes")
    assert evicted(cluster_side) == ["single"]
    assert made.checks()["state"] is None
