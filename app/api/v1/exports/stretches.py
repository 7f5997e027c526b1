"""The stretch of the log that is requested: a range, or the minutes around a moment or a pod."""

from app.api import errors
from app.api.introspection import moments, pages, services, times
from app.api.v1.pictures import walks
from app.domain import model
from app.store import errors as store_errors
from app.store.decisions import records
from app.verbs.pictures import chronicles

MINUTES = 10
"""Before and after the middle, if nothing is asked for."""
_MOST_READ = 100_000
"""Events that are searched for a pod that does not exist."""
_READ = 5000


def asked(query: pages.Query, head: moments.Moment) -> tuple[int, int]:
    """The first and the last offset. Raises Problem 400, 404 or 410."""
    ranged = [name for name in ("from_", "to") if name in query]
    centred = [name for name in ("at", "around", "minutes") if name in query]
    if ranged and centred:
        raise errors.bad(
            "from and to name a range; at and around name its middle,"
            " and minutes how far a bundle reaches from it: give one of the two"
        )
    past = services.current().histories
    if ranged:
        last = _offset(query["to"], "to", head) if "to" in query else head.snapshot.offset
        first = _offset(query["from_"], "from", head) if "from_" in query else past.readable()
        if first > last:
            raise errors.bad(f"from: offset {first} is after to, which is offset {last}")
        _begun(last, "to", head)
        return first, last
    now_ms = services.current().wall() * 1000
    at, around = query.get("at"), query.get("around")
    middle = _time(at, head) if at is not None else now_ms
    if around is not None:
        found = _latest_of(str(around), head)
        middle = middle if at is not None else found
    half = int(query.get("minutes", MINUTES)) * 60_000
    until = middle + half
    last = head.snapshot.offset if until >= now_ms else past.offset_at(int(until))
    _begun(last, "at", head)
    try:
        first = past.offset_at(int(middle - half))
    except store_errors.Trimmed:
        first = 0
    return min(last, past.readable(first)), last


def _begun(last: int, path: str, head: moments.Moment) -> None:
    """Raises Problem 400 for a stretch that ends before the first event, unless there is none."""
    if last or not head.snapshot.offset:
        return
    began = services.current().histories.appended_ms(1)
    when = f", which is of {times.rfc3339(began / 1000)}" if began is not None else ""
    raise errors.bad(f"{path}: the stretch ends before the first event of the log{when}: name a later moment")


def _offset(at: moments.At, path: str, head: moments.Moment) -> int:
    found = moments.offset(at, path)
    if found > head.snapshot.offset:
        raise moments.beyond(path, found, head.snapshot.offset)
    return found


def _time(at: moments.At, head: moments.Moment) -> float:
    """The time that a moment names: milliseconds since the epoch."""
    if at.time_ms is not None:
        return moments.reached(at.time_ms, "at")
    offset = _offset(at, "at", head)
    past = services.current().histories
    found = past.appended_ms(offset) if offset else 0
    if found is None:
        raise store_errors.Trimmed(past.oldest())
    return found


def _latest_of(key: model.NamespacedName, head: moments.Moment) -> float:
    """When something last happened to the pod: milliseconds since the epoch. Raises Problem 404."""
    given, snapshot = services.current(), head.snapshot
    found: list[float] = []
    uid = snapshot.names.get(key)
    if uid is None:
        # Its deletion is later than its decisions.
        if at_ms := _latest_event(key, snapshot.offset):
            found.append(at_ms)
    elif version := snapshot.versions.get(f"pod:{uid}"):
        found.append(given.histories.appended_ms(version) or 0)
    for decision in given.decisions.search(records.DecisionQuery(pod=key), limit=1).records:
        found.append(records.written_ms(decision.id))
    if not found:
        raise errors.missing("pod", key)
    return max(found)


def _latest_event(key: model.NamespacedName, last: int) -> int | None:
    """When the latest event about the pod was appended; None if the latest events have none."""
    past = services.current().histories
    least = last - _MOST_READ + 1
    while last >= (first := past.oldest(max(least, last - _READ + 1))):
        about = [
            entry.at_ms
            for run in walks.entries(first, last)
            for entry in run
            if chronicles.of_pod(entry.event, key, None) is not None
        ]
        if about:
            return about[-1]
        last = first - 1
    return None
