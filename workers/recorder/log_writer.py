"""Appends the recorder's steps to the log exactly once, in as many batches and attempts as it takes.

Five concerns, one part each: ``append`` retries; ``_build`` decides between an optimistic batch and one at
the head of the log; ``_kept`` keeps a batch that was overtaken and would take long to build again;
``_in_log`` finds out what became of an append whose reply was lost; ResumeVersions decides when versions are
written that no batch of events carries.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app import telemetry
from app.domain import events
from app.pauses import Pauses
from app.store import errors
from app.store.log import batches, logs
from app.store.state import followers
from workers.recorder import batch_builder

RESUME_VERSIONS_EVERY = 10.0
"""Seconds between two appends of resume versions alone."""
OVERTAKEN_OFTEN = 10
"""Attempts in a row that others overtake until it is a problem: usually the second one succeeds."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two attempts while the store is away."""


class ResumeVersions:
    """Versions from which the watches can resume, until an append writes them to the store."""

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        """Marks that no append has written yet (WatchedKind.mark)."""
        self.written_at = 0.0
        """When something was last appended, by the monotonic clock."""

    def due(self, more: Mapping[str, str]) -> bool:
        """Whether these versions, or any that wait, are worth an append without events."""
        return bool(more or self.waiting) and time.monotonic() - self.written_at >= RESUME_VERSIONS_EVERY

    @property
    def overdue(self) -> bool:
        """Whether those that wait are worth an append of their own."""
        return bool(self.waiting) and self.due({})

    def written(self) -> None:
        """An append has carried them."""
        self.waiting, self.written_at = {}, time.monotonic()


class _Built(NamedTuple):
    """A batch to append."""

    batch: batch_builder.BatchBuilder
    end: int
    """Index of the first step that is not in it."""
    optimistic: bool


class LogWriter:
    """Used by the recorder's loop; ``problem`` and ``applied`` are read by any thread."""

    def __init__(
        self, log: logs.Log, follower: followers.Follower, *, wait: Callable[[float], object]
    ) -> None:
        """``wait`` sleeps for some seconds, less if the process ends."""
        self._log = log
        self._follower = follower
        self._wait = wait
        self._guard = logs.NO_GUARD
        self._kubernetes = ""
        self.versions = ResumeVersions()
        self.applied: frozenset[str] = frozenset()
        """Kinds that are completely in the log."""
        self.problem = ""
        """Why nothing can be appended right now; empty if nothing prevents it."""

    def begin(self, guard: batches.Guard, kubernetes: str) -> None:
        """Begin a term, in which nothing has been appended yet; ``kubernetes``: see batches.Batch."""
        self._guard, self.versions, self.problem = guard, ResumeVersions(), ""
        self._kubernetes = kubernetes
        self.applied = frozenset()

    def end(self) -> None:
        """End the term: no kind counts as complete."""
        self.applied = frozenset()

    def append(self, waiting: Sequence[batch_builder.Step], leads: Callable[[], bool]) -> None:
        """Append all the steps, and resume versions that are overdue, as long as this process leads.

        Waits while the store is away. Raises Fenced or Rewound.
        """
        at, optimistic, pauses = 0, True, Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        unanswered: _Built | None = None
        overtaken: _Built | None = None
        times = 0
        while (at < len(waiting) or self.versions.overdue) and leads():
            try:
                if unanswered is not None and self._in_log(unanswered.batch):
                    built = unanswered
                    self._written(built.batch)
                else:
                    kept = self._kept(overtaken)
                    apart = overtaken is not None and overtaken.batch.shared
                    unanswered = built = kept or self._build(waiting, at, optimistic=optimistic, apart=apart)
                    self._send(built)
                if not built.batch.applied <= self.applied:
                    self.applied |= built.batch.applied
                at, optimistic, unanswered = built.end, True, None
                overtaken, times = None, 0
                pauses.reset()
                self.problem = ""
            except errors.Conflict as conflict:
                optimistic, overtaken, unanswered = False, unanswered, None
                times += 1
                self._overtaken(conflict, times)
            except errors.StoreAway as away:
                optimistic = False
                self._away(away, pauses.take())

    def check_log(self) -> None:
        """Check that the log is whole and this cluster's, and claim one that names none. Raises Rewound."""
        try:
            self._follower.catch_up()
            if self._guard.epoch:
                state = self._log.state()
                if state.restarted:
                    raise errors.Rewound("the store's server was restarted: its latest events may be lost")
                if self._kubernetes and state.kubernetes != self._kubernetes:
                    self._log.append(batches.Batch(events=(), kubernetes=self._kubernetes), self._guard)
            self.problem = ""
        except errors.StoreAway as away:
            self._away(away, FIRST_PAUSE)

    def _build(
        self, waiting: Sequence[batch_builder.Step], at: int, *, optimistic: bool, apart: bool
    ) -> _Built:
        """A batch of the steps from ``at`` on.

        ``optimistic``: with enough to do, build on the snapshot at hand and expect that no other writer has
        appended since. A small batch is built at the head of the log: its guard compares the versions of its
        own subjects only, and the snapshot at hand may be behind on subjects that are not in it.
        ``apart``: pods and other objects in batches of their own.
        """
        builder, end = batch_builder.BatchBuilder(self._follower.snapshot), at
        if optimistic and len(waiting) - at >= batch_builder.OPTIMISTIC_MIN:
            end = builder.fill(waiting, at)
            if len(builder.facts) >= batch_builder.OPTIMISTIC_MIN:
                return _Built(builder, end, optimistic=True)
        snapshot = self._follower.catch_up()
        if end == at or snapshot is not builder.snapshot:
            builder = batch_builder.BatchBuilder(snapshot)
            end = builder.fill(waiting, at, apart=apart)
        return _Built(builder, end, optimistic=False)

    def _kept(self, overtaken: _Built | None) -> _Built | None:
        """The batch that was overtaken, behind what others have appended; None if it has to be built again.

        A batch that counts many pods again would be overtaken each time that it is built.
        """
        if overtaken is None or not overtaken.batch.shared:
            return None
        builder = overtaken.batch
        # Read by the follower first: see _in_log.
        position, head = self._follower.catch_up().position, builder.head
        if position.incarnation != builder.snapshot.position.incarnation:
            return None
        try:
            found = [event for read in self._log.read_all(head) for event in read.events]
        except errors.Trimmed:
            return None
        return overtaken if builder.follow(found[: position.offset - head]) else None

    def _send(self, built: _Built) -> None:
        """Append the batch; one without events waits until its resume versions are due."""
        builder = built.batch
        if not builder.facts and not self.versions.due(builder.marks):
            self.versions.waiting |= builder.marks
            return
        batch = builder.batch(self.versions.waiting, self._kubernetes)
        appended = self._log.append(batch, builder.guard(self._guard, optimistic=built.optimistic))
        if builder.facts and appended.first == builder.snapshot.offset + 1:
            self._follower.apply_own_append(builder.projection.finish(), appended)
        if builder.facts and self._follower.snapshot.offset < appended.last:
            # The steps of a list are those that the snapshot at hand lacks (batch_builder.steps).
            self._follower.catch_up()
        self._written(builder)

    def _in_log(self, builder: batch_builder.BatchBuilder) -> bool:
        """Whether the log holds the facts of a batch whose reply was lost; only this recorder writes them.

        Rebuilding the batch would apply these events twice if the append did succeed.
        """
        facts, since = builder.facts, builder.snapshot.position
        # Read by the follower, which then notices if the store loses them: a plain read is not remembered.
        if not facts or self._follower.catch_up().position.incarnation != since.incarnation:
            return False
        found = [event for read in self._log.read_all(since.offset) for event in read.events]
        return any(found[at : at + len(facts)] == facts for at in range(len(found) - len(facts) + 1))

    def _written(self, builder: batch_builder.BatchBuilder) -> None:
        self.versions.written()
        _report(builder.facts)

    def _overtaken(self, conflict: errors.Conflict, times: int) -> None:
        telemetry.log.debug("another writer appended first; trying again", conflict=str(conflict))
        if times == OVERTAKEN_OFTEN:
            self.problem = (
                f"other writers appended first, {times} times in a row: changes of the cluster wait"
            )
            telemetry.log.warning("changes of the cluster wait: others append first", conflict=str(conflict))

    def _away(self, away: errors.StoreAway, pause: float) -> None:
        if not self.problem:
            telemetry.log.warning(
                "the store is away; changes wait until it is back", error=errors.cause(away)
            )
        self.problem = str(away)
        self._wait(pause)


def _report(facts: Sequence[events.AnyEvent]) -> None:
    """Count the events of an append, and log the rare ones."""
    metrics = telemetry.metrics
    for event in facts:
        match event:
            case events.Relisted(kind=kind, reason=reason):
                metrics.RELISTS.labels(kind, metrics.relist_reason(reason)).inc()
                telemetry.log.info("listed", kind=kind, since=event.since, until=event.until, reason=reason)
            case events.Quarantined(kind=kind):
                metrics.QUARANTINED.labels(kind).inc()
                telemetry.log.warning(
                    "skipping an object that cannot be decoded",
                    kind=kind,
                    object=event.object,
                    reason=event.reason,
                )
