"""Which nodes carry the label, and what its value is worth."""

import re

from app.domain import verdicts
from app.framework import cycles

_DIGITS = re.compile("[0-9]+")
_INT64 = 2**63 - 1


def worth(value: str) -> int:
    """The value as a score: ASCII digits only, bounded to what the wire can carry; anything else is 0.

    Narrower than int(), which takes ``1_0`` and digits of other scripts that Go refuses (L8).
    """
    return min(int(value), _INT64) if _DIGITS.fullmatch(value) else 0


def refusal(cycle: cycles.Cycle, label: str) -> verdicts.Refusal | None:
    """The candidates without the label, whatever its value would be."""
    column = cycle.snapshot.topology[label]
    refused = cycle.candidates.difference(*(column[value] for value in column))
    return verdicts.Refusal(f"node has no label {label}", refused) if refused else None


def rating(cycle: cycles.Cycle, label: str) -> verdicts.Rating:
    """The candidates by the worth of their label, raw: 50 is 50, whatever the scale of others is."""
    column = cycle.snapshot.topology[label]
    groups: dict[int, verdicts.Names] = {}
    details: dict[str, verdicts.Names] = {}
    for value in column:
        nodes = column[value] & cycle.candidates
        if nodes:
            score = worth(value)
            groups[score] = groups[score] | nodes if score in groups else nodes
            details[f"{label}={value}"] = nodes
    return verdicts.Rating(groups, details)
