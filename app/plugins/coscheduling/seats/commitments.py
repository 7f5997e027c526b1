"""The part of its gang that a seat keeps: the definition may change or go before a member is bound."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from app.domain import model, snapshots
from app.plugins.coscheduling import gangs
from app.plugins.coscheduling.gangs import Gang
from app.plugins.coscheduling.membership import GangKey

GROUP_ID = "internal.scheduling.koordinator.sh/bind-gang-group-id"
MEMBERS = "internal.scheduling.koordinator.sh/bind-gang-member-count"
_KIB = 1024
LISTS, _LONGEST = 1024 * _KIB, 32 * _KIB
"""Bytes of all lists of gangs in one commitment, and of one list."""
_IDS, _LONGEST_ID = 3072 * _KIB, 4096
"""Bytes of the annotations of all Bindings of one commitment, and characters of one annotation."""
_BOTH = 3328 * _KIB
"""Bytes of both, which leaves the rest of app.framework.plans.MAX_TOTAL to all else that seats have."""
_GOLDEN = (5**0.5 - 1) / 2


def marks(names: Sequence[str], pods: int) -> dict[str, str]:
    """Koordinator's annotations for the Bindings of so many pods; none for one pod, or if the id is too long
    or would take too much in all of them.

    ``names``: the gangs that are placed together, as ``namespace/name``.
    """
    group_id = ",".join(names)
    if pods < 2 or len(group_id) > _LONGEST_ID or _size(group_id) * pods > _IDS:
        return {}
    return {GROUP_ID: group_id, MEMBERS: str(pods)}


def lists(names: Sequence[str], pods: int) -> Sequence[Sequence[str] | None]:
    """What each of so many seats keeps of the gangs: all, or none if only other seats do; None if the
    annotation names each of them.

    A comma in a name makes it ambiguous. Lists of some seats are enough, as ``placed_with`` reads all lists.
    """
    group_id = marks(names, pods).get(GROUP_ID, "")
    if pods < 2 or (group_id and not any("," in name for name in names)):
        return (None,) * pods
    size = _size(names)
    most = min(LISTS, _BOTH - _size(group_id) * pods) // size if size <= _LONGEST else 0
    # Multiples of the golden ratio are spread in no period: not the launchers alone have lists.
    listed = frozenset(sorted(range(pods), key=lambda at: at * _GOLDEN % 1)[:most])
    return tuple(names if at in listed else () for at in range(pods))


def _size(value: str | Sequence[str]) -> int:
    """Bytes as the log has it."""
    return len(msgspec.json.encode(value))


def kept(gang: Gang, names: Sequence[str] | None = None) -> dict[str, object]:
    """The data of a seat of the gang; ``names``: the gangs that are placed together, or none if only other
    seats have the list. By default, the annotation has them.
    """
    strict = {"minimum": gang.minimum} if gang.given.mode == "Strict" else {}
    listed = {"together": list(names)} if names is not None else {}
    return {"gang": str(gang.key), **strict, **listed}


def kept_from(snapshot: snapshots.Snapshot, gang: Gang) -> int:
    """The number of seats from which on they are kept when one is lost: the least minimum of those that they
    were committed by and of the present one, if the gang is defined.
    """
    committed = (one.data.get(gangs.NAME, {}).get("minimum") for one in _commitments(snapshot, gang))
    return min(filter(None, (gang.minimum, *committed)), default=0)


def placed_with(snapshot: snapshots.Snapshot, gang: Gang) -> tuple[Gang, ...]:
    """The gangs that are placed together with this one, itself among them: those of its present list, and
    those that seats were committed with.
    """
    joined = snapshot.computed(_joined, lambda: _joined(snapshot)).get(gang.key, ())
    keys = {*gang.together, *joined}
    return tuple(one for key in sorted(keys) if (one := gangs.find(snapshot, key)) is not None)


def _joined(snapshot: snapshots.Snapshot) -> Mapping[GangKey, Collection[GangKey]]:
    """Gang -> those that seats were committed with together with it."""
    # Thousands of seats have few different ones.
    groups = {(_family(one), listed) for one in snapshot.placements.values() if (listed := _listed(one))}
    found: dict[GangKey, set[GangKey]] = {}
    for family, listed in groups:
        names = listed.split(",") if isinstance(listed, str) else listed
        group = {GangKey(family, *name.split("/", 1)) for name in names if "/" in name} if family else ()
        for key in group:
            found.setdefault(key, set()).update(group)
    return found


def _listed(placement: model.Placement) -> str | tuple[str, ...]:
    """The gangs of the placement's commitment: the annotation, or the list of its data, which is empty if
    other seats have it.
    """
    listed = placement.data.get(gangs.NAME, {}).get("together")
    return placement.annotations.get(GROUP_ID, "") if listed is None else tuple(listed)


def _family(placement: model.Placement) -> str:
    """The family of the gang that the placement was committed for; empty without one."""
    key = gangs.committed_for(placement)
    return key.family if key is not None else ""


def _commitments(snapshot: snapshots.Snapshot, gang: Gang) -> Iterator[model.Placement]:
    """The placements of the seats that are not bound."""
    placements = (snapshot.placements.get(seat.pod.uid) for seat in gang.seats)
    return (one for one in placements if one is not None)
