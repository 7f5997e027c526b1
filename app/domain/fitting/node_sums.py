"""What the pods of each node occupy: the sums of their requests, kept in the fold.

Exact sums, in the units of model.Pod.requests (cpu in milli-units, memory in bytes). A pod occupies its node
from its placement until it is finished or gone: one that is terminating still runs (model.Pod.counted is the
other rule, for quotas). The same pods are what kube-scheduler sums (NodeInfo.Requested).
"""

from collections.abc import Mapping

import immutables

from app.domain import model

Amounts = Mapping[str, int]
"""Resource -> amount; shared, never changed. A resource that no pod requests is not in it."""

PODS = "pods"
"""The resource whose amount is the number of pods, as in the allocatable of a node."""

NOTHING: Amounts = {}


def holding(pod: model.Pod) -> bool:
    """Whether the pod occupies the node that it is bound to or placed on."""
    return pod.phase not in model.FINISHED


def alike(before: model.Pod | None, after: model.Pod | None) -> bool:
    """Whether two versions of a pod occupy the same on the same node."""
    if before is None or after is None:
        return False
    held = before.phase == after.phase or holding(before) == holding(after)
    return held and before.requests == after.requests


class Sums:
    """Changes to the sums of nodes, which stay as they were. A node without pods has none."""

    __slots__ = ("_changes", "_start")

    def __init__(self, start: "immutables.Map[model.NodeName, Amounts]") -> None:
        self._start = start
        self._changes: list[tuple[model.NodeName, Amounts, int]] = []
        """Node, requests, +1 or -1: added up at the end in one loop, because a fold makes many."""

    def add(self, node: model.NodeName, pod: model.Pod, by: int) -> None:
        """Add the pod to the node (``by`` 1) or remove it (-1)."""
        self._changes.append((node, pod.requests, by))

    def finish(self) -> "immutables.Map[model.NodeName, Amounts]":
        """The sums after all changes."""
        if not self._changes:
            return self._start
        start, changed = self._start, dict[model.NodeName, dict[str, int]]()
        for node, requests, by in self._changes:
            amounts = changed.get(node)
            if amounts is None:
                amounts = changed[node] = dict(start.get(node, NOTHING))
            amounts[PODS] = amounts.get(PODS, 0) + by
            for resource, amount in requests.items():
                amounts[resource] = amounts.get(resource, 0) + by * amount
        result = start.mutate()
        for node, amounts in changed.items():
            if not amounts[PODS]:
                result.pop(node, None)
            elif 0 in amounts.values():
                result[node] = {resource: total for resource, total in amounts.items() if total}
            else:
                result[node] = amounts
        return result.finish()


def add_up(amounts: dict[str, int], pod: model.Pod, by: int) -> None:
    """Add the requests of the pod to the amounts, ``by`` times; amounts of zero are left out."""
    amounts[PODS] = amounts.get(PODS, 0) + by
    for resource, amount in pod.requests.items():
        total = amounts.get(resource, 0) + by * amount
        if total:
            amounts[resource] = total
        else:
            amounts.pop(resource, None)
    if not amounts[PODS]:
        amounts.clear()
