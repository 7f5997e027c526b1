"""Checkpoints, proven by the auditor's own fold: each is whole in itself, and is the state at its offset.

Those that it passes on its way to the head it compares as it comes to them. Where the fold does not lead to
one, the next one tells which of the two was changed: the log, or that checkpoint. One that is made later is
folded from a snapshot that was kept.
"""

import contextlib
from collections import deque
from collections.abc import Sequence

from app.domain import auditing, consistency, projecting, snapshots
from app.store import checkpoints, codecs, errors, images, inspecting

_ANCHORS = 32
_SPACING = 256
_LARGE = 5000
"""Items of a checkpoint that is not proven at each turn."""
_SELDOM = 30
"""Turns between two proofs of large ones."""
_NAMED = 5


class Vouchers:
    """Proves the checkpoints of one incarnation."""

    def __init__(
        self,
        inspector: inspecting.Inspector,
        kept: checkpoints.Checkpoints,
        board: consistency.Board,
        incarnation: str,
        marks: inspecting.Marks,
    ) -> None:
        """``marks``: fingerprints of what was folded."""
        self._inspector = inspector
        self._kept = kept
        self._board = board
        self._incarnation = incarnation
        self._marks = marks
        self._anchors: deque[snapshots.Snapshot] = deque(maxlen=_ANCHORS)
        self._began = 0
        """Entries behind this one were read as they were appended."""
        self._turns = self._head = 0
        self._doubted: list[images.Header] = []
        """Checkpoints that the fold did not lead to."""
        self._stop = 0
        """The last checkpoint that was passed."""
        self._digests: dict[int, str] = {}
        """Offset -> the digest there that was right."""
        self._wrong: dict[int, str] = {}
        """Offset -> the digest there that was wrong."""
        self.checked: dict[int, int] = {}
        """Offset of a checkpoint -> head when it was last proven."""

    def begin(self, snapshot: snapshots.Snapshot) -> None:
        """Everything is folded from here."""
        self._stop = snapshot.offset
        self.anchor(snapshot)

    def live(self, offset: int) -> None:
        """The head was reached: what comes now is read as it is appended."""
        if not self._began:
            self._began = max(1, offset)

    def anchor(self, snapshot: snapshots.Snapshot) -> None:
        """A snapshot from which a checkpoint behind it can be folded."""
        if not self._anchors or snapshot.offset - self._anchors[-1].offset >= _SPACING:
            self._anchors.append(snapshot)

    def headers(self) -> dict[int, images.Header]:
        """The checkpoints that there are; what cannot be read is put up."""
        found, wrong = {}, set()
        for field, raw in self._inspector.checkpoints().items():
            try:
                header = images.header_of(raw)
                if str(header.offset) != field:
                    raise errors.Damaged(f"the header at {field} is that of offset {header.offset}")
                found[header.offset] = header
            except errors.Damaged as damaged:
                wrong.add(f"checkpoint:{field}")
                self._damaged(field, str(damaged), 0)
        stand = {f"checkpoint:{offset}" for offset in found} | wrong
        self._board.keep("checkpoint", stand)
        self._board.keep("past", stand)
        self.checked = {offset: head for offset, head in self.checked.items() if offset in found}
        return found

    def passed(self, header: images.Header, snapshot: snapshots.Snapshot) -> None:
        """The fold has come to a checkpoint. Raises StoreAway."""
        previous, self._stop = self._stop, header.offset
        if images.digest(snapshot) == header.digest:
            self._right(header)
            self._clear_doubts()
            return
        try:
            theirs = self._kept.read(header, incarnation=snapshot.position.incarnation)
        except errors.Damaged as damaged:
            self._damaged(str(header.offset), str(damaged), header.offset)
            return
        self._apart(header, snapshot, theirs, previous)

    def _apart(
        self,
        header: images.Header,
        snapshot: snapshots.Snapshot,
        theirs: snapshots.Snapshot,
        previous: int,
    ) -> None:
        self._wrong[header.offset] = header.digest
        subjects = auditing.subjects_apart(snapshot, theirs)
        where, key = _listing(subjects) or "the order of things", f"checkpoint:{header.offset}"
        if self._began and header.offset > self._began:
            self._board.put(
                consistency.Difference(
                    kind="checkpoint",
                    key=key,
                    expected=f"digest {images.digest(snapshot)}",
                    found=f"digest {header.digest}",
                    first=header.offset,
                    last=snapshot.offset,
                    offset=header.offset,
                    writer="compactor",
                    blame=f"it is not the state at its offset: they differ in {where};"
                    " a faulty compactor wrote it, or somebody past it",
                )
            )
            return
        self._doubted.append(header)
        touching = self._touching(frozenset(subjects), previous, header.offset)
        last = touching[-1] if touching else None
        named = f" (the last event on it is {last.offset})" if last is not None else ""
        self._board.put(
            consistency.Difference(
                kind="past",
                key=key,
                expected=f"digest {header.digest}",
                found=f"digest {images.digest(snapshot)}",
                first=touching[0].offset if touching else previous + 1,
                last=header.offset,
                offset=last.offset if last is not None and len({one.offset for one in touching}) == 1 else 0,
                writer="; ".join(
                    sorted({f"epoch {one.epoch}" if one.epoch else "no epoch" for one in touching})
                ),
                blame=f"folding the events {previous + 1} to {header.offset} does not lead to the checkpoint"
                f" there: they differ in {where}{named}; an entry was changed, or the checkpoint",
            )
        )

    def _right(self, header: images.Header) -> None:
        self._digests[header.offset] = header.digest
        for kind in ("checkpoint", "past"):
            self._board.settle(kind, f"checkpoint:{header.offset}")

    def _clear_doubts(self) -> None:
        """A later checkpoint agrees with the fold: then it was the earlier checkpoints that were wrong."""
        for header in self._doubted:
            key = f"checkpoint:{header.offset}"
            self._board.settle("past", key)
            self._board.put(
                consistency.Difference(
                    kind="checkpoint",
                    key=key,
                    expected="the fold of the log",
                    found=f"digest {header.digest}",
                    first=header.offset,
                    last=self._stop,
                    offset=header.offset,
                    writer="compactor",
                    blame="it is not the state at its offset, but the log leads to the checkpoint after it:"
                    " a faulty compactor wrote this one, or somebody past it",
                )
            )
        self._doubted = []

    def _touching(self, subjects: frozenset[str], after: int, until: int) -> list[inspecting.Line]:
        """The entries between two offsets on some subjects."""
        found = []
        while after < until:
            _, lines = self._inspector.lines(after, min(inspecting.LINES, until - after))
            for line in lines:
                with contextlib.suppress(errors.Unreadable):
                    if subjects.intersection(projecting.touched(codecs.decode(line.payload))):
                        found.append(line)
            if not lines:
                break
            after = lines[-1].offset
        return found

    def turn(self, head: int, oldest: int) -> None:
        """Prove what is due; ``oldest``: the first offset of the log. Raises StoreAway."""
        self._turns, self._head = self._turns + 1, head
        found = self.headers()
        self._uncovered(found, oldest, head)
        new = [offset for offset in found if offset not in self.checked and offset <= head]
        due = new or [offset for offset, one in found.items() if self._due(one) and offset <= head]
        if not due:
            return
        offset = min(due, key=lambda at: (self.checked.get(at, -1), at))
        if self._proven(found[offset], head):
            self.checked[offset] = head

    def _due(self, header: images.Header) -> bool:
        known = self._digests.get(header.offset)
        changed = known is not None and known != header.digest
        return changed or header.items <= _LARGE or self._turns % _SELDOM == 0

    def _proven(self, header: images.Header, head: int) -> bool:
        try:
            images.prove(header, self._kept.image(header).members)
        except errors.Damaged as damaged:
            if header.offset in self.headers():
                self._damaged(str(header.offset), str(damaged), header.offset)
            return True
        known = self._digests.get(header.offset)
        if known == header.digest:
            self._right(header)
            return True
        if self._wrong.get(header.offset) == header.digest:
            return True
        snapshot = self._at(header.offset)
        if snapshot is not None:
            if images.digest(snapshot) == header.digest:
                self._right(header)
            else:
                self._apart(header, snapshot, self._kept.read(header, incarnation=self._incarnation), 0)
        elif known is not None:
            self._damaged(str(header.offset), f"its digest was {known} and is {header.digest}", header.offset)
        return True

    def _at(self, offset: int) -> snapshots.Snapshot | None:
        """The snapshot at an offset, folded from an anchor; None if that is too long ago."""
        base = max((one for one in self._anchors if one.offset <= offset), key=_offset, default=None)
        if base is None:
            return None
        projection = projecting.Projection(base)
        while projection.offset < offset:
            _, lines = self._inspector.lines(projection.offset, offset - projection.offset)
            if [line.offset for line in lines] != list(range(projection.offset + 1, offset + 1))[
                : len(lines)
            ]:
                return None
            if not lines or any(self._marks.of(line.offset) != line.mark for line in lines):
                return None
            projection.apply_all([codecs.decode(line.payload) for line in lines])
        return projection.finish()

    def _uncovered(self, found: dict[int, images.Header], oldest: int, head: int) -> None:
        if oldest <= 1 or any(offset >= oldest - 1 for offset in found):
            self._board.keep("uncovered", ())
            return
        self._board.put(
            consistency.Difference(
                kind="uncovered",
                key="log",
                expected=f"a checkpoint at or behind {oldest - 1}",
                found=f"checkpoints at {_listing([str(offset) for offset in sorted(found)]) or 'no offset'}",
                first=1,
                last=head,
                offset=oldest,
                blame=f"the entries before {oldest} were removed past the store's function, or the"
                " checkpoint that covers them was",
            )
        )

    def _damaged(self, field: str, words: str, offset: int) -> None:
        self._board.put(
            consistency.Difference(
                kind="checkpoint",
                key=f"checkpoint:{field}",
                expected="what was written",
                found=words,
                first=offset,
                last=max(offset, self._stop, self._head),
                offset=offset,
                writer="compactor",
                blame="what the compactor wrote was changed afterwards",
            )
        )


def _offset(snapshot: snapshots.Snapshot) -> int:
    return snapshot.offset


def _listing(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
