"""Finds the pods of a node that depend on victims, by required pod affinity.

A running pod keeps its node when its affinity is no longer met (IgnoredDuringExecution), but a pod that
requires another one near it is of no use without it, and could not be scheduled there again.
"""

from collections.abc import Sequence, Set

from app.domain import model
from app.framework import cycles
from app.plugins.preemption_rules import affinity_terms


def dependents(
    cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]
) -> Sequence[model.Pod] | str:
    """The pods of the node that the eviction would strand, or why the node must be dropped.

    Only those that depend on the victims directly: the framework asks again with what it adds. A pod that is
    terminating ends anyway. Where it cannot be decided within the limits, no pod is evicted.
    """
    gone = {victim.uid for victim in victims}
    staying = (one for one in cycle.snapshot.attached(node) if one.uid not in gone and not one.terminating)
    found = []
    for pod in sorted(staying, key=lambda one: one.uid):
        stranded = None if affinity_terms.excessive(pod) else _stranded(cycle, node, pod, victims, gone)
        if stranded is None:
            return f"the pod affinity of {pod.key} has too many terms, values or pods to examine"
        if stranded and pod.priority >= cycle.pod.priority:
            return f"eviction would strand {pod.key}"
        if stranded:
            found.append(pod)
    return found


def _stranded(
    cycle: cycles.Cycle,
    node: model.NodeName,
    pod: model.Pod,
    victims: Sequence[model.Pod],
    gone: Set[model.Uid],
) -> bool | None:
    """Whether a term of the pod's affinity is met by a victim and by no pod that stays; None if that is not
    known of one, and of the others not so.
    """
    undecided = False
    for term in pod.constraints.pod_affinity if pod.constraints is not None else ():
        if not any(affinity_terms.meets(term, pod, victim) for victim in victims):
            continue
        # More than the victims: one of them stays.
        near = affinity_terms.selected(cycle.snapshot, node, pod, term, len(gone) + 1)
        if all(one.uid in gone for one in near.pods):
            if near.whole:
                return True
            undecided = True
    return None if undecided else False
