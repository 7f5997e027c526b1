"""The past, proven again and again: entries are what they were when they were first read.

What the auditor has read once it remembers by a fingerprint; a pass over the log compares page by page.
"""

from app.domain import consistency
from app.store import inspecting


class Past:
    """Proves the entries of one incarnation."""

    def __init__(self, inspector: inspecting.Inspector, board: consistency.Board, *, page: int) -> None:
        """``page``: entries proven in one turn."""
        self._inspector = inspector
        self._board = board
        self._page = page
        self.marks = inspecting.Marks()
        """Of what was folded."""
        self._earlier = inspecting.Marks()
        """Of what lies before the first fold."""
        self._reached = 0
        """Where the present pass is."""
        self.proven = 0
        """How far a pass has come."""
        self.passes = 0

    def turn(self, head: int) -> int:
        """Prove one page of the log; the first offset there is. Raises StoreAway."""
        oldest, lines = self._inspector.lines(self._reached, self._page)
        end = min(head, self.marks.end - 1) if self.marks.end else 0
        if oldest:
            self.marks.forget(oldest)
            self._earlier.forget(oldest)
            self._drop_before(oldest)
        at = max(self._reached, oldest - 1)
        bad: set[str] = set()
        for line in lines:
            if line.offset > end:
                break
            if line.offset > at + 1:
                bad.add(self._hole(at + 1, line.offset - 1, head))
            wrong = self._compared(line, head)
            if wrong:
                bad.add(wrong)
            at = line.offset
        for kind in ("hole", "edited", "foreign"):
            for one in self._board.of(kind):
                if self._reached < one.offset <= at and one.key not in bad:
                    self._board.settle(kind, one.key)
        self.proven = self._reached = at
        if at >= end or not lines:
            self.passes += 1
            self.proven, self._reached = max(at, end), 0
        return oldest

    def _compared(self, line: inspecting.Line, head: int) -> str:
        """The key of what is wrong with an entry; empty if nothing is."""
        key = f"entry:{line.offset}"
        if line.sequence:
            identity = f"{line.offset}-{line.sequence}"
            self._board.put(
                foreign(line, head, f"it has the id {identity}", f"XDEL {self._inspector.log} {identity}")
            )
            return key
        marks = self.marks if self.marks.of(line.offset) is not None else self._earlier
        known = marks.of(line.offset)
        if known is None:
            self._earlier.add(line)
        if known is None or known == line.mark:
            return ""
        writer = f"epoch {line.epoch}" if line.epoch else "a writer without an epoch"
        self._board.put(
            consistency.Difference(
                kind="edited",
                key=key,
                expected=f"fingerprint {known:016x}",
                found=f"fingerprint {line.mark:016x}: {line.payload[:120].decode(errors='replace')}",
                first=line.offset,
                last=head,
                offset=line.offset,
                writer=writer,
                blame=f"the entry that {writer} appended was changed afterwards, past the store's function",
            )
        )
        return key

    def _hole(self, first: int, last: int, head: int) -> str:
        self._board.put(hole(first, last, head))
        return f"entry:{first}"

    def _drop_before(self, oldest: int) -> None:
        """What was trimmed is nobody's concern any more."""
        for one in self._board.of("hole", "edited", "foreign", "fence", "unreadable"):
            if one.offset < oldest and one.kind != "hole":
                self._board.settle(one.kind, one.key)


def foreign(line: inspecting.Line, head: int, words: str, run: str = "") -> consistency.Difference:
    """An entry that the store's function did not write; ``run`` removes it."""
    writer = f"epoch {line.epoch}" if line.epoch else "a writer without an epoch"
    return consistency.Difference(
        kind="foreign",
        key=f"entry:{line.offset}",
        expected="an entry of the store's function",
        found=line.payload[:120].decode(errors="replace"),
        first=line.offset,
        last=max(line.offset, head),
        offset=line.offset,
        writer=writer,
        blame=f"the entry was appended past the store's function: {words}",
        run=run,
    )


def hole(first: int, last: int, head: int) -> consistency.Difference:
    """Entries that are not there."""
    several = f" to {last}" if last > first else ""
    return consistency.Difference(
        kind="hole",
        key=f"entry:{first}",
        expected=f"entries {first}{several}",
        found="none",
        first=first,
        last=head,
        offset=first,
        blame=f"the function leaves no hole: entries {first}{several} were removed past it",
    )
