"""Finds the pods of a node that depend on victims, by required pod affinity.

A running pod keeps its node when its affinity is no longer met (IgnoredDuringExecution), but a pod that
requires another one near it is of no use without it, and could not be scheduled there again.
"""

from collections.abc import Iterator, Sequence

from app.domain import model, selectors
from app.domain.fold import node_sums
from app.framework import cycles


def dependents(
    cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]
) -> Sequence[model.Pod] | str:
    """The pods of the node that the eviction would strand, or why the node must be dropped.

    Only those that depend on the victims directly: the framework asks again with what it adds. A pod that is
    terminating ends anyway.
    """
    gone = {victim.uid for victim in victims}
    found = [
        pod
        for pod in cycle.snapshot.attached(node)
        if pod.uid not in gone and not pod.terminating and _stranded(cycle, node, pod, victims, gone)
    ]
    for pod in sorted(found, key=lambda one: one.uid):
        if pod.priority >= cycle.pod.priority:
            return f"eviction would strand {pod.key}"
    return found


def _stranded(
    cycle: cycles.Cycle,
    node: model.NodeName,
    pod: model.Pod,
    victims: Sequence[model.Pod],
    gone: set[model.Uid],
) -> bool:
    """Whether a term of the pod's affinity is met by a victim and by no pod that stays."""
    terms = pod.constraints.pod_affinity if pod.constraints is not None else ()
    return any(
        any(_meets(term, pod, victim) for victim in victims)
        and not any(_meets(term, pod, one) for one in _staying(cycle, node, term.topology_key, gone))
        for term in terms
    )


def _staying(
    cycle: cycles.Cycle, node: model.NodeName, key: str, gone: set[model.Uid]
) -> Iterator[model.Pod]:
    """The pods that stay in the node's topology domain; on the node alone if it has no such label."""
    snapshot = cycle.snapshot
    value = snapshot.nodes[node].labels.get(key)
    for name in (node,) if value is None else snapshot.topology[key][value]:
        for pod in snapshot.on(name):
            if pod.uid not in gone and node_sums.holding(pod):
                yield pod


def _meets(term: model.PodTerm, pod: model.Pod, other: model.Pod) -> bool:
    """Whether the other pod is selected by a term of the pod."""
    if term.selector is None or not selectors.matches(term.selector, other.labels):
        return False
    return term.any_namespace or other.namespace in (term.namespaces or (pod.namespace,))
