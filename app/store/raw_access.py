"""Reads raw keys directly, bypassing the functions; used by the auditor.

Each view is read in one transaction, so that all of it belongs to the same head. It is returned as found:
fields that are not numbers, entries that no function would write.
"""

import hashlib
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis

from app.store import errors, keys
from app.store.server import connections

LINES = 5000
"""Entries of one view: about five milliseconds of the server's time."""
WHOLE = 10_000
"""With up to so many subjects all versions are read each time; with more a page of about so many."""


class RawEntry(NamedTuple):
    """One entry of the log, as raw bytes."""

    offset: int
    sequence: int
    """The second part of the entry's id, which is 0."""
    at_ms: int
    payload: bytes
    epoch: str
    mark: int
    """Fingerprint of the entry."""


@dataclass(frozen=True, slots=True)
class RawView:
    """The store at one moment."""

    meta: Mapping[str, str]
    lines: list[RawEntry]
    """The entries behind the requested offset, at most LINES."""
    oldest: RawEntry | None
    """The first entry of the log."""
    last: RawEntry | None
    """The last entry of the log."""
    counts: Mapping[str, int]
    versions: Mapping[str, int]
    """All, or a page of them."""
    garbled: Mapping[tuple[str, str], str]
    """(count or version, field) -> the value found instead of a number, or under a name that is not text."""
    escaped: frozenset[str]
    """The fields among them whose name is not text: events, which are JSON, cannot name them."""
    whole: bool
    """``versions`` holds all of them."""
    subjects: int
    """How many versions there are."""
    cursor: int
    """Where the next page of versions begins; 0 after the last."""
    now_ms: int
    """The store's clock."""
    mistyped: Mapping[str, str]
    """Key that is of another type -> the type that it should be of."""
    generated: int
    """The first part of the last id that the stream generated, read a moment before; 0 if not readable."""

    @property
    def head(self) -> int:
        """The last offset of the log, as meta has it."""
        head = self.meta.get(keys.HEAD, "0")
        return int(head) if head.isascii() and head.isdigit() else -1


class RawReader:
    """Reads one cluster's keys; used by one thread."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client = client
        self._names = names
        self.log = names.log
        """The key of the log."""

    def view(self, after: int, *, cursor: int = 0, whole: bool = False, held: int = 0) -> RawView:
        """All keys at one moment; of the log the entries behind ``after``.

        ``held``: how many versions there should be; of many only the page at ``cursor`` is read unless
        ``whole``. Raises StoreAway or SchemaMismatch.
        """
        names, paged = self._names, held > WHOLE and not whole
        generated, mistyped = self._generated(), dict[str, str]()
        with connections.translated():
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
        if keys.of_other_forms(names, pointer):
            raise errors.other_counts(keys.ending(names, pointer), keys.ending(names, names.counts))
        cursor, versions = versions if paged else (0, versions)
        garbled: dict[tuple[str, str], str] = {}
        return RawView(
            meta={_shown(field): _shown(value) for field, value in meta.items()},
            lines=[_line(*one) for one in lines],
            oldest=_line(*oldest[0]) if oldest else None,
            last=_line(*last[0]) if last else None,
            counts=_numbers("count", counts, garbled),
            versions=_numbers("version", versions, garbled),
            garbled=garbled,
            escaped=frozenset(_shown(field) for field in (*counts, *versions) if not _is_text(field)),
            whole=not paged,
            subjects=subjects,
            cursor=int(cursor),
            now_ms=connections.milliseconds(now),
            mistyped=mistyped,
            generated=generated,
        )

    def _generated(self) -> int:
        """The last id that the stream generated. Raises StoreAway."""
        try:
            with connections.translated():
                found: Any = self._client.xinfo_stream(self._names.log)
        except errors.StoreAway:
            raise
        except errors.StoreError:
            return 0  # The stream does not exist, or this user may not read it (a former access list).
        return int(connections.text(found["last-generated-id"]).partition("-")[0])

    def lines(self, after: int, count: int) -> tuple[int, list[RawEntry]]:
        """The first offset of the log, and the entries behind ``after``, at one moment. Raises StoreAway."""
        log = self._names.log
        with connections.translated():
            pipe: Any = self._client.pipeline(transaction=True)
            pipe.xrange(log, min="-", max="+", count=1).xrange(log, min=f"({after}-{_LAST}", count=count)
            oldest, found = pipe.execute()
        return _line(*oldest[0]).offset if oldest else 0, [_line(*one) for one in found]

    def checkpoints(self) -> dict[str, bytes]:
        """The undecoded headers of the checkpoints by their field; empty if the key is of another type.

        Raises StoreAway.
        """
        found: Any = {}
        with connections.translated():
            try:
                found = self._client.hgetall(self._names.checkpoints)
            except redis.ResponseError as error:
                _mistyped(error, self._names.checkpoints, "hash", {})
        return {_shown(field): header for field, header in found.items()}


def _mistyped(reply: object, key: str, kind: str, mistyped: dict[str, str]) -> bool:
    """Whether a key is of another type; adds it to ``mistyped``."""
    if not isinstance(reply, redis.RedisError):
        return False
    if not str(reply).startswith("WRONGTYPE"):
        raise reply
    mistyped[key] = kind
    return True


_NUMBER = re.compile(rb"-?[0-9]{1,15}")
_LAST = 2**64 - 1
"""The highest second part of an id: the next id has another offset."""


def _line(identity: bytes, fields: Mapping[bytes, bytes]) -> RawEntry:
    offset, _, sequence = connections.text(identity).partition("-")
    at_ms = fields.get(b"t", b"0")
    mark = hashlib.blake2b(identity, digest_size=8)
    for name, value in fields.items():
        mark.update(b"\0%s=%d:" % (name, len(value)))
        mark.update(value)
    return RawEntry(
        offset=int(offset),
        sequence=int(sequence or 0),
        at_ms=int(at_ms) if at_ms.isdigit() else 0,
        payload=fields.get(b"e", b""),
        epoch=_shown(fields.get(b"w", b"")),
        mark=int.from_bytes(mark.digest(), "big"),
    )


def _shown(value: bytes) -> str:
    return connections.text(value)


def _is_text(value: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _numbers(what: str, found: Mapping[bytes, bytes], garbled: dict[tuple[str, str], str]) -> dict[str, int]:
    numbers = {}
    for field, value in found.items():
        if _NUMBER.fullmatch(value) and _is_text(field):
            numbers[_shown(field)] = int(value)
        else:
            garbled[what, _shown(field)] = value[:80].decode(errors="replace")
    return numbers


_REMEMBERED = 4_000_000
"""Fingerprints kept; beyond it the oldest are forgotten."""


class Fingerprints:
    """The fingerprint of each entry when it was first read: eight bytes each."""

    def __init__(self) -> None:
        self._first = 0
        self._marks = array("Q")

    @property
    def first(self) -> int:
        """The first offset remembered; 0 if empty."""
        return self._first if self._marks else 0

    @property
    def end(self) -> int:
        """The offset behind the last one remembered; 0 if empty."""
        return self._first + len(self._marks) if self._marks else 0

    def add(self, line: RawEntry) -> None:
        """Remember an entry; if it does not follow the last one, all others are forgotten."""
        if not self._marks or line.offset != self.end:
            self._first, self._marks = line.offset, array("Q")
        self._marks.append(line.mark)
        if len(self._marks) > _REMEMBERED + _REMEMBERED // 8:
            self.forget(self.end - _REMEMBERED)

    def forget(self, below: int) -> None:
        """Forget the entries before an offset: the log no longer has them."""
        gone = min(max(0, below - self._first), len(self._marks))
        del self._marks[:gone]
        self._first += gone

    def of(self, offset: int) -> int | None:
        """The fingerprint of an entry; None if it is not remembered."""
        at = offset - self._first
        return self._marks[at] if 0 <= at < len(self._marks) else None
