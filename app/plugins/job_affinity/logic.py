"""Where the siblings of a pod are, and which candidates are how near to them."""

from collections.abc import Iterator

from app.domain import model, snapshots, verdicts
from app.framework import cycles

Grades = tuple[tuple[str, int], ...]
"""(topology key, score): what a node is worth that shares the value of that label with a sibling's node."""

FULL = 10
"""The scale on which grades are given; a sibling on the node itself is worth all of it (seed 000)."""


def places(
    snapshot: snapshots.Snapshot, label: str, group: str, namespaces: tuple[str, ...]
) -> Iterator[model.NodeName]:
    """Where the pods of the group are, bound or promised; not those that are ending (RL-5, RL-6)."""
    for namespace in namespaces:
        for pod in snapshot.siblings(namespace, label, group):
            node = snapshot.node_of(pod.uid)
            if node and pod.counted:
                yield node


def rating(cycle: cycles.Cycle, label: str, grades: Grades, namespaces: tuple[str, ...]) -> verdicts.Rating:
    """The candidates by their nearness to the nearest sibling.

    A pod is not its own sibling: the cycle's snapshot holds it nowhere (cycles.cycle).
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
            groups[score] = groups.get(score, verdicts.NONE) | near
            details[f"same {key} as a pod of {group}"] = near
            taken |= near
    return verdicts.Rating(groups, details)


def _sharing(cycle: cycles.Cycle, nodes: verdicts.Names, key: str) -> set[model.NodeName]:
    """The candidates that have the same value of the node label as one of the nodes."""
    column = cycle.snapshot.topology[key]
    known = (cycle.snapshot.nodes.get(name) for name in nodes)
    values = {node.labels[key] for node in known if node is not None and key in node.labels}
    return set().union(*(column[value] & cycle.candidates for value in values))
