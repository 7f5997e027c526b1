"""The archive: entries that the log no longer holds, in files.

A segment is a run of entries in one ``.jsonl.gz`` file: its first line is a header, every other
line is one entry, ``{"offset":1,"t":1782900000000,"e":{...}}``. A checkpoint is a file too. A file in
the archive is complete (archive_storage). ``zcat``, ``jq`` and ``sha256sum`` suffice to read and verify
one.
"""

import bisect
import contextlib
import functools
import gzip
import hashlib
import io
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from app.domain import schema as schemas
from app.domain import snapshots
from app.store import errors, snapshot_format
from app.store.checkpoints import archive_files, archive_listings, archive_storage
from app.store.log import codecs, readers

KIND = "topolog.segment"
VERSION = 1
_PARSED = 2
"""Decoded segments in the cache: consecutive queries usually read the same ones."""
_HEADER = 64 * 1024
"""Bytes of a file in which its first line is found: it is a gzip member of its own."""
_TEXT = 64 * 1024
"""Bytes of text that are decompressed at a time: large buffers are new pages each time."""
_GZIP = 31
"""zlib's number for the gzip format."""


class Segment(msgspec.Struct, frozen=True):
    """The first line of a segment."""

    kind: str
    version: int
    cluster: str
    incarnation: str
    first: int
    last: int
    from_ms: int
    """When the first entry was appended: milliseconds since the epoch."""
    until_ms: int
    """When the last one was."""
    sha256: str
    """Over all other lines, each with its newline."""


_encoder = msgspec.json.Encoder()
_segments = msgspec.json.Decoder(Segment)
_raws = msgspec.json.Decoder(readers.Raw)


class Archive:
    """The archive of one cluster; thread-safe, and shared by processes."""

    def __init__(
        self,
        storage: archive_storage.Storage,
        cluster: str,
        incarnation: Callable[[], str] = str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``storage`` holds the files of this cluster.

        ``incarnation`` returns the incarnation to read; ``history`` has what of the others belongs to it.
        """
        self.storage = storage
        self.cluster = cluster
        self._incarnation = incarnation
        self._monotonic = monotonic
        self._calls: dict[object, tuple[str, float]] = {}
        """Monotonic: when each call of the storage that has not returned began, or had the last name."""
        self._parsed: OrderedDict[str, list[readers.Entry]] = OrderedDict()
        self._lock = threading.Lock()
        self._listings = archive_listings.Listings(
            self.files, incarnation, functools.partial(self._waiting, "listed"), monotonic=monotonic
        )

    @property
    def waiting(self) -> float:
        """Seconds for which the slowest call of the storage has had no answer; 0 without one."""
        return self._waiting()

    def _waiting(self, done: str = "") -> float:
        """The same; ``done`` limits it to calls of a kind, as `_reached` names it."""
        begun = [began for kind, began in tuple(self._calls.values()) if done in ("", kind)]
        return max((self._monotonic() - began for began in begun), default=0.0)

    def files(self, kind: str = "") -> list[archive_files.File]:
        """The files by offset; ``kind`` (segment, checkpoint) limits it. Raises ArchiveAway."""
        names = []
        with self._reached("listed") as answered:
            for name in self.storage.names():
                names.append(name)
                answered()
        return archive_files.listed(names, kind)

    def size(self, file: archive_files.File) -> int:
        """Bytes of a file; raises ArchiveAway."""
        with self._reached("read"):
            return self.storage.size(file.name)

    # -- writing ---------------------------------------------------------------------------

    def keep_segment(self, entries: Sequence[readers.Raw], incarnation: str) -> str:
        """Write consecutive entries as one segment; its name. Durable when this returns.

        Raises ArchiveAway.
        """
        lines = [line(entry) for entry in entries]
        header = Segment(
            kind=KIND,
            version=VERSION,
            cluster=self.cluster,
            incarnation=incarnation,
            first=entries[0].offset,
            last=entries[-1].offset,
            from_ms=entries[0].t,
            until_ms=entries[-1].t,
            sha256=_sum(lines),
        )
        name = f"segment.{incarnation}.{header.first:016d}-{header.last:016d}.jsonl.gz"
        members = (
            snapshot_format.compressed(_encoder.encode(header) + b"\n"),
            snapshot_format.compressed(b"".join(lines)),
        )
        return self._write(name, members)

    def keep_checkpoint(self, serialized: snapshot_format.SerializedSnapshot) -> str:
        """Write a checkpoint; its name. Durable when this returns. Raises ArchiveAway."""
        header = serialized.header
        name = f"checkpoint.{header.incarnation}.{header.offset:016d}.jsonl.gz"
        return self._write(
            name, (snapshot_format.compressed(snapshot_format.encoded(header) + b"\n"), *serialized.members)
        )

    def remove(self, name: str) -> None:
        """Remove a file that is not as it was written: a name that is listed counts as archived.

        Raises ArchiveAway.
        """
        with self._reached("changed"):
            self.storage.remove(name)
        self._listings.changed()
        with self._lock:
            self._parsed.pop(name, None)

    def _write(self, name: str, members: Iterable[bytes]) -> str:
        if archive_files.parsed(name) is None:
            raise errors.StoreError(f"{name} cannot be the name of a file in the archive")
        with self._reached("written"):
            self.storage.write(name, members)
        self._listings.changed()
        with self._lock:
            self._parsed.pop(name, None)
        return name

    # -- reading ---------------------------------------------------------------------------
    # Everything here raises ArchiveAway, too.

    def read(self, after: int, *, limit: int) -> list[readers.Entry]:
        """The entries behind an offset, at most to the end of one segment; raises Trimmed or Damaged."""
        file = self._covering(after + 1)
        if file is None:
            raise errors.Trimmed(self.oldest() or after + 2)
        begin, end = after + 1 - file.first, file.last + 1 - file.first
        return self._entries(file)[begin : min(end, begin + limit)]

    def read_raw(self, first: int, last: int) -> list[readers.Raw]:
        """The undecoded entries from ``first`` on, at most to ``last`` or the end of one segment.

        Raises Trimmed or Damaged.
        """
        file = self._covering(first)
        if file is None:
            raise errors.Trimmed(self.oldest() or first + 1)
        return [raw for raw in self.raws(file.name) if first <= raw.offset <= min(last, file.last)]

    def _covering(self, offset: int) -> archive_files.File | None:
        """The segment of the history that has an offset."""
        begun = self._listings.begun
        found = archive_files.covering(self._listings.recent().segments, offset)
        return found or archive_files.covering(self._listings.since(begun).segments, offset)

    def history(self, kind: str) -> list[archive_files.File]:
        """The files of this incarnation and of those that it continues, as they were some seconds ago."""
        recent = self._listings.recent()
        return recent.segments if kind == "segment" else recent.checkpoints

    def bounds(self) -> tuple[int, list[int]]:
        """The first offset (see ``oldest``) and those of the checkpoints, as they were some seconds ago."""
        found = self._listings.recent()
        return archive_files.begin(found.segments), [file.last for file in found.checkpoints]

    def oldest(self) -> int:
        """The first offset of the run of segments that reaches the newest; 0 if there is none."""
        return self.bounds()[0]

    def latest(self, files: Sequence[archive_files.File]) -> archive_files.File | None:
        """The last segment of this incarnation among listed files."""
        segments = (file for file in reversed(files) if file.kind == "segment")
        return next((file for file in segments if file.incarnation == self._incarnation()), None)

    def offset_at(self, time_ms: int) -> int | None:
        """The offset of the last archived event appended by that time; None if all were later."""
        begun, segments = self._listings.begun, self.history("segment")
        found = self._begun_by(segments, time_ms)
        if found == len(segments):  # A later segment that has begun by then may have been written since.
            segments = self._listings.since(begun).segments
            found = self._begun_by(segments, time_ms)
        if not found:
            return None
        file = segments[found - 1]
        entries = self._entries(file)[: file.last + 1 - file.first]
        return max(entry.offset for entry in entries if entry.at_ms <= time_ms)

    def _begun_by(self, segments: Sequence[archive_files.File], time_ms: int) -> int:
        """How many of the segments begin by that time."""
        return bisect.bisect_right(range(len(segments)), time_ms, key=lambda at: self._from(segments, at))

    def _from(self, segments: Sequence[archive_files.File], at: int) -> int:
        """When a segment begins, or may begin if its header is damaged: the one before it has ended."""
        for known in range(at, -1, -1):
            with contextlib.suppress(errors.Damaged):
                header = self.header(segments[known].name)
                return header.from_ms if known == at else header.until_ms
        return 0

    def checkpoints(self) -> list[snapshot_format.Header]:
        """The headers of the checkpoints, the newest first; unreadable ones are skipped."""
        headers = []
        for file in reversed(self.history("checkpoint")):
            with contextlib.suppress(errors.Damaged):
                headers.append(self.image_header(file))
        return headers

    def image_header(self, file: archive_files.File) -> snapshot_format.Header:
        """The header of one checkpoint; raises Damaged."""
        return snapshot_format.header_of(self._first_line(file.name))

    def checkpoint(
        self,
        header: snapshot_format.Header,
        *,
        schema: schemas.Schema,
        incarnation: str,
        indexed: frozenset[str] = frozenset(),
    ) -> snapshots.Snapshot:
        """The snapshot of an archived checkpoint; raises Damaged."""
        name = f"checkpoint.{header.incarnation}.{header.offset:016d}.jsonl.gz"
        _, *lines = self._lines(name)
        return snapshot_format.parse(
            header, lines, _sum(lines), schema=schema, incarnation=incarnation, indexed=indexed
        )

    def header(self, name: str) -> Segment:
        """The header of a segment; raises Damaged."""
        return self._segment(name, self._first_line(name))

    def _segment(self, name: str, first: bytes) -> Segment:
        where = self._where(name)
        try:
            header = _segments.decode(first)
        except errors.MALFORMED as error:
            raise errors.Damaged(f"{where} does not begin with the header of a segment: {error}") from error
        if header.kind != KIND or header.version > VERSION:
            raise errors.Damaged(
                f"{where} is a {header.kind} of version {header.version}; this process reads up to {VERSION}"
            )
        return header

    def prove(self, file: archive_files.File) -> None:
        """Raise Damaged unless the file is as it was written and matches its name."""
        if file.kind == "segment":
            raws = self.raws(file.name)
            if (raws[0].offset, raws[-1].offset) != (file.first, file.last):
                raise errors.Damaged(
                    f"{self._where(file.name)} holds the offsets {raws[0].offset} to {raws[-1].offset}"
                )
            return
        first, *lines = self._lines(file.name)
        header = snapshot_format.header_of(first)
        if header.offset != file.last or _sum(lines) != header.digest:
            raise errors.Damaged(
                f"{self._where(file.name)} is damaged: the SHA-256 of its lines is not that of its first line"
            )

    def raws(self, name: str) -> list[readers.Raw]:
        """The undecoded entries of a segment, verified; raises Damaged."""
        first, *lines = self._lines(name)
        header, where = self._segment(name, first), self._where(name)
        if not lines or _sum(lines) != header.sha256:
            raise errors.Damaged(
                f"{where} is damaged: the SHA-256 of its lines is not that of its first line"
            )
        try:
            found = [_raws.decode(line) for line in lines]
        except errors.MALFORMED as error:
            raise errors.Damaged(f"{where} cannot be read: {error}") from error
        if [raw.offset for raw in found] != list(range(header.first, header.last + 1)):
            raise errors.Damaged(f"{where} does not hold the offsets that it names")
        return found

    def _entries(self, file: archive_files.File) -> list[readers.Entry]:
        with self._lock:
            if file.name in self._parsed:
                self._parsed.move_to_end(file.name)
                return self._parsed[file.name]
        parsed = [
            readers.Entry(raw.offset, raw.t, codecs.decode(bytes(raw.e))) for raw in self.raws(file.name)
        ]
        with self._lock:
            self._parsed[file.name] = parsed
            while len(self._parsed) > _PARSED:
                self._parsed.popitem(last=False)
        return parsed

    @contextlib.contextmanager
    def _reached(self, done: str) -> Iterator[Callable[[], None]]:
        """Any failure of the storage is an outage of the archive; ``done``: what could not be.

        Yields what notes a part of the answer.
        """
        call = object()

        def answered() -> None:
            self._calls[call] = done, self._monotonic()

        answered()
        try:
            yield answered
        except OSError as problem:
            raise errors.ArchiveAway(f"the archive cannot be {done}: {problem}") from problem
        finally:
            del self._calls[call]

    def _where(self, name: str) -> str:
        return f"{self.storage}/{name}"

    def _content(self, name: str, *, first: int | None = None) -> bytes:
        """A file or its first bytes; a listed one that is gone is Damaged, any other failure an outage."""
        try:
            with self._reached("read"):
                return self.storage.read(name, first=first)
        except errors.ArchiveAway as away:
            if isinstance(away.__cause__, FileNotFoundError):
                raise errors.Damaged(f"{self._where(name)} does not exist") from away
            raise

    def _first_line(self, name: str) -> bytes:
        content = self._content(name, first=_HEADER)
        try:
            text = zlib.decompressobj(_GZIP).decompress(content)
        except zlib.error as error:
            raise errors.Damaged(f"{self._where(name)} cannot be read: {error}") from error
        return text[: text.find(b"\n") + 1]

    def _lines(self, name: str) -> list[bytes]:
        """All lines, at least one; raises Damaged."""
        content = self._content(name)
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
                lines = list(io.BufferedReader(file, _TEXT))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise errors.Damaged(f"{self._where(name)} cannot be read: {error}") from error
        if not lines:
            raise errors.Damaged(f"{self._where(name)} is empty")
        return lines


def line(raw: readers.Raw) -> bytes:
    """An entry as a line of a segment, its newline included."""
    return _encoder.encode(raw) + b"\n"


def _sum(lines: Iterable[bytes]) -> str:
    summed = hashlib.sha256()
    for line in lines:
        summed.update(line)
    return summed.hexdigest()
