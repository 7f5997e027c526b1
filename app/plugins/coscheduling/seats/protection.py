"""Protects gangs from preemption: it leaves them their minimum, or nothing."""

from collections.abc import Sequence

from app.domain import model, snapshots
from app.plugins.coscheduling import gangs, membership
from app.plugins.coscheduling.gangs import Gang


def veto(snapshot: snapshots.Snapshot, victims: Sequence[model.Pod]) -> str | None:
    """Why the victims must stay: a gang that keeps members elsewhere would fall below its minimum.

    Also if only its bound members would: one that is placed may never be bound. And also if it has its
    minimum only with those that have run: the others still need one another.
    """
    going = frozenset(victim.uid for victim in victims)
    for key in sorted({key for victim in victims if (key := membership.of(victim)) is not None}):
        gang = gangs.find(snapshot, key)
        if gang is None or gang.given.victims:
            continue
        seated, bound, ended = _counted(snapshot, gang)
        for members, what in ((seated, "left"), (bound, "left bound")):
            left = len(members) - len(members & going)
            for ran in (0, ended):
                if left and left + ran < gang.minimum <= len(members) + ran:
                    return f"gang {key}: {left + ran} of {gang.minimum} members would be {what}"
    return None


def _counted(
    snapshot: snapshots.Snapshot, gang: Gang
) -> tuple[frozenset[model.Uid], frozenset[model.Uid], int]:
    """The members with a seat, of these those that are bound, and the number of those that have run: computed
    once, however many ask.
    """
    return snapshot.computed(
        (_counted, gang.key),
        lambda: (
            frozenset(seat.pod.uid for seat in gang.seats),
            frozenset(seat.pod.uid for seat in gang.seats if seat.bound),
            len(gang.ran),
        ),
    )
