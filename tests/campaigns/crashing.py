"""The crash matrix: one story, and a crash at every boundary that it passes.

A boundary is one call: of the store's append (or claim), or a Binding. At each, the process that
makes the call dies before it takes effect or after, or the answer is lost and the process lives. Then
everything starts again as it would in a cluster; what the story ends with must be what it would have
ended with undisturbed.
"""

import contextlib
import random
import secrets
from collections.abc import Callable, Iterator
from unittest import mock

from structlog import testing

from app.kube import connecting as kube_connecting
from app.kube import errors as kube_errors
from app.store import connecting, errors, keys, opening
from tests.campaigns import clocks, clusters, parts, promises, wires

PATIENCE = 40
"""So often is a bind tried again, as kube-scheduler would."""


class Client(clusters.Client):
    """Nothing goes wrong on its way but what the story says."""

    def __init__(self, story: "Story") -> None:
        super().__init__(story.cluster, story.clock, clusters.Faults(random.Random(0), 0.0))
        self._story = story

    def exchange(
        self, method: str, path: str, body: bytes = b"", *, timeout: float
    ) -> kube_connecting.Reply:
        if method != "POST":
            return super().exchange(method, path, body, timeout=timeout)
        way = self._story.passes("Binding")
        if way == "before":
            raise wires.Crashed("before the Binding")
        reply = super().exchange(method, path, body, timeout=timeout)
        if way == "after":
            raise wires.Crashed("after the Binding")
        if way == "lost":
            raise kube_errors.Unreachable("simulated: no answer")
        return reply


class Story:
    """Lists, binds, releases, ends: everything that appends or binds, in a fixed order."""

    def __init__(self, url: str, boundary: int = -1, way: str = "") -> None:
        """``boundary``: the number of the call at which it happens; ``way``: what happens there."""
        self.cluster = clusters.Cluster()
        self.clock = clocks.Clock()
        self.passed: list[str] = []
        """What was done at each boundary so far."""
        self._boundary = boundary
        self._way = way
        self._url = url
        self._name = f"c{secrets.token_hex(6)}"
        self._sheltered = True
        self._stores: list[opening.Store] = []
        self._recorder: parts.Recorder | None = None
        self._extender: parts.Extender | None = None

    def passes(self, what: str) -> str:
        """What happens at this boundary."""
        self.passed.append(what)
        return self._way if len(self.passed) - 1 == self._boundary else ""

    def run(self) -> dict[str, object]:
        """The digest of what it ends with."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(testing.capture_logs())
            stack.enter_context(clocks.installed(self.clock))
            stack.enter_context(wires.watched(self._watch))
            for place in ("workers.recording.LINGER", "workers.recording._PAUSE"):
                stack.enter_context(mock.patch(place, 0.0))
            try:
                client = connecting.connect(self._url)
                opening.migrate(client, keys.Keys(self._name))
                client.close()
                watchdog = promises.Watchdog(self._opened().log, self.cluster, steady=False)
                self._sheltered = False
                for act in self._acts():
                    act()
                    watchdog.compare()
                self._sheltered = True
                watchdog.converged()
                return self._digest(watchdog)
            finally:
                for store in self._stores:
                    store.close()

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
        yield lambda: self._bind("web-2", "h2")
        yield lambda: world.edit("nodes", ("", "m2"), lambda made: made["metadata"]["labels"].update(role="host"))
        yield self._hear
        yield lambda: world.objects.remove("pods", (clusters.NAMESPACE, "web-0"))
        yield self._hear
        yield lambda: self._bind("web-3", "m1")
        yield lambda: self._orphan("web-4", "h1")
        yield lambda: world.edit(
            "workloadpolicies",
            (clusters.NAMESPACE, clusters.POLICY),
            lambda made: made.update(spec=clusters.Cluster.spec({"host": 3, "member": 3})),
        )
        yield self._hear
        yield self._settle
        yield lambda: self._bind("web-4", "h2")
        yield self._hear
        yield self._settle
        yield self._hear

    # -- acts --------------------------------------------------------------------------------

    def _hear(self) -> None:
        """The recorder hears everything that the cluster has to tell; one that dies is started again."""
        while True:
            try:
                recorder = self._recorder
                if recorder is None:
                    recorder = parts.Recorder(self._opened(), Client(self), self.clock, random.Random(1))
                    recorder.begin()
                    self._recorder = recorder
                for kind in clusters.RESOURCES:
                    while not self._told(recorder, kind):
                        pass
                recorder.turn()
                return
            except wires.Crashed:
                self._recorder = None

    def _told(self, recorder: parts.Recorder, kind: str) -> bool:
        change = recorder.hear(kind)
        version = getattr(change, "version", "0")
        return type(change).__name__ == "Bookmark" and int(version) >= self.cluster.objects.version

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

    # -- the machinery -----------------------------------------------------------------------

    def _opened(self) -> opening.Store:
        sheltered, self._sheltered = self._sheltered, True
        store = parts.opened(self._url, self._name)
        self._sheltered = sheltered
        self._stores.append(store)
        return store

    def _watch(
        self, wire: connecting.Wire, call: wires.Call, packed: connecting.Packed, ask: wires.Ask
    ) -> connecting.Reply:
        if self._sheltered or call not in (wires.Call.APPEND, wires.Call.CLAIM):
            return ask()
        way = self.passes(call.name)
        if way == "before":
            raise wires.Crashed("before the call")
        reply = ask()
        if way == "after":
            raise wires.Crashed("after the call")
        if way == "lost":
            raise wires.away("the answer was lost")
        return reply

    def _digest(self, watchdog: promises.Watchdog) -> dict[str, object]:
        fold = watchdog.fold
        return {
            "pods": {pod.name: (pod.node, pod.phase) for pod in fold.pods.values()},
            "nodes": {node.name: node.labels.get(clusters.KEY) for node in fold.nodes.values()},
            "policies": sorted(fold.policies),
            "placements": sorted(fold.placements),
            "counts": fold.counts(),
            "bound": {uid: sorted(nodes) for uid, nodes in self.cluster.bound.items()},
        }


def _killed(*_: object, **__: object) -> kube_connecting.Reply:
    raise wires.Crashed("before the Binding")
