"""People, kubelets, schedulers and a writer at work on a cluster, and the replies to each of them.

The cluster is the simulated API server's; everything else is as real as the campaign wants. In the end
what was acknowledged is compared with what the log and the cluster hold.
"""

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from app.domain import events
from app.simulation.apiserver import apiservers, faults, requests, status_replies
from app.store import errors, stores
from app.store.log import batches, incarnations, logs, readers
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import guarantees, plain_quotas, quota_law, watchdog
from tests.support.store import writers

Bind = Callable[[cluster_objects.Json, str, random.Random], str | None]
"""(pod, node, generator) -> the error of the reply, empty if the pod is reported as bound; None: no reply."""

_MOST_PODS = 16
_PAUSE = 0.01


class Written(NamedTuple):
    """An append that was acknowledged."""

    incarnation: str
    offset: int
    at_ms: int
    name: str


class Side(cluster_objects.Cluster):
    """The cluster as the simulated API server holds it; every Binding that took effect is noted."""

    def __init__(self, api: apiservers.ApiServer) -> None:
        super().__init__()
        self.objects = api.objects
        self._answer = api.router.answer
        vars(api.router)["answer"] = self._noted

    def _noted(self, request: requests.Request) -> tuple[int, bytes]:
        answer = self._answer(request)
        if request.path.endswith("/binding") and answer[0] < 400:
            made = msgspec.json.decode(request.body)
            self.bound.setdefault(made["metadata"]["uid"], set()).add(made["target"]["name"])
            self.bindings += 1
        return answer


class Load:
    """All actors, each in a thread, from one seed."""

    def __init__(
        self,
        api: apiservers.ApiServer,
        side: Side,
        store: stores.Store,
        binds: Sequence[Bind],
        seed: int,
        *,
        sharing: bool = False,
    ) -> None:
        """``store``: the writer's own. ``sharing``: some pods are of elastic quotas, which exist."""
        self._sharing = sharing
        self.acknowledged: list[tuple[str, str]] = []
        """(uid, node) of each bind that was answered with success."""
        self.written: list[Written] = []
        self.counted: Counter[str] = Counter()
        self.errors: list[BaseException] = []
        self.notes = 0
        self._api = api
        self._side = side
        self._store = store
        self._binds = binds
        self._rng = random.Random(seed)
        self._stopped = threading.Event()
        self._names = 0
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Load":
        turns: list[Callable[[random.Random], None]] = [self._people, self._kubelet, self._write]
        turns += [self._scheduler(bind) for bind in self._binds]
        self._stopped.clear()
        for turn in turns:
            rng = random.Random(self._rng.random())
            self._threads.append(threading.Thread(target=self._repeat, args=(turn, rng), daemon=True))
            self._threads[-1].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(30.0)
            assert not thread.is_alive(), "a call never gets a reply"
        self._threads.clear()

    def _repeat(self, turn: Callable[[random.Random], None], rng: random.Random) -> None:
        try:
            while not self._stopped.wait(_PAUSE * rng.random()):
                turn(rng)
        except BaseException as problem:
            self.errors.append(problem)

    def _people(self, rng: random.Random) -> None:
        pods = self._side.all("pods")
        if len(pods) < _MOST_PODS:
            self._names += 1
            self._side.pod(f"web-{self._names}", self._labels(rng))
        else:
            meta = rng.choice(pods)["metadata"]
            self._side.objects.remove("pods", (meta["namespace"], meta["name"]))
        if rng.random() < 0.02:
            # The answer to a Binding is lost: only the API server has its outcome.
            self._api.faults.add(faults.FaultKind.LOSE, faults.calls("POST", "/binding"))

    def _labels(self, rng: random.Random) -> dict[str, str] | None:
        """Of a pod under the policy, of one under an elastic quota, or of one that nothing limits."""
        if self._sharing and rng.random() < 0.5:
            labels = {plain_quotas.LABEL: rng.choice(quota_law.TEAMS)}
            return {**labels, plain_quotas.FIRM: "false"} if rng.random() < 0.3 else labels
        return None if rng.random() < 0.8 else {"app": "plain"}

    def _kubelet(self, rng: random.Random) -> None:
        bound = [pod for pod in self._side.all("pods") if pod["spec"].get("nodeName")]
        running = [pod for pod in bound if pod["status"].get("phase") != "Succeeded"]
        if not running:
            return
        meta, phase = rng.choice(running)["metadata"], rng.choice(("Running", "Running", "Succeeded"))
        with contextlib.suppress(status_replies.StatusError):  # gone meanwhile
            self._side.edit(
                "pods", (meta["namespace"], meta["name"]), lambda made: made["status"].update(phase=phase)
            )

    def _scheduler(self, bind: Bind) -> Callable[[random.Random], None]:
        def turn(rng: random.Random) -> None:
            pending = [pod for pod in self._side.all("pods") if not pod["spec"].get("nodeName")]
            if not pending:
                return
            pod, node = rng.choice(pending), rng.choice(sorted(cluster_objects.NODES))
            error = bind(pod, node, rng)
            if error == "":
                self.acknowledged.append((pod["metadata"]["uid"], node))
            elif error is None:
                self.counted["no answer"] += 1
                self._stopped.wait(0.05)
            else:
                self.counted["refused"] += 1

        return turn

    def _write(self, _: random.Random) -> None:
        """A writer of facts; whether an append without an answer was carried out shows in the end."""
        self.notes += 1
        name = f"note-{self.notes}"
        note = events.Quarantined(kind="notes", object=name, reason="written by a campaign")
        incarnation = self._store.log.incarnation
        try:
            found = self._store.log.append(
                batches.Batch(events=(note,)), batches.Guard(incarnation=incarnation), timeout=1.0
            )
        except errors.StoreAway:
            self.counted["unknown"] += 1
        except errors.Rewound:
            self.counted["rewound"] += 1
            with contextlib.suppress(errors.StoreError):
                self._store.follower.catch_up()
            self._stopped.wait(0.05)
        else:
            self.written.append(Written(incarnation, found.first, found.at_ms, name))


# -- the end -----------------------------------------------------------------------------------


def judge(side: Side, store: stores.Store, load: Load, *, lossy: bool = False) -> int:
    """Nothing that was acknowledged is lost (``lossy``: except what is reported), and all agree.

    Returns how many acknowledged appends were lost.
    """
    assert not load.errors, load.errors
    for uid, node in load.acknowledged:
        where = side.bound.get(uid)
        guarantees.demand(where == {node}, "P7", f"pod {uid} was reported on {node}, is on {where}")
    _Watchdog(store.client, store.keys, side, steady=True).converged()
    check_epochs(store.log)
    return _writings(store.log, load, lossy=lossy)


class _Watchdog(watchdog.Watchdog):
    """Reads a log afterwards: what it reports as lost was never read here."""

    def _rewound(self, event: events.StoreRewound) -> None:
        pass


def check_epochs(log: logs.Log) -> None:
    """Along the log no epoch is lower than one before it."""
    epochs = [epoch for _, epoch in writers.epochs(log) if epoch]
    guarantees.demand(
        epochs == sorted(epochs, key=lambda epoch: (len(epoch), epoch)), "P5", "a lower epoch has written"
    )


def _writings(log: logs.Log, load: Load, *, lossy: bool) -> int:
    found: dict[str, list[tuple[int, int]]] = {}
    rewinds: list[events.StoreRewound] = []
    for entry in _entries(log):
        if isinstance(entry.event, events.Quarantined):
            found.setdefault(entry.event.object, []).append((entry.offset, entry.at_ms))
        elif isinstance(entry.event, events.StoreRewound):
            rewinds.append(entry.event)
    guarantees.demand(lossy or not rewinds, "P2", f"the store lost what it had acknowledged: {rewinds}")
    twice = {name: places for name, places in found.items() if len(places) > 1}
    guarantees.demand(not twice, "P3", f"appended more than once: {twice}")
    lost = [one for one in load.written if found.get(one.name) != [(one.offset, one.at_ms)]]
    silent = [one for one in lost if not any(_covers(event, one) for event in rewinds)]
    guarantees.demand(
        not silent,
        "P4",
        f"of {len(lost)} lost appends {len(silent)} were lost in silence: {silent[:3]} .. {silent[-3:]};"
        f" reported {[(one.from_incarnation, one.lost_from, one.lost_to) for one in rewinds]}",
    )
    return len(lost)


def _entries(log: logs.Log) -> Iterator[readers.Entry]:
    """All of a log; in pieces, since reading it at once takes longer than a loaded server may."""
    offset = 0
    while entries := log.read(offset):
        yield from entries
        offset = entries[-1].offset


def _covers(event: events.StoreRewound, one: Written) -> bool:
    """Whether an event covers the loss of an append, possibly in a later incarnation."""
    earlier = incarnations.later(one.incarnation, event.from_incarnation)
    return event.lost_from <= one.offset and not earlier
