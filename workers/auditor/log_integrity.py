"""Verifies that log entries do not change after they were first read.

Keeps a fingerprint of every entry it has read and re-checks the log page by page.
"""

from app.domain.audit import findings
from app.store import raw_access
from workers.auditor import entry_writers


class LogIntegrity:
    """Verifies the entries of one incarnation; used by one thread."""

    def __init__(self, raw_reader: raw_access.RawReader, board: findings.Board, *, page: int) -> None:
        """``page``: entries verified in one run."""
        self._raw_reader = raw_reader
        self._board = board
        self._page = page
        self.marks = raw_access.Fingerprints()
        """Fingerprints of the entries that were folded."""
        self._earlier = raw_access.Fingerprints()
        """Fingerprints of the entries before the first fold."""
        self._reached = 0
        """Offset that the present pass has reached."""
        self.proven = 0
        """Offset that the latest pass has reached."""
        self.passes = 0
        """Complete passes over the log."""

    def run_once(self, head: int) -> int:
        """Verify one page of the log; returns the first offset of the log. Raises StoreAway."""
        oldest, lines = self._raw_reader.lines(self._reached, self._page)
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

    def _compared(self, line: raw_access.RawEntry, head: int) -> str:
        """The key of the finding about an entry; empty if the entry is unchanged."""
        key = f"entry:{line.offset}"
        if line.sequence:
            identity = f"{line.offset}-{line.sequence}"
            self._board.put(
                foreign(line, head, f"it has the id {identity}", f"XDEL {self._raw_reader.log} {identity}")
            )
            return key
        marks = self.marks if self.marks.of(line.offset) is not None else self._earlier
        known = marks.of(line.offset)
        if known is None:
            self._earlier.add(line)
        if known is None or known == line.mark:
            return ""
        writer = entry_writers.name(line)
        self._board.put(
            findings.Difference(
                kind="edited",
                key=key,
                expected=f"fingerprint {known:016x}",
                found=f"fingerprint {line.mark:016x}: {line.payload[:120].decode(errors='replace')}",
                first=line.offset,
                last=head,
                offset=line.offset,
                writer=writer,
                blame=f"the entry that {writer} appended was changed afterwards, bypassing the functions",
            )
        )
        return key

    def _hole(self, first: int, last: int, head: int) -> str:
        self._board.put(hole(first, last, head))
        return f"entry:{first}"

    def _drop_before(self, oldest: int) -> None:
        """Close the findings about entries that were trimmed."""
        for one in self._board.of("hole", "edited", "foreign", "fence", "unreadable"):
            if one.offset < oldest and one.kind != "hole":
                self._board.settle(one.kind, one.key)


def foreign(line: raw_access.RawEntry, head: int, reason: str, run: str = "") -> findings.Difference:
    """The finding of an entry that the append function did not write; ``run`` removes it."""
    writer = entry_writers.name(line)
    return findings.Difference(
        kind="foreign",
        key=f"entry:{line.offset}",
        expected="an entry of the append function",
        found=line.payload[:120].decode(errors="replace"),
        first=line.offset,
        last=max(line.offset, head),
        offset=line.offset,
        writer=writer,
        blame=f"the entry bypassed the append function: {reason}",
        run=run,
    )


def hole(first: int, last: int, head: int) -> findings.Difference:
    """The finding of missing entries."""
    several = f" to {last}" if last > first else ""
    return findings.Difference(
        kind="hole",
        key=f"entry:{first}",
        expected=f"entries {first}{several}",
        found="no entry",
        first=first,
        last=head,
        offset=first,
        blame=f"the functions leave no gap: entries {first}{several} were removed, bypassing them",
    )
