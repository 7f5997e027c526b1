"""Which nodes are candidates in a hypothetical question, and what that does not model.

kube-scheduler's own filters are not evaluated, so every answer states where its candidates come from.
"""

from collections.abc import Mapping

from app.domain import model, node_sets, snapshots
from app.verbs.questions import errors

RECORDED, ALL, ROOMY = "recorded", "all", "roomy"
CHOICES = (RECORDED, ALL, ROOMY)
UNMODELLED = "kube-scheduler's own filters are not modelled"
_ROOMY = (
    f"{UNMODELLED}: candidates are the nodes that are ready, not cordoned and have the requested resources"
    " free; taints, node selectors, affinity, host ports, volumes and topology spread are not considered"
)
PODS = "pods"
"""The resource of which every pod takes one."""


def from_record(decision: str) -> str:
    """The limitation of an answer whose candidates were recorded."""
    return f"{UNMODELLED}: candidates are those that it offered in decision {decision}"


def of(choice: str | list[str], snapshot: snapshots.Snapshot) -> tuple[node_sets.Names | None, str]:
    """The candidates of all pods and the limitation; None if they differ from pod to pod (roomy).

    Raises Mistake. ``recorded`` is the concern of the caller.
    """
    match choice:
        case str() if choice == ALL:
            return (
                frozenset(snapshot.topology.everywhere),
                f"{UNMODELLED}: candidates are all nodes",
            )
        case str() if choice == ROOMY:
            return None, _ROOMY
        case str():
            raise errors.Mistake("candidates", f"must be one of {', '.join(CHOICES)}, or a list of nodes")
        case _:
            for at, name in enumerate(choice):
                if name not in snapshot.nodes:
                    raise errors.Mistake(
                        f"candidates[{at}]", f"there is no node {name} at {snapshot.position}"
                    )
            return frozenset(choice), f"{UNMODELLED}: candidates are those of the question"


class Capacity:
    """What is free on each node of a snapshot, while supposed pods are placed one after the other."""

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self._nodes = {
            name: node for name, node in snapshot.nodes.items() if node.ready and not node.unschedulable
        }
        self._free: dict[model.NodeName, dict[str, int]] = {}
        for name, node in self._nodes.items():
            free = dict(node.allocatable)
            for pod in snapshot.on(name):
                if not pod.finished:
                    _take(free, pod.requests)
            self._free[name] = free

    def roomy(self, pod: model.Pod) -> frozenset[model.NodeName]:
        """The nodes that have the pod's requests free; a resource that a node does not list is unlimited
        if it is ``pods`` and absent otherwise.
        """
        wanted = [(resource, amount) for resource, amount in pod.requests.items() if amount]
        return frozenset(
            name
            for name, free in self._free.items()
            if free.get(PODS, 1) >= 1 and all(free.get(resource, 0) >= amount for resource, amount in wanted)
        )

    def take(self, pod: model.Pod, node: model.NodeName) -> None:
        """Count the pod on the node."""
        if node in self._free:
            _take(self._free[node], pod.requests)


def _take(free: dict[str, int], requests: Mapping[str, int]) -> None:
    for resource, amount in requests.items():
        free[resource] = free.get(resource, 0) - amount
    if PODS in free:
        free[PODS] -= 1
