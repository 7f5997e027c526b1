"""Keeps a plan while it holds in a later state: what it follows from is compared, not computed again."""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from app.domain import model, snapshots
from app.domain.fit import budgets
from app.plugins.coscheduling import membership, options
from app.plugins.coscheduling.gangs import Gang
from app.plugins.coscheduling.planner import evictions, nominations

P = TypeVar("P")


class Basis(NamedTuple):
    """What a plan depends on beside objects and counts. The first three are compared by identity."""

    residents: object
    nodes: object
    versions: object
    """Other with every event, where another plugin may read anything; None where all refuse by sums."""
    gangs: tuple[Gang, ...]
    holding: tuple[model.Pod, ...]
    """Nominated pods of others."""
    nominated: Mapping[model.Uid, model.NodeName]
    """Those of the gangs."""
    nominees: tuple[model.Pod, ...]
    """All nominated pods of others: other plugins may count any of them, or none."""
    attracting: Mapping[model.NodeName, int]
    """Node -> members, and pods of other gangs that attract them."""
    limits: budgets.ByNamespace
    """Where pods may have to go."""

    def equals(self, other: "Basis") -> bool:
        """Whether the same follows from both."""
        return all(map(operator.is_, self[:3], other[:3])) and self[3:] == other[3:]


def basis(
    snapshot: snapshots.Snapshot,
    gangs: tuple[Gang, ...],
    holding: tuple[model.Pod, ...],
    nominated: Mapping[model.Uid, model.NodeName],
    *,
    supposing: bool,
    summed: bool,
) -> Basis:
    """The basis in a state.

    ``supposing``: pods may have to go; ``summed``: other plugins refuse members by sums, if at all.
    """
    limits = budgets.recorded(snapshot) if supposing else budgets.NONE
    nominees = tuple(pod for uid in snapshot.nominated if (pod := snapshot.pod(uid)) is not None)
    return Basis(
        residents=snapshot.residents,
        nodes=snapshot.nodes,
        versions=None if summed else snapshot.versions,
        gangs=gangs,
        holding=holding,
        nominated=nominated,
        nominees=nominees,
        attracting=attracting(snapshot, gangs),
        limits=limits,
    )


def attracting(snapshot: snapshots.Snapshot, together: Iterable[Gang]) -> dict[model.NodeName, int]:
    """Node -> members of the gangs, and pods of gangs with the same network-topology-selector."""
    found: dict[model.NodeName, int] = {}
    own: set[model.Uid] = set()
    selectors: set[tuple[str, str]] = set()
    for gang in together:
        selectors.update((pod.namespace, pod.annotations.get(options.SELECTOR, "")) for pod in gang.waiting)
        for seat in gang.seats:
            own.add(seat.pod.uid)
            found[seat.node] = found.get(seat.node, 0) + 1
    for namespace, value in sorted(selectors):
        for pod in snapshot.siblings(namespace, membership.SELECTOR, value) if value else ():
            node = snapshot.node_of(pod.uid)
            if node and pod.counted and pod.uid not in own:
                found[node] = found.get(node, 0) + 1
    return found


@dataclass(frozen=True, slots=True)
class _Kept(Generic[P]):
    plan: P
    basis: Basis
    pods: object
    """All pods of the latest state in which the plan was found to hold."""
    compared: evictions.Compared | None
    """Of pods that may have to go, what they are compared by, such as labels; None where no pod may go."""


class Latest(Generic[P]):
    """The latest plan of one question. Threads may share it."""

    def __init__(self) -> None:
        self._kept: _Kept[P] | None = None

    def plan(
        self,
        snapshot: snapshots.Snapshot,
        now: Basis,
        compute: Callable[[], tuple[P, evictions.Compared | None]],
    ) -> P:
        """The plan of a state, computed if it does not follow from what the latest one followed from."""
        kept = self._kept
        if kept is None or not now.equals(kept.basis) or not _same_pods(kept, snapshot):
            plan, compared = compute()
        elif kept.pods is snapshot.pods:
            return kept.plan
        else:
            plan, compared = kept.plan, kept.compared
        self._kept = _Kept(plan, now, snapshot.pods, compared)
        return plan


def _same_pods(kept: _Kept[P], snapshot: snapshots.Snapshot) -> bool:
    if kept.compared is None or kept.pods is snapshot.pods:
        return True
    return kept.compared.same_in(nominations.counted(snapshot, kept.basis.holding))
