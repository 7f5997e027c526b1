"""When the end of the log is in doubt, and for how long.

A loss that somebody noticed, or a server that is another process than the one that a recorder vouched for:
either way placements may be lost whose Bindings are still under way. Nothing is listed, and so nothing is
decided, before these have come to pass (docs/decisions/0010 and 0011).
"""

from app import telemetry
from app.domain import events, snapshots
from app.store import incarnations, logs

SETTLE = 12.0
"""Seconds after a loss until no Binding of a lost placement is under way, with a bind of 3.5 seconds."""
UNDER_WAY = SETTLE - 3.5
"""Seconds beyond the time for a bind: what the API server and etcd may take for a Binding that was sent."""
_DOUBTS = ("store:incarnation", events.RUN)
"""Subjects of the events after which everything is listed again."""


def restarted(standing: incarnations.Standing, by: str) -> tuple[events.StoreRestarted, ...]:
    """What is to be recorded if the server is another one than that which was vouched for."""
    if not standing.restarted:
        return ()
    telemetry.metrics.RESTARTS.inc()
    telemetry.log.warning(
        "the store was restarted; its latest events may be lost",
        before=standing.vouched,
        after=standing.run,
    )
    return (events.StoreRestarted(by, standing.vouched, standing.run),)


def remaining(log: logs.Log, snapshot: snapshots.Snapshot, settle: float) -> float:
    """Seconds until everything may be listed again; raises StoreAway.

    By the store's clock, from the event that recorded the doubt: a recorder that takes over waits for the
    rest of it, whatever its predecessor has done.
    """
    doubt = max(map(snapshot.version, _DOUBTS)) if snapshot.unlisted else 0
    if not doubt:
        return 0.0
    at_ms = log.time_of(doubt)
    age = (log.standing().now_ms - at_ms) / 1000 if at_ms is not None else 0.0
    return max(0.0, settle - max(0.0, age))
