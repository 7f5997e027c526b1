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
    return not pod.finished


class Sums:
    """Changes to the sums of nodes, which stay as they were. A node without pods has none."""

    __slots__ = ("_changed", "_start")

    def __init__(self, start: "immutables.Map[model.NodeName, Amounts]") -> None:
        self._start = start
        self._changed: dict[model.NodeName, dict[str, int]] = {}

    def add(self, node: model.NodeName, pod: model.Pod, by: int) -> None:
        """Add the pod to the node (``by`` 1) or remove it (-1)."""
        changed = self._changed.get(node)
        if changed is None:
            changed = self._changed[node] = dict(self._start.get(node, NOTHING))
        add_up(changed, pod, by)

    def finish(self) -> "immutables.Map[model.NodeName, Amounts]":
        """The sums after all changes."""
        if not self._changed:
            return self._start
        result = self._start.mutate()
        for node, amounts in self._changed.items():
            if amounts:
                result[node] = amounts
            else:
                result.pop(node, None)
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
