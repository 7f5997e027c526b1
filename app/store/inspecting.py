"""The store as it is, not as its functions say: for whoever does not take their word for it.

Everything of one look is read in one transaction, so that it belongs to one and the same head. What is
there is taken as it is found: a field that is no number, an entry that no function would write.
"""

import hashlib
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis

from app.store import connecting, errors, keys

LINES = 5000
"""Entries of one look: about five milliseconds of the server's time."""
WHOLE = 10_000
"""Subjects up to which all versions are looked at each time; of more a page of about so many."""


class Line(NamedTuple):
    """One entry of the log, bytes as they lie there."""

    offset: int
    sequence: int
    """The second part of the entry's id, which is 0."""
    at_ms: int
    payload: bytes
    epoch: str
    mark: int
    """Fingerprint of all of it."""


@dataclass(frozen=True, slots=True)
class Look:
    """The store at one moment."""

    meta: Mapping[str, str]
    lines: list[Line]
    """What lies behind the offset asked about, at most LINES."""
    oldest: Line | None
    """The first entry of the log."""
    last: Line | None
    """Its last."""
    counts: Mapping[str, int]
    versions: Mapping[str, int]
    """All, or a page of them."""
    garbled: Mapping[tuple[str, str], str]
    """(count or version, field) -> what stands there instead of a number."""
    whole: bool
    """``versions`` are all there are."""
    subjects: int
    """How many versions there are."""
    cursor: int
    """Where the next page of versions begins; 0 after the last."""
    now_ms: int
    """The store's clock."""
    mistyped: Mapping[str, str]
    """Key that is of another type -> the type that it should be of."""
    generated: int
    """The first part of the last id that the stream gave, a moment before; 0 if it cannot be seen."""

    @property
    def head(self) -> int:
        """The last offset of the log, as meta has it."""
        head = self.meta.get(keys.HEAD, "0")
        return int(head) if head.isascii() and head.isdigit() else -1


class Inspector:
    """Looks at one cluster's keys; used by one thread."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client = client
        self._names = names
        self.log = names.log
        """The key of the log."""

    def look(self, after: int, *, cursor: int = 0, whole: bool = False, held: int = 0) -> Look:
        """Everything at one moment; of the log what lies behind ``after``.

        ``held``: how many versions there should be; of many only the page at ``cursor`` is read unless
        ``whole``. Raises StoreAway or SchemaMismatch.
        """
        names, paged = self._names, held > WHOLE and not whole
        generated, mistyped = self._generated(), dict[str, str]()
        with connecting.translated():
            pipe: Any = self._client.pipeline(transaction=True)
            pipe.time().hgetall(names.meta)
            pipe.xrange(names.log, min=f"({after}-{_LAST}", max="+", count=LINES)
            pipe.xrange(names.log, min="-", max="+", count=1)
            pipe.xrevrange(names.log, max="+", min="-", count=1)
            pipe.hgetall(names.counts).hlen(names.versions)
            if paged:
                pipe.hscan(names.versions, cursor, count=WHOLE)
            else:
                pipe.hgetall(names.versions)
            pipe.hlen(names.checkpoints).hlen(names.readers)
            pipe.xrevrange(names.decisions, max="+", min="-", count=1)
            now, meta, lines, oldest, last, counts, subjects, versions, *others = pipe.execute(
                raise_on_error=False
            )
            for reply in (now, meta):
                if isinstance(reply, redis.RedisError):
                    raise reply
            if any([_mistyped(reply, names.log, "stream", mistyped) for reply in (lines, oldest, last)]):
                lines, oldest, last = [], [], []
            if _mistyped(counts, names.counts, "hash", mistyped):
                counts = {}
            if _mistyped(versions, names.versions, "hash", mistyped):
                subjects, versions = 0, (0, {}) if paged else {}
            derived = ((names.checkpoints, "hash"), (names.readers, "hash"), (names.decisions, "stream"))
            for reply, (key, kind) in zip(others, derived, strict=True):
                _mistyped(reply, key, kind, mistyped)
        pointer, schema = _shown(meta.get(b"counts", b"")), _shown(meta.get(b"schema", b""))
        if pointer not in ("", names.counts) and schema != str(keys.SCHEMA):
            raise errors.SchemaMismatch(f"the counts are in {pointer}: use a newer Topolog")
        cursor, versions = versions if paged else (0, versions)
        garbled: dict[tuple[str, str], str] = {}
        return Look(
            meta={_shown(field): _shown(value) for field, value in meta.items()},
            lines=[_line(*one) for one in lines],
            oldest=_line(*oldest[0]) if oldest else None,
            last=_line(*last[0]) if last else None,
            counts=_numbers("count", counts, garbled),
            versions=_numbers("version", versions, garbled),
            garbled=garbled,
            whole=not paged,
            subjects=subjects,
            cursor=int(cursor),
            now_ms=1000 * int(now[0]) + int(now[1]) // 1000,
            mistyped=mistyped,
            generated=generated,
        )

    def _generated(self) -> int:
        """What of the stream cannot be seen in its entries. Raises StoreAway."""
        try:
            with connecting.translated():
                found: Any = self._client.xinfo_stream(self._names.log)
        except errors.StoreAway:
            raise
        except errors.StoreError:
            return 0  # There is no stream, or this user may not see it (a former access list).
        return int(connecting.text(found["last-generated-id"]).partition("-")[0])

    def lines(self, after: int, count: int) -> tuple[int, list[Line]]:
        """The first offset of the log, and the entries behind one; at one moment. Raises StoreAway."""
        log = self._names.log
        with connecting.translated():
            pipe: Any = self._client.pipeline(transaction=True)
            pipe.xrange(log, min="-", max="+", count=1).xrange(log, min=f"({after}-{_LAST}", count=count)
            oldest, found = pipe.execute()
        return _line(*oldest[0]).offset if oldest else 0, [_line(*one) for one in found]

    def checkpoints(self) -> dict[str, bytes]:
        """The headers of the checkpoints as they are, by their field; none if the key is of another type.

        Raises StoreAway.
        """
        found: Any = {}
        with connecting.translated():
            try:
                found = self._client.hgetall(self._names.checkpoints)
            except redis.ResponseError as error:
                _mistyped(error, self._names.checkpoints, "hash", {})
        return {_shown(field): header for field, header in found.items()}


def _mistyped(reply: object, key: str, kind: str, mistyped: dict[str, str]) -> bool:
    """Whether a key is of another type; it is noted."""
    if not isinstance(reply, redis.RedisError):
        return False
    if not str(reply).startswith("WRONGTYPE"):
        raise reply
    mistyped[key] = kind
    return True


_NUMBER = re.compile(rb"-?[0-9]{1,15}")
_LAST = 2**64 - 1
"""The highest second part of an id: what is behind it has another offset."""


def _line(identity: bytes, fields: Mapping[bytes, bytes]) -> Line:
    offset, _, sequence = connecting.text(identity).partition("-")
    at_ms = fields.get(b"t", b"0")
    mark = hashlib.blake2b(identity, digest_size=8)
    for name, value in fields.items():
        mark.update(b"\0%s=%d:" % (name, len(value)))
        mark.update(value)
    return Line(
        offset=int(offset),
        sequence=int(sequence or 0),
        at_ms=int(at_ms) if at_ms.isdigit() else 0,
        payload=fields.get(b"e", b""),
        epoch=_shown(fields.get(b"w", b"")),
        mark=int.from_bytes(mark.digest(), "big"),
    )


def _shown(value: bytes) -> str:
    return value.decode(errors="backslashreplace")


def _numbers(what: str, found: Mapping[bytes, bytes], garbled: dict[tuple[str, str], str]) -> dict[str, int]:
    numbers = {}
    for field, value in found.items():
        if _NUMBER.fullmatch(value):
            numbers[_shown(field)] = int(value)
        else:
            garbled[what, _shown(field)] = value[:80].decode(errors="replace")
    return numbers


class Marks:
    """The fingerprint of each entry as it was when it was first read: eight bytes each."""

    def __init__(self, most: int = 4_000_000) -> None:
        """``most``: entries remembered; of more the oldest are forgotten."""
        self._most = most
        self._first = 0
        self._marks = array("Q")

    @property
    def first(self) -> int:
        """The first offset remembered; 0 if none is."""
        return self._first if self._marks else 0

    @property
    def end(self) -> int:
        """The offset behind the last one remembered; 0 if none is."""
        return self._first + len(self._marks) if self._marks else 0

    def add(self, line: Line) -> None:
        """Remember an entry; what does not follow on the last one begins anew."""
        if not self._marks or line.offset != self.end:
            self._first, self._marks = line.offset, array("Q")
        self._marks.append(line.mark)
        if len(self._marks) > self._most + self._most // 8:
            self.forget(self.end - self._most)

    def forget(self, below: int) -> None:
        """What is before an offset is no longer in the log."""
        gone = min(max(0, below - self._first), len(self._marks))
        del self._marks[:gone]
        self._first += gone

    def of(self, offset: int) -> int | None:
        """The fingerprint of an entry; None if it is not remembered."""
        at = offset - self._first
        return self._marks[at] if 0 <= at < len(self._marks) else None
