"""Verifies each checkpoint: its digest is intact and it equals the state replayed from the log.

Checkpoints on the way to the head are compared as the replay reaches them. If the replay does not lead to
one, the next checkpoint shows which of the two was changed: the log or that checkpoint. Later checkpoints are
replayed from a snapshot that was kept.
"""

import contextlib
import functools
from collections import deque

from app import plurals
from app.domain import event_subjects, projections, snapshots
from app.domain.audit import attribution, findings
from app.store import errors, raw_access, snapshot_format
from app.store.checkpoints import checkpoints
from app.store.log import codecs
from workers.auditor import entry_writers

_ANCHORS = 32
_SPACING = 256
_LARGE = 5000
"""Items of a checkpoint that is not verified at each run."""
_SELDOM = 30
"""Runs between two verifications of large checkpoints."""
_NAMED = 5


class CheckpointChecks:
    """Verifies the checkpoints of one incarnation; used by one thread."""

    def __init__(
        self,
        raw_reader: raw_access.RawReader,
        kept: checkpoints.Checkpoints,
        board: findings.Board,
        incarnation: str,
        marks: raw_access.Fingerprints,
    ) -> None:
        """``marks``: fingerprints of the folded entries."""
        self._raw_reader = raw_reader
        self._kept = kept
        self._board = board
        self._incarnation = incarnation
        self._marks = marks
        self._anchors: deque[snapshots.Snapshot] = deque(maxlen=_ANCHORS)
        self._began = 0
        """Later entries were read as they were appended; 0 before the head was reached."""
        self._turns = self._head = 0
        self._doubted: list[snapshot_format.Header] = []
        """Checkpoints that the replay did not lead to."""
        self._stop = 0
        """Offset of the last checkpoint that was compared."""
        self._digests: dict[int, str] = {}
        """Offset -> digest that was verified."""
        self._wrong: dict[int, str] = {}
        """Offset -> digest that was found wrong."""
        self.skipped: list[int] = []
        """Offsets of the checkpoints in a newer form than this process reads."""
        self.checked: dict[int, int] = {}
        """Offset of a checkpoint -> head when it was last verified."""

    def begin(self, snapshot: snapshots.Snapshot) -> None:
        """The replay starts at this snapshot."""
        self._stop = snapshot.offset
        self.anchor(snapshot)

    def live(self, offset: int) -> None:
        """The replay has reached the head: from now on entries are read as they are appended."""
        if not self._began:
            self._began = max(1, offset)

    def anchor(self, snapshot: snapshots.Snapshot) -> None:
        """Keep a snapshot from which later checkpoints can be replayed."""
        if not self._anchors or snapshot.offset - self._anchors[-1].offset >= _SPACING:
            self._anchors.append(snapshot)

    def headers(self) -> dict[int, snapshot_format.Header]:
        """The readable checkpoints by offset; unreadable ones are reported."""
        found, wrong = {}, set()
        for field, raw in self._raw_reader.checkpoints().items():
            try:
                header = snapshot_format.header_of(raw)
                if str(header.offset) != field:
                    raise errors.Damaged(f"the header at {field} names offset {header.offset}")
                found[header.offset] = header
            except errors.Damaged as damaged:
                wrong.add(f"checkpoint:{field}")
                self._damaged(field, str(damaged), 0)
        present = {f"checkpoint:{offset}" for offset in found} | wrong
        self._board.keep("checkpoint", present)
        self._board.keep("past", present)
        for kept in (self.checked, self._digests, self._wrong):
            for offset in kept.keys() - found.keys():
                del kept[offset]
        self._doubted = [one for one in self._doubted if found.get(one.offset) == one]
        return found

    def compare(self, header: snapshot_format.Header, snapshot: snapshots.Snapshot) -> None:
        """Compare a checkpoint with the replay at its offset. Raises StoreAway."""
        previous, self._stop = self._stop, header.offset
        read = functools.partial(self._kept.read, header, incarnation=snapshot.position.incarnation)
        try:
            if snapshot_format.same(header, snapshot, read):
                self._verified(header)
                self._resolve_doubts(header.offset)
                return
            stored = read()
        except errors.Damaged as damaged:
            self._damaged(str(header.offset), str(damaged), header.offset)
            return
        self._differs(header, snapshot, stored, previous)

    def _differs(
        self,
        header: snapshot_format.Header,
        snapshot: snapshots.Snapshot,
        stored: snapshots.Snapshot,
        previous: int,
    ) -> None:
        self._wrong[header.offset] = header.digest
        subjects = attribution.subjects_apart(snapshot, stored)
        where, key = plurals.listed(subjects, _NAMED) or "the order of items", f"checkpoint:{header.offset}"
        if self._began and header.offset > self._began:
            self._board.put(
                findings.Difference(
                    kind="checkpoint",
                    key=key,
                    expected=f"digest {snapshot_format.digest(snapshot)}",
                    found=f"digest {header.digest}",
                    first=header.offset,
                    last=snapshot.offset,
                    offset=header.offset,
                    writer="compactor",
                    blame=f"it is not the state at its offset: they differ in {where};"
                    " a faulty compactor wrote it, or another writer replaced it",
                )
            )
            return
        self._doubted.append(header)
        touching = self._touching(frozenset(subjects), previous, header.offset)
        last = touching[-1] if touching else None
        named = f" (the last event on it is {last.offset})" if last is not None else ""
        self._board.put(
            findings.Difference(
                kind="past",
                key=key,
                expected=f"digest {header.digest}",
                found=f"digest {snapshot_format.digest(snapshot)}",
                first=touching[0].offset if touching else previous + 1,
                last=header.offset,
                offset=last.offset if last is not None and len({one.offset for one in touching}) == 1 else 0,
                writer="; ".join(sorted({entry_writers.name(one) for one in touching})),
                blame=f"replaying the events {previous + 1} to {header.offset} does not lead to its"
                f" state: they differ in {where}{named}; an entry was changed, or the checkpoint",
            )
        )

    def _verified(self, header: snapshot_format.Header) -> None:
        self._digests[header.offset] = header.digest
        for kind in ("checkpoint", "past"):
            self._board.settle(kind, f"checkpoint:{header.offset}")

    def _resolve_doubts(self, at: int) -> None:
        """The checkpoint at an offset equals the replay, so the earlier, differing checkpoints are wrong."""
        for header in [one for one in self._doubted if one.offset < at]:
            self._doubted.remove(header)
            key = f"checkpoint:{header.offset}"
            self._board.settle("past", key)
            self._board.put(
                findings.Difference(
                    kind="checkpoint",
                    key=key,
                    expected="the state replayed from the log",
                    found=f"digest {header.digest}",
                    first=header.offset,
                    last=at,
                    offset=header.offset,
                    writer="compactor",
                    blame="it is not the state at its offset, but the log leads to the checkpoint after it:"
                    " a faulty compactor wrote this one, or another writer replaced it",
                )
            )

    def _touching(self, subjects: frozenset[str], after: int, until: int) -> list[raw_access.RawEntry]:
        """The entries between two offsets that touch some subjects."""
        found = []
        while after < until:
            _, lines = self._raw_reader.lines(after, min(raw_access.LINES, until - after))
            for line in lines:
                with contextlib.suppress(errors.Unreadable):
                    if subjects.intersection(event_subjects.touched(codecs.decode(line.payload))):
                        found.append(line)
            if not lines:
                break
            after = lines[-1].offset
        return found

    def run_once(self, head: int, oldest: int) -> None:
        """Verify the checkpoint that is due; ``oldest``: first offset of the log. Raises StoreAway."""
        self._turns, self._head = self._turns + 1, head
        found = self.headers()
        self._uncovered(found, oldest, head)
        self.skipped = [offset for offset, one in sorted(found.items()) if snapshot_format.newer(one)]
        for offset in self.skipped:
            del found[offset]
        new = [offset for offset in found if offset not in self.checked and offset <= head]
        due = new or [offset for offset, one in found.items() if self._due(one) and offset <= head]
        if not due:
            return
        offset = min(due, key=lambda at: (self.checked.get(at, -1), at))
        self._verify(found[offset])
        self.checked[offset] = head

    def _due(self, header: snapshot_format.Header) -> bool:
        known = self._digests.get(header.offset)
        changed = known is not None and known != header.digest
        return changed or header.items <= _LARGE or self._turns % _SELDOM == 0

    def _verify(self, header: snapshot_format.Header) -> None:
        try:
            self._examine(header)
        except errors.Damaged as damaged:
            # The compactor may have removed it meanwhile.
            if header.offset in self.headers():
                self._damaged(str(header.offset), str(damaged), header.offset)

    def _examine(self, header: snapshot_format.Header) -> None:
        """Verify the digest and, if that was not done yet, compare the contents. Raises Damaged."""
        snapshot_format.prove(header, self._kept.serialized(header).members)
        known = self._digests.get(header.offset)
        if known == header.digest:
            self._verified(header)
            return
        if self._wrong.get(header.offset) == header.digest:
            return
        snapshot = self._at(header.offset)
        if snapshot is not None:
            read = functools.partial(self._kept.read, header, incarnation=self._incarnation)
            if snapshot_format.same(header, snapshot, read):
                # It shows nothing about a doubted one: the anchor may be behind that, and states that
                # differed because the log was edited become equal again.
                self._verified(header)
            else:
                self._differs(header, snapshot, read(), 0)
        elif known is not None:
            raise errors.Damaged(f"its digest was {known} and is {header.digest}")

    def _at(self, offset: int) -> snapshots.Snapshot | None:
        """The snapshot at an offset, replayed from an anchor; None if no anchor is old enough."""
        base = max((one for one in self._anchors if one.offset <= offset), key=_offset, default=None)
        if base is None:
            return None
        projection = projections.Projection(base)
        while projection.offset < offset:
            _, lines = self._raw_reader.lines(projection.offset, offset - projection.offset)
            if [line.offset for line in lines] != list(range(projection.offset + 1, offset + 1))[
                : len(lines)
            ]:
                return None
            if not lines or any(self._marks.of(line.offset) != line.mark for line in lines):
                return None
            projection.apply_all([codecs.decode(line.payload) for line in lines])
        return projection.finish()

    def _uncovered(self, found: dict[int, snapshot_format.Header], oldest: int, head: int) -> None:
        if oldest <= 1 or any(offset >= oldest - 1 for offset in found):
            self._board.keep("uncovered", ())
            return
        offsets = [str(offset) for offset in sorted(found)]
        self._board.put(
            findings.Difference(
                kind="uncovered",
                key="log",
                expected=f"a checkpoint at or after {oldest - 1}",
                found=f"checkpoints at {plurals.listed(offsets, _NAMED) or 'no offset'}",
                first=1,
                last=head,
                offset=oldest,
                blame=f"the entries before {oldest} were removed, bypassing the functions, or the"
                " checkpoint that covers them was",
            )
        )

    def _damaged(self, field: str, problem: str, offset: int) -> None:
        self._board.put(
            findings.Difference(
                kind="checkpoint",
                key=f"checkpoint:{field}",
                expected="an intact checkpoint",
                found=problem,
                first=offset,
                last=max(offset, self._stop, self._head),
                offset=offset,
                writer="compactor",
                blame="the checkpoint was changed after the compactor wrote it",
            )
        )


def _offset(snapshot: snapshots.Snapshot) -> int:
    return snapshot.offset
