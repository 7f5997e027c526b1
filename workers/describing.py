"""What meta says beside the end of the log, and what the other keys are: compared with what must be there.

The fields that the store's functions refuse their work by are known for certain: the schema, the name of
the counts, the epoch and its writer. A field that nobody writes is none of ours.
"""

from collections.abc import Iterator

from app.domain import auditing, consistency
from app.store import inspecting, keys

_NOTHING = "nothing"
_MARKS = "rv:"
_WRITTEN = "written past the store's functions"


def judge(look: inspecting.Look, ledger: auditing.Ledger, names: keys.Keys, board: consistency.Board) -> None:
    """Put up what is wrong with meta, with the types of keys, and with the stream itself."""
    found = [*_fields(look, ledger, names), *_types(look, ledger), *_tail(look)]
    for kind in ("meta", "mistyped", "tail"):
        board.keep(kind, {one.key for one in found if one.kind == kind})
    for one in found:
        board.put(one)


def _fields(
    look: inspecting.Look, ledger: auditing.Ledger, names: keys.Keys
) -> Iterator[consistency.Difference]:
    wanted = {"schema": str(keys.SCHEMA), "counts": names.counts}
    if ledger.epoch and ledger.snapshot.offset == look.head:
        wanted["epoch"] = ledger.epoch
        if ledger.epoch in ledger.recorders:
            wanted["writer"] = ledger.recorders[ledger.epoch]
    offset = ledger.snapshot.offset
    for field, value in wanted.items():
        found = look.meta.get(field, _NOTHING)
        if found != value:
            yield _difference(
                "meta", f"meta:{field}", value, found, offset, "changed past the store's functions"
            )
    for field in sorted(look.meta.keys() - keys.RESERVED):
        if not field.startswith(_MARKS):
            yield _difference("meta", f"meta:{field}", _NOTHING, look.meta[field][:100], offset, _WRITTEN)


def _types(look: inspecting.Look, ledger: auditing.Ledger) -> Iterator[consistency.Difference]:
    for key, kind in look.mistyped.items():
        offset = ledger.snapshot.offset
        yield _difference("mistyped", key, f"a {kind}", "a key of another type", offset, _WRITTEN)


def _tail(look: inspecting.Look) -> Iterator[consistency.Difference]:
    last = look.last.offset if look.last is not None else 0
    if look.generated > max(look.head, last):
        yield _difference(
            "tail",
            "log",
            f"an id up to {look.head}-0",
            f"the id {look.generated}-0",
            look.head,
            "an entry was written behind the end of the log past the store's function, and removed; a stream"
            " gives no id again, nor a lower one",
        )


def _difference(
    kind: str, key: str, expected: str, found: str, offset: int, blame: str
) -> consistency.Difference:
    return consistency.Difference(
        kind=kind, key=key, expected=expected, found=found, first=offset, last=offset, blame=blame
    )
