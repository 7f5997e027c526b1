"""Reads a stretch of a log for a bundle: a checkpoint at its start, its events, and its decisions.

What cannot be read raises: an empty member never stands in for one that is missing. One member at a time is
held in memory.
"""

from collections.abc import Iterable, Iterator

import msgspec

from app.domain import model
from app.store import errors, snapshot_format
from app.store.bundles import layout
from app.store.checkpoints import archives
from app.store.decisions import decision_log, records
from app.store.log import logs
from app.store.state import histories


class _Located(msgspec.Struct):
    position: model.Position


_located = msgspec.json.Decoder(_Located)
_encoder = msgspec.json.Encoder()


class TooMany(Exception):
    """The range has more events or decisions than a bundle holds."""


class Stretch:
    """The stretch of one log from the state at ``first`` to the event at ``last``."""

    def __init__(self, past: histories.Histories, log: logs.Log, first: int, last: int) -> None:
        """Raises TooMany, Trimmed or StoreAway."""
        if last - first > layout.MOST_EVENTS:
            raise TooMany(
                f"the range has {last - first} events; a bundle holds at most {layout.MOST_EVENTS}: choose a"
                " shorter one"
            )
        if first and first < (oldest := past.oldest(first)):
            raise errors.Trimmed(oldest)
        self._past = past
        self._log = log
        self._position = model.Position(log.incarnation, first)
        self.first = first
        self.last = last
        self.first_ms = self._time(first)
        self.last_ms = self._time(last)

    @property
    def incarnation(self) -> str:
        """The incarnation of the log."""
        return self._position.incarnation

    def _time(self, offset: int) -> int:
        if offset == 0:
            return 0
        at_ms = self._past.appended_ms(offset)
        if at_ms is None:
            raise errors.Trimmed(self._past.oldest())
        return at_ms

    def checkpoint(self) -> list[bytes]:
        """The snapshot at ``first``. Raises StoreError."""
        snapshot = self._past.of(self._position)
        serialized = snapshot_format.serialize(snapshot, cluster=self._log.cluster, at_ms=self.first_ms)
        return layout.lines(serialized.header, serialized.members)

    def events(self) -> Iterator[list[bytes]]:
        """The events from that at ``first`` on, which a log needs to continue the checkpoint.

        Yields empty lists while it reads, and at last the member. Raises StoreError.
        """
        first = max(1, self.first)
        packed = layout.Lines()
        if self.last >= first:
            for run in self._past.raws(first, self.last):
                packed.add(map(archives.line, run))
                yield []
        # The offsets of another incarnation are those of other events.
        found = self._log.state().incarnation
        if found != self.incarnation:
            raise errors.Superseded(self.incarnation, found, self._log.oldest())
        header = archives.Segment(
            kind=archives.KIND,
            version=archives.VERSION,
            cluster=self._log.cluster,
            incarnation=self.incarnation,
            first=first,
            last=self.last,
            from_ms=self.first_ms or (self._time(first) if self.last >= first else 0),
            until_ms=self.last_ms,
            sha256=packed.digest,
        )
        yield layout.lines(header, packed.finish())

    def decisions(self, kept: decision_log.DecisionLog) -> Iterator[list[bytes]]:
        """The decisions that saw the state at an offset of the stretch, yielded as ``events`` are.

        Raises TooMany or StoreError.
        """
        after = self._past.appended_ms(self.last + 1)
        packed = layout.Lines()
        for run in kept.stored(self.first_ms, None if after is None else after + records.LATE_MS):
            packed.add(self._lines(run))
            if packed.count > layout.MOST_DECISIONS:
                raise TooMany(
                    f"the range has more than {layout.MOST_DECISIONS} decisions, and a bundle holds no more:"
                    " choose a shorter one"
                )
            yield []
        header = layout.Decisions(
            layout.DECISIONS_KIND,
            layout.VERSION,
            self._log.cluster,
            self.incarnation,
            packed.count,
            packed.digest,
        )
        yield layout.lines(header, packed.finish())

    def _lines(self, run: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
        for identity, raw in run:
            position = _located.decode(raw).position
            if position.incarnation == self.incarnation and self.first <= position.offset <= self.last:
                yield _encoder.encode(layout.BundledDecision(identity, msgspec.Raw(raw))) + b"\n"
