"""Two recorders, two extenders and a controller in one process, each with its own ways to the store and
to the API server, so that a campaign can take any of these ways away.

What they are is the real code with its threads; only the API server is a simulated one.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable

from app import clocks, settings
from app.domain import events, model
from app.kube.client import clients
from app.kube.election import electors
from app.kube.writes import binding, fencing
from app.simulation.apiserver import apiservers
from app.store import errors, schemas, stores
from app.verbs import binding as bind_verb
from app.verbs import contexts, placement_releases, placer
from app.verbs import errors as verb_errors
from tests.support import declared, polling
from tests.support.campaigns import loads
from tests.support.kube import plain_access
from tests.support.simulation import processes
from tests.support.simulation.cluster import cluster_objects
from workers.controller.placements import orphaned_placements
from workers.recorder import recorders

CLUSTER = "field"
TERMS = electors.Durations(lease=1.5, renew=1.0, retry=0.1)
BIND = 1.0
"""Seconds for a bind: short, so that the evidence against one that got no answer comes soon."""
UNDER_WAY = 1.5
OLD = 4.0
HEAL = 30.0
"""Seconds after which all must be well again once the network is."""

Where = Callable[[str], str]
"""A role's URL."""


class Recorder:
    """A recorder in a thread."""

    def __init__(self, store: stores.Store, client: clients.Client, name: str) -> None:
        self.store = store
        self.elector = electors.Elector(client, "default", "topolog-recorder", durations=TERMS, identity=name)
        self._core = recorders.Recorder(
            store.log, store.follower, client, elector=self.elector, silence=3.0, settle=BIND + UNDER_WAY
        )
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """It leads, and everything is recorded."""
        return self._core.ready

    def stop(self) -> None:
        self._core.stop()
        self._thread.join(20.0)

    def _run(self) -> None:
        try:
            self._core.run()
        except BaseException as problem:
            self.error = problem


class Extender:
    """The bind verb over a store and an API server of its own."""

    def __init__(self, store: stores.Store, client: clients.Client, name: str) -> None:
        self.store = store
        store.follower.start()
        self._context = contexts.Context(
            plugins=processes.PLUGINS,
            state=store.follower,
            log=store.log,
            decisions=store.decisions,
            binder=binding.ApiBinder(client),
            now=lambda: "2026-07-01T10:00:00Z",
            monotonic=time.monotonic,
            digest=processes.PLUGINS.digest,
            identity=name,
            time_limits=contexts.TimeLimits(bind=BIND),
        )

    def bind(self, pod: cluster_objects.Json, node: str, _: random.Random) -> str:
        meta = pod["metadata"]
        request = placer.BindRequest(meta["namespace"], meta["name"], meta["uid"], node)
        try:
            bind_verb.run(self._context, request)
        except verb_errors.VerbError as refused:
            return str(refused)
        return ""


class Field:
    """All of them, and what is true in the end."""

    def __init__(self, api: apiservers.ApiServer, store_of: Where, servers: Where, seed: int) -> None:
        self.side = loads.Side(api)
        self._api = api
        self._where = store_of
        self._servers = servers
        self._stack = contextlib.ExitStack()
        self._over = threading.Event()
        self._stores: list[stores.Store] = []
        for name, role in cluster_objects.NODES.items():
            self.side.node(name, role=role)
        self.side.policy({"host": 4, "member": 5})
        names = declared.names(CLUSTER)
        with schemas.connect(settings.Store(url=store_of("judge")), names) as client:
            schemas.migrate(client, names, declared.SCHEMA)
        self.recorders = [Recorder(*self._ways(name), name) for name in ("recorder-0", "recorder-1")]
        self.extenders = [Extender(*self._ways(name), name) for name in ("extender-0", "extender-1")]
        self.judge = self._opened("judge")
        self._settling = threading.Thread(target=self._settle, daemon=True)
        self._settling.start()
        binds = [one.bind for one in self.extenders for _ in range(2)]
        self.load = loads.Load(api, self.side, self._opened("writer"), binds, seed)

    def close(self) -> None:
        self._over.set()
        self._settling.join(20.0)
        for recorder in self.recorders:
            recorder.stop()
        self._stack.close()

    def ready(self) -> None:
        polling.eventually(lambda: self.leader is not None, "a recorder leads", within=HEAL)

    @property
    def leader(self) -> Recorder | None:
        return next((one for one in self.recorders if one.ready), None)

    def healed(self) -> float:
        """Wait until every process follows one log that matches the cluster; the seconds it took."""
        began = time.monotonic()
        self._api.faults.clear()
        polling.eventually(self._level, "everything is well again", within=HEAL, every=0.05, seen=self._seen)
        return time.monotonic() - began

    def judged(self, *, lossy: bool) -> int:
        """Whether every guarantee holds; how many acknowledged appends were lost."""
        for recorder in self.recorders:
            assert recorder.error is None, recorder.error
        return loads.judge(self.side, self.judge, self.load, lossy=lossy)

    # -- inside ------------------------------------------------------------------------------

    def _level(self) -> bool:
        try:
            here = self.judge.follower.catch_up()
            # All of them: each may be the only one that has noticed a loss.
            others = [store.follower.catch_up(timeout=0.5) for store in self._stores]
        except errors.StoreError:
            return False
        pods = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in self.side.all("pods")}
        return (
            self.leader is not None
            and {uid: pod.node for uid, pod in here.pods.items()} == pods
            and not here.placements
            and not here.unlisted
            and all(one.position.incarnation == here.position.incarnation for one in others)
            and all(one.offset >= here.offset for one in others)
        )

    def _seen(self) -> object:
        snapshot = self.judge.follower.snapshot
        return (
            snapshot.position,
            sorted(snapshot.placements),
            snapshot.unlisted,
            [(one.elector.identity, one.ready, one._core.checks(), one.error) for one in self.recorders],
            [(one.store.follower.snapshot.position, one.store.follower.error) for one in self.extenders],
        )

    def _ways(self, name: str) -> tuple[stores.Store, clients.Client]:
        client = clients.Client(plain_access.of(self._servers(name)))
        self._stack.callback(client.close)
        return self._opened(name), client

    def _opened(self, name: str) -> stores.Store:
        chosen = settings.Store(url=self._where(name), socket_timeout=0.5)
        store = stores.open_store(
            chosen,
            schema=declared.SCHEMA,
            cluster=CLUSTER,
            indexed=processes.PLUGINS.indexed(),
            emptied=True,
        )
        self._stack.callback(store.close)
        self._stores.append(store)
        return store

    def _settle(self) -> None:
        """The controller's part: orphaned placements."""
        store, client = self._ways("controller")

        def release(uid: str, placement: model.Position, cause: events.Cause, reason: str) -> bool:
            return placement_releases.release(
                store.follower, store.log, uid, cause, reason, placement=placement
            )

        settler = orphaned_placements.OrphanedPlacements(
            binding.ApiBinder(client),
            fencing.ApiFencer(client, now=lambda: "2026-07-01T10:00:00Z"),
            store.follower.catch_up,
            release,
            clocks.RealClock(),
            old=OLD,
        )
        while not self._over.wait(0.5):
            with contextlib.suppress(errors.StoreError):
                settler.run_once()


def work(seconds: float) -> None:
    """Let the others work for a while; nothing is waited for."""
    threading.Event().wait(seconds)
