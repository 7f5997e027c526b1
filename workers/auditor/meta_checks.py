"""Checks the fields of meta and the types of keys.

The expected values are known for the fields by which the store's functions reject calls: the schema, the name
of the counts, the epoch and its writer. The field of a bundle is foreign: no auditor runs on a store that was
filled from one. A field that this version does not have is that of a later one, or nothing reads it: it makes
no view wrong.
"""

from collections.abc import Iterator

from app.domain.audit import attribution, findings
from app.kube.watch import kinds
from app.store import keys, raw_access
from workers.auditor import remedies

_NOTHING = "nothing"
_WRITTEN = "written, bypassing the functions"
_CHANGED = "changed, bypassing the functions"
_UNKNOWN = (
    "a later version of Topolog may have written it: then upgrade the auditor, and keep the field; if it was"
    " written by hand, nothing reads it"
)


def check_meta(
    look: raw_access.RawView, ledger: attribution.Ledger, names: keys.Keys, board: findings.Board
) -> None:
    """Report findings about meta, the types of keys, and the last id of the stream."""
    found = [*_fields(look, ledger, names), *_types(look, ledger), *_tail(look)]
    for kind in ("meta", "unknown", "mistyped", "tail"):
        board.keep(kind, {one.key for one in found if one.kind == kind})
    for one in found:
        board.put(one)


def _fields(
    look: raw_access.RawView, ledger: attribution.Ledger, names: keys.Keys
) -> Iterator[findings.Difference]:
    wanted = {"schema": str(keys.SCHEMA), "counts": names.counts}
    if ledger.epoch and ledger.snapshot.offset == look.head:
        wanted["epoch"] = ledger.epoch
        if ledger.epoch in ledger.recorders:
            wanted["writer"] = ledger.recorders[ledger.epoch]
    offset = ledger.snapshot.offset
    for field, value in wanted.items():
        found = look.meta.get(field, _NOTHING)
        if found != value:
            yield _difference("meta", f"meta:{field}", value, found, offset, _CHANGED)
    for field in sorted(look.meta.keys() - (keys.RESERVED - {keys.BUNDLE})):
        if not field.startswith(kinds.MARKS):
            # Every version writes text.
            later = field != keys.BUNDLE and not remedies.escaped(field)
            kind, blame = ("unknown", _UNKNOWN) if later else ("meta", _WRITTEN)
            yield _difference(kind, f"meta:{field}", _NOTHING, look.meta[field][:100], offset, blame)


def _types(look: raw_access.RawView, ledger: attribution.Ledger) -> Iterator[findings.Difference]:
    for key, kind in look.mistyped.items():
        offset = ledger.snapshot.offset
        yield _difference("mistyped", key, f"a {kind}", "a key of another type", offset, _WRITTEN)


def _tail(look: raw_access.RawView) -> Iterator[findings.Difference]:
    last = look.last.offset if look.last is not None else 0
    if look.generated > max(look.head, last):
        yield _difference(
            "tail",
            "log",
            f"an id up to {look.head}-0",
            f"the id {look.generated}-0",
            look.head,
            "an entry was written beyond the end of the log, bypassing the functions, and removed; a stream"
            " accepts neither this id nor a lower one again",
        )


def _difference(
    kind: str, key: str, expected: str, found: str, offset: int, blame: str
) -> findings.Difference:
    return findings.Difference(
        kind=kind, key=key, expected=expected, found=found, first=offset, last=offset, blame=blame
    )
