"""Records the configuration of an extender in the log, unless the log holds it."""

from collections.abc import Callable

from app import telemetry
from app.domain import events, model, snapshots
from app.store import errors
from app.store.log import batches, logs

_EVERY = 5.0
"""Seconds between two checks of the snapshot: a store that lost events may have lost the configuration."""
_SOON = 0.5
"""Seconds between them until the snapshot holds the configuration."""


class AppliedConfiguration:
    """Checks the snapshot every few seconds, and appends the configuration if it is missing there."""

    def __init__(
        self,
        configuration: model.Configuration,
        snapshot: Callable[[], snapshots.Snapshot],
        log: logs.Log,
        by: str,
    ) -> None:
        """``snapshot``: the latest one; ``by``: the identity of this process."""
        self._event = events.ConfigurationApplied(configuration=configuration, by=by)
        self._snapshot = snapshot
        self._log = log
        self._loop = telemetry.loops.repeated("configuration", lambda: _EVERY if self.record() else _SOON)

    def start(self) -> None:
        """Start the thread: after a fork, never before."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._loop.stop(timeout=5.0)

    def record(self) -> bool:
        """Append the configuration unless the snapshot holds it, and return whether it does.

        An append that fails is left to the next call.
        Before every kind was listed no decision depends on the state, and a recorder may still begin the log.
        """
        snapshot, event = self._snapshot(), self._event
        held = snapshot.configuration(event.configuration.digest)
        if snapshot.unlisted or held is not None:
            return held is not None
        # Of several replicas that start at once, one appends.
        guard = batches.Guard(
            incarnation=snapshot.position.incarnation,
            versions={event.subject: snapshot.versions.get(event.subject, 0)},
        )
        try:
            self._log.append(batches.Batch(events=(event,)), guard)
        except errors.StoreError as error:
            telemetry.log.debug("the configuration was not recorded; trying again", error=str(error))
        return False
