"""Detects that the store lost events, and begins a new incarnation of the log.

What the store should hold is known to this process, to its predecessor (recorded in the Lease) and to any
reader (recorded in the store). If an entry is missing, a new incarnation begins with a StoreRewound event,
which names the lost range and makes the recorder list everything again.
"""

import functools
from collections.abc import Callable, Iterable

from app import telemetry
from app.domain import events
from app.kube.election import electors
from app.store import errors
from app.store.log import incarnations, logs
from app.store.state import followers
from workers import election
from workers.recorder import leader_terms

_READERS_REPORT = 0.5
"""Seconds within which every reader of the log notices a loss and reports it: they poll more often."""
_CATCH_UP_TIMEOUT = 60.0
FIRST_LIST = "first list"


class LossRecovery:
    """Used by the thread that leads."""

    def __init__(
        self,
        elector: election.Leadership,
        log: logs.Log,
        follower: followers.Follower,
        kinds: Iterable[str],
        *,
        settle: float,
        wait: Callable[[float], object],
    ) -> None:
        """``kinds``: names of the kinds to list again; ``settle``: see settle_time.remaining.

        ``wait`` sleeps for some seconds, less if the process ends.
        """
        self._elector = elector
        self._log = log
        self._follower = follower
        self._kinds = tuple(kinds)
        self._readers_report = min(_READERS_REPORT, settle)
        self._wait = wait
        self.relist_reason = FIRST_LIST
        """Why the next term lists the kinds that it cannot resume."""

    def lost(self, tenure: electors.Tenure, state: incarnations.StoreState) -> incarnations.Watermark | None:
        """An entry that the previous leader or this process has read and the store does not hold, if any.

        Raises SchemaMismatch if the store is empty and nothing is known of a log.
        """
        known = self._noted(tenure)
        if not (known or state.incarnation or self._log.seen.offset):
            raise errors.SchemaMismatch("the store is empty: run `topolog migrate up`")
        return self._missed(known, state)

    def recover(self) -> None:
        """Begin a new incarnation if the log still lacks what was read, and this process leads.

        Raises StoreAway, Fenced or Rewound.
        """
        try:
            # Another recorder may have recovered already; its work is checked when this one leads again.
            self._follower.catch_up(timeout=_CATCH_UP_TIMEOUT)
            return
        except errors.Rewound as problem:
            reason = str(problem)
        tenure = self._elector.tenure
        if tenure is not None:
            self.begin_incarnation(tenure, self._log.seen, reason)

    def begin_incarnation(self, tenure: electors.Tenure, lost: incarnations.Watermark, reason: str) -> None:
        """Begin a new incarnation because ``lost`` is missing; does nothing if that is no longer certain."""
        # All readers have stopped; wait while each reports the last offset it had read.
        self._wait(self._readers_report)
        if not self._elector.confirm():
            return
        state, kept = self._log.state(), self._follower.first_divergence()
        if state.lost is None:
            if self._log.report_loss(lost):
                # Another store by now, which holds the entry; reports in the former one went with it.
                return
            state = self._log.state()  # With what readers have reported meanwhile.
        # The previous leader's note too: the incarnation that explained it may be what is lost now.
        noted = self._missed(self._noted(tenure), state)
        candidates = [one for one in (lost, noted, self._log.seen) if one is not None]
        missing = [one for one in candidates if not self._holds(one, state)]
        if state.lost is not None:
            missing.append(state.lost)
        if not missing:
            return
        lost = max(missing, key=functools.cmp_to_key(_wider))
        # The entry itself is certainly lost; how many before it, only its readers can report.
        reported = [one.kept for one in missing if one.incarnation == lost.incarnation]
        held = max(0, min(state.head, lost.offset - 1, *(at for at in (kept, *reported) if at is not None)))
        begun = incarnations.new((state.incarnation, lost.incarnation, self._log.incarnation))
        event = events.StoreRewound(
            from_incarnation=lost.incarnation,
            lost_from=held + 1,
            # Of an incarnation that nothing was read from, only that it was begun is certain.
            lost_to=lost.offset or state.head + 1,
            reason=f"the store is at {state.incarnation or 'nothing'}/{state.head}: {reason}",
            by=self._elector.identity,
            relisting=self._kinds,
            incarnation=begun,
        )
        guard = leader_terms.guard(tenure, state, self._elector.identity)
        if not self._log.rewind(event, begun, found=state.incarnation, guard=guard):
            return
        self.relist_reason = "the store lost events"
        telemetry.metrics.REWINDS.inc()
        telemetry.log.error(
            "the store lost events; starting a new incarnation",
            incarnation=begun,
            former=lost.incarnation,
            lost_from=event.lost_from,
            lost_to=event.lost_to,
            reason=event.reason,
        )
        self._follower.catch_up(timeout=_CATCH_UP_TIMEOUT)

    def _noted(self, tenure: electors.Tenure) -> list[incarnations.Watermark]:
        """Entries noted by the previous leader, and those read here of a log that was left."""
        noted = (incarnations.parse_watermark(tenure.handover_note), self._log.left)
        return [one for one in noted if one is not None and one.offset]

    def _missed(
        self, known: Iterable[incarnations.Watermark], state: incarnations.StoreState
    ) -> incarnations.Watermark | None:
        """The first known entry that the store does not hold and whose loss it does not record."""
        for one in known:
            if one.incarnation == state.former or incarnations.later(state.former, one.incarnation):
                continue  # Recorded when the present incarnation began, or an earlier one.
            if not state.incarnation:
                return one
            if incarnations.later(state.incarnation, one.incarnation):
                if not self._kept(one):
                    return one
            elif not self._log.report_loss(one):
                return one
        return None

    def _kept(self, known: incarnations.Watermark) -> bool:
        """Whether the log still has an entry of an incarnation that has ended.

        The next incarnation may have begun for the loss of an even earlier one, and continued this one.
        """
        return known.at_ms is not None and self._log.time_of(known.offset) == known.at_ms

    def _holds(self, known: incarnations.Watermark, state: incarnations.StoreState) -> bool:
        """Whether the log still has the entry, even if others have read one that it lacks."""
        if known.incarnation != state.incarnation or known.offset > state.head:
            return False
        return known.at_ms is None or self._log.time_of(known.offset) in (None, known.at_ms)


def _wider(one: incarnations.Watermark, other: incarnations.Watermark) -> int:
    """Compares how far two losses reach: positive if the first reaches further, negative if the other."""
    if one.incarnation == other.incarnation:
        return one.offset - other.offset
    return 1 if incarnations.later(one.incarnation, other.incarnation) else -1
