"""The processes of one simulation: they start, take steps one at a time, are stopped, killed and frozen."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.framework import registry
from app.store import errors, stores
from tests.support import bind_times
from tests.support.simulation import change_text, processes, virtual_time
from tests.support.simulation.cluster import api_client, cluster_objects
from tests.support.simulation.oracle import guarantees
from tests.support.simulation.store import lossy_calls
from workers.controller.placements import orphaned_placements

if TYPE_CHECKING:
    from tests.support.simulation import histories

NAME = "simulated"
"""The name of the cluster."""
HEALED = 90.0
"""Seconds after the last fault within which the log matches the cluster again."""
_CALM = 400


class Fleet:
    """Recorders, extenders, a controller and a compactor, drawn from the simulation's generator."""

    def __init__(self, simulation: "histories.Simulation", url: str) -> None:
        """``url``: of the store."""
        self._of = simulation
        self._rng, self._clock, self._log_step = simulation.rng, simulation.clock, simulation.log_step
        self._traits = simulation.traits
        self._url = url
        self.stores: list[stores.Store] = []
        """Of all processes, also of those that have ended."""
        self.extenders: list[processes.Extender | None] = [None, None]
        self.recorders: list[processes.Recorder] = []
        self.busy: set[processes.Recorder] = set()
        """Recorders in the middle of a step: each is one thread, and takes no other step meanwhile."""
        self._started = 0
        self._settling: list[orphaned_placements.OrphanedPlacements] = []
        """Controllers in the middle of a run."""

    def begin(self) -> None:
        """Start the first processes."""
        for which in range(len(self.extenders)):
            self.start_extender(which)
        compacting = self.opened()
        assert compacting is not None
        patient = self._rng.random() < 0.5
        self.compactor = processes.compactor(compacting, self._clock, patient=patient)
        self.start_recorder()

    def close(self) -> None:
        """End all connections to the store."""
        for store in self.stores:
            store.close()

    # -- recorders ---------------------------------------------------------------------------

    def idle(self) -> list[processes.Recorder]:
        """The recorders that can take a step."""
        return [one for one in self.recorders if one not in self.busy and not one.frozen]

    def step(self) -> None:
        """One of the recorders observes and appends changes."""
        idle = self.idle()
        if not idle:
            return
        leading = [recorder for recorder in idle if recorder.leads]
        self._recorded(self._rng.choice(leading if leading and self._rng.random() < 0.8 else idle))

    def _recorded(self, recorder: processes.Recorder) -> None:
        with self.at_work(recorder):
            if not recorder.leads:
                leads = recorder.begin()
                self._log_step(f"{recorder.name} {'leads' if leads else 'is on standby'}")
                for kind in cluster_objects.QUIET if leads else ():
                    recorder.observe(kind)
                return
            read = cluster_objects.RESOURCES + (("sigspodgroups",) if self._traits.gathering else ())
            read += ("nativepodgroups",) if self._traits.preempting else ()
            for _ in range(self._rng.randint(1, 5)):
                change = recorder.observe(self._rng.choice(read))
                self._log_step(f"{recorder.name} observes {change_text.change(change)}")
            if self._rng.random() < 0.8:
                refused = recorder.run_once()
                if refused is not None:
                    self._log_step(f"{recorder.name} is refused: {refused!r}")

    @contextlib.contextmanager
    def at_work(self, recorder: processes.Recorder) -> Iterator[None]:
        """It takes no other step meanwhile, and may end."""
        self.busy.add(recorder)
        try:
            yield
        except (lossy_calls.Crashed, errors.SchemaMismatch) as end:
            self._log_step(f"{recorder.name} ends: {end!r}")
            if recorder in self.recorders:  # Else another process was started in its place, meanwhile.
                self.recorders.remove(recorder)
            recorder.close()
        finally:
            self.busy.discard(recorder)
        if not self.recorders:
            self.start_recorder()

    def start_recorder(self) -> None:
        """Start another one, if the store can be opened."""
        store = self.opened(emptied=True)
        if store is None:
            return
        self._started += 1
        name = f"recorder-{self._started}"
        recorder = processes.Recorder(store, self.way(), self._clock, self._rng, name)
        self.recorders.append(recorder)
        self._log_step(f"{name} starts")

    def restart_recorder(self) -> None:
        """One of the recorders may be stopped or killed; a new one starts, unless there are three."""
        idle = self.idle()
        if idle and self._rng.random() < 0.6:
            recorder = self._rng.choice(idle)
            self.recorders.remove(recorder)
            ordered = self._rng.random() < 0.5
            self._log_step(f"{recorder.name} is {'stopped' if ordered else 'killed'}")
            if ordered:
                recorder.resign()
            recorder.close()
        if len(self.recorders) < 3:
            self.start_recorder()

    def freeze(self) -> None:
        """A recorder is stopped, and resumes where it was after its Lease has expired."""
        if not self.recorders:
            return
        frozen = self._rng.choice(sorted(self.busy, key=lambda one: one.name) or self.recorders)
        self._log_step(f"{frozen.name} is frozen")
        frozen.freeze(True)
        self._clock.advance(self._rng.choice((5.0, 18.0, 40.0)))
        for _ in range(self._rng.randint(0, 5)):
            others = [recorder for recorder in self.idle() if recorder is not frozen]
            if others and self._rng.random() < 0.7:
                self._recorded(self._rng.choice(others))
            else:
                self._of.step()
        frozen.freeze(False)
        self._log_step(f"{frozen.name} goes on")

    def hand_over(self) -> None:
        """A recorder that has recorded a loss is stopped before it has settled, and another one leads."""
        recorder = next((one for one in self.idle() if one.leads), None)
        if recorder is None:
            return
        with self.at_work(recorder):
            recorder.run_once()
            if recorder.leads or not recorder.handed_over():
                return
            self._log_step(f"{recorder.name} is stopped in the middle")
            self.recorders.remove(recorder)
            recorder.resign()
            recorder.close()
        self.start_recorder()
        self._clock.advance(0.1)

    # -- what recorders have not recorded yet ------------------------------------------------

    def record(self) -> None:
        """The leading recorder, if there is an idle one, records every change."""
        for recorder in [one for one in self.idle() if one.leads][:1]:
            with self.at_work(recorder):
                self.on_event(recorder)

    def record_through(self) -> None:
        """A recorder observes every change."""
        for recorder in sorted(self.idle(), key=lambda one: not one.leads):
            with self.at_work(recorder):
                if recorder.leads or recorder.begin():
                    self.on_event(recorder)
                    return

    def drain(self) -> None:
        """Run until a recorder has observed every change."""
        end = self._clock.now + HEALED
        for _ in range(_CALM):
            if self._clock.now > end:
                break
            recorder = next((one for one in self.recorders if one.leads), None)
            if recorder is not None and self.on_event(recorder):
                return
            if recorder is None and not any([one.begin() for one in self.recorders]):
                self._clock.advance(processes.TERMS.retry)
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
                if type(change).__name__ == "Bookmark" and int(version) >= self._of.cluster.objects.version:
                    break
                quiet = quiet and type(change).__name__ == "Bookmark"
            recorder.run_once()
            if not recorder.leads:
                return False
        recorder.run_once()
        return quiet and recorder.leads

    # -- the other processes -----------------------------------------------------------------

    def start_extender(self, which: int) -> None:
        """Start it in the place of the one that is there, if the store lets it."""
        store = self.opened()
        self.extenders[which] = None
        if store is not None:
            self.extenders[which] = processes.extender(
                store,
                self.way(),
                self._clock,
                f"extender-{which}",
                configured=self._configured(),
            )
        if which == 0 and self.extenders[0] is not None:
            self._settler = processes.settler(self.extenders[0], self._clock)

    def _configured(self) -> registry.Registry:
        if self._traits.planning:
            return processes.PLANNING
        if self._traits.guaranteeing:
            return processes.GUARANTEEING
        if self._traits.sharing:
            return processes.SHARING_GANGS if self._traits.gathering else processes.SHARING
        if self._traits.gathering:
            return processes.GATHERING
        return processes.SELECTED if self._traits.selected else processes.PLUGINS

    def restart_extender(self) -> None:
        """One of the extenders is killed, and starts again."""
        which = self._rng.randrange(len(self.extenders))
        self._log_step(f"extender {which} is killed")
        self.start_extender(which)

    def settle(self, *, patient: bool = False) -> None:
        """The controller looks for orphaned placements; if ``patient``, until they are old."""
        settler = self._settler
        if settler in self._settling:
            return  # It has one thread, which waits.
        self._settling.append(settler)
        try:
            with contextlib.suppress(errors.StoreError, lossy_calls.Crashed):
                if patient or self._rng.random() < 0.5:
                    # A first run notes the placements that exist now.
                    settler.run_once()
                    self._clock.advance(bind_times.OLD)
                self._log_step(f"settled {settler.run_once()}")
        finally:
            self._settling.remove(settler)

    def compact(self) -> None:
        """The compactor writes a checkpoint and trims the log, if that is due."""
        if self._rng.random() < 0.3:
            self._clock.advance(20.0)
        with contextlib.suppress(errors.StoreAway, errors.Rewound, lossy_calls.Crashed):
            self.compactor.run_once()
            self._log_step(f"compacted: {self.compactor._store.log.oldest()}..")

    # -- the ways of a process ---------------------------------------------------------------

    def opened(self, *, emptied: bool = False) -> stores.Store | None:
        """The store as a starting process opens it; None if it cannot start."""
        try:
            with self._of.schedule.sheltered():
                store = processes.opened(self._url, NAME, emptied=emptied)
        except errors.StoreError as problem:
            self._log_step(f"a process cannot start: {problem}")
            return None
        # A call of this process may happen while another one waits: with threads, one waits for the lock.
        vars(store.follower._reads)["_lock"] = virtual_time.Lock(self._clock)
        self.stores.append(store)
        return store

    def way(self) -> api_client.Client:
        """The API client of a process that starts."""
        # Lost events name versions that are unknown now, so the recorder waits for their Bindings.
        late = api_client.UNDER_WAY if self._traits.fails_over else api_client.LATE
        of = self._of
        return api_client.Client(
            of.cluster, self._clock, of.faults, of.between, under_way=late, rival=of.rare.rival
        )
