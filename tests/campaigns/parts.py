"""The processes of a simulation, driven step by step: the real code, without their loops and threads."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from app import plugins, settings
from app.domain import events
from app.framework import registry
from app.kube import binding, kinds, reflecting
from app.store import opening
from app.verbs import binding as bind_verb
from app.verbs import contexts, releasing
from app.verbs import errors as verb_errors
from tests.campaigns import clocks, clusters
from workers import drafting, recording, settling

PAGE = 3
PLUGINS = registry.Registry([plugin() for plugin in plugins.IN_TREE])


def opened(url: str, cluster: str) -> opening.Store:
    """The store as a process of its own opens it."""
    return opening.open_store(settings.Store(url=url), cluster=cluster, indexed=PLUGINS.indexed())


class Recorder:
    """A recorder whose watches are read one change at a time."""

    def __init__(
        self, store: opening.Store, client: clusters.Client, clock: clocks.Clock, die: random.Random
    ) -> None:
        self.store = store
        self._die = die
        self._core = recording.Recorder(store.log, store.follower, client)
        self._client = client
        self._clock = clock
        self.changes: dict[str, Iterator[reflecting.Change]] = {}
        self._reflectors: dict[str, reflecting.Reflector] = {}

    def begin(self) -> None:
        """Claim the epoch, read the log, resume the watches where it ends."""
        marks = self._core._claimed()
        for kind in kinds.ALL:
            self._reflectors[kind.name] = reflecting.Reflector(
                self._client,
                kind,
                since=marks.get(drafting.mark(kind), ""),
                clock=self._clock,
                die=random.Random(self._die.random()),
                page=PAGE,
            )
            self.changes[kind.name] = self._reflectors[kind.name].changes()

    def hear(self, kind: str) -> reflecting.Change:
        """The next change of a kind, into the inbox."""
        change = next(self.changes[kind])
        self._core._inbox.put(change)
        return change

    def turn(self) -> None:
        """Append what is in the inbox. Raises Fenced."""
        if self._core._inbox._changes:
            self._core._turn()

    def close(self) -> None:
        self.changes.clear()
        self.store.close()


@dataclass
class Extender:
    """An extender process: its view of the store, its own memory of pods."""

    store: opening.Store
    context: contexts.Context

    def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """The ``Error`` of the reply; empty if the pod is said to be bound."""
        try:
            bind_verb.run(self.context, bind_verb.Request(namespace, name, uid, node))
        except verb_errors.VerbError as refused:
            return str(refused)
        return ""


def extender(store: opening.Store, client: clusters.Client, clock: clocks.Clock, name: str) -> Extender:
    """An extender over a store of its own."""
    context = contexts.Context(
        plugins=PLUGINS,
        state=store.follower,
        log=store.log,
        decisions=store.decisions,
        binder=binding.ApiBinder(client),
        now=lambda: f"2026-07-01T10:{int(clock.now) // 60 % 60:02}:{clock.now % 60:09.6f}Z",
        monotonic=clock.monotonic,
        digest=PLUGINS.digest,
        identity=name,
        sleep=clock.sleep,
    )
    return Extender(store, context)


def settler(extender: Extender, clock: clocks.Clock) -> settling.Settler:
    """What the controller does about old promises, over the same store."""
    context, follower = extender.context, extender.store.follower

    def release(uid: str, cause: events.Cause, reason: str) -> bool:
        return releasing.release(follower, extender.store.log, uid, cause, reason)

    return settling.Settler(context.binder, follower.catch_up, release, clock)
