"""What a quota reclaims, from pods to the Eviction API: a recorder, a real store and a controller."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.plugins.coscheduling import options
from app.store import stores
from tests.support import bind_times
from tests.support.workers import clusters, quotas, recordings
from workers.controller import controllers, evictions

Json = dict[str, Any]
Start = Callable[[], recordings.Recording]
Control = Callable[..., controllers.Controller]


@pytest.fixture
def control(again: Callable[..., stores.Store], cluster_side: clusters.Cluster) -> Iterator[Control]:
    """Starts controllers with these arguments of ElasticQuota."""
    with contextlib.ExitStack() as ending:

        def start(**arguments: str | bool) -> controllers.Controller:
            built = quotas.configured(**arguments)
            store = again(indexed=built.indexed())
            made = controllers.Controller(
                store, cluster_side.client, built, old=bind_times.OLD, clock=quotas.FastClock()
            )
            thread = threading.Thread(target=made.run, daemon=True)
            thread.start()
            ending.callback(thread.join, recordings.LIMIT)
            ending.callback(made.stop)
            recordings.eventually(lambda: made.subscribed, "the controller listens")
            return made

        yield start


def used(cluster: clusters.Cluster, name: str) -> str:
    path = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/quotas/elasticquotas/{name}"
    found: Json = json.loads(cluster.client.get(path))
    return str(found.get("status", {}).get("used", {}).get("cpu"))


def events(cluster: clusters.Cluster, reason: str) -> list[str]:
    found = cluster.server.objects.all("events")
    return [one["involvedObject"]["name"] for one in found if one["reason"] == reason]


@pytest.mark.scenario("EQ-26", "TR-17")
def test_less_important_pods_are_evicted_one_by_one_and_no_other(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    quotas.full(cluster_side)
    recorded().ready()
    made = control(quota_preemption="evict")
    recordings.eventually(lambda: quotas.terminating(cluster_side) == {"low", "lowest"}, "both are evicted")
    assert quotas.evicted(cluster_side) == ["lowest", "low"]
    recordings.eventually(
        lambda: sorted(events(cluster_side, evictions.EVICTED)) == ["low", "lowest"], "both have an Event"
    )
    assert [one for one in cluster_side.server.seen if one.method == "DELETE"] == []
    # Their kubelets end them, and nothing is left to evict for the pod that still waits.
    for name in ("low", "lowest"):
        cluster_side.end_pod(name)
    recordings.eventually(lambda: used(cluster_side, "team") == "2", "their cores are free")
    assert made.evictor.run_once() == 0
    assert quotas.evicted(cluster_side) == ["lowest", "low"]


def another_quota(cluster: clusters.Cluster) -> None:
    """A quota in which a pod is evicted, after the pods of all quotas that have waited longer."""
    quotas.quota(cluster, "other", "0", "1")
    quotas.pod(cluster, "single", "other", "1", node="n")
    quotas.pod(cluster, "waits", "other", "1", priority=9, node="")
    quotas.refuse(cluster, "waits", "other")


@pytest.mark.scenario("EQ-26")
def test_no_pod_is_evicted_for_a_gang_that_would_still_wait(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    gang = {options.LABEL: "g", options.MINIMUM_LABEL: "2"}
    for number in range(2):
        cluster_side.node(f"n{number}")
        quotas.pod(cluster_side, f"low{number}", "team", "1", node=f"n{number}")
        quotas.pod(cluster_side, f"g{number}", "team", "1", priority=9, node="", labels=gang)
        quotas.refuse(cluster_side, f"g{number}", "team")
    cluster_side.node("n")
    quotas.quota(cluster_side, "team", "0", "2")
    another_quota(cluster_side)
    recorded().ready()
    control(quota_preemption="evict", runtime=False)
    recordings.eventually(
        lambda: quotas.terminating(cluster_side) == {"single"}, "the other quota's pod goes"
    )
    assert quotas.evicted(cluster_side) == ["single"]


@pytest.mark.scenario("TR-17")
def test_by_default_no_pod_is_evicted(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    quotas.full(cluster_side)
    recorded().ready()
    made = control()
    recordings.eventually(
        lambda: any(one.path.endswith("/team/status") for one in cluster_side.server.seen),
        "the quota is reconciled",
    )
    assert made.evictor.run_once() == 0
    assert quotas.evicted(cluster_side) == []
    assert quotas.terminating(cluster_side) == set()


@pytest.mark.scenario("EQ-19", "TR-17")
def test_a_quota_above_its_runtime_loses_its_least_important_pods(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    """A cluster of 64 cores: team may use 32 as soon as others request the 32 of their min."""
    cluster_side.node("n")
    quotas.quota(cluster_side, "team", "32", "64")
    quotas.quota(cluster_side, "others", "32", "64")
    quotas.pod(cluster_side, "keeps", "team", "32", priority=10)
    quotas.pod(cluster_side, "borrows", "team", "4")
    recorded().ready()
    control(overuse="evict")
    quotas.pod(cluster_side, "returns", "others", "32", node="")
    recordings.eventually(
        lambda: quotas.terminating(cluster_side) == {"borrows"}, "what it borrowed is evicted"
    )
    assert quotas.evicted(cluster_side) == ["borrows"]


@pytest.mark.scenario("EQ-19", "TR-17")
def test_a_pod_of_several_budgets_does_not_keep_other_pods_of_its_quota(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n")
    quotas.quota(cluster_side, "team", "0", "1")
    quotas.pod(cluster_side, "guarded", "team", "1", labels={"app": "db"})
    quotas.pod(cluster_side, "plain", "team", "1", priority=9)
    for name in ("one", "two"):
        budget = {
            "metadata": {"namespace": "ns", "name": name},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 1, "observedGeneration": 1},
        }
        cluster_side.server.objects.create("poddisruptionbudgets", budget)
    recorded().ready()
    control(overuse="evict", runtime=False)
    recordings.eventually(lambda: quotas.terminating(cluster_side) == {"plain"}, "plain is evicted")
    recordings.eventually(
        lambda: events(cluster_side, evictions.NOT_EVICTED) == ["guarded"], "the guarded pod is reported"
    )
    assert quotas.evicted(cluster_side) == ["plain"]


@pytest.mark.scenario("EQ-19", "TR-17")
def test_a_member_of_a_gang_that_stays_does_not_keep_other_pods_of_its_quota(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    """Of 4 used cores 2 are allowed. After plain, m0 would go, but the gang needs both of its members."""
    cluster_side.node("n")
    quotas.quota(cluster_side, "team", "0", "2")
    member = {options.LABEL: "gang", options.MINIMUM_LABEL: "2"}
    quotas.pod(cluster_side, "plain", "team", "1")
    quotas.pod(cluster_side, "m0", "team", "1", priority=1, labels=member)
    quotas.pod(cluster_side, "m1", "team", "1", priority=9, labels=member)
    quotas.pod(cluster_side, "other", "team", "1", priority=9)
    recorded().ready()
    control(overuse="evict", runtime=False)
    recordings.eventually(lambda: quotas.terminating(cluster_side) == {"plain"}, "plain is evicted")
    cluster_side.end_pod("plain")
    recordings.eventually(lambda: used(cluster_side, "team") == "3", "its core is free")
    recordings.eventually(lambda: quotas.terminating(cluster_side) == {"other"}, "other is evicted")
    assert quotas.evicted(cluster_side) == ["plain", "other"]


def test_a_gang_is_not_reduced_below_its_minimum(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    """The least important pod is a member of a gang of two; the plugin of gangs objects."""
    cluster_side.node("n")
    quotas.quota(cluster_side, "team", "0", "3")
    member = {
        "pod-group.scheduling.sigs.k8s.io": "gang",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    quotas.pod(cluster_side, "member-0", "team", "1", labels=member)
    quotas.pod(cluster_side, "member-1", "team", "1", priority=100, labels=member)
    quotas.pod(cluster_side, "other", "team", "1", priority=100)
    quotas.pod(cluster_side, "asks", "team", "1", priority=50, node="")
    quotas.refuse(cluster_side, "asks", "team")
    another_quota(cluster_side)
    recorded().ready()
    made = control(quota_preemption="evict", runtime=False)
    recordings.eventually(
        lambda: quotas.terminating(cluster_side) == {"single"}, "the other quota's pod goes"
    )
    assert quotas.evicted(cluster_side) == ["single"]
    assert made.checks()["state"] is None
