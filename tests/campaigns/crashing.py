"""The crash matrix: one story, and a crash at every boundary that it passes.

A boundary is one call that changes something: of the store's functions (append, rewind, doubt, trim),
of the API server (a Binding, a Lease), a command by which a checkpoint or a migration is written, a
file of the archive that is brought to the disk. At each, the process that makes the call dies before it
takes effect or after, or the answer is lost and the process lives. Then everything starts again as it
would in a cluster; what the story ends with must be what it would have ended with undisturbed.
"""

import contextlib
import functools
import os
import pathlib
import random
import secrets
from collections.abc import Callable, Iterator
from typing import TypeVar
from unittest import mock

import redis
from redis import client as redis_client
from structlog import testing

from app import settings
from app.kube import connecting as kube_connecting
from app.kube import errors as kube_errors
from app.store import connecting, errors, keys, logs, opening
from tests.campaigns import clocks, clusters, failing, parts, promises, wires
from workers import compacting

T = TypeVar("T")

PATIENCE = 60
"""So often is a bind tried again, as kube-scheduler would."""
_CALLS = (wires.Call.APPEND, wires.Call.REWIND, wires.Call.DOUBT, wires.Call.TRIM)
_WRITES = (
    "SET",
    "HSET",
    "HSETNX",
    "HDEL",
    "HINCRBY",
    "RENAME",
    "UNLINK",
    "FUNCTION LOAD",
    "PERSIST",
    "EXPIRE",
)


class Client(clusters.Client):
    """Nothing goes wrong on its way but what the story says."""

    def __init__(self, story: "Story") -> None:
        super().__init__(story.cluster, story.clock, clusters.Faults(random.Random(0), 0.0))
        self._story = story

    def exchange(self, method: str, path: str, body: bytes = b"", *, timeout: float) -> kube_connecting.Reply:
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


class Matrix:
    """Counts boundaries, and lets one thing happen at one of them."""

    def __init__(self, boundary: int = -1, way: str = "") -> None:
        """``boundary``: the number of the call at which it happens; ``way``: what happens there."""
        self.passed: list[str] = []
        """What was done at each boundary so far."""
        self.sheltered = True
        self._boundary = boundary
        self._way = way

    def pass_(self, what: str, call: Callable[[], T], lost: Callable[[], BaseException]) -> T:
        """Do it, unless this is where something happens."""
        if self.sheltered:
            return call()
        self.passed.append(what)
        way = self._way if len(self.passed) - 1 == self._boundary else ""
        if way == "before":
            raise wires.Crashed(f"before {what}")
        found = call()
        if way == "after":
            raise wires.Crashed(f"after {what}")
        if way == "lost":
            raise lost()
        return found

    @contextlib.contextmanager
    def shelter(self) -> Iterator[None]:
        """Nothing happens meanwhile, and nothing counts."""
        before, self.sheltered = self.sheltered, True
        try:
            yield
        finally:
            self.sheltered = before

    @contextlib.contextmanager
    def plainly(self) -> Iterator[None]:
        """Plain commands that write, transactions and files are boundaries too."""
        execute: Callable[..., object] = redis.Redis.execute_command
        transact: Callable[..., object] = redis_client.Pipeline.execute
        flush = os.fsync

        def executed(client: redis.Redis, *arguments: str, **options: object) -> object:
            call = functools.partial(execute, client, *arguments, **options)
            if not arguments[0].startswith(_WRITES):
                return call()
            return self.pass_(arguments[0], call, _disconnected)

        def transacted(pipeline: object, *arguments: object, **options: object) -> object:
            call = functools.partial(transact, pipeline, *arguments, **options)
            return self.pass_("transaction", call, _disconnected)

        def flushed(file: int) -> None:
            self.pass_("file", functools.partial(flush, file), lambda: OSError("simulated: the disk is full"))

        with (
            mock.patch.object(redis.Redis, "execute_command", executed),
            mock.patch.object(redis_client.Pipeline, "execute", transacted),
            mock.patch("app.store.archives.os.fsync", flushed),
        ):
            yield


class Story(Matrix):
    """Lists, binds, releases, takes over, fails over, compacts: in a fixed order."""

    def __init__(self, url: str, folder: pathlib.Path, boundary: int = -1, way: str = "") -> None:
        """The server at ``url`` is the story's own: it is emptied."""
        super().__init__(boundary, way)
        self.cluster = clusters.Cluster()
        self.clock = clocks.Clock()
        self._url = url
        self._folder = folder / f"{boundary}-{way}"
        self._name = f"c{secrets.token_hex(6)}"
        self.recording = False
        """The recorder acts just now."""
        self._stores: list[opening.Store] = []
        self._recorder: parts.Recorder | None = None
        self._recorders = 0
        self._extender: parts.Extender | None = None

    def run(self) -> dict[str, object]:
        """The digest of what it ends with."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(testing.capture_logs())
            stack.enter_context(clocks.installed(self.clock))
            stack.enter_context(wires.watched(self._watch))
            for place in ("workers.recording.LINGER", "workers.recording.PACE", "workers.recording._PAUSE"):
                stack.enter_context(mock.patch(place, 0.0))
            try:
                return self._run()
            finally:
                for store in self._stores:
                    store.close()

    def _run(self) -> dict[str, object]:
        with connecting.connect(self._url) as client:
            client.flushdb()
            opening.migrate(client, keys.Keys(self._name))
            self._replica = failing.Replica(client)
            self._watchdog = promises.Watchdog(client, keys.Keys(self._name), self.cluster)
            self.sheltered = False
            for act in self._acts():
                act()
                if not self._watchdog.losses:
                    self._watchdog.compare()
            self.sheltered = True
            fresh = self._opened()
            self._watchdog.converged((fresh.follower.catch_up(),))
            return self._digest()

    def _acts(self) -> Iterator[Callable[[], None]]:
        world = self.cluster
        for name, role in clusters.NODES.items():
            world.node(name, role=role)
        world.policy({"host": 2, "member": 2})
        for number in range(5):
            world.pod(f"web-{number}")
        yield self._hear
        yield lambda: self._bind("web-0", "h1")
        yield lambda: self._bind("web-1", "m1")
        yield self._hear
        yield self._take_over
        yield lambda: self._bind("web-2", "h2")
        yield lambda: self._relabel("m2", "host")
        yield self._hear
        yield self._delete
        yield self._hear
        yield self._compact
        yield lambda: self._bind("web-3", "m1")
        yield lambda: self._orphan("web-4", "h1")
        yield self._widen
        yield self._hear
        yield self._settle
        yield self._replica.follow
        yield lambda: self._bind("web-4", "h2")
        yield self._hear
        yield self._fail_over
        yield self._hear
        yield self._compact
        yield self._settle
        yield self._hear

    # -- acts --------------------------------------------------------------------------------

    def _hear(self) -> None:
        """The recorder hears everything that the cluster has to tell; one that dies is started again."""
        self.recording = True
        for _ in range(PATIENCE):
            try:
                if self._heard(self._leading()):
                    self.recording = False
                    return
            except wires.Crashed:
                self._end_recorder()
        raise promises.Broken("end: the recorder never comes to an end of what it hears")

    def _heard(self, recorder: parts.Recorder) -> bool:
        """Whether all of it is recorded; not if it lost its post meanwhile."""
        for kind in clusters.RESOURCES:
            while recorder.leads and not self._told(recorder, kind):
                pass
        return recorder.leads and recorder.turn() is None and recorder.leads

    def _leading(self) -> parts.Recorder:
        """A recorder that leads, however long it takes the Lease to run out."""
        while True:
            recorder = self._recorder
            if recorder is None:
                self._recorders += 1
                store = self._opened(emptied=True)
                name = f"recorder-{self._recorders}"
                recorder = parts.Recorder(store, Client(self), self.clock, random.Random(1), name)
                self._recorder = recorder
            if recorder.leads or recorder.begin():
                return recorder
            self.clock.advance(1.0)

    def _end_recorder(self) -> None:
        if self._recorder is not None and self._recorder.elector is not None:
            self._recorder.elector.dead = True
        self._recorder = None

    def _told(self, recorder: parts.Recorder, kind: str) -> bool:
        change = recorder.hear(kind)
        version = getattr(change, "version", "0")
        return type(change).__name__ == "Bookmark" and int(version) >= self.cluster.objects.version

    def _take_over(self) -> None:
        """The leader is frozen beyond its Lease; another leads, and the first one writes nothing more."""
        frozen, self._recorder = self._recorder, None
        assert frozen is not None
        assert frozen.elector is not None
        frozen.elector.frozen = True
        self._hear()
        self.cluster.pod("web-5")
        self._hear()
        with self.shelter():
            # It wakes up and goes on where it was.
            refused = self._awake(frozen)
            promises.demand(isinstance(refused, errors.Fenced), "P5", f"who was overtaken is told {refused}")
            frozen.elector.dead = True

    def _awake(self, frozen: parts.Recorder) -> Exception | None:
        guard = frozen._core._guard
        try:
            frozen.store.log.append(logs.Batch(events=()), guard)
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
        self.cluster.objects.remove("pods", (clusters.NAMESPACE, "web-0"))

    def _relabel(self, node: str, role: str) -> None:
        self.cluster.edit("nodes", ("", node), lambda made: made["metadata"]["labels"].update(role=role))

    def _widen(self) -> None:
        spec = clusters.Cluster.spec({"host": 3, "member": 3})
        key = (clusters.NAMESPACE, clusters.POLICY)
        self.cluster.edit("workloadpolicies", key, lambda made: made.update(spec=spec))

    def _bind(self, name: str, node: str) -> None:
        """As kube-scheduler does it: again and again until the pod is bound."""
        meta = self.cluster.objects.get("pods", (clusters.NAMESPACE, name))["metadata"]
        said = ""
        for _ in range(PATIENCE):
            try:
                said = self._bound(meta["uid"], name, node)
            except wires.Crashed:
                self._extender = None
                continue
            if not said:
                return
            self.clock.advance(1.0)
            self._hear()
        raise promises.Broken(f"end: {name} cannot be bound to {node} any more: {said}")

    def _bound(self, uid: str, name: str, node: str) -> str:
        if self._extender is None:
            self._extender = parts.extender(self._opened(), Client(self), self.clock, "extender")
        return self._extender.bind(clusters.NAMESPACE, name, uid, node)

    def _orphan(self, name: str, node: str) -> None:
        """An extender that is killed after its promise."""
        found = self.cluster.objects.get("pods", (clusters.NAMESPACE, name))
        with mock.patch.object(Client, "exchange", _killed), contextlib.suppress(wires.Crashed):
            self._bound(found["metadata"]["uid"], name, node)
        self._extender = None

    def _settle(self) -> None:
        """The controller, long enough for every promise to be looked up."""
        for _ in range(3):
            extender = parts.extender(self._opened(), Client(self), self.clock, "controller")
            settler = parts.settler(extender, self.clock)
            for _ in range(3):
                with contextlib.suppress(wires.Crashed, errors.StoreAway):
                    settler.turn()
                self.clock.advance(31.0)

    def _compact(self) -> None:
        """Checkpoint, archive, trim; a compactor that dies is started again."""
        for _ in range(4):
            with contextlib.suppress(wires.Crashed, errors.StoreAway, OSError), self.plainly():
                with self.shelter():
                    store = self._opened()
                options = settings.Compaction(events=5, keep=3, checkpoints=2, reader_timeout=0.001)
                compactor = compacting.Compactor(store, options, monotonic=self.clock.monotonic)
                compactor.turn()
                compactor.turn()
                return
        raise promises.Broken("end: the log cannot be compacted any more")

    # -- the machinery -----------------------------------------------------------------------

    def _opened(self, *, emptied: bool = False) -> opening.Store:
        with self.shelter():
            store = opening.open_store(
                settings.Store(url=self._url),
                cluster=self._name,
                indexed=parts.PLUGINS.indexed(),
                archive=str(self._folder),
                emptied=emptied,
            )
        self._stores.append(store)
        return store

    def _watch(
        self, wire: connecting.Wire, call: wires.Call, packed: connecting.Packed, ask: wires.Ask
    ) -> connecting.Reply:
        if call not in _CALLS:
            return ask()
        return self.pass_(call.name, ask, lambda: wires.away("the answer was lost"))

    def _digest(self) -> dict[str, object]:
        fold = self._watchdog.fold
        return {
            "pods": {pod.name: (pod.node, pod.phase) for pod in fold.pods.values()},
            "nodes": {node.name: node.labels.get(clusters.KEY) for node in fold.nodes.values()},
            "policies": sorted(fold.policies),
            "placements": sorted(fold.placements),
            "counts": fold.counts(),
            "bound": {uid: sorted(nodes) for uid, nodes in self.cluster.bound.items()},
        }


def _unreachable() -> kube_errors.Unreachable:
    return kube_errors.Unreachable("simulated: no answer")


def _disconnected() -> redis.ConnectionError:
    return redis.ConnectionError("simulated: the answer was lost")


def _killed(*_: object, **__: object) -> kube_connecting.Reply:
    raise wires.Crashed("before the Binding")
