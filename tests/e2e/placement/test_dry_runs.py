"""The dry run of a preemption predicts what the real kube-scheduler does.

50 clusters of 20 nodes are drawn at random: capacities, residents with priorities and start times, disruption
budgets, and a pod that fits on hardly any node. kube-scheduler, with Topolog as its extender, evicts for it;
it must evict the pods and take the node that the dry run shows at the position before that. No kubelet and no
controller runs: the test sets the status of the residents and of the budgets.
"""

import concurrent.futures
import functools
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

SEED = 20260702
ROUNDS, NODES = 50, 20
NAMESPACE = "dry-runs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
PRIORITIES = (-10, 0, 5, 10, 100)
APPS = ("web", "db", "job")
PREEMPTOR, PREEMPTOR_PRIORITY = "preemptor", 50
ASKED = f"/apis/v1/pods/{NAMESPACE}/{PREEMPTOR}/preemption?limit=1000"
BY_NAME = "name of the node"

Object = api_client.Object


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A control plane without controllers and kubelets, so that every status is that of the test."""
    with clusters.Cluster(binary) as made:
        made.add_namespace(NAMESPACE)
        for priority in (*PRIORITIES, PREEMPTOR_PRIORITY):
            name = {"name": class_of(priority)}
            made.api().create(
                "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": name, "value": priority}
            )
        yield made


def class_of(priority: int) -> str:
    return f"priority-{priority}".replace("--", "-minus-")


def everywhere(action: Callable[[Any], object], items: list[Any]) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(action, items))


def drawn_pod(rng: random.Random, name: str, priority: int, cpu: str) -> Object:
    made = workloads.pod(NAMESPACE, name, app=rng.choice(APPS))
    requests = {"cpu": cpu, "memory": rng.choice(("64Mi", "128Mi"))}
    made["spec"] = {
        "schedulerName": "topolog-scheduler",
        "priorityClassName": class_of(priority),
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}],
    }
    if rng.random() < 0.1:
        made["metadata"]["labels"] = {}
    if rng.random() < 0.15:
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
    return made


def populate(cluster: clusters.Cluster, rng: random.Random, number: int, *, budgets: bool) -> set[str]:
    """Create the nodes, residents and budgets of one round; return the names of the residents."""
    api = cluster.api()
    nodes: list[Object] = []
    residents: list[Object] = []
    for at in range(NODES):
        name = f"r{number:02}-n{at:02}"
        cores = rng.choice((2, 4, 8))
        node: Object = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"unschedulable": rng.random() < 0.1},
        }
        capacity = {"cpu": str(cores), "memory": "8Gi", "pods": rng.choice(("3", "50"))}
        node["status"] = {"capacity": capacity, "allocatable": capacity}
        node["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "Posed"}]
        nodes.append(node)
        # Full, up to less than the request of the preemptor.
        left = 1000 * cores - rng.choice((0, 100, 200))
        while left > 0 and len(residents) < 8 * NODES:
            cpu = min(left, rng.choice((250, 500, 1000, 1500)))
            left -= cpu
            pod = drawn_pod(rng, f"r{number:02}-v{len(residents):03}", rng.choice(PRIORITIES), f"{cpu}m")
            pod["spec"]["nodeName"] = name
            residents.append(pod)
    everywhere(lambda node: api.create("/api/v1/nodes", node), nodes)
    starts = rng.sample(range(len(residents) * 2), len(residents))

    def run(one: tuple[Object, int]) -> None:
        pod, start = one
        name = pod["metadata"]["name"]
        api.create(PODS, pod)
        started = f"2026-01-01T{start // 3600:02}:{start // 60 % 60:02}:{start % 60:02}Z"
        api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "startTime": started}})

    everywhere(run, list(zip(residents, starts, strict=True)))
    if budgets:
        # All applications have one: where some nodes violate none, their number decides nothing.
        for app in APPS:
            name = f"r{number:02}-{app}"
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
            api.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})
            allowed = {
                "disruptionsAllowed": rng.randint(0, 2),
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
                "observedGeneration": 1,
            }
            api.patch(f"{BUDGETS}/{name}/status", {"status": allowed})
    return {pod["metadata"]["name"] for pod in residents}


def clear(cluster: clusters.Cluster) -> None:
    """Delete everything of a round."""
    api = cluster.api()
    everywhere(lambda pod: api.delete(f"{PODS}/{workloads.name(pod)}", grace=0), cluster.pods(NAMESPACE))
    everywhere(lambda node: api.delete(f"/api/v1/nodes/{workloads.name(node)}"), api.list("/api/v1/nodes"))
    everywhere(lambda budget: api.delete(f"{BUDGETS}/{workloads.name(budget)}"), api.list(BUDGETS))


def recorded(topolog: installations.Installation, residents: set[str]) -> bool:
    """Whether Topolog has recorded all nodes, and all pods as running."""
    nodes = topolog.ask("/apis/v1/nodes?limit=1000")["items"]
    return len(nodes) == NODES and sum(node["pods"] for node in nodes) == len(residents)


def guarded(cluster: clusters.Cluster, topolog: installations.Installation) -> bool:
    """Whether Topolog has recorded the budgets as they are."""
    held = topolog.ask("/apis/v1/plugins/PreemptionRules/budgets")["items"]
    allowed = {
        f"{NAMESPACE}/{workloads.name(one)}": one.get("status", {}).get("disruptionsAllowed", 0)
        for one in cluster.api().list(BUDGETS)
    }
    return {one["budget"]: one["allowed"] for one in held} == allowed


def outcome(cluster: clusters.Cluster, before: set[str]) -> tuple[str, set[str]] | None:
    """The node of the preemptor (empty if it waits) and the pods evicted; None while it is not decided."""
    pod = cluster.api().get(f"{PODS}/{PREEMPTOR}")
    alive = {workloads.name(one) for one in cluster.pods(NAMESPACE)}
    evicted = before - alive
    node: str = pod["spec"].get("nodeName", "")
    if node:
        return node, evicted
    condition = workloads.scheduled(pod)
    # Another reason is that of the gates, which the status shows until kube-scheduler has tried the pod.
    refused = condition.get("reason") == "Unschedulable"
    if refused and "nominatedNodeName" not in pod["status"] and not evicted:
        return "", evicted
    return None


def compared(answer: Object, node: str, evicted: set[str]) -> str:
    """Why the dry run differs from what kube-scheduler did; empty if it does not."""
    if not answer["eligible"]["is"]:
        return f"not eligible: {answer['eligible']['reason']}"
    if not answer["needed"]:
        return "" if node and not evicted else "no eviction was expected"
    victims = {one["node"]: {v["name"] for v in one["victims"]} for one in answer["nodes"] if one["victims"]}
    if not node:
        return "" if answer["chosen"] is None else f"expected an eviction on {answer['chosen']}"
    if node != answer["chosen"] and not (answer["decidedBy"].startswith(BY_NAME) and node in victims):
        return f"chosen is {answer['chosen']} by {answer['decidedBy']}, kube-scheduler took {node}"
    if victims[node] != evicted:
        return f"victims on {node} are {sorted(victims[node])}, kube-scheduler evicted {sorted(evicted)}"
    return ""


def test_dry_runs_predict_what_kube_scheduler_does(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    topolog.start_scheduler()
    rng = random.Random(SEED)
    differing, evictions, criteria = {}, 0, set()
    for number in range(ROUNDS):
        budgets = number % 2 == 1
        before = populate(cluster, rng, number, budgets=budgets)
        polling.eventually(functools.partial(recorded, topolog, before), "the cluster is recorded", within=60)
        polling.eventually(functools.partial(guarded, cluster, topolog), "its budgets, too", within=60)
        pod = drawn_pod(rng, PREEMPTOR, PREEMPTOR_PRIORITY, rng.choice(("600m", "1200m", "1900m")))
        pod["spec"]["schedulingGates"] = [{"name": "example.org/recorded"}]
        cluster.api().create(PODS, pod)
        asked = polling.eventually(functools.partial(topolog.find, ASKED), "the dry run names the preemptor")
        assert asked is not None
        cluster.api().patch(f"{PODS}/{PREEMPTOR}", {"spec": {"schedulingGates": []}})
        found = polling.eventually(
            functools.partial(outcome, cluster, before),
            "kube-scheduler has decided",
            within=60,
            seen=lambda: cluster.api().get(f"{PODS}/{PREEMPTOR}"),
        )
        assert found is not None
        node, evicted = found
        answer = topolog.ask(f"{ASKED}&at={asked['position']}")
        assert answer == asked
        difference = compared(answer, node, evicted)
        assert answer["notModelled"] == []
        if difference:
            differing[number] = difference
        evictions += bool(evicted)
        criteria.add(answer["decidedBy"])
        clear(cluster)
        polling.eventually(
            lambda: not topolog.ask("/apis/v1/nodes?limit=1000")["items"], "the cluster is empty", within=60
        )
    print(f"seed {SEED}: {ROUNDS - len(differing)} of {ROUNDS} alike; {evictions} evict")
    assert differing == {}
    # The draw is not trivial.
    assert evictions >= ROUNDS // 2
    assert len(criteria) >= 4
