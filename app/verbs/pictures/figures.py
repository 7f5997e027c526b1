"""The figures of a cluster at one moment."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.domain import model, schema, snapshots
from app.domain.fold import node_sums
from app.framework import views

Counts = Callable[
    [snapshots.Snapshot, str], Iterable[Mapping[str, Callable[[str], Iterable[views.DomainCount]]]]
]
"""``views.DomainCounts`` of all plugins."""


@dataclass(frozen=True, slots=True)
class QuotaFigures:
    """What an object counts in a domain, beside its quota there."""

    of: str
    key: str
    value: str
    placed: int
    desired: int | None
    count_key: schema.CountKey
    """The count that ``placed`` is; empty if it is none."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of nodes and pods, and the sums of resources."""

    nodes: int
    ready: int
    """Ready and not cordoned."""
    cordoned: int
    unready: int
    running: int
    """Pods that occupy a node, those in flight included."""
    waiting: int
    in_flight: int
    known: int
    """Pods in the log, whatever their phase."""
    allocatable: Mapping[str, int]
    requested: Mapping[str, int]


def of(snapshot: snapshots.Snapshot) -> Figures:
    """The figures of a snapshot."""
    ready = cordoned = unready = 0
    allocatable: dict[str, int] = {}
    requested: dict[str, int] = {}
    for name, node in snapshot.nodes.items():
        unready += not node.ready
        cordoned += node.unschedulable
        ready += node.ready and not node.unschedulable
        for sums, amounts in ((allocatable, node.allocatable), (requested, snapshot.used(name))):
            for key, amount in amounts.items():
                sums[key] = sums.get(key, 0) + amount
    return Figures(
        nodes=len(snapshot.nodes),
        ready=ready,
        cordoned=cordoned,
        unready=unready,
        running=requested.get(node_sums.PODS, 0),
        waiting=len(snapshot.waiting),
        in_flight=len(snapshot.placements),
        known=len(snapshot.pods),
        allocatable=allocatable,
        requested=requested,
    )


class Tally:
    """The numbers of ready nodes and running pods of one snapshot after another.

    Only nodes that may have changed are computed again.
    """

    def __init__(self) -> None:
        self._last: snapshots.Snapshot | None = None
        self.ready = 0
        """Ready and not cordoned."""
        self.running = 0
        """Pods that occupy a node, those in flight included."""

    def move(self, snapshot: snapshots.Snapshot, touched: Iterable[model.NodeName]) -> None:
        """Count the next snapshot; ``touched``: nodes that may differ, ignored for the first one."""
        last, self._last = self._last, snapshot
        for name in snapshot.nodes if last is None else touched:
            if last is not None:
                self._count(last, name, -1)
            self._count(snapshot, name, +1)

    def _count(self, snapshot: snapshots.Snapshot, name: model.NodeName, by: int) -> None:
        node = snapshot.nodes.get(name)
        if node is not None:
            self.ready += by * (node.ready and not node.unschedulable)
            self.running += by * snapshot.used(name).get(node_sums.PODS, 0)


def quotas(snapshot: snapshots.Snapshot, counts: Counts, of: str = "") -> Iterator[QuotaFigures]:
    """The counts of the object, or of every one if ``of`` is empty, in every domain that nodes form."""
    for held in counts(snapshot, of):
        for key, count in held.items():
            for value in snapshot.topology[key]:
                for one in count(value):
                    yield QuotaFigures(one.of, key, value, one.placed, one.desired, one.count_key)


def fullest(quotas: Iterable[QuotaFigures]) -> list[QuotaFigures]:
    """Those nearest to their quota first; those without one last."""
    return sorted(quotas, key=lambda one: (one.desired is None, -_share(one), one.of, one.key, one.value))


def _share(quota: QuotaFigures) -> float:
    if not quota.desired:
        return float(quota.placed)
    return quota.placed / quota.desired
