"""Checks that the log's last entry matches the metadata: detects lost and foreign entries.

``meta`` holds the last offset and its time. If it disagrees with the log, the time shows which of the two
was changed: the append function always writes both.
"""

from app.domain.audit import findings
from app.store import keys, raw_access
from workers.auditor import entry_writers, log_integrity

_AT = "at"


def check_log_end(look: raw_access.RawView, seen: int, board: findings.Board) -> None:
    """Report findings about the end of the log; ``seen``: the last offset that was read before."""
    last = look.last.offset if look.last is not None else 0
    found: dict[tuple[str, str], findings.Difference] = {}

    def put(difference: findings.Difference) -> None:
        found[difference.kind, difference.key] = difference

    if last < look.head:
        put(_short(look, last, seen))
    elif last < seen:
        put(_lost(last, seen, look.head))
    elif last > look.head:
        if lowered(look, seen):
            put(_head(look, last, "the log continues beyond it: it was lowered, bypassing the functions"))
        else:
            for line in [line for line in look.lines if line.offset > look.head]:
                put(log_integrity.foreign(line, look.head, "meta does not have it"))
    elif look.last is not None and not look.last.sequence and look.meta.get(_AT, "") != str(look.last.at_ms):
        put(_time(look, look.last))
    for kind in ("head", "lost"):
        board.keep(kind, {key for of, key in found if of == kind})
    beyond = {key for of, key in found if of == "foreign"}
    for one in board.of("foreign"):
        if one.offset > look.head and one.key not in beyond:
            board.settle("foreign", one.key)
    for difference in found.values():
        board.put(difference)


def lowered(look: raw_access.RawView, seen: int) -> bool:
    """Whether the head in meta is wrong, if the log continues beyond it."""
    if look.last is None or look.last.offset <= look.head:
        return False
    return seen > look.head or look.meta.get(_AT, "") == str(look.last.at_ms)


def _short(look: raw_access.RawView, last: int, seen: int) -> findings.Difference:
    """The log ends before the head: entries were removed, or the head was raised."""
    raised = look.last is not None and look.meta.get(_AT, "") == str(look.last.at_ms)
    latest = max(look.versions.values(), default=0)
    if seen > last or latest > last or not raised:
        return _lost(last, max(seen, look.head if not raised else latest), look.head)
    return _head(look, last, "nothing was ever appended there: it was raised, bypassing the functions")


def _lost(last: int, until: int, head: int) -> findings.Difference:
    return findings.Difference(
        kind="lost",
        key=f"entry:{last + 1}",
        expected=f"entries {last + 1} to {until}",
        found=f"the log ends at {last}",
        first=last + 1,
        last=head,
        offset=last + 1,
        blame=f"the entries {last + 1} to {until} were there and were removed, bypassing the functions",
    )


def _head(look: raw_access.RawView, last: int, reason: str) -> findings.Difference:
    return findings.Difference(
        kind="head",
        key=f"meta:{keys.HEAD}",
        expected=str(last),
        found=look.meta.get(keys.HEAD, "nothing"),
        first=last,
        last=last,
        blame=reason,
    )


def _time(look: raw_access.RawView, last: raw_access.RawEntry) -> findings.Difference:
    return findings.Difference(
        kind="head",
        key=f"meta:{_AT}",
        expected=str(last.at_ms),
        found=look.meta.get(_AT, "nothing"),
        first=last.offset,
        last=last.offset,
        offset=last.offset,
        writer=entry_writers.name(last),
        blame=f"the head was written at another time than entry {last.offset}: the entry bypassed"
        " the append function, or the time was changed",
    )
