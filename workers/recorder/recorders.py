"""The recorder: appends what the watches show to the log as facts, exactly once.

Threads list and watch; one loop builds batches and appends them. One replica leads, the others are on
standby (leadership). Every append carries the epoch of the leader's Lease, so that a recorder that was
overtaken writes nothing more, and it expects the versions of its subjects: if another writer appended
first, the recorder catches up and rebuilds the batch. Resume versions are appended with the events, so that
the next leader resumes where the log ends.
"""

import threading
import time
from collections.abc import Mapping

from app import telemetry
from app.kube.client import clients, cluster_identity
from app.kube.watch import kinds, reflectors
from app.store import errors
from app.store.log import logs
from app.store.state import followers, gc_pause
from workers import election
from workers.recorder import batch_builder, inboxes, leader_terms, leadership, log_writer

LINGER = 0.003
"""Minimum time, in seconds, to wait for further changes before appending a batch."""
PACE = 0.05
"""Seconds from one append to the next, unless a full batch is waiting.

An append costs this process, the store and every reader about the same for one event as for fifty.
"""
SWITCH_INTERVAL = 0.0005
"""Seconds that a decoding thread may keep the appending one waiting (sys.setswitchinterval).

Python's default of 5 ms is more than an append takes.
"""
FIRST_LISTS = 120.0
"""Maximum time, in seconds, for which the cycle collector is paused for the first lists.

A kind whose list is refused may never be complete.
"""
_LONGEST_PAUSE = 5.0


class Recorder:
    """Records one cluster; ``run`` is the loop, everything else may be called by any thread."""

    def __init__(
        self,
        log: logs.Log,
        follower: followers.Follower,
        client: clients.Client,
        *,
        settle: float,
        silence: float = 150.0,
        elector: election.Leadership | None = None,
    ) -> None:
        """``follower`` is caught up and kept current here; its thread need not run. All kinds of its schema
        are watched.

        Without an ``elector`` there must never be another recorder; ``settle``: see settle_time.remaining.
        """
        self._log = log
        self._follower = follower
        self._client = client
        self._kinds = kinds.watched(follower.snapshot.schema)
        self._silence = silence
        self._inbox = inboxes.Inbox()
        self._watches: inboxes.WatchThreads | None = None
        self._stopped = threading.Event()
        self._leadership = leadership.RecorderLeadership(
            elector or election.NoElection(),
            log,
            follower,
            self._kinds,
            settle=settle,
            uid=cluster_identity.Identity(client).uid,
        )
        self._writer = log_writer.LogWriter(log, follower, wait=lambda seconds: self._stopped.wait(seconds))
        self._requested: dict[str, int] = {}
        """Kind -> offset of the last request for a list that was carried out."""

    @property
    def ready(self) -> bool:
        """This process leads, every kind is in the log, and nothing prevents further appends."""
        return self._leadership.held and self._complete() and not self._writer.problem

    @property
    def problem(self) -> str:
        """Why nothing can be appended right now; empty if nothing prevents it."""
        return self._writer.problem

    def checks(self) -> Mapping[str, str | None]:
        """Readiness checks by name; a standby replica only needs to follow the log."""
        if not self._leadership.held:
            return self._leadership.checks()
        missing = [kind.name for kind in self._kinds if kind.name not in self._writer.applied]
        problems = self._watches.problems() if self._watches is not None else {}
        dead = self._watches is not None and not self._watches.alive and not self._stopped.is_set()
        watch = "; ".join(f"{kind}: {problem}" for kind, problem in problems.items())
        return {
            "store": self._writer.problem or None,
            "watch": "a watching thread has died" if dead else watch or None,
            "kinds": f"not recorded yet: {', '.join(missing)}" if missing else None,
        }

    def run(self) -> None:
        """Wait on standby, lead and record, return to standby, until stopped.

        Raises Gap, Trimmed, Unreadable or SchemaMismatch, which need an operator.
        """
        self._leadership.start()
        try:
            telemetry.loops.Loop(
                "recorder", self._lead, wait=self._stopped.wait, fatal=errors.FATAL, longest=_LONGEST_PAUSE
            ).run()
        finally:
            self._stopped.set()
            self._leadership.close()

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._stopped.set()
        self._leadership.stop()
        self._inbox.close()

    # -- the loop ----------------------------------------------------------------------------

    def _lead(self) -> None:
        while (term := self._leadership.acquire()) is not None:
            try:
                self._record(term)
            except (errors.Fenced, errors.Rewound, errors.OtherCluster) as problem:
                self._leadership.recover(problem)
            except Exception as problem:
                self._leadership.abandon(problem)
                raise

    def _record(self, term: leader_terms.LeaderTerm) -> None:
        """Record as long as this process leads."""
        inbox = self._begin(term)
        sources = [
            reflectors.Reflector(
                self._client,
                kind,
                since=term.versions.get(kind.name, ""),
                reason=term.reasons[kind.name],
                silence=self._silence,
            )
            for kind in self._kinds
        ]
        self._watches = inboxes.WatchThreads(sources, inbox)
        try:
            ends = time.monotonic() + FIRST_LISTS
            with gc_pause.paused(lasting=True):
                self._watches.start()
                while self._leadership.held and not self._complete() and time.monotonic() < ends:
                    self._run_once()
            while self._leadership.held:
                self._run_once()
        finally:
            self._writer.end()
            self._watches.stop()

    def _begin(self, term: leader_terms.LeaderTerm) -> inboxes.Inbox:
        """Forget what was recorded in earlier terms."""
        self._writer.begin(term.guard, term.kubernetes)
        self._requested = {kind.name: self._carried_out(kind, term.versions) for kind in self._kinds}
        self._inbox = inboxes.Inbox()
        return self._inbox

    def _complete(self) -> bool:
        return len(self._writer.applied) == len(self._kinds)

    def _run_once(self) -> None:
        """Append the changes that have arrived, and carry out requests for lists."""
        linger = max(LINGER, self._writer.versions.written_at + PACE - time.monotonic())
        changes = self._inbox.take(batch_builder.MAX_EVENTS, linger=linger, timeout=1.0)
        waiting: list[batch_builder.Step] = []
        for change in changes:
            if isinstance(change, reflectors.Listed):
                # What a list lacks is known only once everything that came before it is in the snapshot.
                self._append(waiting)
                waiting = []
            waiting.extend(batch_builder.steps(change, self._follower.snapshot))
        self._append(waiting)
        if not changes:
            self._idle()
        self._relist()

    def _append(self, waiting: list[batch_builder.Step]) -> None:
        self._writer.append(waiting, lambda: self._leadership.held)

    def _idle(self) -> None:
        """Nothing has changed: append resume versions that are due, and check that the log is whole."""
        self._append([])
        self._writer.check_log()

    def _carried_out(self, kind: kinds.WatchedKind, versions: Mapping[str, str]) -> int:
        """Offset up to which requests for a list are carried out, by a list in the log or one that is due."""
        listed = f"kind:{kind.name}" if kind.name in versions else f"relist:{kind.name}"
        return self._follower.snapshot.version(listed)

    def _relist(self) -> None:
        """List the kinds that the auditor has requested."""
        snapshot = self._follower.snapshot
        for reflector in self._watches.sources if self._watches is not None else ():
            name = reflector.kind.name
            if (requested := snapshot.version(f"relist:{name}")) > self._requested[name]:
                self._requested[name] = requested
                reflector.relist(f"asked by the auditor: event {requested}")
