"""Reads a bundle strictly, and verifies it: whatever is not as it was written is refused, with its name.

The file may be of any origin. Only the known members are accepted, in their order; nothing is ever written
to a path that the file names. What a member may hold is bounded before it is read, compressed and expanded.
"""

import collections
import contextlib
import hashlib
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn, TypeVar

import msgspec

from app import converters
from app.domain.audit import findings
from app.store import errors, snapshot_format
from app.store.bundles import layout
from app.store.checkpoints import archives
from app.store.decisions import records
from app.store.log import codecs, readers

T = TypeVar("T")
MOST_EXPANDED: Final = 4 * 1024**3
"""Bytes of all lines at most."""
_MOST_RATIO: Final = 400
"""Expanded bytes for each compressed one; JSON lines of a cluster have a tenth of it."""
_FREE: Final = 1024**2
"""Expanded bytes to which the ratio does not apply."""
_LONGEST_LINE: Final = 64 * 1024**2
_LARGEST_JSON: Final = 16 * 1024**2
_YEAR_10000_MS: Final = 253_402_300_800_000
_READ: Final = 256 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS
_COMPRESSED: Final = ".gz"


class Damaged(Exception):
    """The file is not a bundle, was cut off, or was changed; the message names the member."""


class Visitor:
    """Is given the lines of the history as they are read; a damage may still be found after them."""

    def about(self, about: layout.About) -> None:
        """What the bundle holds."""

    def checkpoint(self, header: snapshot_format.Header, line: bytes) -> None:
        """A line of the checkpoint."""

    def event(self, raw: readers.Raw) -> None:
        """An event."""

    def decision(self, decision: layout.BundledDecision) -> None:
        """A decision record."""


class Contents(NamedTuple):
    """A verified bundle."""

    about: layout.About
    settings: dict[str, object]
    consistency: bytes
    """The auditor's report as it is stored; ``null`` without one."""
    lag: dict[str, object]
    events: int
    decisions: int
    members: tuple[layout.Member, ...]


def read(file: BinaryIO, visitor: Visitor | None = None) -> Contents:
    """Verify a bundle from its start to its end. Raises Damaged or OSError.

    ``file`` is at its start. If it can be read again, a member that is not as it was written is named by its
    digest: what a changed byte makes of it, such as another version or range, is not the reason.
    """
    try:
        return _Reader(file, visitor or Visitor()).contents()
    except Damaged as damaged:
        if not file.seekable():
            raise
        file.seek(0)
        raise _Reader(file, Visitor()).changed() or damaged from None


class _Reader:
    def __init__(self, file: BinaryIO, visitor: Visitor) -> None:
        self._file = file
        self._visitor = visitor
        self._read = 0
        self._expanded = 0
        self._members: list[layout.Member] = []

    def contents(self) -> Contents:
        about = self._about()
        self._visitor.about(about)
        self._checkpoint(about)
        events = self._events(about)
        decisions = self._decisions(about)
        settings = self._decoded(layout.SETTINGS, dict[str, object])
        consistency = self._report()
        lag = self._decoded(layout.LAG, dict[str, object])
        self._manifest()
        return Contents(about, settings, consistency, lag, events, decisions, tuple(self._members))

    def changed(self) -> Damaged | None:
        """The damage that the manifest shows, whatever the members hold; None if it shows none."""
        try:
            for name in layout.MEMBERS:
                collections.deque(self._pieces(name), maxlen=0)
            listed = self._listed()
        except Damaged:
            return None
        return self._difference(listed)

    # -- the members -----------------------------------------------------------------------

    def _about(self) -> layout.About:
        raw = self._json(layout.ABOUT)
        head = _parsed(_Versioned, raw, layout.ABOUT)
        if head.kind != layout.KIND:
            raise Damaged(f"it is not a bundle: its kind is {head.kind[:80]!r}")
        if head.version > layout.VERSION:
            raise Damaged(
                f"it is a bundle of version {head.version}, made by a newer Topolog; this one reads up to"
                f" {layout.VERSION}"
            )
        about = _parsed(layout.About, raw, layout.ABOUT)
        if not 0 <= about.first <= about.last <= about.head or about.last - about.first > layout.MOST_EVENTS:
            _damaged(layout.ABOUT, "its offsets are not a range")
        for at_ms in (about.first_ms, about.last_ms, about.created_ms):
            _dated(layout.ABOUT, at_ms)
        return about

    def _checkpoint(self, about: layout.About) -> None:
        name, digest, number = layout.CHECKPOINT, hashlib.sha256(), 0
        lines = self._lines(name)
        try:
            header = snapshot_format.header_of(next(lines, b""))
        except errors.Damaged as damaged:
            _damaged(name, str(damaged))
        if header.kind != snapshot_format.KIND or header.version > snapshot_format.VERSION:
            _damaged(name, f"a {header.kind} of version {header.version} was made by a newer Topolog")
        if (header.incarnation, header.offset) != (about.incarnation, about.first):
            _damaged(name, f"it is that of offset {header.offset}, not of {about.first}")
        for line in lines:
            number += 1
            if number > (most := min(header.lines, layout.MOST_LINES)):
                _damaged(name, f"it has more than {most} lines")
            digest.update(line)
            self._visitor.checkpoint(header, line)
        if digest.hexdigest() != header.digest or number != header.lines:
            _damaged(name, "the SHA-256 of its lines is not that of its first line")

    def _events(self, about: layout.About) -> int:
        name, digest, offset = layout.EVENTS, hashlib.sha256(), max(1, about.first)
        lines = self._lines(name)
        header = _parsed(archives.Segment, next(lines, b""), name)
        if header.kind != archives.KIND or header.version > archives.VERSION:
            _damaged(name, f"a {header.kind} of version {header.version} was made by a newer Topolog")
        if (header.incarnation, header.first, header.last) != (about.incarnation, offset, about.last):
            _damaged(name, f"it holds the offsets {header.first} to {header.last} of another range")
        for line in lines:
            if offset > header.last:
                _damaged(name, f"it has more events than offsets {header.first} to {header.last}")
            digest.update(line)
            raw = _parsed(readers.Raw, line, name)
            if raw.offset != offset:
                _damaged(name, f"offset {offset} is missing")
            _dated(name, raw.t)
            try:
                codecs.decode(bytes(raw.e))
            except errors.Unreadable as unreadable:
                _damaged(name, str(unreadable))
            self._visitor.event(raw)
            offset += 1
        if digest.hexdigest() != header.sha256 or offset <= header.last:
            _damaged(name, "the SHA-256 of its lines is not that of its first line")
        return offset - header.first

    def _decisions(self, about: layout.About) -> int:
        name, digest, count = layout.DECISIONS, hashlib.sha256(), 0
        lines = self._lines(name)
        header = _parsed(layout.Decisions, next(lines, b""), name)
        if header.kind != layout.DECISIONS_KIND or header.version > layout.VERSION:
            _damaged(name, f"a {header.kind} of version {header.version} was made by a newer Topolog")
        latest = (0, 0)
        for line in lines:
            count += 1
            if count > (most := min(header.count, layout.MOST_DECISIONS)):
                _damaged(name, f"it has more than {most} decisions")
            digest.update(line)
            decision = _parsed(layout.BundledDecision, line, name)
            record = _parsed(records.Decision, bytes(decision.d), name)
            if not about.first <= record.position.offset <= about.last:
                _damaged(name, f"decision {decision.id[:80]} was taken outside of the range")
            if (at := _ordered(decision.id)) is None or at <= latest:
                _damaged(name, f"{decision.id[:80]!r} is not an id that follows the one before")
            latest = at
            self._visitor.decision(decision)
        if digest.hexdigest() != header.sha256 or count != header.count:
            _damaged(name, "the SHA-256 of its lines is not that of its first line")
        return count

    def _manifest(self) -> None:
        if difference := self._difference(self._listed()):
            raise difference
        rest = self._file.read(2 * layout.BLOCK + 1)
        if len(rest) < 2 * layout.BLOCK and not rest.strip(b"\0"):
            raise Damaged("it was cut off: its end is missing")
        if rest != bytes(2 * layout.BLOCK):
            raise Damaged("something follows the manifest")

    def _listed(self) -> tuple[layout.Member, ...]:
        """What the manifest lists. Raises Damaged."""
        name, size = self._next(layout.MANIFEST)
        raw = self._exactly(size, name)
        self._padding(name, size)
        if name == layout.FAILED:
            raise Damaged(f"the export failed: {_parsed(layout.Failure, raw, name).message}")
        manifest = _parsed(layout.Manifest, raw, name)
        if manifest.kind != layout.MANIFEST_KIND or manifest.version > layout.VERSION:
            _damaged(name, f"a {manifest.kind} of version {manifest.version} was made by a newer Topolog")
        return manifest.members

    def _difference(self, listed: tuple[layout.Member, ...]) -> Damaged | None:
        if [one.name for one in listed] != [one.name for one in self._members]:
            return Damaged(f"{layout.MANIFEST} is damaged: it lists other members")
        for member, one in zip(self._members, listed, strict=True):
            if member != one:
                return Damaged(f"{member.name} is damaged: its SHA-256 is not the one in {layout.MANIFEST}")
        return None

    # -- the tar ---------------------------------------------------------------------------

    def _next(self, wanted: str) -> tuple[str, int]:
        """Name and size of the next member, which must be the wanted one, or the reason of a failure."""
        block = self._file.read(layout.BLOCK)
        if len(block) < layout.BLOCK or block == bytes(layout.BLOCK):
            if not self._read:
                raise Damaged("it is not a bundle: it does not begin with a member of a tar")
            raise Damaged(f"it was cut off: {wanted} is missing")
        try:
            info = tarfile.TarInfo.frombuf(block, "ascii", "backslashreplace")
        except tarfile.HeaderError as error:
            what = "it is not a bundle" if not self._read else f"before {wanted} it is damaged"
            raise Damaged(f"{what}: {error}") from error
        # Of a failed export, the reason comes in place of the member that could not be made.
        if info.name not in (wanted, layout.FAILED) or info.type != tarfile.REGTYPE:
            raise Damaged(
                f"it is not a bundle: in place of {wanted} it has {info.name[:80]!r}, which is not extracted"
            )
        most = layout.MOST_BYTES - self._read
        if not 0 <= info.size <= (most if wanted.endswith(_COMPRESSED) else min(most, _LARGEST_JSON)):
            _damaged(info.name, f"{info.size} bytes are more than a bundle has")
        self._read += info.size + layout.BLOCK
        if info.name == layout.FAILED and wanted != layout.MANIFEST:
            raw = self._exactly(info.size, info.name)
            raise Damaged(f"the export failed: {_parsed(layout.Failure, raw, info.name).message}")
        return info.name, info.size

    def _exactly(self, size: int, name: str) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise Damaged(f"it was cut off in {name}")
        return found

    def _padding(self, name: str, size: int) -> None:
        if self._exactly(-size % layout.BLOCK, name).strip(b"\0"):
            _damaged(name, "its padding is not empty")

    def _pieces(self, wanted: str) -> Iterator[bytes]:
        name, size = self._next(wanted)
        digest, left = hashlib.sha256(), size
        while left:
            piece = self._exactly(min(_READ, left), name)
            left -= len(piece)
            digest.update(piece)
            yield piece
        self._padding(name, size)
        self._members.append(layout.Member(name, size, digest.hexdigest()))

    def _report(self) -> bytes:
        """The auditor's report; one that this version cannot read is shown as none."""
        raw = self._json(layout.CONSISTENCY)
        with contextlib.suppress(*errors.MALFORMED):
            report = _CONVERTERS[findings.Report].decode(raw)
            for at_ms in (report.at_ms, report.compared_ms or 0, *(one.at_ms for one in report.repairs)):
                _dated(layout.CONSISTENCY, at_ms)
        return raw

    def _json(self, name: str) -> bytes:
        return b"".join(self._pieces(name))

    def _decoded(self, name: str, shape: type[T]) -> T:
        return _parsed(shape, self._json(name), name)

    def _lines(self, name: str) -> Iterator[bytes]:
        """The lines of a compressed member, each with its newline."""
        begun: list[bytes] = []
        length = 0
        for text in self._expand(name):
            *whole, rest = text.split(b"\n")
            for line in whole:
                yield b"".join((*begun, line, b"\n"))
                begun, length = [], 0
            begun.append(rest)
            length += len(rest)
            if length > _LONGEST_LINE:
                _damaged(name, f"a line has more than {_LONGEST_LINE} bytes")
        if length:
            _damaged(name, "its last line has no end")

    def _expand(self, name: str) -> Iterator[bytes]:
        compressed = expanded = begun = 0
        inflating, within = zlib.decompressobj(_GZIP), True
        for piece in self._pieces(name):
            compressed += len(piece)
            more = True
            while more:
                try:
                    text = inflating.decompress(piece, _READ)
                except zlib.error as error:
                    _damaged(name, str(error))
                expanded += len(text)
                self._expanded += len(text)
                if expanded > _FREE + _MOST_RATIO * compressed or self._expanded > MOST_EXPANDED:
                    _damaged(name, "it expands to more than a bundle holds")
                yield text
                within = not inflating.eof
                if within:
                    piece = inflating.unconsumed_tail
                    more = bool(piece) or len(text) == _READ
                else:
                    if expanded == begun:  # None is written; many of them cost time and expand to nothing.
                        _damaged(name, "a part of it is empty")
                    begun = expanded
                    piece, inflating = inflating.unused_data, zlib.decompressobj(_GZIP)
                    more = bool(piece)
        if within:
            _damaged(name, "its last line has no end")


class _Versioned(msgspec.Struct):
    kind: str = ""
    version: int = 0


_CONVERTERS: Final[Mapping[object, converters.Converter[Any]]] = {
    shape: converters.Converter(shape)
    for shape in (
        dict[str, object],
        _Versioned,
        layout.About,
        layout.Decisions,
        layout.BundledDecision,
        layout.Failure,
        layout.Manifest,
        archives.Segment,
        readers.Raw,
        records.Decision,
        findings.Report,
    )
}


def _parsed(shape: type[T], raw: bytes, name: str) -> T:
    try:
        found: T = _CONVERTERS[shape].decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Damaged(f"{name} is damaged: {str(error)[:200]}") from error
    return found


def _damaged(name: str, why: str) -> NoReturn:
    raise Damaged(f"{name} is damaged: {why}")


def _dated(name: str, at_ms: int) -> None:
    """Refuse a time that cannot be written as one of RFC 3339. Raises Damaged."""
    if not 0 <= at_ms < _YEAR_10000_MS:
        _damaged(name, f"{at_ms} ms since 1970 are not a time before the year 10000")


def _ordered(identity: str) -> tuple[int, int] | None:
    """The parts of an id of a stream; None if it is none."""
    parts = identity.split("-")
    if len(parts) != 2 or not all(one.isascii() and one.isdecimal() and len(one) <= 19 for one in parts):
        return None
    return int(parts[0]), int(parts[1])
