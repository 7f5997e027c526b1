"""What failovers of the store have lost, and the events of the log that report it."""

from collections.abc import Iterable
from typing import NamedTuple

from app.domain import events
from app.store.log import incarnations
from tests.support.simulation.oracle import guarantees


class Loss(NamedTuple):
    """Acknowledged events that a failover has lost."""

    incarnation: str
    first: int
    last: int


class Losses:
    """The losses of one log."""

    def __init__(self) -> None:
        self.open: list[Loss] = []
        """Losses that no event in the log reports yet."""
        self._lost: set[tuple[str, int, int]] = set()
        """Incarnation, offset and time of each lost event: a log that has grown again holds others there."""
        self._reported: dict[int, list[Loss]] = {}
        """Offset of an event -> the losses that it reports, including those that it need not name."""
        self._named: dict[Loss, int] = {}
        """Loss -> offset of the event that names it."""
        self.doubtful = False
        """A failover that no recorder has recorded yet."""
        self.unseen = False
        """An undetectable failover, until a reader has reported it and everything is listed again: lost
        capacity may be placed again, and pods may run unrecorded."""
        self.overspent = False
        """There was an undetectable failover: more pods may run than a quota allows, until some end."""
        self._recovering = False
        self.noted = False
        """The Lease names lost entries, so an event has to name them."""

    def failed_over(
        self,
        loss: Loss | None,
        gone: Iterable[tuple[int, int]],
        note: incarnations.Watermark | None,
        *,
        doubted: bool,
    ) -> None:
        """``gone``: offset and milliseconds of the lost entries. ``note``: that of the Lease.

        ``doubted``: the change is visible. If it is not, only readers of lost entries notice it.
        """
        if loss is not None:
            # The events that reported these are lost, so they are unreported again.
            self.open += [
                one for at in sorted(self._reported) if at >= loss.first for one in self._reported.pop(at)
            ]
            self.open.append(loss)
            self._named = {named: at for named, at in self._named.items() if at < loss.first}
            self._lost.update((loss.incarnation, offset, at) for offset, at in gone)
        self.doubtful = doubted
        self.unseen |= loss is not None and not doubted
        self.overspent |= self.unseen
        self._recovering = False
        # A loss that the first event of this incarnation names need not be named again.
        self.noted = (
            note is not None
            and self.gone((note.incarnation, note.offset, note.at_ms or 0))
            and any(
                one.incarnation == note.incarnation and one.first <= note.offset <= one.last
                for one in self.open
            )
        )

    def recovering(self) -> None:
        """An event of the log makes the recorder list everything again."""
        self._recovering = True

    def listed(self) -> None:
        """Every kind is listed: what the log has is what the cluster has."""
        if self._recovering and not self.open:
            self.unseen = self._recovering = False

    def gone(self, entry: tuple[str, int, int]) -> bool:
        """Whether an entry (incarnation, offset, milliseconds) was lost."""
        return entry in self._lost

    def are_known(self, known: Iterable[incarnations.Watermark], incarnation: str) -> None:
        """No event that a live reader has read was lost without a new incarnation."""
        seen = list(known)
        for loss in self.open:
            reported = [one for one in seen if (one.incarnation, one.offset, one.at_ms) in self._lost]
            here = incarnation == loss.incarnation
            guarantees.demand(not (reported and here), "P4", f"{loss} is known and it is not reported")

    def report(self, event: events.StoreRewound, incarnation: str, offset: int) -> None:
        """The event at the offset reports an actual loss; ``incarnation``: that of the log now."""
        reported = [
            loss
            for loss in self.open
            # A later incarnation began on entries of the former one, which are lost with it.
            if loss.incarnation == event.from_incarnation
            or incarnations.later(loss.incarnation, event.from_incarnation)
            if _overlap(event, loss)
        ]
        # The other way round: the first entries of an incarnation are those of the one that it continued.
        begun = [loss.first for loss in self.open if loss.incarnation == event.from_incarnation]
        reported += [
            loss
            for loss in self.open
            if incarnations.later(event.from_incarnation, loss.incarnation)
            if loss.last < min(begun, default=0) and _overlap(event, loss)
        ]
        # The start of an incarnation is repeated if its reply is lost. With a failover in between there are
        # two of that name, and a reader of the first one misses its entries in the second.
        twice = event.from_incarnation == incarnation and any(
            lost_in == incarnation and event.lost_from <= lost_at <= event.lost_to
            for lost_in, lost_at, _ in self._lost
        )
        # The recorder that began the former incarnation may not have detected every loss until then.
        late = [loss for losses in self._reported.values() for loss in losses if loss not in self._named]
        reported += [loss for loss in late if _names(event, loss)]
        guarantees.demand(
            bool(reported) or twice, "P4", f"{event} reports nothing that was lost: {self.open}"
        )
        self._named.update((loss, offset) for loss in reported if _names(event, loss))
        # No process still holds an entry that was lost before this incarnation.
        self._reported[offset] = self.open
        self.open = []


def _overlap(event: events.StoreRewound, loss: Loss) -> bool:
    return event.lost_from <= loss.last and loss.first <= event.lost_to


def _names(event: events.StoreRewound, loss: Loss) -> bool:
    return loss.incarnation == event.from_incarnation and _overlap(event, loss)
