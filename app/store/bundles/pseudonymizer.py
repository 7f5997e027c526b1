"""Makes of a bundle another one in which pseudonyms stand for all names.

It is done where the bundle is, with nothing but the bundle: no process of the cluster ever sees the table.
The file is read twice: first for the names, because pseudonyms sort as they do, then for what is written.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, Final, TypeVar

import msgspec

from app.domain import model, schema, snapshot_contents, snapshots
from app.domain.audit import findings
from app.store import errors, snapshot_format
from app.store.bundles import bundle_reader, field_rewriter, layout, pseudonyms, rules
from app.store.checkpoints import archives
from app.store.decisions import records
from app.store.log import codecs, readers

S = TypeVar("S", bound=msgspec.Struct)

_PLUGINS: Final = ("plugins.enabled", "plugins.weights", "plugins.score_max")
"""Settings that name plugins only."""
_ARGS: Final = "plugins.args"
_REMOVED: Final = "(removed)"
_LAG: Final = frozenset(
    ("position", "began", "head", "behind", "seconds", "decisionsDropped", "listed", "version")
)
"""What lag.json keeps."""
_DIGEST: Final = re.compile("[0-9a-f]{12}")
_decision = msgspec.json.Decoder(records.Decision)
_report = msgspec.json.Decoder(findings.Report | None)
_encoder = msgspec.json.Encoder()


class RewriteRefused(Exception):
    """The bundle cannot be rewritten; the message gives the reason."""


def names_of(
    file: BinaryIO, public: pseudonyms.Public, declared: schema.Schema
) -> tuple[bundle_reader.Contents, "Source"]:
    """Read a bundle for its names. Raises bundle_reader.Damaged, Refused or OSError."""
    census = pseudonyms.Census(public)
    source = Source(census, declared)
    contents = _read(file, source)
    if contents.about.pseudonyms:
        raise RewriteRefused("the bundle has pseudonyms already")
    source.about(contents.about)
    source.rest(contents)
    return contents, source


def write(
    file: BinaryIO, out: BinaryIO, source: "Source", table: pseudonyms.Names, declared: schema.Schema
) -> None:
    """Write the bundle with pseudonyms. Raises bundle_reader.Damaged, Refused, layout.TooLarge or OSError."""
    words = pseudonyms.Replacement(source.census.public, table, source.census.keys)
    target = _Target(words, declared, source)
    file.seek(0)
    contents = _read(file, target)
    for piece in target.pieces(contents, table.tag):
        out.write(piece)


def _read(file: BinaryIO, visitor: bundle_reader.Visitor) -> bundle_reader.Contents:
    try:
        return bundle_reader.read(file, visitor)
    except (errors.StoreError, schema.UnreadableObject) as error:
        raise RewriteRefused(f"a part of the bundle cannot be read by this version: {error}") from error


class Source(bundle_reader.Visitor):
    """The names of a bundle, and what the second pass needs of the first."""

    def __init__(self, census: pseudonyms.Census, declared: schema.Schema) -> None:
        self.census = census
        self.digests: set[str] = set()
        """Digests of pods that are in no decision record but may be in the log."""
        self.contents = snapshot_contents.Contents()
        self.header: snapshot_format.Header | None = None
        self._schema = declared
        self._rewriting = field_rewriter.FieldRewriter(census, declared)
        self._lines: list[bytes] = []

    def about(self, about: layout.About) -> None:
        self._rewriting.struct(about)

    def checkpoint(self, header: snapshot_format.Header, line: bytes) -> None:
        self.header = header
        self._lines.append(line)

    def event(self, raw: readers.Raw) -> None:
        self._rewriting.struct(codecs.decode(bytes(raw.e)))

    def decision(self, decision: layout.BundledDecision) -> None:
        found = _decision.decode(decision.d)
        if found.digest:
            self.digests.add(found.digest)
        self._rewriting.struct(found)

    def rest(self, contents: bundle_reader.Contents) -> None:
        """The names in the checkpoint, and in the members that are not lines."""
        if self.header is not None:
            # The digest of its lines has been verified.
            snapshot = snapshot_format.parse(
                self.header,
                self._lines,
                self.header.digest,
                schema=self._schema,
                incarnation=self.header.incarnation,
                indexed=frozenset(),
            )
            self.contents = snapshot_contents.extract(snapshot)
        self._lines.clear()
        _snapshot_contents(self._rewriting, self.contents)
        _settings(self._rewriting, contents.settings)
        _consistency(self._rewriting, contents.consistency)
        _lag(self._rewriting, contents.lag)


class _Target(bundle_reader.Visitor):
    def __init__(self, words: pseudonyms.Words, declared: schema.Schema, source: Source) -> None:
        self._schema = declared
        self._source = source
        self._digests: dict[str, str] = {}
        self._rewriting = _Digesting(words, declared, source.digests, self._digests)
        self._events = layout.Lines()
        self._decisions = layout.Lines()
        self._times: list[int] = []

    def about(self, about: layout.About) -> None:
        # The digests of its pods are needed before the decisions are read.
        self._contents = _snapshot_contents(self._rewriting, self._source.contents)

    def event(self, raw: readers.Raw) -> None:
        event = self._rewriting.struct(codecs.decode(bytes(raw.e)))
        rewritten = msgspec.structs.replace(raw, e=msgspec.Raw(codecs.encode(event)))
        self._times = [*self._times[:1], raw.t]
        self._events.add([archives.line(rewritten)])

    def decision(self, decision: layout.BundledDecision) -> None:
        found = self._rewriting.struct(_decision.decode(decision.d))
        if found.digest:
            # Of a pod that the log does not hold in this form, no digest can be made.
            found = msgspec.structs.replace(found, digest=self._digests.get(found.digest, "unknown"))
        line = layout.BundledDecision(decision.id, msgspec.Raw(_encoder.encode(found)))
        self._decisions.add([_encoder.encode(line) + b"\n"])

    def pieces(self, contents: bundle_reader.Contents, tag: str) -> Iterator[bytes]:
        """The bytes of the bundle. Raises layout.TooLarge."""
        about = self._rewriting.struct(contents.about)
        about = msgspec.structs.replace(about, pseudonyms=tag)
        packer = layout.Packer(about.last_ms)
        for name in layout.MEMBERS:
            yield from packer.member(name, self._member(name, about, contents))
        yield from packer.manifest()

    def _member(self, name: str, about: layout.About, contents: bundle_reader.Contents) -> list[bytes]:
        match name:
            case layout.ABOUT:
                return [layout.encoded(about)]
            case layout.CHECKPOINT:
                serialized = snapshot_format.serialize(
                    self._snapshot(about), cluster=about.cluster, at_ms=about.first_ms
                )
                return layout.lines(serialized.header, serialized.members)
            case layout.EVENTS:
                packed = self._events.finish()
                first, times = max(1, about.first), self._times
                header = archives.Segment(
                    kind=archives.KIND,
                    version=archives.VERSION,
                    cluster=about.cluster,
                    incarnation=about.incarnation,
                    first=first,
                    last=about.last,
                    from_ms=about.first_ms or (times[0] if times else 0),
                    until_ms=about.last_ms,
                    sha256=self._events.digest,
                )
                return layout.lines(header, packed)
            case layout.DECISIONS:
                packed = self._decisions.finish()
                counted = layout.Decisions(
                    layout.DECISIONS_KIND,
                    layout.VERSION,
                    about.cluster,
                    about.incarnation,
                    self._decisions.count,
                    self._decisions.digest,
                )
                return layout.lines(counted, packed)
            case layout.SETTINGS:
                return [layout.encoded(_settings(self._rewriting, contents.settings))]
            case layout.CONSISTENCY:
                return [layout.encoded(_consistency(self._rewriting, contents.consistency))]
            case _:
                return [layout.encoded(_lag(self._rewriting, contents.lag))]

    def _snapshot(self, about: layout.About) -> snapshots.Snapshot:
        position = model.Position(about.incarnation, about.first)
        return snapshot_contents.build(self._contents, position, schema=self._schema)


class _Digesting(field_rewriter.FieldRewriter):
    """Rewrites, and keeps the new digests of the pods of whose former ones decision records are made."""

    def __init__(
        self,
        words: pseudonyms.Words,
        declared: schema.Schema,
        wanted: set[str],
        found: dict[str, str],
    ) -> None:
        super().__init__(words, declared)
        self._wanted = wanted
        self._found = found

    def struct(self, found: S) -> S:
        made = super().struct(found)
        if self._wanted and isinstance(found, model.Pod) and isinstance(made, model.Pod):
            self._note(found, made)
        return made

    def _note(self, former: model.Pod, made: model.Pod) -> None:
        if (digest := records.digest(former)) in self._wanted:
            self._found[digest] = records.digest(made)


def _snapshot_contents(
    rewrite: field_rewriter.FieldRewriter, held: snapshot_contents.Contents
) -> snapshot_contents.Contents:
    """The contents rewritten; counts are computed again from them."""
    return snapshot_contents.Contents(
        nodes=list(map(rewrite.struct, held.nodes)),
        pods=list(map(rewrite.struct, held.pods)),
        objects={kind: list(map(rewrite.struct, found)) for kind, found in held.objects.items()},
        placements=list(map(rewrite.struct, held.placements)),
        flags=list(map(rewrite.struct, held.flags)),
        configurations=tuple(map(rewrite.struct, held.configurations)),
        shadows=list(map(rewrite.struct, held.shadows)),
        listed=held.listed,
        unlisted=held.unlisted,
        versions=rewrite.subjects(held.versions),
        counts=None,
        displaced=[rewrite.words.name(uid, "uid") for uid in held.displaced],
    )


def _settings(rewrite: field_rewriter.FieldRewriter, shown: dict[str, object]) -> dict[str, object]:
    """The settings of the plugins, and of the others those that are not strings."""
    given = shown.get("settings")
    found: dict[str, object] = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        if name in _PLUGINS or isinstance(value, bool | int | float | None):
            found[name] = value
        elif name == _ARGS and isinstance(value, dict):
            found[name] = rules.arguments(rewrite.words, value)
        else:
            found[name] = _REMOVED
    digest = shown.get("configuration")
    return {
        "settings": found,
        "configuration": digest if isinstance(digest, str) and _DIGEST.fullmatch(digest) else "",
        **{name: shown[name] for name in ("plugins", "weights") if name in shown},
    }


def _consistency(rewrite: field_rewriter.FieldRewriter, stored: bytes) -> findings.Report | None:
    try:
        report = _report.decode(stored)
    except errors.MALFORMED as error:
        raise RewriteRefused(f"{layout.CONSISTENCY} cannot be read by this version: {error}") from error
    return None if report is None else rewrite.struct(report)


def _lag(rewrite: field_rewriter.FieldRewriter, shown: dict[str, object]) -> dict[str, object]:
    error = shown.get("error")
    return {
        **{name: value for name, value in shown.items() if name in _LAG},
        "error": rewrite.words.text(error) if isinstance(error, str) else None,
        "identity": rewrite.words.name(str(shown.get("identity", "")), "process"),
        "bundle": None,
    }
