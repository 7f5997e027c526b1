"""One seed, one history: everything that can happen to Topolog between a cluster and its store.

One thread, one die, one clock that only the simulation moves; the store's functions are the real ones
in a real server. Recorders, which are elected, extenders, a controller and a compactor are the real
code, stepped; while one of them waits for the store or the API server, others take steps. In the end
all faults stop, and what the log says must be what the cluster is.

    python -m tests.campaigns.seeds SEED [BUG]      # repeats a seed, and tells what happened
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from unittest import mock

from structlog import testing

from app.kube import leases
from app.store import connecting, errors, incarnations, keys, opening
from tests.campaigns import (
    clocks,
    clusters,
    failing,
    living,
    parts,
    promises,
    servers,
    tellings,
    troubles,
    wires,
)

STEPS = 70
COMPARED = 3
"""Steps between two comparisons of everything."""
DEPTH = 2
"""So deep may steps be taken within steps."""
HEALED = 90.0
"""Seconds within which everything is as it should be again, once nothing goes wrong any more."""
_CALM = 400
_LEASE = ("topolog", "recorder")


class Simulation:
    """One history. The server is its own: it is emptied first."""

    def __init__(self, seed: int, url: str, *, tell: Callable[[str], None] = lambda _: None) -> None:
        self.die = random.Random(seed)
        self.clock = clocks.Clock()
        self.cluster = clusters.Cluster()
        self.faults = clusters.Faults(self.die, self.die.choice((0.0, 0.05, 0.12)))
        self._seed = seed
        self._tell = tell
        self._url = url
        self._name = "simulated"
        steady = self.die.random() < 0.5
        # Not drawn: the histories of the other seeds stay what they are.
        self._selected = seed % 4 == 3
        self._life = living.Life(self.cluster, self.die, self.tell, steady=steady, selected=self._selected)
        self._client = connecting.connect(url)
        """With this one's connections nothing ever goes wrong."""
        self._replica = failing.Replica(self._client)
        self._server = servers.Server(self._client)
        self._fails_over = self.die.random() < 0.35
        self.watchdog = promises.Watchdog(
            self._client,
            keys.Keys(self._name),
            self.cluster,
            steady=steady,
            selected=self._selected,
            monotonic=self.clock.monotonic,
        )
        self._depth = 0
        self._busy: set[parts.Recorder] = set()
        """Recorders at work: each is one thread, and takes no other step meanwhile."""
        self._calm = True
        self._store = troubles.Troubles(self.clock, self.faults, self._client)
        self._store.between, self._store.tell = self.between, self.tell
        self._store.trimming, self._store.trimmed = self.watchdog.read, self.watchdog.trimmed
        self._store.gone, self._store.appended = self.watchdog.gone, self.watchdog.read
        self._stores: list[opening.Store] = []
        self._extenders: list[parts.Extender | None] = [None, None]
        self._recorders: list[parts.Recorder] = []
        self._started = 0
        self._lately: list[clusters.Json] = []
        """The pods that waited when a bind was last asked for."""

    # -- a whole history ---------------------------------------------------------------------

    def run(self) -> None:
        """Raises Broken if a promise does not hold."""
        with self._installed():
            try:
                self._begin()
                for number in range(STEPS):
                    self._step()
                    if number % COMPARED == 0:
                        self.watchdog.compare()
                self._end()
            finally:
                for store in self._stores:
                    store.close()
                self._client.close()

    @contextlib.contextmanager
    def _installed(self) -> Iterator[None]:
        small = self.die.random() < 0.5
        with contextlib.ExitStack() as stack:
            stack.enter_context(testing.capture_logs())
            stack.enter_context(clocks.installed(self.clock, self._seed))
            stack.enter_context(self._server.played())
            stack.enter_context(wires.shared(self._client))
            stack.enter_context(wires.watched(self._store.watch, self._store.plain))
            stack.enter_context(mock.patch("workers.recording.LINGER", 0.0))
            stack.enter_context(mock.patch("workers.recording.PACE", 0.0))
            # What a process reads at its start it keeps: here thousands of them start and end in one.
            stack.enter_context(mock.patch("gc.freeze"))
            # Knobs that large clusters reach by themselves.
            stack.enter_context(mock.patch("workers.drafting.ALONE", 3 if small else 64))
            stack.enter_context(mock.patch("workers.drafting._ROOM", 4 if small else 254))
            yield

    def _begin(self) -> None:
        failing.emptied(self._client, keys.Keys(self._name))
        self._life.begin()
        for which in range(len(self._extenders)):
            self._start_extender(which)
        compacting = self._opened()
        assert compacting is not None
        self._compactor = parts.compactor(compacting, self.clock, patient=self.die.random() < 0.5)
        self._start_recorder()
        self.clock.waiting = lambda: self.between("waiting")
        self._calm = False

    def _end(self) -> None:
        """Faults stop; everything that is under way arrives, everything that is waiting is done."""
        self.tell("calm")
        self._calm = True
        self._store.outage = 0.0
        self.faults.quiet()
        calm = self.clock.now
        self._drain()
        for recorder in self._recorders:
            if not recorder.leads:
                # It reads along, and may know of a loss that the leader never heard of.
                recorder.begin()
        self._drain()
        promises.demand(self.clock.now <= calm + HEALED, "P8", f"healed after {self.clock.now - calm:.0f} s")
        for which in range(len(self._extenders)):
            self._start_extender(which)
        extender = self._extenders[0]
        assert extender is not None
        settler = parts.settler(extender, self.clock)
        for _ in range(3):
            settler.turn()
            self.clock.advance(40.0)
        self._drain()
        self._healed(self._compactor.turn)
        # Those of processes that are no more are readers like others.
        readers = [store.follower for store in self._stores[-3:]]
        for reader in readers:
            self._healed(reader.catch_up)
        self.watchdog.converged([reader.catch_up() for reader in readers])
        alive = [recorder.store for recorder in self._recorders]
        alive += [extender.store for extender in self._extenders if extender is not None]
        self.watchdog.losses_are_known(store.log.seen for store in alive)

    def _healed(self, act: Callable[[], object]) -> None:
        """Done, be it after a loss is healed that this one alone knew of and told."""
        try:
            act()
        except errors.Rewound:
            self._drain()
            act()

    def _drain(self) -> None:
        """Until a recorder has heard of everything."""
        for _ in range(_CALM):
            recorder = next((one for one in self._recorders if one.leads), None)
            if recorder is not None and self._heard(recorder):
                return
            if recorder is None and not any([one.begin() for one in self._recorders]):
                self.clock.advance(parts.TERMS.retry)
            if not self._recorders:
                self._start_recorder()
        raise promises.Broken("P8: the recorder never comes to an end of what it hears")

    def _heard(self, recorder: parts.Recorder) -> bool:
        """Whether nothing is left to be heard; the recorder may have lost its post by it."""
        quiet = True
        for kind in clusters.RESOURCES:
            for _ in range(_CALM):
                change = recorder.hear(kind)
                version = getattr(change, "version", "")
                if type(change).__name__ == "Bookmark" and int(version) >= self.cluster.objects.version:
                    break
                quiet = quiet and type(change).__name__ == "Bookmark"
            recorder.turn()
            if not recorder.leads:
                return False
        recorder.turn()
        return quiet and recorder.leads

    # -- steps -------------------------------------------------------------------------------

    def _step(self) -> None:
        self._depth += 1
        try:
            steps = self._steps()
            (step,) = self.die.choices([step for step, _ in steps], [share for _, share in steps])
            step()
        finally:
            self._depth -= 1

    def _steps(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._record, 9.0),
            (self._bind, 6.0),
            (self._life.people, 3.0),
            (self._life.kubelets, 2.0),
            (self._settle, 0.7),
            (self._time, 1.5),
            (self._freeze, 0.3 if self._depth <= DEPTH else 0.0),
            (self._restart_recorder, 0.5),
            (self._restart_extender, 0.3),
            (self._compact, 0.5),
            (self._trouble, 0.3),
            (self._fail_over, 0.4 if self._fails_over else 0.0),
            (self._lose_a_term, 0.1 if self._fails_over and self._depth == 1 else 0.0),
        ]

    def between(self, what: str) -> None:
        """Others take their steps while somebody waits."""
        if self._calm or self._depth > DEPTH:
            return
        if what == "before a Binding" and self._fails_over and self.die.random() < 0.4:
            self._lose_a_placement()
        if self.die.random() > 0.25:
            return
        self.tell(f"meanwhile ({what}):")
        if self._fails_over and self.die.random() < 0.1:
            # What somebody has just read or written is lost before he goes on from it.
            self._fail_over()
        for _ in range(self.die.randint(1, 3)):
            self._step()

    def tell(self, text: str) -> None:
        self._tell(f"{self.clock.now:9.3f} {'  ' * self._depth}{text}")

    def _idle(self) -> list[parts.Recorder]:
        return [one for one in self._recorders if one not in self._busy and not one.frozen]

    def _record(self) -> None:
        idle = self._idle()
        if not idle:
            return
        leading = [recorder for recorder in idle if recorder.leads]
        self._recorded(self.die.choice(leading if leading and self.die.random() < 0.8 else idle))

    def _recorded(self, recorder: parts.Recorder) -> None:
        with self._at_work(recorder):
            if not recorder.leads:
                self.tell(f"{recorder.name} {'leads' if recorder.begin() else 'stands by'}")
                return
            for _ in range(self.die.randint(1, 5)):
                change = recorder.hear(self.die.choice(clusters.RESOURCES))
                self.tell(f"{recorder.name} hears {tellings.change(change)}")
            if self.die.random() < 0.8:
                refused = recorder.turn()
                if refused is not None:
                    self.tell(f"{recorder.name} is refused: {refused!r}")

    @contextlib.contextmanager
    def _at_work(self, recorder: parts.Recorder) -> Iterator[None]:
        self._busy.add(recorder)
        try:
            yield
        except (wires.Crashed, errors.SchemaMismatch) as end:
            self.tell(f"{recorder.name} ends: {end!r}")
            self._recorders.remove(recorder)
            recorder.close()
        finally:
            self._busy.discard(recorder)
        if not self._recorders:
            self._start_recorder()

    def _start_recorder(self) -> None:
        store = self._opened(emptied=True)
        if store is None:
            return
        self._started += 1
        name = f"recorder-{self._started}"
        recorder = parts.Recorder(store, self._way(), self.clock, self.die, name)
        self._recorders.append(recorder)
        self.tell(f"{name} starts")

    def _restart_recorder(self) -> None:
        idle = self._idle()
        if idle and self.die.random() < 0.6:
            recorder = self.die.choice(idle)
            self._recorders.remove(recorder)
            ordered = self.die.random() < 0.5
            self.tell(f"{recorder.name} is {'stopped' if ordered else 'killed'}")
            if ordered:
                recorder.resign()
            recorder.close()
        if len(self._recorders) < 3:
            self._start_recorder()

    def _start_extender(self, which: int) -> None:
        store = self._opened()
        self._extenders[which] = None
        if store is not None:
            self._extenders[which] = parts.extender(
                store,
                self._way(),
                self.clock,
                f"extender-{which}",
                configured=parts.SELECTED if self._selected else parts.PLUGINS,
            )
        if which == 0 and self._extenders[0] is not None:
            self._settler = parts.settler(self._extenders[0], self.clock)

    def _restart_extender(self) -> None:
        which = self.die.randrange(len(self._extenders))
        self.tell(f"extender {which} is killed")
        self._start_extender(which)

    def _trouble(self) -> None:
        if self.faults.share:
            self._store.outage = self.clock.now + self.die.uniform(0.1, 6.0)
            self.tell(f"the store is away until {self._store.outage:.3f}")

    def _time(self) -> None:
        self.clock.advance(self.die.choice((0.01, 0.5, 2.0, 5.0, 17.0)))

    def _freeze(self) -> None:
        """A recorder is stopped, and goes on where it was after its Lease has run out, without knowing it."""
        if not self._recorders:
            return
        frozen = self.die.choice(sorted(self._busy, key=lambda one: one.name) or self._recorders)
        self.tell(f"{frozen.name} is frozen")
        frozen.freeze(True)
        self.clock.advance(self.die.choice((5.0, 18.0, 40.0)))
        for _ in range(self.die.randint(0, 5)):
            others = [recorder for recorder in self._idle() if recorder is not frozen]
            if others and self.die.random() < 0.7:
                self._recorded(self.die.choice(others))
            else:
                self._step()
        frozen.freeze(False)
        self.tell(f"{frozen.name} goes on")

    def _settle(self) -> None:
        if self.die.random() < 0.5:
            self.clock.advance(31.0)
        with contextlib.suppress(errors.StoreError, wires.Crashed):
            self.tell(f"settled {self._settler.turn()}")

    def _compact(self) -> None:
        if self.die.random() < 0.3:
            self.clock.advance(20.0)
        with contextlib.suppress(errors.StoreAway, errors.Rewound, wires.Crashed):
            self._compactor.turn()
            self.tell(f"compacted: {self._compactor._store.log.oldest()}..")

    def _bind(self) -> None:
        pods = [pod for pod in self.cluster.all("pods") if "deletionTimestamp" not in pod["metadata"]]
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        if self._lately and self.die.random() < 0.15:
            # kube-scheduler may not have heard yet that somebody deleted it.
            pods = self._lately
        elif self.die.random() < 0.85:
            pods = waiting
        self._lately = waiting
        if not pods:
            return
        if self._fails_over and self.die.random() < 0.3:
            self._replica.follow()
        pod, node = self.die.choice(pods), self.die.choice(sorted(clusters.NODES))
        which = self.die.randrange(len(self._extenders))
        extender = self._extenders[which]
        if extender is None:
            self._start_extender(which)
            return
        self._bound(extender, which, pod, node)

    def _bound(self, extender: parts.Extender, which: int, pod: clusters.Json, node: str) -> None:
        meta = pod["metadata"]
        if self.die.random() < 0.75:
            extender.offer(pod)  # else another replica was asked for filter
        self.tell(f"extender {which}: bind {meta['name']} ({meta['uid'][-4:]}) to {node}")
        try:
            error = extender.bind(meta["namespace"], meta["name"], meta["uid"], node)
        except wires.Crashed:
            self._start_extender(which)
            error = "crashed"
        self.tell(f"extender {which}: {meta['name']} -> {node}: {error or 'bound'}")
        if error and self.die.random() < 0.4:
            self._life.refuse(meta, error)
        if not error:
            was = self.cluster.bound.get(meta["uid"], set())
            promises.demand(was == {node}, "P7", f"{meta['name']} is said to be on {node}, is on {was}")

    # -- what seldom comes about by itself ---------------------------------------------------

    def _lose_a_placement(self) -> None:
        """The store fails over between a placement and its Binding, and people want more pods at once."""
        self._depth += 1
        try:
            self._fail_over(now=True)
            if self.die.random() < 0.5:
                self._hand_over()
            for _ in range(3):
                self._recorded_through()
            for _ in range(3):
                self._bind()
        finally:
            self._depth -= 1

    def _hand_over(self) -> None:
        """Who has recorded a loss is told to end before it has settled, and somebody else leads."""
        recorder = next((one for one in self._idle() if one.leads), None)
        if recorder is None:
            return
        with self._at_work(recorder):
            recorder.turn()
            if recorder.leads or not recorder.handed_over():
                return
            self.tell(f"{recorder.name} is stopped in the middle")
            self._recorders.remove(recorder)
            recorder.resign()
            recorder.close()
        self._start_recorder()
        self.clock.advance(0.1)

    def _recorded_through(self) -> None:
        """A recorder hears everything that there is to be heard."""
        for recorder in sorted(self._idle(), key=lambda one: not one.leads):
            with self._at_work(recorder):
                if recorder.leads or recorder.begin():
                    self._heard(recorder)
                    return

    def _lose_a_term(self) -> None:
        """A recorder is frozen, another one records and dies, the store loses that; the first one goes on."""
        leading = [one for one in self._idle() if one.leads]
        if not leading:
            return
        frozen = leading[0]
        if self.die.random() < 0.5:
            self._fail_over(now=True)
            self._recorded_through()
        for other in [one for one in self._idle() if one is not frozen]:
            self._recorders.remove(other)
            other.close()
        frozen.freeze(True)
        self.tell(f"{frozen.name} is frozen for a term")
        self._start_recorder()
        self.clock.advance(parts.TERMS.lease + 2 * parts.TERMS.retry)
        self._recorded_through()
        self._replica.follow()
        self._life.people()
        self._recorded_through()
        self.clock.advance(parts.TERMS.retry + 1.0)  # leaves its note
        for other in [one for one in self._idle() if one is not frozen]:
            self._recorders.remove(other)
            other.close()
        for which in range(len(self._extenders)):
            self._extenders[which] = None
        self._fail_over(now=True)
        frozen.freeze(False)
        self.clock.advance(parts.TERMS.lease + 2 * parts.TERMS.retry)
        if frozen not in self._recorders:
            return
        with self._at_work(frozen):
            frozen.turn()
            frozen.begin()

    # -- the store ---------------------------------------------------------------------------

    def _fail_over(self, *, now: bool = False) -> None:
        """The master is gone, and a replica that lagged behind takes over; or it starts without its files.

        Unless it has to be ``now`` the replica may only be brought up to date.
        """
        if not self._replica.begun or (not now and self.die.random() < 0.5):
            self._replica.follow()
            return
        if self.die.random() < 0.15 and self._noted():
            self._replica.empty()
        self.watchdog.compare()
        self._replica.promote()
        # It may be the former master again, which has been a replica meanwhile.
        self._server.go_on(restarted=self.die.random() < 0.7)
        self._store.forget()
        doubted = self._server.doubted(keys.Keys(self._name))
        lost = self.watchdog.failed_over(self._note(), doubted=doubted)
        self.tell(f"the store fails over{'' if doubted else ' unseen'}: {lost or 'nothing'} is lost")

    def _noted(self) -> bool:
        """The recorder has left word of what is in the present log."""
        known = self._note()
        return known is not None and known.incarnation == self.watchdog.incarnation

    def _note(self) -> incarnations.Known | None:
        """What the Lease says was in the log."""
        with contextlib.suppress(Exception):
            note = leases.note(self.cluster.objects.get("leases", _LEASE), "topolog.io/known")
            return incarnations.read_known(note)
        return None

    def _opened(self, *, emptied: bool = False) -> opening.Store | None:
        """The store as a process opens it that starts now; None if it cannot start."""
        try:
            with self._store.sheltered():
                store = parts.opened(self._url, self._name, emptied=emptied)
        except errors.StoreError as problem:
            self.tell(f"a process cannot start: {problem}")
            return None
        # A call of this process may come while another one of it waits: threads would wait for each other.
        vars(store.follower)["_lock"] = clocks.Lock(self.clock)
        self._stores.append(store)
        return store

    def _way(self) -> clusters.Client:
        # Events that are lost name versions that nobody knows any more: their Bindings are waited for.
        late = clusters.UNDER_WAY if self._fails_over else clusters.LATE
        return clusters.Client(self.cluster, self.clock, self.faults, self.between, under_way=late)
