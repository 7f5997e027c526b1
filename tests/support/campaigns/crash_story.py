"""The story of the crash matrix, which passes every boundary of a cluster's life.

After a crash at one of its boundaries everything starts again as it would in a cluster; what the story ends
with must be what it would have ended with undisturbed.
"""

import contextlib
import functools
import pathlib
import random
import secrets
from collections.abc import Callable, Iterator
from unittest import mock

from structlog import testing

from app import settings
from app.kube import errors as kube_errors
from app.kube.client import fast_client
from app.store import errors, schemas, stores
from app.store.log import batches
from app.store.server import connections
from tests.support import declared
from tests.support.campaigns import crash_matrix
from tests.support.simulation import processes, virtual_time
from tests.support.simulation.cluster import api_client, cluster_objects
from tests.support.simulation.oracle import guarantees, watchdog
from tests.support.simulation.store import lagging_replica, lossy_calls
from workers.compactor import compactors

PATIENCE = 60
"""So often is a bind tried again, as kube-scheduler would."""
_CALLS = (lossy_calls.Call.APPEND, lossy_calls.Call.REWIND, lossy_calls.Call.DOUBT, lossy_calls.Call.TRIM)


class Client(api_client.Client):
    """Nothing fails except what the story contains."""

    def __init__(self, story: "Story") -> None:
        super().__init__(story.cluster, story.clock, api_client.Faults(random.Random(0), 0.0))
        self._story = story

    def exchange(self, method: str, path: str, body: bytes = b"", *, timeout: float) -> fast_client.Reply:
        call = functools.partial(super().exchange, method, path, body, timeout=timeout)
        if method != "POST":
            return call()
        return self._story.pass_("Binding", call, _unreachable)

    def post(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        return self._lease(functools.partial(super().post, path, body, timeout=timeout))

    def put(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        return self._lease(functools.partial(super().put, path, body, timeout=timeout))

    def _lease(self, call: Callable[[], bytes]) -> bytes:
        """A boundary of the recorder's; renewals while others act are as they should be."""
        if not self._story.recording:
            return call()
        return self._story.pass_("Lease", call, _unreachable)


class Story(crash_matrix.Matrix):
    """Lists, binds, releases, takes over, fails over, compacts: in a fixed order."""

    def __init__(self, url: str, folder: pathlib.Path, boundary: int = -1, way: str = "") -> None:
        """The server at ``url`` is the story's own: it is emptied."""
        super().__init__(boundary, way)
        self.cluster = cluster_objects.Cluster()
        self.clock = virtual_time.Clock()
        self._url = url
        self._folder = folder / f"{boundary}-{way}"
        self._name = f"c{secrets.token_hex(6)}"
        self.recording = False
        """The recorder acts just now."""
        self._stores: list[stores.Store] = []
        self._recorder: processes.Recorder | None = None
        self._recorders = 0
        self._extender: processes.Extender | None = None

    def run(self) -> dict[str, object]:
        """The digest of what it ends with."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(testing.capture_logs())
            stack.enter_context(virtual_time.installed(self.clock))
            stack.enter_context(lossy_calls.watched(self._watch))
            for place in (
                "workers.recorder.recorders.LINGER",
                "workers.recorder.recorders.PACE",
                "workers.recorder.log_writer.FIRST_PAUSE",
            ):
                stack.enter_context(mock.patch(place, 0.0))
            try:
                return self._run()
            finally:
                for store in self._stores:
                    store.close()

    def _run(self) -> dict[str, object]:
        with connections.connect(self._url) as client:
            client.flushdb()
            schemas.migrate(client, declared.names(self._name), declared.SCHEMA)
            self._replica = lagging_replica.Replica(client)
            self._watchdog = watchdog.Watchdog(client, declared.names(self._name), self.cluster)
            self.sheltered = False
            for act in self._acts():
                act()
                if not self._watchdog.losses.open:
                    self._watchdog.compare()
            self.sheltered = True
            fresh = self._opened()
            self._watchdog.converged((fresh.follower.catch_up(),))
            return self._digest()

    def _acts(self) -> Iterator[Callable[[], None]]:
        world = self.cluster
        for name, role in cluster_objects.NODES.items():
            world.node(name, role=role)
        world.policy({"host": 2, "member": 2})
        for number in range(5):
            world.pod(f"web-{number}")
        yield self._observe
        yield lambda: self._bind("web-0", "h1")
        yield lambda: self._bind("web-1", "m1")
        yield self._observe
        yield self._take_over
        yield lambda: self._bind("web-2", "h2")
        yield lambda: self._relabel("m2", "host")
        yield self._observe
        yield self._delete
        yield self._observe
        yield self._compact
        yield lambda: self._bind("web-3", "m1")
        yield lambda: self._orphan("web-4", "h1")
        yield self._widen
        yield self._observe
        yield self._settle
        yield self._replica.follow
        yield lambda: self._bind("web-4", "h2")
        yield self._observe
        yield self._fail_over
        yield self._observe
        yield self._compact
        yield self._settle
        yield self._observe

    # -- acts --------------------------------------------------------------------------------

    def _observe(self) -> None:
        """The recorder observes every change of the cluster; one that dies is started again."""
        self.recording = True
        for _ in range(PATIENCE):
            try:
                if self._observed_all(self._leading()):
                    self.recording = False
                    return
            except lossy_calls.Crashed:
                self._end_recorder()
        raise guarantees.Broken("end: the recorder never reaches the end of its changes")

    def _observed_all(self, recorder: processes.Recorder) -> bool:
        """Whether all of it is recorded; not if it lost its post meanwhile."""
        for kind in cluster_objects.EVERY:
            while recorder.leads and not self._observe_next(recorder, kind):
                pass
        return recorder.leads and recorder.run_once() is None and recorder.leads

    def _leading(self) -> processes.Recorder:
        """A recorder that leads, however long it takes the Lease to run out."""
        while True:
            recorder = self._recorder
            if recorder is None:
                self._recorders += 1
                store = self._opened(emptied=True)
                name = f"recorder-{self._recorders}"
                recorder = processes.Recorder(store, Client(self), self.clock, random.Random(1), name)
                self._recorder = recorder
            if recorder.leads or recorder.begin():
                return recorder
            self.clock.advance(1.0)

    def _end_recorder(self) -> None:
        if self._recorder is not None and self._recorder.elector is not None:
            self._recorder.elector.dead = True
        self._recorder = None

    def _observe_next(self, recorder: processes.Recorder, kind: str) -> bool:
        change = recorder.observe(kind)
        version = getattr(change, "version", "0")
        return type(change).__name__ == "Bookmark" and int(version) >= self.cluster.objects.version

    def _take_over(self) -> None:
        """The leader is frozen beyond its Lease; another leads, and the first one writes nothing more."""
        frozen, self._recorder = self._recorder, None
        assert frozen is not None
        assert frozen.elector is not None
        frozen.elector.frozen = True
        self._observe()
        self.cluster.pod("web-5")
        self._observe()
        with self.shelter():
            # It wakes up and goes on where it was.
            refused = self._awake(frozen)
            guarantees.demand(
                isinstance(refused, errors.Fenced), "P5", f"a recorder that was overtaken gets {refused}"
            )
            frozen.elector.dead = True

    def _awake(self, frozen: processes.Recorder) -> Exception | None:
        guard = frozen._core._writer._guard
        try:
            frozen.store.log.append(batches.Batch(events=()), guard)
        except errors.StoreError as refused:
            return refused
        return None

    def _fail_over(self) -> None:
        """The store goes on without what was appended last."""
        with self.shelter():
            self._watchdog.read()
            self._replica.promote()
            self._watchdog.failed_over()

    def _delete(self) -> None:
        self.cluster.objects.remove("pods", (cluster_objects.NAMESPACE, "web-0"))

    def _relabel(self, node: str, role: str) -> None:
        self.cluster.edit("nodes", ("", node), lambda made: made["metadata"]["labels"].update(role=role))

    def _widen(self) -> None:
        spec = cluster_objects.Cluster.spec({"host": 3, "member": 3})
        key = (cluster_objects.NAMESPACE, cluster_objects.POLICY)
        self.cluster.edit("workloadpolicies", key, lambda made: made.update(spec=spec))

    def _bind(self, name: str, node: str) -> None:
        """As kube-scheduler does it: again and again until the pod is bound."""
        meta = self.cluster.objects.get("pods", (cluster_objects.NAMESPACE, name))["metadata"]
        error = ""
        for _ in range(PATIENCE):
            try:
                error = self._bound(meta["uid"], name, node)
            except lossy_calls.Crashed:
                self._extender = None
                continue
            if not error:
                return
            self.clock.advance(1.0)
            self._observe()
        raise guarantees.Broken(f"end: {name} can no longer be bound to {node}: {error}")

    def _bound(self, uid: str, name: str, node: str) -> str:
        if self._extender is None:
            self._extender = processes.extender(self._opened(), Client(self), self.clock, "extender")
        return self._extender.bind(cluster_objects.NAMESPACE, name, uid, node)

    def _orphan(self, name: str, node: str) -> None:
        """An extender that is killed after its placement."""
        found = self.cluster.objects.get("pods", (cluster_objects.NAMESPACE, name))
        with mock.patch.object(Client, "exchange", _killed), contextlib.suppress(lossy_calls.Crashed):
            self._bound(found["metadata"]["uid"], name, node)
        self._extender = None

    def _settle(self) -> None:
        """The controller, long enough for every placement to be checked."""
        for _ in range(3):
            extender = processes.extender(self._opened(), Client(self), self.clock, "controller")
            settler = processes.settler(extender, self.clock)
            for _ in range(3):
                with contextlib.suppress(lossy_calls.Crashed, errors.StoreAway):
                    settler.run_once()
                self.clock.advance(31.0)

    def _compact(self) -> None:
        """Checkpoint, archive, trim; a compactor that dies is started again."""
        for _ in range(4):
            with contextlib.suppress(lossy_calls.Crashed, errors.StoreAway, OSError), self.plainly():
                with self.shelter():
                    store = self._opened()
                options = settings.Compaction(events=5, keep=3, checkpoints=2, reader_timeout=0.001)
                compactor = compactors.Compactor(store, options, monotonic=self.clock.monotonic)
                compactor.run_once()
                compactor.run_once()
                return
        raise guarantees.Broken("end: the log can no longer be compacted")

    # -- the machinery -----------------------------------------------------------------------

    def _opened(self, *, emptied: bool = False) -> stores.Store:
        with self.shelter():
            store = stores.open_store(
                settings.Store(url=self._url),
                schema=declared.SCHEMA,
                cluster=self._name,
                indexed=processes.PLUGINS.indexed(),
                archive=str(self._folder),
                emptied=emptied,
            )
        self._stores.append(store)
        return store

    def _watch(
        self, wire: connections.Wire, call: lossy_calls.Call, packed: connections.Packed, ask: lossy_calls.Ask
    ) -> connections.Reply:
        if call not in _CALLS:
            return ask()
        return self.pass_(call.name, ask, lambda: lossy_calls.away("the answer was lost"))

    def _digest(self) -> dict[str, object]:
        fold = self._watchdog.fold
        return {
            "pods": {pod.name: (pod.node, pod.phase) for pod in fold.pods.values()},
            "nodes": {node.name: node.labels.get(cluster_objects.KEY) for node in fold.nodes.values()},
            "policies": sorted(fold.policies),
            "placements": sorted(fold.placements),
            "counts": fold.counts(),
            "bound": {uid: sorted(nodes) for uid, nodes in self.cluster.bound.items()},
        }


def _unreachable() -> kube_errors.Unreachable:
    return kube_errors.Unreachable("simulated: no answer")


def _killed(*_: object, **__: object) -> fast_client.Reply:
    raise lossy_calls.Crashed("before the Binding")
