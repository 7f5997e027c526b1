"""The end of the log, and what the store says of it: entries lost there, or appended past the function.

``meta`` names the last offset and its time. Where that and the log disagree, the time tells which of the
two was changed: the function always writes both.
"""

from app.domain import consistency
from app.store import inspecting, keys
from workers import proving

_AT = "at"


def judge(look: inspecting.Look, seen: int, board: consistency.Board) -> None:
    """Put up what is wrong with the end of the log; ``seen``: the last offset that was read before."""
    last = look.last.offset if look.last is not None else 0
    standing: dict[tuple[str, str], consistency.Difference] = {}

    def put(difference: consistency.Difference) -> None:
        standing[difference.kind, difference.key] = difference

    if last < look.head:
        put(_short(look, last, seen))
    elif last < seen:
        put(_lost(last, seen, look.head))
    elif last > look.head:
        if lowered(look, seen):
            put(_head(look, last, "the log goes on behind it: it was lowered past the store's function"))
        else:
            for line in [line for line in look.lines if line.offset > look.head]:
                put(proving.foreign(line, look.head, "the store does not know of it"))
    elif look.last is not None and not look.last.sequence and look.meta.get(_AT, "") != str(look.last.at_ms):
        put(_time(look, look.last))
    for kind in ("head", "lost"):
        board.keep(kind, {key for of, key in standing if of == kind})
    beyond = {key for of, key in standing if of == "foreign"}
    for one in board.of("foreign"):
        if one.offset > look.head and one.key not in beyond:
            board.settle("foreign", one.key)
    for difference in standing.values():
        board.put(difference)


def lowered(look: inspecting.Look, seen: int) -> bool:
    """Whether it is the head in meta that is wrong, where the log goes on behind it."""
    if look.last is None or look.last.offset <= look.head:
        return False
    return seen > look.head or look.meta.get(_AT, "") == str(look.last.at_ms)


def _short(look: inspecting.Look, last: int, seen: int) -> consistency.Difference:
    """The log ends before the head: entries were removed, or the head was raised."""
    raised = look.last is not None and look.meta.get(_AT, "") == str(look.last.at_ms)
    latest = max(look.versions.values(), default=0)
    if seen > last or latest > last or not raised:
        return _lost(last, max(seen, look.head if not raised else latest), look.head)
    return _head(look, last, "nothing was ever appended there: it was raised past the store's function")


def _lost(last: int, until: int, head: int) -> consistency.Difference:
    return consistency.Difference(
        kind="lost",
        key=f"entry:{last + 1}",
        expected=f"entries {last + 1} to {until}",
        found=f"the log ends at {last}",
        first=last + 1,
        last=head,
        offset=last + 1,
        blame=f"the entries {last + 1} to {until} were there and were removed past the store's function",
    )


def _head(look: inspecting.Look, last: int, words: str) -> consistency.Difference:
    return consistency.Difference(
        kind="head",
        key=f"meta:{keys.HEAD}",
        expected=str(last),
        found=look.meta.get(keys.HEAD, "nothing"),
        first=last,
        last=last,
        blame=words,
    )


def _time(look: inspecting.Look, last: inspecting.Line) -> consistency.Difference:
    return consistency.Difference(
        kind="head",
        key=f"meta:{_AT}",
        expected=str(last.at_ms),
        found=look.meta.get(_AT, "nothing"),
        first=last.offset,
        last=last.offset,
        offset=last.offset,
        writer=f"epoch {last.epoch}" if last.epoch else "a writer without an epoch",
        blame=f"the head was written at another time than entry {last.offset}: the entry was appended past"
        " the store's function, or the time was changed",
    )
