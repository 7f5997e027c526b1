"""The class of each node on a map: by its state, by a share of a resource, or by the quota of an object."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from app.domain import model, node_sets, snapshots
from app.domain.fold import node_sums
from app.framework import views

LETTERS = "ABCDEFGHIJKLMNOP"
ABSENT = "-"
"""The class of a node of the layout that does not exist at the moment."""
_FULL = 0.95
_SPACE = ("cpu", "memory", node_sums.PODS)
_STATES = ("no pods", "less than half in use", "half in use or more", "full", "cordoned", "not ready")
_SHARES = ("not offered", "unused", "under 25 %", "under 50 %", "under 75 %", "under 100 %", "used up")
_QUOTAS = ("no quota here", "empty", "under half", "half or more", "full", "over")
Count = Callable[[str], Iterable[views.DomainCount]]


@dataclass(frozen=True, slots=True)
class Painter:
    """Gives each node of a snapshot one of the classes."""

    labels: Sequence[str]
    """The classes in the order of their letters; a later one is fuller or worse."""
    paint: Callable[[snapshots.Snapshot], Callable[[model.NodeName], int]]
    """snapshot -> (name of a node in it -> index of its class)."""
    by_node: bool
    """The class depends only on the node and its pods, so it stays if neither has changed."""
    looks: Sequence[views.Look | Literal[""]] = ()
    """How the classes are drawn; empty if their labels are known to the dashboard."""


class Group(NamedTuple):
    """Nodes of one class."""

    label: str
    nodes: node_sets.Names
    look: views.Look | Literal[""] = ""
    """Empty: the dashboard draws each such class of a map in another way."""


def by_state() -> Painter:
    """Readiness, then the fullest of cpu, memory and pods."""
    return Painter(_STATES, lambda snapshot: lambda name: _state(snapshot, name), by_node=True)


def by_resource(resource: str) -> Painter:
    """The share of a resource that the pods of the node request."""

    def paint(snapshot: snapshots.Snapshot) -> Callable[[model.NodeName], int]:
        def share(name: model.NodeName) -> int:
            offered = snapshot.nodes[name].allocatable.get(resource, 0)
            used = snapshot.used(name).get(resource, 0)
            if not offered:
                return 0
            if not used:
                return 1
            return 6 if used >= offered else 2 + min(3, 4 * used // offered)

        return share

    return Painter(_SHARES, paint, by_node=True)


def by_quota(of: str, counts: Callable[[snapshots.Snapshot, str], Iterable[Mapping[str, Count]]]) -> Painter:
    """How full the domain of the node is by the quota of an object; ``counts``: its counts."""

    def paint(snapshot: snapshots.Snapshot) -> Callable[[model.NodeName], int]:
        known: dict[tuple[str, str], int] = {}
        held = [(key, count) for each in counts(snapshot, of) for key, count in each.items()]

        def domain(key: str, value: str, count: Count) -> int:
            found = known.get((key, value))
            if found is None:
                classes = [_quota(one) for one in count(value)]
                found = known[key, value] = max(classes, default=0)
            return found

        def quota(name: model.NodeName) -> int:
            labels = snapshot.nodes[name].labels
            return max((domain(key, labels[key], count) for key, count in held if key in labels), default=0)

        return quota

    return Painter(_QUOTAS, paint, by_node=False)


def by_object(declared: views.Painted, name: str) -> Painter:
    """How the nodes are related to an object of a plugin."""

    def paint(snapshot: snapshots.Snapshot) -> Callable[[model.NodeName], int]:
        classes = declared.nodes(snapshot, name)
        return lambda node: classes.get(node, 0)

    labels, looks = zip(*declared.classes, strict=True)
    return Painter(labels, paint, by_node=False, looks=looks)


def by_group(groups: Sequence[Group], others: str) -> Painter:
    """The first group that has the node; ``others`` is the class of the nodes that no group has.

    There are at most 15 groups.
    """
    classes = {name: at for at, group in reversed(list(enumerate(groups, 1))) for name in group.nodes}
    labels = (others, *(group.label for group in groups))
    looks = ("none", *(group.look for group in groups))
    return Painter(labels, lambda _: lambda name: classes.get(name, 0), by_node=True, looks=looks)


def letters(painter: Painter, snapshot: snapshots.Snapshot, names: Iterable[model.NodeName]) -> str:
    """A letter for each name, in order."""
    paint, nodes = painter.paint(snapshot), snapshot.nodes
    return "".join(LETTERS[paint(name)] if name in nodes else ABSENT for name in names)


def _state(snapshot: snapshots.Snapshot, name: model.NodeName) -> int:
    node = snapshot.nodes[name]
    if not node.ready:
        return 5
    if node.unschedulable:
        return 4
    used = snapshot.used(name)
    if not used.get(node_sums.PODS):
        return 0
    offered = node.allocatable
    share = max((used.get(key, 0) / offered[key] for key in _SPACE if offered.get(key)), default=0.0)
    if share >= _FULL:
        return 3
    return 2 if share >= 0.5 else 1


def _quota(count: views.DomainCount) -> int:
    if count.desired is None:
        return 0
    if count.placed > count.desired:
        return 5
    if count.placed == count.desired:
        return 4
    if not count.placed:
        return 1
    return 3 if 2 * count.placed >= count.desired else 2
