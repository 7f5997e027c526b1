"""The controller: acts on the cluster where the log calls for it.

It wakes pending pods when capacity becomes available or their refusal is outdated, fences Bindings without an
outcome and releases their placements, evicts pods for plugins, and posts Events about refusals. It follows
the log like any other reader and keeps no state that matters: it may be killed at any time. One replica
leads, the others are on standby; two that work at once, during a takeover, repeat a few writes and break
nothing.
"""

import functools
import threading
import time
from collections.abc import Callable, Mapping

from app import clocks, telemetry
from app.domain import events, model, snapshots
from app.framework import registry
from app.kube import call_limits
from app.kube.client import clients
from app.kube.election import electors
from app.kube.writes import binding, event_recorders, fencing
from app.store import errors, stores
from app.store.log import readers
from app.verbs import placement_releases
from workers import election
from workers.controller import (
    event_poster,
    evictions,
    executors,
    pod_events,
    reconciliation,
    stale_refusals,
    status_targets,
    statuses,
    wakeups,
)
from workers.controller.placements import joint_releases, orphaned_placements

GATHER = 0.1
"""Seconds between two reads of the log: this work is not latency-sensitive."""
ORPHANS_EVERY = 2.0
EVENTS_EVERY = 1.0
REFUSALS_EVERY = 0.25
RECONCILED_EVERY = STATUSES_EVERY = RELEASES_EVERY = 0.2
"""Seconds between two polls for work; reconciliation and statuses set how often they act on it."""
_LONGEST_PAUSE = 5.0


class Controller:
    """Controls one cluster; ``run`` returns after ``stop``."""

    def __init__(
        self,
        store: stores.Store,
        client: clients.Client,
        plugins: registry.Registry,
        *,
        old: float,
        clock: clocks.RealClock | None = None,
        elector: election.Leadership | None = None,
    ) -> None:
        """``old``: see OrphanedPlacements. Without an ``elector`` it always leads."""
        self._store = store
        self._clock = clock or clocks.RealClock()
        self._stopped = threading.Event()
        self._elector = elector or election.NoElection()
        self._tenure: electors.Tenure | None = None
        """The tenure that was logged last."""
        self._led = ("", "", 0)
        """Tenure, incarnation and number of skipped ranges for which everything was reconciled."""
        follower = store.follower
        limit = call_limits.CallLimit(self._clock, term=self._term)
        self.waker = wakeups.Waker(client, lambda: follower.snapshot, limit, self._clock, now=_second)
        self.orphans = orphaned_placements.OrphanedPlacements(
            binding.ApiBinder(client),
            fencing.ApiFencer(client, now=_second),
            lambda: follower.snapshot,
            self.release,
            self._clock,
            old=old,
        )
        self.statuses = statuses.StatusWriter(
            client, status_targets.of(store.schema, plugins), limit, self._clock, now=_second
        )
        recorder = event_recorders.EventRecorder(client, self._clock, now=_second, limit=limit)
        self.poster = event_poster.EventPoster(recorder)
        self.evictor = evictions.Evictor(
            client, lambda: follower.snapshot, plugins, self.poster.submit, limit, self._clock
        )
        self.joint_releases = joint_releases.JointReleases(
            functools.partial(placement_releases.release_together, follower, store.log),
            self._term,
            self._clock,
        )
        self.executor = executors.Executor(
            self.waker,
            self.poster,
            self.statuses,
            self.evictor,
            self.orphans.look_up,
            self.joint_releases,
            self._term,
        )
        self.reconciliation = reconciliation.Reconciliation(
            plugins, lambda: follower.snapshot, self.executor, self._clock
        )
        self.pod_events = pod_events.PodEventPublisher(
            store.decisions, lambda: follower.snapshot, self.executor.submit
        )
        self.refusals = stale_refusals.StaleRefusals(
            store.decisions,
            plugins,
            lambda: follower.snapshot,
            self.executor.submit,
            self.waker.noted,
            self._clock,
        )
        self._unreadable: Exception | None = None
        """Why the log cannot be read, if an operator has to act."""
        self.subscribed = False
        """Events that are appended from now on reach this process."""

    def release(self, uid: model.Uid, placement: model.Position, cause: events.Cause, reason: str) -> bool:
        """Release the placement made at that position in the log; true if it no longer exists."""
        follower, log = self._store.follower, self._store.log
        return placement_releases.release(follower, log, uid, cause, reason, placement=placement)

    def checks(self) -> Mapping[str, str | None]:
        """Readiness checks by name: a problem, or None."""
        follower = self._store.follower
        reading = f"reading the log: {follower.snapshot.offset} of {follower.head_seen}"
        return {
            **self._led_by(),
            "store": str(follower.error) if follower.error is not None else None,
            "state": None if follower.caught_up else reading,
        }

    @property
    def leads(self) -> bool:
        """Whether this process acts on the cluster."""
        return self._current() is not None

    def _current(self) -> electors.Tenure | None:
        """The present tenure; None also while the log, which calls for the actions, is another cluster's."""
        return self._elector.tenure if self._store.log.foreign is None else None

    def _led_by(self) -> Mapping[str, str | None]:
        if self._elector.tenure is None:
            return election.readiness(self._elector)
        return {"election": self._elector.problem or None}

    def run(self) -> None:
        """Control until stopped.

        Raises Gap, Trimmed, Unreadable or SchemaMismatch, which need an operator, once it has no Lease:
        a replica that reads the log can lead.
        """
        follower = self._store.follower
        follower.start(gather=GATHER)
        while not follower.wait_until_caught_up(timeout=0.2):
            if self._stopped.is_set():
                return
            if isinstance(error := follower.error, errors.FATAL):
                self.stop()
                raise error
        follower.subscribe(self._on_event, self.reconciliation.on_run)
        self.subscribed = True
        self._elector.start()
        loops = [
            self._start("catching up", self._catch_up, pause=0.2, on_standby=True, following=False),
            self._start("waking", lambda: self.waker.run_once(timeout=1.0), pause=0.0),
            self._start("orphaned placements", self.orphans.run_once, pause=ORPHANS_EVERY),
            self._start("joint releases", self.joint_releases.run_once, pause=RELEASES_EVERY),
            self._start("reconciling", self._reconcile, pause=RECONCILED_EVERY),
            self._start("statuses", self.statuses.run_once, pause=STATUSES_EVERY),
            self._start("evictions", self._evict, pause=RECONCILED_EVERY),
            self._start("refused pods", self.pod_events.run_once, pause=EVENTS_EVERY),
            # What happened stays true: Events are posted while the log cannot be read, too.
            self._start("events", self.poster.run_once, pause=EVENTS_EVERY, following=False),
            self._start("stale refusals", self.refusals.run_once, pause=REFUSALS_EVERY),
        ]
        self._stopped.wait()
        for loop in loops:
            loop.join(timeout=5.0)
        self._elector.stop()
        if self._unreadable is not None:
            raise self._unreadable

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._stopped.set()
        self._clock.stop()
        self.waker.interrupt()

    def _on_event(self, before: snapshots.Snapshot, after: snapshots.Snapshot, entry: readers.Entry) -> None:
        if self.leads:
            self.waker.on_event(entry.event)
            self.reconciliation.on_event(before, entry.event, after)
            self.pod_events.on_event(before, entry.event, after)

    def _term(self) -> str | None:
        """The epoch of the present leadership; None without one, and after ``stop``."""
        tenure = self._current()
        return tenure.epoch if tenure is not None and not self._stopped.is_set() else None

    def _catch_up(self) -> None:
        """Reconcile everything in each new tenure and incarnation, and after skipped events.

        Ends the controller if the log cannot be read without an operator.
        """
        # It may be None a moment later: another thread reads, too.
        if isinstance(error := self._store.follower.error, errors.FATAL):
            self._unreadable = error
            self.stop()
            return
        tenure, snapshot = self._current(), self._store.follower.snapshot
        if tenure != self._tenure:
            # The log may be another cluster's for a while, and the tenure the same after it.
            self._tenure, self._led = tenure, ("", "", 0)
            self._log_tenure(tenure)
        if tenure is None:
            self.reconciliation.forget()
            self.evictor.forget()
        if tenure is None or not self._complete(snapshot):
            return
        led = (tenure.epoch, snapshot.position.incarnation, self._store.follower.jumps)
        if led != self._led:
            self._led = led
            self.reconciliation.resume()

    def _log_tenure(self, tenure: electors.Tenure | None) -> None:
        if tenure is not None:
            telemetry.log.info("controller leads", epoch=tenure.epoch)
        else:
            other = self._store.log.foreign is not None
            problem = (
                "the log is that of another cluster" if other else election.reason_of_loss(self._elector)
            )
            telemetry.log.warning("controller no longer leads", problem=problem)

    def _reconcile(self) -> None:
        """Reconcile what has changed, on a complete state only."""
        if self._complete(self._store.follower.snapshot):
            self.reconciliation.run_once()

    def _evict(self) -> None:
        """Evict what plugins want, on a complete state only."""
        if self._complete(self._store.follower.snapshot):
            self.evictor.run_once()

    def _complete(self, snapshot: snapshots.Snapshot) -> bool:
        return self._store.follower.caught_up and self._follows and not snapshot.unlisted

    @property
    def _follows(self) -> bool:
        """Whether the log is read: otherwise the state is what it was."""
        return self._store.follower.error is None

    def _start(
        self,
        name: str,
        step: Callable[[], object],
        *,
        pause: float,
        on_standby: bool = False,
        following: bool = True,
    ) -> telemetry.loops.Loop:
        """``on_standby``: whether the step runs without the leadership, too; ``following``: whether it waits
        while the log cannot be read. Nothing is forgotten meanwhile: a store is often away for a moment."""
        repeat = functools.partial(self._repeat, name, step, pause, on_standby, following)
        return telemetry.loops.Loop(name, repeat, wait=self._stopped.wait, longest=_LONGEST_PAUSE).start()

    def _repeat(
        self, name: str, step: Callable[[], object], pause: float, on_standby: bool, following: bool
    ) -> None:
        while not self._stopped.is_set():
            wait = pause
            try:
                if (self.leads or on_standby) and (self._follows or not following):
                    step()
                else:
                    wait = max(pause, 0.2)
            except errors.StoreError as problem:
                telemetry.log.debug("the store is away", loop=name, error=str(problem))
                wait = max(pause, 1.0)
            if wait and self._stopped.wait(wait):
                return


def _second() -> str:
    return clocks.rfc3339(time.time())
