"""An endless history: nodes and policies, then pods that are created, bound, started and deleted."""

from collections.abc import Callable, Iterator

from app.domain import events, model
from app.plugins.workload_policy import policy_model
from tests.support import declared

POLICIES = 10
NAMESPACES = 50


def _third(number: int) -> int:
    """Every third pod is deleted as soon as it runs; the others stay."""
    return number if number % 3 == 0 else -1


def history(nodes: int = 500, gone: Callable[[int], int] = _third) -> Iterator[events.AnyEvent]:
    """``gone(number)`` is the pod that is deleted once pod ``number`` runs; negative: none."""
    for number in range(nodes):
        yield events.NodeSeen(node=_node(number))
    for number in range(POLICIES):
        yield declared.observed(_policy(number))
    number = 0
    while True:
        node = _node_name(number % nodes)
        yield events.PodSeen(pod=_pod(number))
        yield events.PodSeen(pod=_pod(number, node))
        yield events.PodSeen(pod=_pod(number, node, "Running", "2026-01-01T00:00:05Z"))
        if (going := gone(number)) >= 0:
            pod = _pod(going)
            yield events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name)
        number += 1


def _node_name(number: int) -> model.NodeName:
    return f"node-{number:05d}"


def _node(number: int) -> model.Node:
    name = _node_name(number)
    labels = {"kubernetes.io/hostname": name, "zone": f"z{number % 3}", "rack": f"r{number % 25}"}
    return model.Node(name=name, uid=f"n{number}", labels=labels, allocatable={"cpu": 64_000}, ready=True)


def _policy(number: int) -> policy_model.WorkloadPolicy:
    return policy_model.WorkloadPolicy(
        uid=f"p{number}",
        namespace=f"ns{number}",
        name="quota",
        topology_key="zone",
        selector=model.Selector(labels={"app": f"a{number % 7}"}),
        allocations=(policy_model.Allocation("z0", 100),),
    )


def _pod(number: int, node: str = "", phase: str = "Pending", started: str = "") -> model.Pod:
    app = f"app-{number % 1000}"
    return model.Pod(
        uid=f"00000000-0000-4000-8000-{number:012d}",
        namespace=f"ns{number % NAMESPACES}",
        name=f"{app}-{number:06d}",
        labels={"app": f"a{number % 7}", "pod-template-hash": "abcdef"},
        owners=(model.Owner("ReplicaSet", app, f"rs{number % 1000}", controller=True),),
        requests={"cpu": 500, "memory": 1 << 30},
        node=node,
        phase=phase,
        created="2026-01-01T00:00:00Z",
        started=started,
    )
