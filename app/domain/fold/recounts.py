"""By how much counts differ between two snapshots of one log, and whose, without a comparison of all.

A snapshot holds its latest steps. Two snapshots have the same counts at their latest common step, also if
one of them is hypothetical, so they differ only by the steps after it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

import immutables

from app.domain import model

T = TypeVar("T")

Changes = Mapping[str, int]
"""Count -> by how much it differs; may be zero."""

Counts = immutables.Map[str, int]

LENGTH = 64
"""Steps that a snapshot holds at most."""
KEYS = 1024
"""Keys and pods of one step at most: after a larger one, such as a list of all pods, no earlier is held."""


class RecountStep:
    """One change of counts; equal only to itself."""

    __slots__ = ("changes", "pods")

    def __init__(self, changes: Changes, pods: Collection[model.Uid] = ()) -> None:
        self.changes = changes
        self.pods = pods


Steps = tuple[RecountStep, ...]
"""The latest one last."""


class Latest(Generic[T]):
    """What was derived from the latest state that was asked about, for the next one to begin with.

    Threads may share it: it is one reference.
    """

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: tuple[Steps, T] | None = None


def then(steps: Steps, changes: Changes, pods: Collection[model.Uid] = ()) -> Steps:
    """The steps with one more. Both collections are kept as they are, so they must not be modified later.

    ``pods``: those that were counted again: what they raise may differ, or only the node where they raise it.
    """
    if len(changes) > KEYS or len(pods) > KEYS:
        return (RecountStep({}),)
    return (*steps[1 - LENGTH :], RecountStep(changes, pods))


def counted(counts: Counts, changes: Changes) -> Counts:
    """The counts after the changes; those of zero are left out. The same object without any change."""
    if not changes:
        return counts
    found = counts.mutate()
    for key, change in changes.items():
        count = counts.get(key, 0) + change
        if count:
            found[key] = count
        else:
            found.pop(key, None)
    return found.finish()


def between(one: Steps, other: Steps) -> Changes | None:
    """By how much counts are higher after the other steps; None if the steps have none in common.

    Counts that are left out are equal.
    """
    apart = _apart(one, other)
    return None if apart is None else _summed(_summed({}, apart[0], -1), apart[1], 1)


def pods_between(one: Steps, other: Steps) -> frozenset[model.Uid] | None:
    """The pods on nodes that were counted again between the two; None if the steps have none in common.

    Any other pod is on the same node after both, or on none, and the same in what counters read of it. That
    leaves out pods that no object reaches of those that counters need: nothing counts them.
    """
    apart = _apart(one, other)
    return None if apart is None else frozenset().union(*(step.pods for steps in apart for step in steps))


def _apart(one: Steps, other: Steps) -> tuple[Steps, Steps] | None:
    """The steps of each after their latest common one."""
    if not one:
        return None
    if one[-1] in other:  # The usual case: one precedes the other.
        return (), other[other.index(one[-1]) + 1 :]
    places = {step: at for at, step in enumerate(one)}
    for at in range(len(other) - 1, -1, -1):
        common = places.get(other[at])
        if common is not None:
            return one[common + 1 :], other[at + 1 :]
    return None


def _summed(sums: dict[str, int], steps: Iterable[RecountStep], by: int) -> dict[str, int]:
    for step in steps:
        for key, change in step.changes.items():
            sums[key] = sums.get(key, 0) + by * change
    return sums
