"""The auditor's own replay of the log, compared with the counts and versions that are stored.

It starts from the oldest checkpoint that the log continues from, so that as much of the log as possible is
replayed, and compares every later checkpoint on the way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from app import telemetry
from app.domain import events, snapshots
from app.domain.audit import attribution, findings
from app.store import errors, raw_access, snapshot_format, stores
from app.store.log import codecs, incarnations
from workers.auditor import checkpoint_checks, entry_writers, log_end, log_integrity, meta_checks, remedies

_MAX_READS: Final = 20
"""Maximum reads of one run; the rest of the log is left to the next run."""


class AuditLedger:
    """The auditor's own replay of one incarnation of the store; used by one thread."""

    def __init__(
        self,
        store: stores.Store,
        raw_reader: raw_access.RawReader,
        board: findings.Board,
        former: findings.Report | None,
        *,
        page: int,
    ) -> None:
        """``former``: the last report about this incarnation; ``page``: see log_integrity.LogIntegrity."""
        self._store = store
        self._raw_reader = raw_reader
        self._board = board
        self._former = former
        self.incarnation = store.log.incarnation
        empty = snapshots.empty(schema=store.schema, incarnation=self.incarnation)
        self.ledger = attribution.Ledger(empty, empty)
        self.integrity = log_integrity.LogIntegrity(raw_reader, board, page=page)
        self.checkpoints = checkpoint_checks.CheckpointChecks(
            raw_reader, store.checkpoints, board, self.incarnation, self.integrity.marks
        )
        self.base = 0
        """Every entry after this offset was replayed by this process."""
        self.began = False
        self.uncovered = ""
        """Why the replay cannot begin; empty if it has begun."""
        self.behind = False
        """The last run did not reach the end of the log."""
        self.broken = ""
        """Why the log cannot be replayed further; empty if it can."""
        self.outdated = False
        """That is an event which a later version of Topolog wrote: nothing is wrong with the log."""
        self.count_drift: dict[str, int] = {}
        """Key -> stored minus replayed count, where they differ."""
        self.wrong_versions: frozenset[str] = frozenset()
        """Subjects whose stored version differs from the replayed one."""
        self._version_drift: dict[str, int] = {}
        self._stops: dict[int, snapshot_format.Header | None] = {}
        """Offset -> checkpoint to compare there, or None where the last report ended."""
        self._cursor = 0
        self._whole = False
        self._cycle = 0
        """Offset at which the present pass over the versions began."""
        self.versions_at = 0
        """Offset at which all versions were last compared."""
        self._head_ms: int | None = None

    @property
    def snapshot(self) -> snapshots.Snapshot:
        """The replayed state."""
        return self.ledger.snapshot

    def begin(self) -> bool:
        """Start from the oldest checkpoint that the log continues from; false if there is none.

        Raises StoreAway; then it has not begun.
        """
        oldest, _ = self._raw_reader.lines(0, 1)
        found = self.checkpoints.headers()
        headers = {at: header for at, header in found.items() if not snapshot_format.newer(header)}
        start = None if oldest <= 1 else self._oldest_checkpoint(oldest, headers)
        if oldest > 1 and start is None:
            later = [str(at) for at in sorted(found.keys() - headers.keys())]
            self.uncovered = "the start of the log was trimmed, and no checkpoint covers it"
            if later:
                self.uncovered += (
                    f": a later version of Topolog wrote those at {', '.join(later)}; upgrade this one"
                )
            return False
        self.uncovered = ""
        if start is not None:
            self.ledger.snapshot = self.ledger.before = start
            self.base = start.offset
        meta = self._store.log.state()
        if meta.epoch and meta.writer:
            self.ledger.recorders[meta.epoch] = meta.writer
        self.checkpoints.begin(self.ledger.snapshot)
        self._stops = {at: header for at, header in headers.items() if at > self.base}
        self._resume()
        self.began = True
        return True

    def _oldest_checkpoint(
        self, oldest: int, headers: Mapping[int, snapshot_format.Header]
    ) -> snapshots.Snapshot | None:
        for offset in sorted(headers):
            if offset + 1 < oldest or not self._follows(headers[offset], oldest):
                continue
            try:
                return self._store.checkpoints.read(headers[offset], incarnation=self.incarnation)
            except errors.Damaged as damaged:
                telemetry.log.error("skipping corrupt checkpoint", error=str(damaged))
        return None

    def _follows(self, header: snapshot_format.Header, oldest: int) -> bool:
        """Whether the log has the entry at which the checkpoint was taken."""
        if header.offset + 1 == oldest:
            return True
        _, lines = self._raw_reader.lines(header.offset - 1, 1)
        return bool(lines) and (lines[0].offset, lines[0].at_ms) == (header.offset, header.at_ms)

    def _resume(self) -> None:
        """Continue from the last report: its open differences are known, with their attribution."""
        former = self._former
        if former is None or former.offset < self.base:
            return
        for one in former.differences:
            if one.kind == "count" and one.found.lstrip("-").isdigit():
                self._board.put(one)
                self.count_drift[one.key] = int(one.found) - int(one.expected)
            elif one.kind == "version" and one.found.isdigit():
                self._board.put(one)
                self._version_drift[one.key] = int(one.found) - int(one.expected)
        self._board.found.clear()
        if former.offset > self.base:
            self._stops.setdefault(former.offset, None)
        self._cycle = former.versions

    # -- following the log -----------------------------------------------------------------

    def follow(self) -> raw_access.RawView | None:
        """Replay to the head; None if that was too far for one run."""
        self.outdated = False
        for _ in range(_MAX_READS):
            held = len(self.ledger.snapshot.versions)
            view = self._raw_reader.view(
                self.ledger.snapshot.offset, cursor=self._cursor, whole=self._whole, held=held
            )
            if self._store.keys.log in view.mistyped:
                self.broken = "the key of the log has another type"
                return view
            if view.meta.get("incarnation") != self.incarnation or "lost" in view.meta:
                raise errors.Rewound("the store has begun another incarnation; the audit starts again")
            self.broken = self._apply(view)
            reached = self.ledger.snapshot.offset
            if (
                self.broken
                or not view.lines
                or reached >= min(view.head, view.last.offset if view.last else 0)
            ):
                self.behind = False
                self.checkpoints.live(reached)
                self.checkpoints.anchor(self.ledger.snapshot)
                self._note(view)
                return view
        self.behind = True
        return None

    def _note(self, view: raw_access.RawView) -> None:
        """Let the appends of this process follow the entries that it has read."""
        offset = self.ledger.snapshot.offset
        if view.last is not None and offset == view.head == view.last.offset:
            self._head_ms = view.last.at_ms
            self._store.log.note(incarnations.Watermark(self.incarnation, offset, self._head_ms))

    def _apply(self, view: raw_access.RawView) -> str:
        """Replay the entries that were read; returns the problem that stops it, or empty."""
        steps: list[attribution.Step] = []
        marks, expected, broken = [], self.ledger.snapshot.offset + 1, ""
        for line in view.lines:
            if line.offset > view.head and not self._lowered(view):
                break
            if line.sequence:
                continue  # Reported by log_integrity.
            if line.offset != expected:
                broken = self._gap(expected, line, view)
                break
            try:
                steps.append(attribution.Step(line.offset, line.at_ms, line.epoch, self._event(line.payload)))
            except errors.Newer as newer:
                self.outdated = True
                broken = (
                    f"entry {line.offset}: {newer.what}; upgrade the auditor. If no process of a later"
                    " version has ever run, the entry is damaged: restore the store"
                )
                break
            except errors.Unreadable as unreadable:
                broken = str(unreadable)
                self._board.put(_unreadable(line, view.head, broken))
                break
            marks.append(line)
            expected += 1
        for line in marks:
            self.integrity.marks.add(line)
        self._fold(steps)
        return broken

    def _event(self, payload: bytes) -> events.AnyEvent:
        """The event of an entry that can be replayed. Raises Unreadable."""
        event = codecs.decode(payload)
        if isinstance(event, events.ObjectObserved):
            with codecs.folding():
                self.ledger.snapshot.schema.read(event.kind, event.data)
        return event

    def _gap(self, expected: int, line: raw_access.RawEntry, view: raw_access.RawView) -> str:
        if view.oldest is not None and view.oldest.offset > expected:
            raise errors.Trimmed(view.oldest.offset)
        self._board.put(log_integrity.hole(expected, line.offset - 1, view.head))
        return f"offset {expected} is missing from the log"

    def _lowered(self, view: raw_access.RawView) -> bool:
        """The head in meta was lowered: the entries beyond it were appended."""
        return log_end.lowered(view, self.integrity.marks.end - 1)

    def _fold(self, steps: Sequence[attribution.Step]) -> None:
        """Replay the steps, stopping at checkpoints and where the last report ended."""
        for part in _parts(steps, self._stops):
            self._check_fence(part)
            self.ledger.take(part)
            offset = self.ledger.snapshot.offset
            if offset in self._stops:
                header = self._stops.pop(offset)
                if header is not None:
                    self.checkpoints.compare(header, self.ledger.snapshot)
                if self._former is not None and offset == self._former.offset:
                    self.ledger.examined()

    def _check_fence(self, steps: Iterable[attribution.Step]) -> None:
        """Report facts that were not recorded under the highest epoch so far, if there is one."""
        epoch = self.ledger.epoch
        for step in steps:
            unfenced = not step.epoch and bool(epoch) and isinstance(step.event, attribution.FACTS)
            if unfenced or (step.epoch and attribution.lower(step.epoch, epoch)):
                self._board.put(_fence(self.ledger, step, epoch))
            epoch = step.epoch if attribution.lower(epoch, step.epoch) else epoch

    # -- comparing -------------------------------------------------------------------------

    def compare(self, view: raw_access.RawView) -> None:
        """Compare counts, versions, meta and the end of the log, all read at one moment."""
        seen = self.integrity.marks.end - 1 if self.integrity.marks.end else self.base
        if self._store.keys.log in view.mistyped:
            meta_checks.check_meta(view, self.ledger, self._store.keys, self._board)
            return
        log_end.check_log_end(view, seen, self._board)
        meta_checks.check_meta(view, self.ledger, self._store.keys, self._board)
        if not self.broken:
            self._board.keep("unreadable", ())
            self._compare_counts(view)
            self._compare_versions(view)
            self.ledger.examined()

    def _compare_counts(self, view: raw_access.RawView) -> None:
        if self._store.keys.counts in view.mistyped:
            self.count_drift = {}
            return
        folded = self.ledger.snapshot.counts
        garbled = {name for what, name in view.garbled if what == "count"}
        now = {key: by for key, by in attribution.apart(view.counts, folded).items() if key not in garbled}
        delta = attribution.changed(now, self.count_drift)
        blames = attribution.attribute_counts(
            self.ledger, {key: by for key, by in delta.items() if key in now}
        )
        for key, blame in blames.items():
            stored = view.counts.get(key, 0)
            self._board.put(self._difference("count", key, folded.get(key, 0), str(stored), blame))
        for key in garbled:
            blame = attribution.unexplained(self.ledger, key)
            found = self._difference("count", key, folded.get(key, 0), view.garbled["count", key], blame)
            self._board.put(
                remedies.by_hand(found, self._store.keys.counts) if key in view.escaped else found
            )
        self.count_drift = now
        self._board.keep("count", now.keys() | garbled)

    def _compare_versions(self, view: raw_access.RawView) -> None:
        if self._store.keys.versions in view.mistyped:
            self._version_drift, self.wrong_versions, self._whole = {}, frozenset(), True
            return
        if not view.whole:
            self._compare_page(view)
            return
        folded, since = self.ledger.snapshot.versions, min(self._cycle + 1, self.ledger.since)
        garbled = {name for what, name in view.garbled if what == "version"}
        now = attribution.apart(view.versions, folded)
        for subject in sorted((now.keys() - self._version_drift.keys()) | garbled):
            stored, before = view.versions.get(subject, 0), self._version_drift.get(subject, 0)
            blame = attribution.attribute_version(self.ledger, subject, stored, before, since=since)
            shown = view.garbled.get(("version", subject), str(stored))
            found = self._difference("version", subject, folded.get(subject, 0), shown, blame, since)
            by_hand = subject in view.escaped
            self._board.put(remedies.by_hand(found, self._store.keys.versions) if by_hand else found)
        self._version_drift = now
        self.wrong_versions = frozenset(now.keys() | garbled) - view.escaped
        self._board.keep("version", now.keys() | garbled)
        self._whole = False
        self._cycle = self.versions_at = self.ledger.snapshot.offset

    def _compare_page(self, view: raw_access.RawView) -> None:
        """Check a page of versions; if any is wrong, the next read compares all of them."""
        folded = self.ledger.snapshot.versions
        differs = any(version != folded.get(subject, 0) for subject, version in view.versions.items())
        self._whole = differs or bool(self._version_drift) or view.subjects != len(folded)
        self._cursor = view.cursor
        if not view.cursor and not self._whole:
            self.versions_at, self._cycle = self._cycle, self.ledger.snapshot.offset

    def _difference(
        self, kind: str, key: str, expected: int, found: str, blame: attribution.Attribution, since: int = 0
    ) -> findings.Difference:
        ledger = self.ledger
        since = min(since or ledger.since, ledger.snapshot.offset)
        return findings.Difference(
            kind=kind,
            key=key,
            expected=str(expected),
            found=found,
            first=blame.offset or since,
            last=ledger.snapshot.offset,
            offset=blame.offset,
            writer=blame.writer or ledger.writers(),
            blame=blame.words,
        )


def _parts(
    steps: Sequence[attribution.Step], stops: Mapping[int, object]
) -> Iterator[Sequence[attribution.Step]]:
    """The steps in runs that end at a stop."""
    begin = 0
    for at, step in enumerate(steps, 1):
        if step.offset in stops:
            yield steps[begin:at]
            begin = at
    if begin < len(steps):
        yield steps[begin:]


def _unreadable(line: raw_access.RawEntry, head: int, problem: str) -> findings.Difference:
    return findings.Difference(
        kind="unreadable",
        key=f"entry:{line.offset}",
        expected="an event",
        found=line.payload[:120].decode(errors="replace"),
        first=line.offset,
        last=head,
        offset=line.offset,
        writer=entry_writers.name(line),
        blame=problem,
    )


def _fence(ledger: attribution.Ledger, step: attribution.Step, epoch: str) -> findings.Difference:
    return findings.Difference(
        kind="fence",
        key=f"entry:{step.offset}",
        expected=f"{ledger.recorder(epoch)}, or a later one",
        found=ledger.writer(step),
        first=step.offset,
        last=step.offset,
        offset=step.offset,
        writer=ledger.writer(step),
        blame=f"event {step.offset} is a fact that the recorder elected at that time did not write",
    )
