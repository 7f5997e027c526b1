"""The map of what differs between two states: for each node whether it has more, less, or the same."""

from collections.abc import Callable, Iterable

from app.domain import model, snapshots
from app.domain.fold import node_sums

CLASSES = ("the same", "less", "more", "gone", "new")
"""The classes in the order of their letters."""
LETTERS = "ABCDE"
Measure = Callable[[snapshots.Snapshot, model.NodeName], int]


def measure_of(text: str) -> Measure:
    """What is compared: the pods of a node, or what its pods request of a resource (``resource:NAME``)."""
    resource = text.removeprefix("resource:") if text.startswith("resource:") else node_sums.PODS
    return lambda snapshot, name: snapshot.used(name).get(resource, 0)


def letters(
    before: snapshots.Snapshot, after: snapshots.Snapshot, names: Iterable[model.NodeName], measure: Measure
) -> str:
    """A letter for each node of one of the two states, in order."""
    return "".join(LETTERS[_class(before, after, name, measure)] for name in names)


def _class(
    before: snapshots.Snapshot, after: snapshots.Snapshot, name: model.NodeName, measure: Measure
) -> int:
    if name not in after.nodes:
        return 3
    if name not in before.nodes:
        return 4
    if before.residents.get(name) is after.residents.get(name):
        return 0
    one, other = measure(before, name), measure(after, name)
    return 0 if one == other else 1 if other < one else 2
