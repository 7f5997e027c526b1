"""The auditor's own account of the log: folded by itself, entry by entry, and compared with what is stored.

It starts from the oldest checkpoint that the log goes on from, so that as much of the past as possible is
folded anew, and passes every later checkpoint on the way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from app import telemetry
from app.domain import auditing, consistency, snapshots
from app.store import codecs, errors, images, incarnations, inspecting, opening
from workers import describing, ending, proving, vouching

_ROUNDS: Final = 20
"""Looks of one turn at most: what is still to be read then is left for the next."""


class Books:
    """The auditor's own account of one incarnation of the store."""

    def __init__(
        self,
        store: opening.Store,
        inspector: inspecting.Inspector,
        board: consistency.Board,
        former: consistency.Report | None,
        *,
        page: int,
    ) -> None:
        """``former``: the last report about this incarnation; ``page``: see proving.Past."""
        self._store = store
        self._inspector = inspector
        self._board = board
        self._former = former
        self.incarnation = store.log.incarnation
        empty = snapshots.empty(incarnation=self.incarnation)
        self.ledger = auditing.Ledger(empty, empty)
        self.past = proving.Past(inspector, board, page=page)
        self.vouchers = vouching.Vouchers(
            inspector, store.checkpoints, board, self.incarnation, self.past.marks
        )
        self.base = 0
        """Everything behind this offset was folded here."""
        self.began = False
        self.behind = False
        """The last turn did not come to the end of the log."""
        self.broken = ""
        """Why the log cannot be folded any further; empty if it can."""
        self.apart: dict[str, int] = {}
        """By how much stored counts exceed the fold."""
        self.wrong: frozenset[str] = frozenset()
        """Subjects whose stored version is not the fold's."""
        self._versions_apart: dict[str, int] = {}
        self._stops: dict[int, images.Header | None] = {}
        """Offsets at which something is to be done on the way to the head."""
        self._cursor = 0
        self._whole = False
        self._cycle = 0
        """Where the present pass over the versions began."""
        self.versions_at = 0
        self._head_ms: int | None = None

    def begin(self) -> bool:
        """Start from the oldest checkpoint that the log goes on from; false if there is none."""
        oldest, _ = self._inspector.lines(0, 1)
        headers = self.vouchers.headers()
        self.began = True
        start = None if oldest <= 1 else self._oldest_checkpoint(oldest, headers)
        if oldest > 1 and start is None:
            self.began = False
            return False
        if start is not None:
            self.ledger.snapshot = self.ledger.before = start
            self.base = start.offset
        meta = self._store.log.standing()
        if meta.epoch and meta.writer:
            self.ledger.recorders[meta.epoch] = meta.writer
        self.vouchers.begin(self.ledger.snapshot)
        self._stops = {at: header for at, header in headers.items() if at > self.base}
        self._resume()
        return True

    def _oldest_checkpoint(
        self, oldest: int, headers: Mapping[int, images.Header]
    ) -> snapshots.Snapshot | None:
        for offset in sorted(headers):
            if offset + 1 < oldest or not self._follows(headers[offset], oldest):
                continue
            try:
                return self._store.checkpoints.read(headers[offset], incarnation=self.incarnation)
            except errors.Damaged as damaged:
                telemetry.log.error("a checkpoint is passed over", error=str(damaged))
        return None

    def _follows(self, header: images.Header, oldest: int) -> bool:
        """Whether the log has the very entry at which the checkpoint was made."""
        if header.offset + 1 == oldest:
            return True
        _, lines = self._inspector.lines(header.offset - 1, 1)
        return bool(lines) and (lines[0].offset, lines[0].at_ms) == (header.offset, header.at_ms)

    def _resume(self) -> None:
        """Go on where the last report ended: what stood there is known, with its blame."""
        former = self._former
        if former is None or former.offset < self.base:
            return
        for one in former.differences:
            if one.kind == "count" and one.found.lstrip("-").isdigit():
                self._board.put(one)
                self.apart[one.key] = int(one.found) - int(one.expected)
            elif one.kind == "version" and one.found.isdigit():
                self._board.put(one)
                self._versions_apart[one.key] = int(one.found) - int(one.expected)
        self._board.found.clear()
        if former.offset > self.base:
            self._stops.setdefault(former.offset, None)
        self._cycle = former.versions

    # -- following the log -----------------------------------------------------------------

    def follow(self) -> inspecting.Look | None:
        """Fold to the head; None if that was too far for one turn."""
        for _ in range(_ROUNDS):
            held = len(self.ledger.snapshot.versions)
            look = self._inspector.look(
                self.ledger.snapshot.offset, cursor=self._cursor, whole=self._whole, held=held
            )
            if self._store.keys.log in look.mistyped:
                self.broken = "the log is of another type"
                return look
            if look.meta.get("incarnation") != self.incarnation or "lost" in look.meta:
                raise errors.Rewound("the store has begun another incarnation; the audit begins anew")
            self.broken = self._take(look)
            reached = self.ledger.snapshot.offset
            if (
                self.broken
                or not look.lines
                or reached >= min(look.head, look.last.offset if look.last else 0)
            ):
                self.behind = False
                self.vouchers.live(reached)
                self.vouchers.anchor(self.ledger.snapshot)
                self._note(look)
                return look
        self.behind = True
        return None

    def _note(self, look: inspecting.Look) -> None:
        """What is appended by this process must follow on what it has seen."""
        offset = self.ledger.snapshot.offset
        if look.last is not None and offset == look.head == look.last.offset:
            self._head_ms = look.last.at_ms
            self._store.log.note(incarnations.Known(self.incarnation, offset, self._head_ms))

    def _take(self, look: inspecting.Look) -> str:
        """Fold the lines of a look; what keeps from it, or empty."""
        steps: list[auditing.Step] = []
        marks, expected, broken = [], self.ledger.snapshot.offset + 1, ""
        for line in look.lines:
            if line.offset > look.head and not self._lowered(look):
                break
            if line.sequence:
                continue  # The past is proven page by page: it is put up there.
            if line.offset != expected:
                broken = self._gap(expected, line, look)
                break
            try:
                steps.append(auditing.Step(line.offset, line.at_ms, line.epoch, codecs.decode(line.payload)))
            except errors.Unreadable as unreadable:
                broken = str(unreadable)
                self._board.put(_unreadable(line, look.head, broken))
                break
            marks.append(line)
            expected += 1
        for line in marks:
            self.past.marks.add(line)
        self._fold(steps)
        return broken

    def _gap(self, expected: int, line: inspecting.Line, look: inspecting.Look) -> str:
        if look.oldest is not None and look.oldest.offset > expected:
            raise errors.Trimmed(look.oldest.offset)
        self._board.put(proving.hole(expected, line.offset - 1, look.head))
        return f"offset {expected} is missing from the log"

    def _lowered(self, look: inspecting.Look) -> bool:
        """The head that meta names was lowered: what is behind it was appended all the same."""
        return ending.lowered(look, self.past.marks.end - 1)

    def _fold(self, steps: Sequence[auditing.Step]) -> None:
        """Take the steps, stopping where something is to be done."""
        for part in _parts(steps, self._stops):
            self._fence(part)
            self.ledger.take(part)
            offset = self.ledger.snapshot.offset
            if offset in self._stops:
                header = self._stops.pop(offset)
                if header is not None:
                    self.vouchers.passed(header, self.ledger.snapshot)
                if self._former is not None and offset == self._former.offset:
                    self.ledger.looked()

    def _fence(self, steps: Iterable[auditing.Step]) -> None:
        """A fact is recorded under the highest epoch there was, or before there was any."""
        epoch = self.ledger.epoch
        for step in steps:
            unfenced = not step.epoch and bool(epoch) and isinstance(step.event, auditing.FACTS)
            if unfenced or (step.epoch and auditing.lower(step.epoch, epoch)):
                self._board.put(_fence(self.ledger, step, epoch))
            epoch = step.epoch if auditing.lower(epoch, step.epoch) else epoch

    # -- comparing -------------------------------------------------------------------------

    def compare(self, look: inspecting.Look) -> None:
        """Counts, versions and the end of the log, all of one moment."""
        seen = self.past.marks.end - 1 if self.past.marks.end else self.base
        if self._store.keys.log in look.mistyped:
            describing.judge(look, self.ledger, self._store.keys, self._board)
            return
        ending.judge(look, seen, self._board)
        describing.judge(look, self.ledger, self._store.keys, self._board)
        if not self.broken:
            self._board.keep("unreadable", ())
            self._compare_counts(look)
            self._compare_versions(look)
            self.ledger.looked()

    def _compare_counts(self, look: inspecting.Look) -> None:
        if self._store.keys.counts in look.mistyped:
            self.apart = {}
            return
        folded = self.ledger.snapshot.counts
        garbled = {name for what, name in look.garbled if what == "count"}
        now = {key: by for key, by in auditing.apart(look.counts, folded).items() if key not in garbled}
        delta = auditing.changed(now, self.apart)
        blames = auditing.blame_counts(self.ledger, {key: by for key, by in delta.items() if key in now})
        for key, blame in blames.items():
            stored = look.counts.get(key, 0)
            self._board.put(self._difference("count", key, folded.get(key, 0), str(stored), blame))
        for key in garbled:
            blame = auditing.unexplained(self.ledger, key)
            self._board.put(
                self._difference("count", key, folded.get(key, 0), look.garbled["count", key], blame)
            )
        self.apart = now
        self._board.keep("count", now.keys() | garbled)

    def _compare_versions(self, look: inspecting.Look) -> None:
        if self._store.keys.versions in look.mistyped:
            self._versions_apart, self.wrong, self._whole = {}, frozenset(), True
            return
        if not look.whole:
            self._compare_page(look)
            return
        folded, since = self.ledger.snapshot.versions, min(self._cycle + 1, self.ledger.since)
        garbled = {name for what, name in look.garbled if what == "version"}
        now = auditing.apart(look.versions, folded)
        for subject in sorted((now.keys() - self._versions_apart.keys()) | garbled):
            stored, before = look.versions.get(subject, 0), self._versions_apart.get(subject, 0)
            blame = auditing.blame_version(self.ledger, subject, stored, before, since=since)
            shown = look.garbled.get(("version", subject), str(stored))
            self._board.put(self._difference("version", subject, folded.get(subject, 0), shown, blame, since))
        self._versions_apart = now
        self.wrong = frozenset(now.keys() | garbled)
        self._board.keep("version", now.keys() | garbled)
        self._whole = False
        self._cycle = self.versions_at = self.ledger.snapshot.offset

    def _compare_page(self, look: inspecting.Look) -> None:
        """A page only says whether something is wrong; what it is, the next look finds out."""
        folded = self.ledger.snapshot.versions
        differs = any(version != folded.get(subject, 0) for subject, version in look.versions.items())
        self._whole = differs or bool(self._versions_apart) or look.subjects != len(folded)
        self._cursor = look.cursor
        if not look.cursor and not self._whole:
            self.versions_at, self._cycle = self._cycle, self.ledger.snapshot.offset

    def _difference(
        self, kind: str, key: str, expected: int, found: str, blame: auditing.Blame, since: int = 0
    ) -> consistency.Difference:
        ledger = self.ledger
        since = min(since or ledger.since, ledger.snapshot.offset)
        return consistency.Difference(
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


def _parts(steps: Sequence[auditing.Step], stops: Mapping[int, object]) -> Iterator[Sequence[auditing.Step]]:
    """The steps in runs that end where something is to be done."""
    begin = 0
    for at, step in enumerate(steps, 1):
        if step.offset in stops:
            yield steps[begin:at]
            begin = at
    if begin < len(steps):
        yield steps[begin:]


def _unreadable(line: inspecting.Line, head: int, words: str) -> consistency.Difference:
    return consistency.Difference(
        kind="unreadable",
        key=f"entry:{line.offset}",
        expected="an event",
        found=line.payload[:120].decode(errors="replace"),
        first=line.offset,
        last=head,
        offset=line.offset,
        writer=f"epoch {line.epoch}" if line.epoch else "a writer without an epoch",
        blame=words,
    )


def _fence(ledger: auditing.Ledger, step: auditing.Step, epoch: str) -> consistency.Difference:
    return consistency.Difference(
        kind="fence",
        key=f"entry:{step.offset}",
        expected=f"{ledger.recorder(epoch)}, or a later one",
        found=ledger.writer(step),
        first=step.offset,
        last=step.offset,
        offset=step.offset,
        writer=ledger.writer(step),
        blame=f"event {step.offset} is a fact, and not the recorder of that time wrote it",
    )
