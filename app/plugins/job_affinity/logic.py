"""Finds the nodes of a pod's siblings and scores candidates by their distance to them."""

from collections.abc import Iterator

from app.domain import model, node_sets, snapshots, verdicts
from app.framework import cycles

Grades = tuple[tuple[str, int], ...]
"""(topology key, score): the score of a node that shares the label value with a sibling's node."""

FULL = 10
"""Upper end of the scale of grades: the score of a node that holds a sibling itself."""


def places(
    snapshot: snapshots.Snapshot, label: str, group: str, namespaces: tuple[str, ...]
) -> Iterator[model.NodeName]:
    """The nodes of the group's pods, bound or placed, except terminating and finished ones (RL-5, RL-6)."""
    for namespace in namespaces:
        for pod in snapshot.siblings(namespace, label, group):
            node = snapshot.node_of(pod.uid)
            if node and pod.counted:
                yield node


def rating(cycle: cycles.Cycle, label: str, grades: Grades, namespaces: tuple[str, ...]) -> verdicts.Rating:
    """The candidates by their distance to the nearest sibling.

    The pod is not its own sibling, because the cycle's snapshot holds it on no node (cycles.cycle).
    """
    group = cycle.pod.labels[label]
    nodes = frozenset(places(cycle.snapshot, label, group, namespaces))
    here = cycle.candidates & nodes
    groups = {cycle.score_max: here} if here else {}
    details = {f"holds a pod of {group}": here} if here else {}
    taken = set(here)
    for key, grade in sorted(grades, key=lambda one: -one[1]):
        near = frozenset(_sharing(cycle, nodes, key) - taken)
        score = (grade * cycle.score_max + FULL // 2) // FULL
        if near and score:
            groups[score] = groups.get(score, node_sets.NONE) | near
            details[f"same {key} as a pod of {group}"] = near
            taken |= near
    return verdicts.Rating(groups, details)


def _sharing(cycle: cycles.Cycle, nodes: node_sets.Names, key: str) -> set[model.NodeName]:
    """The candidates that share a value of the node label with one of the nodes."""
    column = cycle.snapshot.topology[key]
    known = (cycle.snapshot.nodes.get(name) for name in nodes)
    values = {node.labels[key] for node in known if node is not None and key in node.labels}
    return set().union(*(column[value] & cycle.candidates for value in values))
