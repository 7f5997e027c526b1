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

from app.domain import events
from app.framework import registry
from app.kube.election import leases
from app.plugins.coscheduling import options
from app.store import errors, stores
from app.store.log import incarnations
from app.store.server import connections
from tests.support import declared
from tests.support.decisions import pod_sets
from tests.support.simulation import (
    change_text,
    gang_runs,
    preemptions,
    processes,
    rare_interleavings,
    reclaims,
    virtual_time,
)
from tests.support.simulation.cluster import api_client, cluster_activity, cluster_objects
from tests.support.simulation.oracle import gang_law, guarantees
from tests.support.simulation.store import fault_schedule, lagging_replica, lossy_calls, server_runs
from workers.controller import orphaned_placements

STEPS = 70
COMPARED = 3
"""Steps between two comparisons of all views."""
DEPTH = 2
"""The maximum depth of steps within steps."""
HEALED = 90.0
"""Seconds after the last fault within which the log matches the cluster again."""
_CALM = 400
_LEASE = ("topolog", "recorder")


class Simulation:
    """One history, on a server that no other test uses: it is emptied first."""

    def __init__(self, seed: int, url: str, *, log_step: Callable[[str], None] = lambda _: None) -> None:
        self.rng = random.Random(seed)
        self.clock = virtual_time.Clock()
        self.cluster = cluster_objects.Cluster()
        self.faults = api_client.Faults(self.rng, self.rng.choice((0.0, 0.05, 0.12)))
        self._seed = seed
        self._log_step = log_step
        self._url = url
        self._name = "simulated"
        self.steady = steady = self.rng.random() < 0.5
        """Only pods change."""
        # From the seed, not from the generator, so that the histories of other seeds stay the same.
        self._selected = seed % 4 == 3
        self._planning = seed % 8 == 5
        self._relabelling = seed % 16 == 13
        self._sharing = seed % 8 == 6
        self._preempting = seed % 16 == 10
        self._deep = seed % 16 == 0
        self._sharing |= seed % 32 == 26 or self._deep
        self._evicting = seed % 32 == 6
        self._gathering = seed % 8 == 1 or seed % 16 == 14 or self._preempting
        self.narrowing = seed % 32 == 22
        """A quota may be lowered while a placement of one of its pods is about to be appended."""
        self.activity = cluster_activity.Activity(
            self.cluster,
            self.rng,
            self.log_step,
            steady=steady,
            selected=self._selected,
            planning=self._planning,
            gathering=self._gathering,
            sharing=self._sharing,
            preempting=self._preempting,
            deep=self._deep,
            evicting=self._evicting,
        )
        self._client = connections.connect(url)
        """A client whose connections have no faults."""
        self.replica = lagging_replica.Replica(self._client)
        self._server = server_runs.Server(self._client, self.clock)
        self.fails_over = self.rng.random() < 0.35
        self._falling_back = seed % 8 == 2 and self.fails_over
        # Where a store loses events, no Binding is in flight for that long.
        self._orphaning = seed % 8 == 4 and not self.fails_over
        self.watchdog = guarantees.Watchdog(
            self._client,
            declared.names(self._name),
            self.cluster,
            steady=steady,
            selected=self._selected,
            monotonic=self.clock.monotonic,
        )
        self._depth = 0
        self.busy: set[processes.Recorder] = set()
        """Recorders in the middle of a step: each is one thread, and takes no other step meanwhile."""
        self._calm = True
        self._store = fault_schedule.FaultSchedule(self.clock, self.faults, self._client)
        self._store.between, self._store.log_step = self.between, self.log_step
        self._store.trimming, self._store.trimmed = self.watchdog.read, self.watchdog.trimmed
        self._store.gone, self._store.appended = self.watchdog.gone, self.watchdog.read
        self._settling: list[orphaned_placements.OrphanedPlacements] = []
        """Controllers in the middle of a run."""
        self._rare = rare_interleavings.RareInterleavings(self)
        self._store.appending = self._rare.appending
        self.preemptions = preemptions.Preemptions(self, self._rare.record_through)
        self.reclaims = reclaims.Reclaims(self, self._rare.record_through)
        self._gang_runs = gang_runs.GangRuns(self, self._rare.record_through)
        self._stores: list[stores.Store] = []
        self.extenders: list[processes.Extender | None] = [None, None]
        self.recorders: list[processes.Recorder] = []
        self._started = 0
        self._lately: list[cluster_objects.Json] = []
        """The pods that were pending at the latest bind."""

    # -- a whole history ---------------------------------------------------------------------

    def run(self) -> None:
        """Raises Broken if a guarantee does not hold."""
        with self._installed():
            try:
                self._begin()
                for number in range(STEPS):
                    self._step()
                    if number % COMPARED == 0:
                        self.watchdog.compare()
                    self._divided_alike()
                self._end()
            finally:
                for store in self._stores:
                    store.close()
                self._client.close()

    @contextlib.contextmanager
    def _installed(self) -> Iterator[None]:
        small = self.rng.random() < 0.5
        with contextlib.ExitStack() as stack:
            stack.enter_context(testing.capture_logs())
            stack.enter_context(virtual_time.installed(self.clock, self._seed))
            stack.enter_context(self._server.played())
            stack.enter_context(lossy_calls.shared(self._client))
            stack.enter_context(lossy_calls.watched(self._store.watch, self._store.plain))
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
        lagging_replica.emptied(self._client, declared.names(self._name))
        self.activity.begin()
        for which in range(len(self.extenders)):
            self.start_extender(which)
        compacting = self._opened()
        assert compacting is not None
        self._compactor = processes.compactor(compacting, self.clock, patient=self.rng.random() < 0.5)
        self.start_recorder()
        self.clock.waiting = lambda: self.between("waiting")
        self._calm = False

    def _end(self) -> None:
        """Faults stop, Bindings in flight arrive, and all pending work is done."""
        self.log_step("calm")
        self._calm = True
        self._store.outage = 0.0
        self.faults.quiet()
        calm = self.clock.now
        self._drain()
        for recorder in self.recorders:
            if not recorder.leads:
                # It follows the log, and may have detected a loss that the leader has not.
                recorder.begin()
        self._drain()
        guarantees.demand(
            self.clock.now <= calm + HEALED, "P8", f"healed after {self.clock.now - calm:.0f} s"
        )
        for which in range(len(self.extenders)):
            self.start_extender(which)
        extender = self.extenders[0]
        assert extender is not None
        if self._gathering and not self._preempting:
            self._gang_runs.heal(self._drain)
        settler = processes.settler(extender, self.clock)
        settler.run_once()
        # A little longer than necessary: sums of floats may fall short of it.
        self.clock.advance(orphaned_placements.OLD + 0.001)
        settler.run_once()
        if self._planning:
            self.clock.advance(orphaned_placements.PLANNED)
            settler.run_once()
        if self._gathering:
            self.clock.advance(options.DEFAULT_WAIT)
            settler.run_once()
        # Every Binding in flight arrives, and changes nothing about a released placement.
        self.clock.advance(api_client.LATE)
        self._drain()
        self._healed(self._compactor.run_once)
        # Followers of processes that have ended are readers like others.
        readers = [store.follower for store in self._stores[-3:]]
        for reader in readers:
            self._healed(reader.catch_up)
        partly = gang_law.partly_placed(self.watchdog.fold)
        guarantees.demand(not partly, "P7", f"gangs are partly placed at rest: {partly}")
        self.watchdog.converged([reader.catch_up() for reader in readers])
        alive = [recorder.store for recorder in self.recorders]
        alive += [extender.store for extender in self.extenders if extender is not None]
        self.watchdog.losses_are_known(store.log.seen for store in alive)

    def _divided_alike(self) -> None:
        """The extenders divide among quotas what the log has; they may lag behind it.

        Where the store loses events, what one has read may be lost: then the end is compared.
        """
        for extender in () if self.fails_over else self.extenders:
            if extender is not None:
                self.watchdog.divided_alike(extender.store.follower.snapshot)

    def _healed(self, act: Callable[[], object]) -> None:
        """Act, if necessary again after recovery from a loss that only this process had detected."""
        try:
            act()
        except errors.Rewound:
            self._drain()
            act()

    def _drain(self) -> None:
        """Run until a recorder has observed every change."""
        end = self.clock.now + HEALED
        for _ in range(_CALM):
            if self.clock.now > end:
                break
            recorder = next((one for one in self.recorders if one.leads), None)
            if recorder is not None and self.on_event(recorder):
                return
            if recorder is None and not any([one.begin() for one in self.recorders]):
                self.clock.advance(processes.TERMS.retry)
            if not self.recorders:
                self.start_recorder()
        raise guarantees.Broken("P8: the recorder never reaches the end of its changes")

    def on_event(self, recorder: processes.Recorder) -> bool:
        """Whether no change is left; the recorder may have lost its leadership meanwhile."""
        quiet = True
        for kind in cluster_objects.EVERY:
            for _ in range(_CALM):
                change = recorder.observe(kind)
                version = getattr(change, "version", "")
                if type(change).__name__ == "Bookmark" and int(version) >= self.cluster.objects.version:
                    break
                quiet = quiet and type(change).__name__ == "Bookmark"
            recorder.run_once()
            if not recorder.leads:
                return False
        recorder.run_once()
        return quiet and recorder.leads

    # -- steps -------------------------------------------------------------------------------

    def _step(self) -> None:
        with self.meanwhile():
            steps = self._steps()
            (step,) = self.rng.choices([step for step, _ in steps], [share for _, share in steps])
            step()

    def _steps(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._record, 9.0),
            (self.bind, 6.0),
            (self.activity.users, 3.0),
            (self.activity.kubelets, 2.0),
            (self.settle, 0.7),
            (self._time, 1.5),
            (self._freeze, 0.3 if self._depth <= DEPTH else 0.0),
            (self._restart_recorder, 0.5),
            (self._restart_extender, 0.3),
            (self._compact, 0.5),
            (self._outage, 0.3),
            (self.fail_over, 0.4 if self.fails_over else 0.0),
            (self._rare.lose_a_term, 0.1 if self.fails_over and self._depth == 1 else 0.0),
            (self._rare.lose_a_tail, 0.2 if self.fails_over and self._depth == 1 else 0.0),
            (self._orphan, 0.4 if self.faults.share else 0.0),
            (self._rare.fence_too_late, 0.6 if self._orphaning and self._depth == 1 else 0.0),
            (self._rare.relabel_member, 0.5 if self._relabelling else 0.0),
            (self._rare.fall_back, 0.6 if self._falling_back and self._depth == 1 else 0.0),
            (self.preemptions.group, 3.0 if self._preempting and self._depth == 1 else 0.0),
            (self.preemptions.pod, 2.0 if self._preempting and self._depth == 1 else 0.0),
            (self.reclaims.run, 9.0 if self._evicting and self._depth == 1 else 0.0),
            (self._gang_runs.restart, 0.5 if self._gathering and self._depth == 1 else 0.0),
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
        if what == "before a Binding" and self.fails_over and self.rng.random() < 0.4:
            self._rare.lose_a_placement()
        if what == "before a patch" and (self._rare.patching_late or self.rng.random() < 0.5):
            # The controller was stopped after it had read the pod; Bindings in flight arrive.
            earliest = api_client.LATE if self._rare.patching_late else 0.0
            self.clock.advance(self.rng.uniform(earliest, api_client.LATE))
        if self.rng.random() > 0.25:
            return
        self.log_step(f"meanwhile ({what}):")
        if self.fails_over and self.rng.random() < 0.1:
            # What a process has just read or written is lost before it continues from it.
            self.fail_over()
        for _ in range(self.rng.randint(1, 3)):
            self._step()

    def log_step(self, text: str) -> None:
        self._log_step(f"{self.clock.now:9.3f} {'  ' * self._depth}{text}")

    def idle(self) -> list[processes.Recorder]:
        """The recorders that can take a step."""
        return [one for one in self.recorders if one not in self.busy and not one.frozen]

    def _record(self) -> None:
        idle = self.idle()
        if not idle:
            return
        leading = [recorder for recorder in idle if recorder.leads]
        self._recorded(self.rng.choice(leading if leading and self.rng.random() < 0.8 else idle))

    def _recorded(self, recorder: processes.Recorder) -> None:
        with self.at_work(recorder):
            if not recorder.leads:
                leads = recorder.begin()
                self.log_step(f"{recorder.name} {'leads' if leads else 'is on standby'}")
                for kind in cluster_objects.QUIET if leads else ():
                    recorder.observe(kind)
                return
            read = cluster_objects.RESOURCES + (("sigspodgroups",) if self._gathering else ())
            read += ("nativepodgroups",) if self._preempting else ()
            for _ in range(self.rng.randint(1, 5)):
                change = recorder.observe(self.rng.choice(read))
                self.log_step(f"{recorder.name} observes {change_text.change(change)}")
            if self.rng.random() < 0.8:
                refused = recorder.run_once()
                if refused is not None:
                    self.log_step(f"{recorder.name} is refused: {refused!r}")

    @contextlib.contextmanager
    def at_work(self, recorder: processes.Recorder) -> Iterator[None]:
        """It takes no other step meanwhile, and may end."""
        self.busy.add(recorder)
        try:
            yield
        except (lossy_calls.Crashed, errors.SchemaMismatch) as end:
            self.log_step(f"{recorder.name} ends: {end!r}")
            if recorder in self.recorders:  # Else another process was started in its place, meanwhile.
                self.recorders.remove(recorder)
            recorder.close()
        finally:
            self.busy.discard(recorder)
        if not self.recorders:
            self.start_recorder()

    def start_recorder(self) -> None:
        """Start another one, if the store can be opened."""
        store = self._opened(emptied=True)
        if store is None:
            return
        self._started += 1
        name = f"recorder-{self._started}"
        recorder = processes.Recorder(store, self._way(), self.clock, self.rng, name)
        self.recorders.append(recorder)
        self.log_step(f"{name} starts")

    def _restart_recorder(self) -> None:
        idle = self.idle()
        if idle and self.rng.random() < 0.6:
            recorder = self.rng.choice(idle)
            self.recorders.remove(recorder)
            ordered = self.rng.random() < 0.5
            self.log_step(f"{recorder.name} is {'stopped' if ordered else 'killed'}")
            if ordered:
                recorder.resign()
            recorder.close()
        if len(self.recorders) < 3:
            self.start_recorder()

    def start_extender(self, which: int) -> None:
        """Start it in the place of the one that is there, if the store lets it."""
        store = self._opened()
        self.extenders[which] = None
        if store is not None:
            self.extenders[which] = processes.extender(
                store,
                self._way(),
                self.clock,
                f"extender-{which}",
                configured=self._configured(),
            )
        if which == 0 and self.extenders[0] is not None:
            self._settler = processes.settler(self.extenders[0], self.clock)

    def _configured(self) -> registry.Registry:
        if self._planning:
            return processes.PLANNING
        if self._sharing:
            return processes.SHARING_GANGS if self._gathering else processes.SHARING
        if self._gathering:
            return processes.GATHERING
        return processes.SELECTED if self._selected else processes.PLUGINS

    def _restart_extender(self) -> None:
        which = self.rng.randrange(len(self.extenders))
        self.log_step(f"extender {which} is killed")
        self.start_extender(which)

    def _outage(self) -> None:
        if self.faults.share:
            self._store.outage = self.clock.now + self.rng.uniform(0.1, 6.0)
            self.log_step(f"the store is away until {self._store.outage:.3f}")

    def _time(self) -> None:
        self.clock.advance(self.rng.choice((0.01, 0.5, 2.0, 5.0, 17.0)))

    def _freeze(self) -> None:
        """A recorder is stopped, and resumes where it was after its Lease has expired."""
        if not self.recorders:
            return
        frozen = self.rng.choice(sorted(self.busy, key=lambda one: one.name) or self.recorders)
        self.log_step(f"{frozen.name} is frozen")
        frozen.freeze(True)
        self.clock.advance(self.rng.choice((5.0, 18.0, 40.0)))
        for _ in range(self.rng.randint(0, 5)):
            others = [recorder for recorder in self.idle() if recorder is not frozen]
            if others and self.rng.random() < 0.7:
                self._recorded(self.rng.choice(others))
            else:
                self._step()
        frozen.freeze(False)
        self.log_step(f"{frozen.name} goes on")

    def settle(self, *, patient: bool = False) -> None:
        """The controller looks for orphaned placements; if ``patient``, until they are old."""
        settler = self._settler
        if settler in self._settling:
            return  # It has one thread, which waits.
        self._settling.append(settler)
        try:
            with contextlib.suppress(errors.StoreError, lossy_calls.Crashed):
                if patient or self.rng.random() < 0.5:
                    # A first run notes the placements that exist now.
                    settler.run_once()
                    self.clock.advance(orphaned_placements.OLD)
                self.log_step(f"settled {settler.run_once()}")
        finally:
            self._settling.remove(settler)

    def _compact(self) -> None:
        if self.rng.random() < 0.3:
            self.clock.advance(20.0)
        with contextlib.suppress(errors.StoreAway, errors.Rewound, lossy_calls.Crashed):
            self._compactor.run_once()
            self.log_step(f"compacted: {self._compactor._store.log.oldest()}..")

    def bind(self) -> None:
        """kube-scheduler wants a pod on a node."""
        pods = [pod for pod in self.cluster.all("pods") if "deletionTimestamp" not in pod["metadata"]]
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        if self._lately and self.rng.random() < 0.15:
            # kube-scheduler may not have observed yet that it was deleted.
            pods = self._lately
        elif self.rng.random() < 0.85:
            pods = waiting
        self._lately = waiting
        if not pods:
            return
        if self.fails_over and self.rng.random() < 0.3:
            self.replica.follow()
        pod, node = self.rng.choice(pods), self.rng.choice(sorted(cluster_objects.NODES))
        if self._preempting:
            node = next(iter(self.preemptions.roomy()), "")
            if not node:
                return
        which = self.rng.randrange(len(self.extenders))
        self.bound(which, pod, node)

    def bound(self, which: int, pod: cluster_objects.Json, node: str) -> None:
        """One of the extenders binds the pod, or is started if it is not running."""
        extender = self.extenders[which]
        if extender is None:
            self.start_extender(which)
            return
        meta = pod["metadata"]
        if self._planning and self.rng.random() < 0.9:
            node = meta["labels"].get(pod_sets.SEAT, node)  # its plugin refuses it on other nodes
        if self._gathering and self.rng.random() < 0.9:
            node = next(iter(extender.kept(pod)), node)
        if self.rng.random() < 0.75:
            extender.offer(pod)  # else another replica answered filter
        self.log_step(f"extender {which}: bind {meta['name']} ({meta['uid'][-4:]}) to {node}")
        try:
            error = extender.bind(meta["namespace"], meta["name"], meta["uid"], node)
        except lossy_calls.Crashed:
            self.start_extender(which)
            error = "crashed"
        self.log_step(f"extender {which}: {meta['name']} -> {node}: {error or 'bound'}")
        if error and self.rng.random() < 0.4:
            self.activity.refuse(meta, error)
        if not error:
            was = self.cluster.bound.get(meta["uid"], set())
            guarantees.demand(was == {node}, "P7", f"{meta['name']} was reported on {node}, is on {was}")

    def _orphan(self) -> None:
        """A Binding is in flight for long and its extender is killed: the controller has to fence it."""
        which = self.rng.randrange(len(self.extenders))
        extender = self.extenders[which]
        waiting = [pod for pod in self.cluster.all("pods") if not pod["spec"].get("nodeName")]
        if extender is None or not waiting:
            return
        extender.client.delayed = True
        self.bound(which, self.rng.choice(waiting), self.rng.choice(sorted(cluster_objects.NODES)))
        self.start_extender(which)
        for _ in range(2):
            self.settle()

    # -- the store ---------------------------------------------------------------------------

    def fail_over(self, *, now: bool = False, restarted: bool | None = None) -> None:
        """A replica that lags behind is promoted, or the primary restarts without its files.

        Unless ``now``, the replica may be brought up to date instead. ``restarted``: whether the new primary
        is visible as another server, which then has its files; None: drawn.
        """
        if not self.replica.begun or (not now and self.rng.random() < 0.5):
            self.replica.follow()
            return
        if restarted is None and self.rng.random() < 0.15 and self._noted():
            self.replica.empty()
        self.watchdog.compare()
        self.replica.promote()
        # It may be the former primary again, which has been a replica meanwhile.
        self._server.go_on(restarted=self.rng.random() < 0.7 if restarted is None else restarted)
        self._store.forget()
        doubted = self._server.doubted(declared.names(self._name))
        lost = self.watchdog.failed_over(self._note(), doubted=doubted)
        self.log_step(f"the store fails over{'' if doubted else ' unseen'}: {lost or 'nothing'} is lost")

    @contextlib.contextmanager
    def losing_the_verification(self) -> Iterator[None]:
        """The next election is recorded without a reply; after the next read of the state the store falls
        back to what its replica holds, in the same run.
        """

        def lost(batch: list[events.AnyEvent]) -> bool:
            if not any(isinstance(event, events.RecorderElected) for event in batch):
                return False
            self.log_step("the election is recorded, and the store does not reply")
            self._store.reply_lost, self._store.reading = lambda _: False, fallen
            return True

        def fallen() -> None:
            if self.clock.now < self._store.outage:
                return
            self._store.reading = lambda: None
            self.fail_over(now=True, restarted=False)

        self._store.reply_lost = lost
        try:
            yield
        finally:
            self._store.reply_lost, self._store.reading = lambda _: False, lambda: None

    def _noted(self) -> bool:
        """Whether the recorder's note in the Lease names an entry of the current incarnation."""
        known = self._note()
        return known is not None and known.incarnation == self.watchdog.incarnation

    def _note(self) -> incarnations.Watermark | None:
        """The latest log position that the Lease names."""
        with contextlib.suppress(Exception):
            note = leases.note(self.cluster.objects.get("leases", _LEASE), "topolog.io/known")
            return incarnations.parse_watermark(note)
        return None

    def _opened(self, *, emptied: bool = False) -> stores.Store | None:
        """The store as a starting process opens it; None if it cannot start."""
        try:
            with self._store.sheltered():
                store = processes.opened(self._url, self._name, emptied=emptied)
        except errors.StoreError as problem:
            self.log_step(f"a process cannot start: {problem}")
            return None
        # A call of this process may happen while another one waits: with threads, one waits for the lock.
        vars(store.follower._head)["_lock"] = virtual_time.Lock(self.clock)
        self._stores.append(store)
        return store

    def _way(self) -> api_client.Client:
        # Lost events name versions that are unknown now, so the recorder waits for their Bindings.
        late = api_client.UNDER_WAY if self.fails_over else api_client.LATE
        return api_client.Client(
            self.cluster, self.clock, self.faults, self.between, under_way=late, rival=self._rare.rival
        )
