"""What the demo plays: the stories that the project started from, each with the outcome it must have."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.simulation import populating, scheduling, stages

Json = dict[str, Any]

_SHOP = "workload-test"
_POLICY = "workload-policy-test"
_APP = "clusterlink-floater-mix"
_DOMAINS = {"kosmos-member-cluster": "member", "kosmos-cluster1": "member"} | {
    f"cnp-paas-ecsc-{number:03}": "host" for number in (2, 6, 8, 9)
}
_LABEL = "priority.lixueduan.com"
_GROUP = "rl-job-group"
_DECIDED = 5.0
"""Seconds within which a change of the cluster must have reached the extender."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One expectation of a scene and what came of it."""

    scene: str
    what: str
    expected: str
    got: str

    @property
    def good(self) -> bool:
        """It came as expected."""
        return self.expected == self.got


Scene = Callable[[stages.Stage], Iterator[Outcome]]


def soft_quotas(stage: stages.Stage) -> Iterator[Outcome]:
    """Seed 003, test 1: one replica in member and three on host are preferred; six are wanted."""
    title = "003/1 soft quotas, balanced"
    nodes = _shop_nodes(stage)
    _policy(stage, {"member": 1, "host": 3})
    scheduler = stage.scheduler(nodes, seed=1)
    placed, pending = _schedule(stage, scheduler, _replicas(stage, 6))
    yield Outcome(title, "running, pending", "6, 0", f"{len(placed)}, {len(pending)}")
    first = Counter(_DOMAINS[node] for node in placed[:4])
    yield Outcome(
        title, "the first four", "host 3, member 1", f"host {first['host']}, member {first['member']}"
    )
    yield Outcome(title, "distinct nodes", "6", str(len(set(placed))))
    _clear(stage, _SHOP)


def hard_quotas(stage: stages.Stage) -> Iterator[Outcome]:
    """Seed 003, test 2: the same quotas, but required; then the policy is edited."""
    title = "003/2 hard quotas, filled"
    nodes = [stage.server.objects.get("nodes", ("", name)) for name in _DOMAINS]
    _policy(stage, {"member": 1, "host": 3}, kind="Required", method="Fill")
    scheduler = stage.scheduler(nodes, seed=2)
    placed, pending = _schedule(stage, scheduler, _replicas(stage, 6))
    yield Outcome(title, "running, pending", "4, 2", f"{len(placed)}, {len(pending)}")
    said = sorted({message for _, message in pending})
    expected = (
        "0/6 nodes are available: 2 workload policy workload-test/workload-policy-test: no room"
        " (member 1/1, host 3/3), 4 node(s) didn't match pod anti-affinity rules."
    )
    yield Outcome(title, "what the pending pods say", expected, "; ".join(said))
    _policy(stage, {"member": 1, "host": 4}, kind="Required", method="Fill")
    woken = _woken(stage, [pod for pod, _ in pending])
    yield Outcome(title, "pods woken by the edit", "1", str(len(woken)))
    placed, _ = _schedule(stage, scheduler, woken)
    yield Outcome(title, "where the woken pod went", "host", ", ".join(_DOMAINS[node] for node in placed))


def labelled_nodes(stage: stages.Stage) -> Iterator[Outcome]:
    """Seed 001: only nodes with a label, and of them the one with the highest value."""
    title = "001 nodes by their label"
    nodes = [stage.create("nodes", populating.node(name)) for name in ("scheduler-1", "scheduler-2")]
    stage.knows("/apis/v1/nodes/scheduler-2", bool, "the nodes in the log")
    scheduler = stage.scheduler(nodes, filter_verb="filter_onlyone")

    def test(number: int) -> list[Json]:
        pod = populating.pod("default", f"test-{number}", {"app": "test"})
        pod["spec"]["schedulerName"] = "i-scheduler-extender"
        return [stage.create("pods", pod)]

    waiting = test(1)
    placed, pending = _schedule(stage, scheduler, waiting)
    yield Outcome(title, "without labels", "pending", "pending" if pending else placed[0])
    for labels, expected in (
        ({"scheduler-1": "10"}, "scheduler-1"),
        ({"scheduler-2": "20"}, "scheduler-2"),
        ({"scheduler-1": "30"}, "scheduler-1"),
    ):
        for node, value in labels.items():
            stage.relabel(node, {_LABEL: value})
            _known_label(stage, node, value)
        placed, _ = _schedule(stage, scheduler, waiting)
        said = " and ".join(f"{node}={value}" for node, value in labels.items())
        yield Outcome(title, f"with {said}", expected, ", ".join(placed) or "pending")
        waiting = test(2 + int(next(iter(labels.values()))))
    _clear(stage, "default")


def job_together(stage: stages.Stage) -> Iterator[Outcome]:
    """Seed 000: the workers of one job like the node where the job already is."""
    title = "000 a job of eight together"
    nodes = [stage.create("nodes", populating.node(f"trainer-{number}")) for number in range(4)]
    stage.knows("/apis/v1/nodes/trainer-3", bool, "the nodes in the log")
    scheduler = stage.scheduler(nodes, seed=4)
    pods = [
        stage.create("pods", populating.pod("training", f"rl-worker-{n}", {_GROUP: "job-alpha"}))
        for n in range(8)
    ]
    placed, pending = _schedule(stage, scheduler, pods)
    yield Outcome(title, "running, pending", "8, 0", f"{len(placed)}, {len(pending)}")
    yield Outcome(title, "nodes used", "1", str(len(set(placed))))
    _clear(stage, "training")


STORIES: tuple[Scene, ...] = (soft_quotas, hard_quotas, labelled_nodes, job_together)


# -- inside --------------------------------------------------------------------------------------


def _shop_nodes(stage: stages.Stage) -> list[Json]:
    made = [
        stage.create("nodes", populating.node(name, {"workload-test": domain}))
        for name, domain in _DOMAINS.items()
    ]
    stage.known_nodes(len(made))
    return made


def _policy(
    stage: stages.Stage, quotas: dict[str, int], *, kind: str | None = None, method: str | None = None
) -> None:
    """Create or edit the policy, and wait until the extender follows it."""
    spec: Json = {
        "topologyKey": "workload-test",
        "labelSelector": {"matchLabels": {"app": _APP}},
        "allocationPolicy": [{"name": name, "replicas": replicas} for name, replicas in quotas.items()],
    }
    if kind:
        spec["allocationType"] = kind
    if method:
        spec["allocationMethod"] = method
    held = {made["metadata"]["name"] for made in stage.server.objects.all("workloadpolicies")}
    if _POLICY in held:
        stage.change("workloadpolicies", (_SHOP, _POLICY), lambda found: {**found, "spec": spec})
    else:
        stage.create("workloadpolicies", populating.policy(_SHOP, _POLICY, spec))
    stage.knows(
        f"/apis/v1/plugins/WorkloadPolicy/policies/{_SHOP}/{_POLICY}",
        lambda found: (
            found["desired"] == sum(quotas.values()) and found["allocationType"] == (kind or "Preferred")
        ),
        "the policy in the log",
    )


def _replicas(stage: stages.Stage, count: int) -> list[Json]:
    """The pods of seed 003's Deployment: one on each node at most."""
    pods = []
    for number in range(count):
        pod = populating.pod(_SHOP, f"{_APP}-{number}", {"app": _APP, "workload-policy/kosmos.io": _POLICY})
        pod["spec"]["affinity"] = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"app": _APP}},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        }
        pods.append(stage.create("pods", pod))
    return pods


def _schedule(
    stage: stages.Stage, scheduler: scheduling.Scheduler, pods: list[Json]
) -> tuple[list[str], list[tuple[Json, str]]]:
    """One attempt for each pod: the nodes they went to, and who is pending with what message."""
    placed: list[str] = []
    pending: list[tuple[Json, str]] = []
    for pod in pods:
        attempt = stage.attempt(scheduler, pod)
        if attempt.node is None:
            pending.append((pod, attempt.message))
        else:
            placed.append(attempt.node)
    running = len(placed)
    names = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
    stage.wait(
        f"{running} pods running",
        lambda: (
            sum(stage.server.objects.get("pods", name)["status"].get("phase") == "Running" for name in names)
            >= running
        ),
    )
    return placed, pending


def _woken(stage: stages.Stage, pods: list[Json]) -> list[Json]:
    """The pods that were told of room by a condition, once the first of them was."""

    def told() -> list[Json]:
        found = [stage.pod(pod) for pod in pods]
        return [
            pod
            for pod in found
            if any(one["type"] == "topolog.io/Room" for one in pod["status"].get("conditions", []))
        ]

    stage.wait("a pending pod is told of room", lambda: bool(told()), within=_DECIDED)
    return told()


def _known_label(stage: stages.Stage, node: str, value: str) -> None:
    stage.knows(
        f"/apis/v1/nodes/{node}",
        lambda found: f'"{_LABEL}": "{value}"' in json.dumps(found),
        f"the label of {node} in the log",
    )


def _clear(stage: stages.Stage, namespace: str) -> None:
    """Delete the scene's pods and wait until Topolog knows."""
    for pod in stage.server.objects.all("pods"):
        if pod["metadata"]["namespace"] == namespace:
            stage.server.objects.remove("pods", (namespace, pod["metadata"]["name"]))
            path = f"/apis/v1/pods/{namespace}/{pod['metadata']['name']}"
            stage.wait("the pod is gone from the log", partial(_absent, stage, path))


def _absent(stage: stages.Stage, path: str) -> bool:
    try:
        stage.ask(path)
    except stages.StageFailed:
        return True
    return False
