"""Finds the pods of a node that depend on victims, by required pod affinity.

A running pod keeps its node when its affinity is no longer met (IgnoredDuringExecution), but a pod that
requires another one near it is of no use without it, and could not be scheduled there again.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from app.domain import model, selectors, snapshots
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
        and not any(
            one.uid not in gone and node_sums.holding(one) and _meets(term, pod, one)
            for one in _near(cycle.snapshot, node, pod, term)
        )
        for term in terms
    )


def _near(
    snapshot: snapshots.Snapshot, node: model.NodeName, pod: model.Pod, term: model.PodTerm
) -> Iterable[model.Pod]:
    """The pods of the node's topology domain among which are all that the term selects; those of the node
    alone if it has no such label.
    """
    domain = snapshot.nodes[node].labels.get(term.topology_key)
    if domain is None or len(snapshot.topology[term.topology_key][domain]) == 1:
        return snapshot.on(node)
    spaces = snapshot.namespaces if term.any_namespace else term.namespaces or (pod.namespace,)
    required = _required(term.selector or model.Selector())
    key = __name__, term.topology_key, domain, tuple(required)
    grouped = snapshot.computed(key, lambda: _grouped(snapshot, term.topology_key, domain, tuple(required)))
    chosen = itertools.product(spaces, *required.values())
    return itertools.chain.from_iterable(grouped.get(values, ()) for values in chosen)


def _required(selector: model.Selector) -> Mapping[str, Sequence[str]]:
    """Labels that every selected pod has, each with the values that it may have."""
    listed = ({one.key: one.values} for one in selector.expressions if one.operator == "In")
    return {label: (value,) for label, value in selector.labels.items()} or next(listed, {})


def _grouped(
    snapshot: snapshots.Snapshot, topology_key: str, domain: str, labels: Sequence[str]
) -> Mapping[tuple[str, ...], Sequence[model.Pod]]:
    """The pods of the topology domain by namespace and values of the labels.

    Few terms differ in more than these, and each is asked about for many nodes: one pass finds the pods of
    all of them.
    """
    found: dict[tuple[str, ...], list[model.Pod]] = {}
    for pod in itertools.chain.from_iterable(map(snapshot.on, snapshot.topology[topology_key][domain])):
        values = (pod.labels.get(label, "") for label in labels)
        found.setdefault((pod.namespace, *values), []).append(pod)
    return found


def _meets(term: model.PodTerm, pod: model.Pod, other: model.Pod) -> bool:
    """Whether the other pod is selected by a term of the pod."""
    if term.selector is None or not selectors.matches(term.selector, other.labels):
        return False
    return term.any_namespace or other.namespace in (term.namespaces or (pod.namespace,))
