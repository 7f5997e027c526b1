"""By how much counts differ between two snapshots of one log, without a comparison of all counts.

A snapshot holds its latest steps. Two snapshots have the same counts at their latest common step, also if
one of them is hypothetical, so they differ only by the steps after it.
"""

from collections.abc import Mapping

Changes = Mapping[str, int]
"""Count -> by how much it differs; may be zero."""

LENGTH = 32
"""Steps that a snapshot holds at most."""
KEYS = 1024
"""Keys of one step at most: after a larger one, such as a list of all pods, no earlier step is held."""


class RecountStep:
    """One change of counts; equal only to itself."""

    __slots__ = ("changes",)

    def __init__(self, changes: Changes) -> None:
        self.changes = changes


Steps = tuple[RecountStep, ...]
"""The latest one last."""


def then(steps: Steps, changes: Changes) -> Steps:
    """The steps with one more. The changes are kept as they are, so they must not be modified later."""
    if len(changes) > KEYS:
        return (RecountStep({}),)
    return (*steps[1 - LENGTH :], RecountStep(changes))


def between(one: Steps, other: Steps) -> Changes | None:
    """By how much counts are higher after the other steps; None if the steps have none in common.

    Counts that are left out are equal.
    """
    if not one:
        return None
    if one[-1] in other:  # The usual case: one precedes the other.
        return _summed({}, other[other.index(one[-1]) + 1 :], 1)
    places = {step: at for at, step in enumerate(one)}
    for at in range(len(other) - 1, -1, -1):
        common = places.get(other[at])
        if common is not None:
            return _summed(_summed({}, one[common + 1 :], -1), other[at + 1 :], 1)
    return None


def _summed(sums: dict[str, int], steps: Steps, by: int) -> dict[str, int]:
    for step in steps:
        for key, change in step.changes.items():
            sums[key] = sums.get(key, 0) + by * change
    return sums
