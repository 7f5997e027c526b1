"""The law of gangs, checked on a log: what starts a gang is one commitment of at least its minimum."""

from collections import Counter
from collections.abc import Callable

from app.domain import events, model
from tests.support.simulation.oracle import plain_fold

LABEL = "scheduling.x-k8s.io/pod-group"
GROUPS = {"red": 2, "blue": 3}
"""PodGroup -> its first minimum."""
CAPACITY = 2
"""Pods that fit on a node, in histories with gangs."""
RECENT = 16
"""Events that may be appended between the plan of a bind and its commitment."""


def problem(event: events.AnyEvent, fold: plain_fold.Fold) -> str:
    """How the event, which follows the fold, breaks the law; empty if it does not."""
    if not isinstance(event, events.PlacementsCommitted):
        return ""
    fresh = [one for one in event.placements if one.pod.uid not in fold.placements]
    sizes = Counter(gang(one.pod) for one in fresh)
    for name, size in sizes.items():
        if name and not started(name, fold) and size < fold.groups.get(name, 0):
            return f"gang {name} is started with {size} of {fold.groups[name]} members"
    return _crowded(fresh, fold) if any(sizes) else ""


def _crowded(fresh: list[model.Placement], fold: plain_fold.Fold) -> str:
    """How members of gangs exceed the capacity of a node; empty if they do not.

    A commitment expects no change of commitments since its plan. A pod that a watch shows on a node without a
    placement there is none: it was bound by others, or its placement was released because it is gone.
    """
    held = Counter(
        name
        for uid, (pod, name) in fold.pods_and_nodes().items()
        if gang(pod) and not _finished(pod) and fold.offset - fold.unplaced.get(uid, -RECENT) >= RECENT
    )
    for one in fresh:
        held[one.node] += 1
        node = fold.nodes.get(one.node)
        most = node.allocatable.get("pods", 0) if node is not None else 0
        if held[one.node] > most:
            return f"{one.node} has capacity for {most} pods, and gets {held[one.node]} members of gangs"
    return ""


def partly_placed(fold: plain_fold.Fold) -> list[str]:
    """The gangs with a placement but no Binding; at rest there are none."""
    return sorted({gang(pod) for pod, _ in fold.placements.values() if gang(pod)})


def unhealed(fold: plain_fold.Fold, limited: Callable[[model.Pod], bool]) -> str:
    """A gang whose waiting members kube-scheduler has tried in this state and could place, as text.

    One that has started, and has lost members since, gets each of the others that there is capacity for; any
    other is placed whole. ``limited``: whether something else may refuse the pod a node.
    """
    located = fold.pods_and_nodes().values()
    held = Counter(node for pod, node in located if node and not _finished(pod))
    free = sum(max(0, node.allocatable.get("pods", 0) - held[name]) for name, node in fold.nodes.items())
    for name, minimum in sorted(fold.groups.items()):
        members = [(pod, node) for pod, node in located if gang(pod) == name and not pod.terminating]
        waiting = [pod for pod, node in members if not node and not _finished(pod) and not limited(pod)]
        needed = 1 if started(name, fold) else minimum
        if min(free, len(waiting)) >= needed:
            placed = sum(bool(node) and not _finished(pod) for pod, node in members)
            return f"gang {name}: {placed} of {minimum} are placed, {len(waiting)} wait beside {free} places"
    return ""


def gang(pod: model.Pod) -> str:
    """``namespace/name`` of the pod's gang; empty if it is of none."""
    name = pod.labels.get(LABEL, "") or pod.group
    return f"{pod.namespace}/{name}" if name else ""


def started(name: str, fold: plain_fold.Fold) -> bool:
    """Whether a member has a node, or has run; one that is being deleted does not count.

    In a simulation one Job owns all members of a gang, so those that have run are always of the same run.

    kube-scheduler 1.37 counts one until it is gone (podGroupState.ScheduledPodsCount), and would let a single
    member of the next run of a job go before it.
    """
    return any(
        gang(pod) == name and not pod.terminating and (node or _finished(pod))
        for pod, node in fold.pods_and_nodes().values()
    )


def _finished(pod: model.Pod) -> bool:
    return pod.phase in ("Succeeded", "Failed")
