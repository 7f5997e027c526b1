"""Decides when the end of the log is in doubt, and for how long.

The end is in doubt after a loss was noticed, and when the store's server is another process than the one
that a recorder last verified. Either way placements may be lost whose Bindings are still under way. Nothing
is listed, and so nothing is decided, before these Bindings have ended (docs/decisions/0010 and 0011).
"""

from app import telemetry
from app.domain import events, snapshots
from app.store.log import incarnations, logs

_DOUBTS = (events.INCARNATION, events.RUN)
"""Subjects of the events after which everything is listed again."""


def restarted(state: incarnations.StoreState, by: str) -> tuple[events.StoreRestarted, ...]:
    """The event to record if the server is another one than the verified one; empty otherwise."""
    if not state.restarted:
        return ()
    telemetry.metrics.RESTARTS.inc()
    telemetry.log.warning(
        "the store was restarted; its latest events may be lost",
        before=state.verified_run,
        after=state.run,
    )
    return (events.StoreRestarted(by, state.verified_run, state.run),)


def remaining(log: logs.Log, snapshot: snapshots.Snapshot, settle: float) -> float:
    """Seconds until everything may be listed again; raises StoreAway.

    ``settle``: seconds after a loss until no Binding of a lost placement is under way: the time for a bind,
    and binding.UNDER_WAY.

    By the store's clock, from the event that recorded the doubt: a recorder that takes over waits for the
    rest of that time, whatever its predecessor has done.
    """
    doubt = max(map(snapshot.version, _DOUBTS)) if snapshot.unlisted else 0
    if not doubt:
        return 0.0
    at_ms = log.time_of(doubt)
    age = (log.state().now_ms - at_ms) / 1000 if at_ms is not None else 0.0
    return max(0.0, settle - max(0.0, age))
