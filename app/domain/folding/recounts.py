"""Which counts may differ between two snapshots of one log, without a comparison of all counts.

A snapshot holds its latest steps. Two snapshots have the same counts at their latest common step, also if
one of them is hypothetical, so they differ only in the keys of the steps after it.
"""

from collections.abc import Collection

LENGTH = 32
"""Steps that a snapshot holds at most."""
KEYS = 1024
"""Keys of one step at most: after a larger one, such as a list of all pods, no earlier step is held."""


class Step:
    """One change of counts; equal only to itself."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys


Steps = tuple[Step, ...]
"""The latest one last."""


def then(steps: Steps, keys: Collection[str]) -> Steps:
    """The steps with one more, which changed the counts of these keys."""
    if len(keys) > KEYS:
        return (Step(()),)
    return (*steps[1 - LENGTH :], Step(tuple(keys)))


def between(one: Steps, other: Steps) -> set[str] | None:
    """The keys whose counts may differ; None if the steps have none in common, so any may."""
    places = {step: at for at, step in enumerate(one)}
    for at in range(len(other) - 1, -1, -1):
        common = places.get(other[at])
        if common is not None:
            return {key for step in (*one[common + 1 :], *other[at + 1 :]) for key in step.keys}
    return None
