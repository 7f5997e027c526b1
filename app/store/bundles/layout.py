"""The form of a bundle: a tar of known members in a known order.

Each member of the history is gzip-compressed JSON lines whose first line is a header, as in the archive. The
last member is the manifest with the SHA-256 of each other one: a bundle without it was cut off. An export
that fails ends with the reason in place of the manifest.
"""

import hashlib
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from app.store import snapshot_format

KIND: Final = "topolog.bundle"
MANIFEST_KIND: Final = "topolog.manifest"
DECISIONS_KIND: Final = "topolog.decisions"
VERSION: Final = 1

ABOUT: Final = "bundle.json"
CHECKPOINT: Final = "checkpoint.jsonl.gz"
EVENTS: Final = "events.jsonl.gz"
DECISIONS: Final = "decisions.jsonl.gz"
SETTINGS: Final = "settings.json"
CONSISTENCY: Final = "consistency.json"
LAG: Final = "lag.json"
MANIFEST: Final = "manifest.json"
FAILED: Final = "failed.json"
MEMBERS: Final = (ABOUT, CHECKPOINT, EVENTS, DECISIONS, SETTINGS, CONSISTENCY, LAG)
"""The members before the manifest, in their order."""

MOST_BYTES: Final = 256 * 1024**2
"""Bytes of a bundle at most."""
MOST_LINES: Final = 10_000
"""Lines of a checkpoint at most: one holds up to 4,000 items."""
MOST_EVENTS: Final = 200_000
MOST_DECISIONS: Final = 100_000
BLOCK: Final = 512
"""Bytes of a tar's header, and what each member is padded to."""
_LATEST: Final = 8**11 - 1
"""Seconds since 1970 that fit into a tar's header at most: the year 2242."""
_MODE: Final = 0o644
_PART: Final = 1000
"""Lines that are compressed together."""


class About(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The first member: what the bundle holds."""

    kind: str
    version: int
    topolog: str
    """The version of Topolog that made it."""
    cluster: str
    incarnation: str
    first: int
    """The oldest offset that can be shown: that of the checkpoint."""
    last: int
    """The offset of the last event."""
    head: int
    """The last offset of the log when the bundle was made."""
    first_ms: int
    """When the event at ``first`` was appended: milliseconds since the epoch; 0 before the first event."""
    last_ms: int
    """When the last event was."""
    created_ms: int
    by: str
    """The identity that requested it."""
    around: str = ""
    """The pod that it was made for, NAMESPACE/NAME."""
    decisions_from: str = ""
    """The id of the oldest decision record that the store still had."""
    pseudonyms: str = ""
    """The tag that all its pseudonyms begin with; empty if its names are those of the cluster."""

    @property
    def clock_ms(self) -> int:
        """The time at which the state at ``last`` was the present one."""
        return self.created_ms if self.last == self.head else self.last_ms


class Decisions(msgspec.Struct, frozen=True):
    """The first line of the decision records; every other one is a ``BundledDecision``."""

    kind: str
    version: int
    cluster: str
    incarnation: str
    count: int
    sha256: str
    """Over all other lines, each with its newline."""


class BundledDecision(msgspec.Struct, frozen=True):
    """A decision record."""

    id: str
    """The id that the store gave it: ``MILLISECONDS-NUMBER``."""
    d: msgspec.Raw
    """The record as it was stored."""


class Member(msgspec.Struct, frozen=True):
    """A member in the manifest."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The last member."""

    kind: str
    version: int
    members: tuple[Member, ...]


class Failure(msgspec.Struct, frozen=True):
    """What takes the place of the manifest if the export failed."""

    message: str


_encoder = msgspec.json.Encoder()


class TooLarge(Exception):
    """The bundle would exceed MOST_BYTES."""

    def __init__(self) -> None:
        super().__init__(
            f"the bundle would have more than {MOST_BYTES >> 20} MiB: choose a shorter range, or fewer"
            " minutes"
        )


class Packer:
    """Packs members into a tar, piece by piece."""

    def __init__(self, at_ms: int) -> None:
        """``at_ms``: the time of the members."""
        self._at = min(at_ms // 1000, _LATEST)
        self._size = 0
        self._members: list[Member] = []

    def member(self, name: str, parts: Sequence[bytes]) -> Iterator[bytes]:
        """The bytes of a member that consists of these parts. Raises TooLarge before the first one."""
        size = sum(map(len, parts))
        self._size += size + 2 * BLOCK
        if self._size > MOST_BYTES:
            raise TooLarge
        yield self._header(name, size)
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
            yield part
        yield bytes(-size % BLOCK)
        self._members.append(Member(name, size, digest.hexdigest()))

    def manifest(self) -> Iterator[bytes]:
        """The manifest, and the end of the tar."""
        yield from self._last(MANIFEST, Manifest(MANIFEST_KIND, VERSION, tuple(self._members)))

    def failed(self, message: str) -> Iterator[bytes]:
        """The reason why there is no manifest, and the end of the tar."""
        yield from self._last(FAILED, Failure(message))

    def _last(self, name: str, content: msgspec.Struct) -> Iterator[bytes]:
        body = _encoder.encode(content) + b"\n"
        yield self._header(name, len(body))
        yield body + bytes(-len(body) % BLOCK) + bytes(2 * BLOCK)

    def _header(self, name: str, size: int) -> bytes:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size, self._at, _MODE
        return info.tobuf(tarfile.USTAR_FORMAT)


class Lines:
    """Compresses lines in parts, and digests them."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._parts: list[bytes] = []
        self._pending: list[bytes] = []
        self._size = 0
        self.count = 0

    @property
    def digest(self) -> str:
        """SHA-256 over all lines."""
        return self._digest.hexdigest()

    def add(self, lines: Iterable[bytes]) -> None:
        """Add lines. Raises TooLarge."""
        for line in lines:
            self._digest.update(line)
            self._pending.append(line)
            self.count += 1
        if len(self._pending) >= _PART:
            self._compress()

    def finish(self) -> list[bytes]:
        """The compressed parts."""
        if self._pending:
            self._compress()
        return self._parts

    def _compress(self) -> None:
        part = snapshot_format.compressed(b"".join(self._pending))
        self._pending.clear()
        self._size += len(part)
        if self._size > MOST_BYTES:
            raise TooLarge
        self._parts.append(part)


def encoded(content: object) -> bytes:
    """A JSON member."""
    return _encoder.encode(content) + b"\n"


def lines(header: object, content: Iterable[bytes]) -> list[bytes]:
    """A member of compressed lines: a header, and what is compressed already."""
    return [snapshot_format.compressed(_encoder.encode(header) + b"\n"), *content]
