"""Serialises snapshots in one canonical form, for checkpoints and archives.

The form is lines of JSON: each names what it holds (``{"pods":[...]}``), at most ``ITEMS`` of it, in
the order of their keys. Equal snapshots have equal lines, however they came about, so the SHA-256
over the lines is the digest of the snapshot. Each line is kept as a gzip member of its own: one after
the other they are a .gz file that zcat and jq can read.
"""

import dataclasses
import gzip
import hashlib
import operator
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from app import shared_texts
from app.domain import model, snapshot_contents, snapshots
from app.domain import schema as schemas
from app.store import errors
from migrations import forms

T = TypeVar("T")

VERSION = 7
"""Of the form; a reader reads every form up to its own. 1: counts that do not name their label. 2: placements
without data, annotations and labels. 3: the objects of one kind are in lines of their own (migrations.forms).
4: no configurations. 5: pods without constraints.
6: no shadows.
"""
KIND = "topolog.checkpoint"
ITEMS = 4000
"""Items a line: about 2 MB of pods, 250 kB compressed."""
_LEVEL = 1
"""Of compression: the highest takes ten times as long and saves a fifth."""
_GZIP = 16 + zlib.MAX_WBITS


class Header(msgspec.Struct, frozen=True):
    """The header of a serialized snapshot."""

    kind: str
    version: int
    cluster: str
    incarnation: str
    offset: int
    at_ms: int
    """When the event at the offset was appended: verifies that a log still continues the snapshot."""
    digest: str
    """SHA-256 over the lines, each with its newline."""
    lines: int
    items: int
    """Nodes, pods, objects and placements: what reading it costs."""
    size: int
    """Bytes, compressed."""
    parts: str = ""
    """Suffix of the keys of its values in the store: two writers of one offset share none."""
    forms: str = schemas.FIRST_FORMS
    """The form of its counts (Schema.forms); counts of another form are computed again."""


class _Line(msgspec.Struct, omit_defaults=True):
    offset: int = 0
    """On the first line: two snapshots at different offsets are not the same."""
    flags: list[model.Flag] = []
    configurations: tuple[model.Configuration, ...] = ()
    shadows: list[model.Shadow] = []
    listed: dict[str, str] = {}
    unlisted: list[str] = []
    nodes: list[model.Node] = []
    objects: dict[str, list[msgspec.Raw]] = {}
    pods: list[model.Pod] = []
    placements: list[model.Placement] = []
    displaced: list[str] = []
    versions: dict[str, int] = {}
    counts: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class SerializedSnapshot:
    """A snapshot as bytes."""

    header: Header
    members: Sequence[bytes]
    """Each line as a gzip member."""


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(_Line)
_headers = msgspec.json.Decoder(Header)


def digest(snapshot: snapshots.Snapshot) -> str:
    """SHA-256 of the canonical form: equal for equal contents at equal offsets, and only for them.

    Neither the incarnation nor the indexed label keys are part of it.
    """
    summed = hashlib.sha256()
    for line in _lines(snapshot):
        summed.update(line)
    return summed.hexdigest()


def serialize(snapshot: snapshots.Snapshot, *, cluster: str, at_ms: int) -> SerializedSnapshot:
    """The serialized form of a snapshot whose last event was appended at ``at_ms``."""
    summed = hashlib.sha256()
    members = []
    for line in _lines(snapshot):
        summed.update(line)
        members.append(compressed(line))
    header = Header(
        forms=snapshot.schema.forms,
        kind=KIND,
        version=VERSION,
        cluster=cluster,
        incarnation=snapshot.position.incarnation,
        offset=snapshot.offset,
        at_ms=at_ms,
        digest=summed.hexdigest(),
        lines=len(members),
        items=len(snapshot.nodes) + len(snapshot.pods) + len(snapshot.objects) + len(snapshot.placements),
        size=sum(map(len, members)),
    )
    return SerializedSnapshot(header, members)


def deserialize(
    header: Header,
    members: Iterable[bytes],
    *,
    schema: schemas.Schema,
    incarnation: str,
    indexed: frozenset[str] = frozenset(),
) -> snapshots.Snapshot:
    """Restore the snapshot in the given incarnation; raises Damaged if one bit differs."""
    summed = hashlib.sha256()
    lines = []
    for member in members:
        line = decompressed(member, f"the checkpoint at offset {header.offset}")
        summed.update(line)
        lines.append(line)
    found = summed.hexdigest()
    return parse(header, lines, found, schema=schema, incarnation=incarnation, indexed=indexed)


def parse(
    header: Header,
    lines: Sequence[bytes],
    found: str,
    *,
    schema: schemas.Schema,
    incarnation: str,
    indexed: frozenset[str],
) -> snapshots.Snapshot:
    """The snapshot of lines whose digest is ``found``; raises Damaged."""
    where = f"the checkpoint at offset {header.offset}"
    if header.kind != KIND or header.version > VERSION:
        raise errors.Damaged(
            f"{where} is a {header.kind} of version {header.version}; this process reads up to {VERSION}"
        )
    if found != header.digest or len(lines) != header.lines:
        raise errors.Damaged(f"{where} is damaged: its digest is {found}, not {header.digest}")
    try:
        read = [_decoder.decode(line) for line in forms.present(lines, header.version)]
        if not read or read[0].offset != header.offset:
            raise errors.Damaged(f"{where} holds another offset")
        contents = _joined(read, schema, counted=header.forms == schema.forms)
    except (*errors.MALFORMED, schemas.UnreadableObject) as error:
        raise errors.Damaged(f"{where} cannot be read: {error}") from error
    except LookupError as error:
        raise errors.Damaged(f"{where} has counts of a policy that it does not have: {error}") from error
    if header.version < 6:
        contents = _unconstrained(contents)
    position = model.Position(incarnation, header.offset)
    return snapshot_contents.build(contents, position, schema=schema, indexed=indexed)


def newer(header: Header) -> bool:
    """Whether the checkpoint has a form that a later version of Topolog writes, and this one cannot read."""
    return header.kind == KIND and header.version > VERSION


def same(header: Header, snapshot: snapshots.Snapshot, stored: Callable[[], snapshots.Snapshot]) -> bool:
    """Whether a checkpoint is that of the snapshot.

    ``stored`` reads it, and is called if the digests differ: a process of another version, or with other
    plugins, writes the kinds and fields that it has.
    """
    wanted = digest(snapshot)
    return wanted == header.digest or wanted == digest(stored())


def prove(header: Header, members: Iterable[bytes]) -> None:
    """Raise Damaged unless the members are those of the header."""
    summed = hashlib.sha256()
    for member in members:
        summed.update(decompressed(member, f"the checkpoint at offset {header.offset}"))
    if summed.hexdigest() != header.digest:
        raise errors.Damaged(f"the checkpoint at offset {header.offset} is damaged: its digest is another")


def header_of(raw: bytes | str) -> Header:
    """A header out of its JSON; raises Damaged."""
    try:
        return _headers.decode(raw)
    except errors.MALFORMED as error:
        raise errors.Damaged(f"the header of a checkpoint cannot be read: {error}") from error


def encoded(header: Header) -> bytes:
    """The header as JSON."""
    return _encoder.encode(header)


def compressed(line: bytes) -> bytes:
    """A gzip member; the same bytes for the same line, whenever it is made."""
    return gzip.compress(line, _LEVEL, mtime=0)


def decompressed(member: bytes, what: str) -> bytes:
    """The line of a gzip member; raises Damaged, naming ``what`` it is of."""
    try:
        return zlib.decompress(member, _GZIP)
    except zlib.error as error:
        raise errors.Damaged(f"{what} is damaged: {error}") from error


def _lines(snapshot: snapshots.Snapshot) -> Iterator[bytes]:
    held = snapshot_contents.extract(snapshot)
    flags = sorted(held.flags, key=operator.attrgetter("name"))
    for line in (
        _Line(
            offset=snapshot.offset,
            flags=flags,
            configurations=held.configurations,
            shadows=sorted(held.shadows, key=operator.attrgetter("name")),
            listed=dict(held.listed),
            unlisted=list(held.unlisted),
        ),
        *(_Line(nodes=part) for part in _parts(held.nodes, operator.attrgetter("name"))),
        *(
            _Line(objects={kind: list(map(operator.methodcaller("encode"), part))})
            for kind, found in sorted(held.objects.items())
            for part in _parts(found, operator.attrgetter("key"))
        ),
        *(_Line(pods=part) for part in _parts(held.pods, operator.attrgetter("uid"))),
        *(_Line(placements=part) for part in _parts(held.placements, operator.attrgetter("pod.uid"))),
        *(_Line(displaced=part) for part in _parts(held.displaced, str)),
        *(_Line(versions=part) for part in _dicts(held.versions)),
        *(_Line(counts=part) for part in _dicts(snapshot.counts)),
    ):
        yield _encoder.encode(line) + b"\n"


def _unconstrained(contents: snapshot_contents.Contents) -> snapshot_contents.Contents:
    """The contents of a form whose pods have no constraints: those are unknown, not the standard ones."""
    bare = [msgspec.structs.replace(pod, constraints=None) for pod in contents.pods]
    placements = [
        msgspec.structs.replace(one, pod=msgspec.structs.replace(one.pod, constraints=None))
        for one in contents.placements
    ]
    return dataclasses.replace(contents, pods=bare, placements=placements)


def _parts(items: Sequence[T], key: Callable[[T], Any]) -> Iterator[list[T]]:
    ordered = sorted(items, key=key)
    return (ordered[at : at + ITEMS] for at in range(0, len(ordered), ITEMS))


def _dicts(mapping: Mapping[str, int]) -> Iterator[dict[str, int]]:
    return (dict(part) for part in _parts(list(mapping.items()), operator.itemgetter(0)))


def _joined(lines: Sequence[_Line], schema: schemas.Schema, *, counted: bool) -> snapshot_contents.Contents:
    objects: dict[str, list[model.DeclaredObject]] = {}
    for line in lines:
        for kind, found in line.objects.items():
            objects.setdefault(kind, []).extend(schema.read(kind, one) for one in found)
        for node in line.nodes:
            shared_texts.share_values(node.labels, node.name)
    return snapshot_contents.Contents(
        nodes=[one for line in lines for one in line.nodes],
        pods=[one for line in lines for one in line.pods],
        objects=objects,
        placements=[one for line in lines for one in line.placements],
        flags=[one for line in lines for one in line.flags],
        configurations=tuple(one for line in lines for one in line.configurations),
        shadows=[one for line in lines for one in line.shadows],
        listed={key: value for line in lines for key, value in line.listed.items()},
        unlisted=[one for line in lines for one in line.unlisted],
        versions={key: value for line in lines for key, value in line.versions.items()},
        counts={key: value for line in lines for key, value in line.counts.items()} if counted else None,
        displaced=[one for line in lines for one in line.displaced],
    )
