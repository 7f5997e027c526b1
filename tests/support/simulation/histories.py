"""One seed is one history: steps of all processes, faults, and in the end convergence.

There is one thread, one random generator, and one clock that only the simulation advances; the store's
functions are the real ones in a real server. Recorders (elected by a Lease), extenders, a controller and a
compactor are the real code, driven step by step; while one of them waits for the store or the API server,
others take steps. In the end all faults stop, and the log must match the cluster.

    python -m tests.campaigns.seeds SEED [BUG]      # repeats a seed, and prints each step
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from unittest import mock

from structlog import testing

from app.plugins.coscheduling import options
from app.store import errors
from app.store.server import connections
from tests.support import bind_times, declared
from tests.support.simulation import (
    fleet,
    gang_runs,
    preemptions,
    processes,
    rare_interleavings,
    rare_losses,
    reclaims,
    scheduler,
    seed_traits,
    virtual_time,
)
from tests.support.simulation.cluster import api_client, cluster_activity, cluster_objects
from tests.support.simulation.oracle import gang_law, guarantees, watchdog
from tests.support.simulation.store import failovers, fault_schedule, lagging_replica, lossy_calls
from workers.controller.placements import orphaned_placements

STEPS = 70
COMPARED = 3
"""Steps between two comparisons of all views."""
DEPTH = 2
"""The maximum depth of steps within steps."""


class Simulation:
    """One history, on a server that no other test uses: it is emptied first."""

    def __init__(self, seed: int, url: str, *, log_step: Callable[[str], None] = lambda _: None) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.clock = virtual_time.Clock()
        self.cluster = cluster_objects.Cluster()
        self.faults = api_client.Faults(self.rng, self.rng.choice((0.0, 0.05, 0.12)))
        self._seed = seed
        self._log_step = log_step
        self._depth = 0
        self._calm = True
        self.traits = seed_traits.drawn(seed, self.rng)
        self.names = declared.names(fleet.NAME)
        self.activity = cluster_activity.Activity(self.cluster, self.rng, self.log_step, self.traits)
        self._client = connections.connect(url)
        """A client whose connections have no faults."""
        self.watchdog = watchdog.Watchdog(
            self._client,
            self.names,
            self.cluster,
            steady=self.traits.steady,
            selected=self.traits.selected,
            monotonic=self.clock.monotonic,
        )
        self.schedule = fault_schedule.FaultSchedule(self.clock, self.faults, self._client)
        self.schedule.between, self.schedule.log_step = self.between, self.log_step
        self.schedule.trimming, self.schedule.trimmed = self.watchdog.read, self.watchdog.trimmed
        self.schedule.gone, self.schedule.appended = self.watchdog.losses.gone, self.watchdog.read
        self.fleet = fleet.Fleet(self, url)
        self.scheduler = scheduler.Scheduler(self)
        self.failovers = failovers.Failovers(self, self._client)
        self.rare = rare_interleavings.RareInterleavings(self)
        self.losses = rare_losses.RareLosses(self)
        self.preemptions = preemptions.Preemptions(self, self.fleet.record_through)
        self.reclaims = reclaims.Reclaims(self, self.fleet.record_through)
        self._gang_runs = gang_runs.GangRuns(self, self.fleet.record_through)
        self.schedule.appending = self.rare.appending

    # -- a whole history ---------------------------------------------------------------------

    def run(self) -> None:
        """Raises Broken if a guarantee does not hold."""
        with self._installed():
            try:
                self._begin()
                for number in range(STEPS):
                    self.step()
                    if number % COMPARED == 0:
                        self.watchdog.compare()
                    self._divided_alike()
                self._end()
            finally:
                self.fleet.close()
                self._client.close()

    @contextlib.contextmanager
    def _installed(self) -> Iterator[None]:
        small = self.rng.random() < 0.5
        with contextlib.ExitStack() as stack:
            stack.enter_context(testing.capture_logs())
            stack.enter_context(virtual_time.installed(self.clock, self._seed))
            stack.enter_context(self.failovers.server.played())
            stack.enter_context(lossy_calls.shared(self._client))
            stack.enter_context(lossy_calls.watched(self.schedule.watch, self.schedule.plain))
            stack.enter_context(mock.patch("workers.recorder.recorders.LINGER", 0.0))
            stack.enter_context(mock.patch("workers.recorder.recorders.PACE", 0.0))
            stack.enter_context(mock.patch("app.plugins.elastic_quota.evictions.WAITED", 1.5))
            stack.enter_context(mock.patch("app.plugins.elastic_quota.evictions.OVERUSED", 3.0))
            # A process freezes what it has read at its start: here thousands of them start and end in one.
            stack.enter_context(mock.patch("gc.freeze"))
            # Limits that only large clusters reach.
            stack.enter_context(
                mock.patch("workers.recorder.batch_builder.OPTIMISTIC_MIN", 3 if small else 64)
            )
            stack.enter_context(mock.patch("workers.recorder.batch_builder.MAX_FACTS", 4 if small else 254))
            yield

    def _begin(self) -> None:
        lagging_replica.emptied(self._client, self.names)
        self.activity.begin()
        self.fleet.begin()
        self.clock.waiting = lambda: self.between("waiting")
        self._calm = False

    def _end(self) -> None:
        """Faults stop, Bindings in flight arrive, and all pending work is done."""
        self.log_step("calm")
        self._calm = True
        self.schedule.outage = 0.0
        self.faults.quiet()
        calm = self.clock.now
        self.fleet.drain()
        for recorder in self.fleet.recorders:
            if not recorder.leads:
                # It follows the log, and may have detected a loss that the leader has not.
                recorder.begin()
        self.fleet.drain()
        guarantees.demand(
            self.clock.now <= calm + fleet.HEALED, "P8", f"healed after {self.clock.now - calm:.0f} s"
        )
        for which in range(len(self.fleet.extenders)):
            self.fleet.start_extender(which)
        extender = self.fleet.extenders[0]
        assert extender is not None
        settler = processes.settler(extender, self.clock)
        if self.traits.gathering and not self.traits.preempting:
            self._gang_runs.heal(self.fleet.drain, settler.run_once)
        settler.run_once()
        # A little longer than necessary: sums of floats may fall short of it.
        self.clock.advance(bind_times.OLD + 0.001)
        settler.run_once()
        if self.traits.planning:
            self.clock.advance(orphaned_placements.PLANNED)
            settler.run_once()
        if self.traits.gathering:
            self.clock.advance(options.DEFAULT_WAIT)
            settler.run_once()
        # Every Binding in flight arrives, and changes nothing about a released placement.
        self.clock.advance(api_client.LATE)
        self.fleet.drain()
        self._healed(self.fleet.compactor.run_once)
        # Followers of processes that have ended are readers like others.
        readers = [store.follower for store in self.fleet.stores[-3:]]
        for reader in readers:
            self._healed(reader.catch_up)
        partly = gang_law.partly_placed(self.watchdog.fold)
        guarantees.demand(not partly, "P7", f"gangs are partly placed at rest: {partly}")
        self.watchdog.converged([reader.catch_up() for reader in readers])
        alive = [recorder.store for recorder in self.fleet.recorders]
        alive += [extender.store for extender in self.fleet.extenders if extender is not None]
        self.watchdog.losses_are_known(store.log.seen for store in alive)

    def _divided_alike(self) -> None:
        """The extenders divide among quotas what the log has; they may lag behind it.

        Where the store loses events, what one has read may be lost: then the end is compared.
        """
        for extender in () if self.traits.fails_over else self.fleet.extenders:
            if extender is not None:
                self.watchdog.divided_alike(extender.store.follower.snapshot)

    def _healed(self, act: Callable[[], object]) -> None:
        """Act, if necessary again after recovery from a loss that only this process had detected."""
        try:
            act()
        except errors.Rewound:
            self.fleet.drain()
            act()

    # -- steps -------------------------------------------------------------------------------

    def step(self) -> None:
        """One of the processes, or someone else, acts."""
        with self.meanwhile():
            steps = self._steps()
            (step,) = self.rng.choices([step for step, _ in steps], [share for _, share in steps])
            step()

    def _steps(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self.fleet.step, 9.0),
            (self.scheduler.bind, 6.0),
            (self.activity.users, 3.0),
            (self.activity.kubelets, 2.0),
            (self.fleet.settle, 0.7),
            (self._time, 1.5),
            (self.fleet.freeze, 0.3 if self._depth <= DEPTH else 0.0),
            (self.fleet.restart_recorder, 0.5),
            (self.fleet.restart_extender, 0.3),
            (self.fleet.compact, 0.5),
            (self._outage, 0.3),
            (self.failovers.fail_over, 0.4 if self.traits.fails_over else 0.0),
            (self.losses.lose_a_term, 0.1 if self.traits.fails_over and self._depth == 1 else 0.0),
            (self.losses.lose_a_tail, 0.2 if self.traits.fails_over and self._depth == 1 else 0.0),
            (self.scheduler.orphan, 0.4 if self.faults.share else 0.0),
            (self.rare.fence_too_late, 0.6 if self.traits.orphaning and self._depth == 1 else 0.0),
            (self.rare.relabel_member, 0.5 if self.traits.relabelling else 0.0),
            (self.rare.bind_to_arrival, 0.8 if self.traits.arriving and self._depth == 1 else 0.0),
            (self.losses.fall_back, 0.6 if self.traits.falling_back and self._depth == 1 else 0.0),
            (self.preemptions.group, 3.0 if self.traits.preempting and self._depth == 1 else 0.0),
            (self.preemptions.pod, 2.0 if self.traits.preempting and self._depth == 1 else 0.0),
            (self.reclaims.run, 9.0 if self.traits.evicting and self._depth == 1 else 0.0),
            (self._gang_runs.restart, 0.5 if self.traits.gathering and self._depth == 1 else 0.0),
            (self.rare.label_and_bind, 3.0 if self.traits.labelling and self._depth == 1 else 0.0),
            (self.rare.label_without_store, 0.7 if self.traits.labelling and self._depth == 1 else 0.0),
        ]

    deep = DEPTH + 1
    """The level of nested steps at which no other process acts."""

    @property
    def alone(self) -> bool:
        """No other process takes steps now."""
        return self._calm or self._depth > DEPTH

    @contextlib.contextmanager
    def meanwhile(self, levels: int = 1) -> Iterator[None]:
        """Steps within a step; more levels leave fewer for steps of other processes."""
        self._depth += levels
        try:
            yield
        finally:
            self._depth -= levels

    def between(self, what: str) -> None:
        """Other processes take steps while one waits."""
        if self.alone:
            return
        if what == "before a Binding" and self.traits.fails_over and self.rng.random() < 0.4:
            self.losses.lose_a_placement()
        if what == "before a patch" and (self.rare.patching_late or self.rng.random() < 0.5):
            # The controller was stopped after it had read the pod; Bindings in flight arrive.
            earliest = api_client.LATE if self.rare.patching_late else 0.0
            self.clock.advance(self.rng.uniform(earliest, api_client.LATE))
        if self.rng.random() > 0.25:
            return
        self.log_step(f"meanwhile ({what}):")
        if self.traits.fails_over and self.rng.random() < 0.1:
            # What a process has just read or written is lost before it continues from it.
            self.failovers.fail_over()
        for _ in range(self.rng.randint(1, 3)):
            self.step()

    def log_step(self, text: str) -> None:
        self._log_step(f"{self.clock.now:9.3f} {'  ' * self._depth}{text}")

    def _outage(self) -> None:
        if self.faults.share:
            self.schedule.outage = self.clock.now + self.rng.uniform(0.1, 6.0)
            self.log_step(f"the store is away until {self.schedule.outage:.3f}")

    def _time(self) -> None:
        self.clock.advance(self.rng.choice((0.01, 0.5, 2.0, 5.0, 17.0)))
