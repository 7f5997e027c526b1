"""Selects the nodes with the label and scores them by its value."""

import re

from app.domain import node_sets, verdicts
from app.framework import cluster_changes, cycles

_DIGITS = re.compile("[0-9]+")
_INT64 = 2**63 - 1
LABEL_COST = 10
"""What labelling a node costs as a hypothesis (Hypothesis.cost)."""


def score_of(value: str) -> int:
    """The value as a score: ASCII digits, clamped to int64; any other value scores 0.

    Stricter than int(), which accepts ``1_0`` and digits of other scripts that Go refuses.
    """
    return min(int(value), _INT64) if _DIGITS.fullmatch(value) else 0


def refusal(cycle: cycles.Cycle, label: str) -> verdicts.Refusal | None:
    """Refuses the candidates without the label; any value lets a node pass."""
    column = cycle.snapshot.topology[label]
    refused = cycle.candidates.difference(*(column[value] for value in column))
    return verdicts.Refusal(f"node has no label {label}", refused) if refused else None


def labelled(cycle: cycles.Cycle, refusal: verdicts.Refusal, label: str) -> cluster_changes.Hypothesis:
    """Label one of the refused nodes."""
    node = min(refusal.nodes)
    message = f"a node would need the label {label}, such as {node}"
    return cluster_changes.Hypothesis(
        message, LABEL_COST, (cluster_changes.node_labelled(cycle, node, label, "1"),)
    )


def rating(cycle: cycles.Cycle, label: str) -> verdicts.Rating:
    """The candidates by the value of their label, unscaled: the score of ``50`` is 50."""
    column = cycle.snapshot.topology[label]
    groups: dict[int, node_sets.Names] = {}
    details: dict[str, node_sets.Names] = {}
    for value in column:
        nodes = column[value] & cycle.candidates
        if nodes:
            score = score_of(value)
            groups[score] = groups[score] | nodes if score in groups else nodes
            details[f"{label}={value}"] = nodes
    return verdicts.Rating(groups, details)
