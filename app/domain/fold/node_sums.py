"""Derives from the pods of each node the sums of their requests, and which need others near them.

Exact sums, in the units of model.Pod.requests (cpu in milli-units, memory in bytes). A pod occupies its node
from its placement until it is finished or gone: one that is terminating still runs (model.Pod.counted is the
other rule, for quotas). The same pods are what kube-scheduler sums (NodeInfo.Requested).
"""

from collections.abc import Callable, Iterator, Mapping

import immutables
import msgspec

from app.domain import model
from app.domain.fold import pod_index

Amounts = Mapping[str, int]
"""Resource -> amount; shared, never changed. A resource that no pod requests is not in it."""

PODS = "pods"
"""The resource whose amount is the number of pods, as in the allocatable of a node."""


def holding(pod: model.Pod) -> bool:
    """Whether the pod occupies the node that it is bound to or placed on."""
    return pod.phase not in model.FINISHED


def attached(pod: model.Pod) -> bool:
    """Whether the pod occupies its node and requires other pods near it."""
    return pod.constraints is not None and bool(pod.constraints.pod_affinity) and holding(pod)


def alike(before: model.Pod | None, after: model.Pod | None) -> bool:
    """Whether the same follows from two versions of a pod on the same node."""
    if before is None or after is None:
        return False
    if before.phase != after.phase and holding(before) != holding(after):
        return False
    return before.requests == after.requests and before.constraints == after.constraints


Ranking = tuple[tuple[int, model.Uid], ...]
"""The pods that occupy something on a node, by priority and uid, the least important first."""


class Residents(msgspec.Struct, eq=False, gc=False):
    """The pods bound to a node or placed on it, in any phase, and what follows from them.

    What follows is computed when it is first read, and kept with the value; the fold makes another value
    whenever a pod arrives, leaves or changes in a way that matters here. So a sum that nothing reads costs
    nothing, and one that is read costs the pods of one node that has changed. Threads may share it: each
    result is one reference.
    """

    pods: pod_index.Pods
    amounts: Amounts | None = None
    """The sum; None until it is read."""
    lowest: int | None = None
    """The lowest priority of those that occupy something; None until the sum is read, and without any."""
    exposed: tuple[model.Uid, ...] = ()
    """Those that occupy host ports; empty until the sum is read."""
    dependent: tuple[model.Uid, ...] | None = None
    """Those that require other pods near them; None until they are read."""
    ranking: Ranking | None = None
    """None until it is read."""

    def occupied(self, pod: Callable[[model.Uid], model.Pod | None]) -> Amounts:
        """The summed requests; ``pod`` returns the pod of a uid, in the snapshot that holds this value."""
        found = self.amounts
        if found is not None:
            return found
        amounts: dict[str, int] = {}
        lowest: int | None = None
        exposed: tuple[model.Uid, ...] = ()
        number = 0
        for each in map(pod, self.pods):
            if each is None or not holding(each):
                continue
            number += 1
            if lowest is None or each.priority < lowest:
                lowest = each.priority
            for resource, amount in each.requests.items():
                if amount:
                    amounts[resource] = amounts.get(resource, 0) + amount
            if each.constraints is not None and each.constraints.host_ports:
                exposed = (*exposed, each.uid)
        if number:
            amounts[PODS] = amounts.get(PODS, 0) + number
        self.lowest, self.exposed = lowest, exposed  # First: where the sum is, these are, too.
        self.amounts = amounts
        return amounts

    def lowest_priority(self, pod: Callable[[model.Uid], model.Pod | None]) -> int | None:
        """The lowest priority of the pods that occupy the node; None without any."""
        self.occupied(pod)
        return self.lowest

    def on_ports(self, pod: Callable[[model.Uid], model.Pod | None]) -> tuple[model.Uid, ...]:
        """Those that occupy host ports; ``pod`` as for ``occupied``."""
        self.occupied(pod)
        return self.exposed

    def attached(self, pod: Callable[[model.Uid], model.Pod | None]) -> tuple[model.Uid, ...]:
        """Those that occupy the node and require other pods near them; ``pod`` as for ``occupied``."""
        found = self.dependent
        if found is None:
            found = tuple(each.uid for each in filter(None, map(pod, self.pods)) if attached(each))
            self.dependent = found
        return found

    def ranked(self, pod: Callable[[model.Uid], model.Pod | None]) -> Ranking:
        """Those that occupy something, by priority; ``pod`` as for ``occupied``."""
        found = self.ranking
        if found is None:
            there = (each for each in map(pod, self.pods) if each is not None and holding(each))
            found = tuple(sorted((each.priority, each.uid) for each in there))
            self.ranking = found
        return found

    def mutate(self) -> "immutables.MapMutation[model.Uid, None]":
        """The pods, opened for change."""
        return self.pods.mutate()

    def __iter__(self) -> Iterator[model.Uid]:
        return iter(self.pods)

    def __len__(self) -> int:
        return len(self.pods)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Residents) and self.pods == other.pods


EMPTY = Residents(pod_index.NO_PODS)
"""A node without pods."""


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
