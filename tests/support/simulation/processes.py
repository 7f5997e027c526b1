"""The processes of a simulation, driven step by step: the real code, without their loops and threads."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from app import plugins, settings
from app.domain import events, model
from app.framework import configuring, cycles, pipeline, registry
from app.kube.election import electors
from app.kube.objects import decoding
from app.kube.watch import kinds, reflectors
from app.kube.writes import binding, fencing
from app.plugins.coscheduling import plugin as coscheduling
from app.plugins.elastic_quota import plugin as elastic_quota
from app.store import errors, stores
from app.verbs import binding as bind_verb
from app.verbs import contexts, placing, pod_memo, releasing
from app.verbs import errors as verb_errors
from tests.support import declared
from tests.support.decisions import convoys
from tests.support.simulation import cluster_objects, virtual_time
from workers.compactor import compactors
from workers.controller import orphaned_placements
from workers.recorder import batch_builder, leadership, recorders

PAGE = 3
PLUGINS = registry.Registry([plugin() for plugin in plugins.USUAL])
PLANNING = registry.Registry([*(plugin() for plugin in plugins.USUAL), convoys.Convoy()])
"""Those of histories in which pods are placed together."""
GATHERING = registry.Registry([*(plugin() for plugin in plugins.USUAL), coscheduling.Coscheduling()])
"""Those of histories with gangs."""
_QUOTAS = elastic_quota.ElasticQuota(check_parents=True)
SHARING = registry.Registry([*(plugin() for plugin in plugins.USUAL), _QUOTAS])
"""Those of histories with elastic quotas."""
SHARING_GANGS = registry.Registry(
    [*(plugin() for plugin in plugins.USUAL), _QUOTAS, coscheduling.Coscheduling()]
)
"""Those of histories with both."""
SELECTED = configuring.build(
    plugins.USUAL,
    enabled=[plugin.name for plugin in plugins.USUAL],
    weights={},
    score_max=10,
    args={"WorkloadPolicy": {"enforce": "selected"}},
)
TERMS = electors.Durations(lease=15.0, renew=10.0, retry=3.0)
_PATIENCE = 30
"""So often does a recorder try to take its post before others take a step."""


def opened(url: str, cluster: str, *, emptied: bool = False) -> stores.Store:
    """The store as a process of its own opens it."""
    return stores.open_store(
        settings.Store(url=url),
        schema=declared.SCHEMA,
        cluster=cluster,
        indexed=PLANNING.indexed() | GATHERING.indexed(),
        emptied=emptied,
    )


class OnStandby(Exception):
    """The recorder does not lead, and waits until it does."""


def _settling(seconds: float) -> None:
    if seconds > 2.0:
        raise OnStandby


class Candidate(electors.Elector):
    """An elector whose thread is the clock: it takes its turns when they are due, unless it is frozen."""

    def __init__(
        self, client: cluster_objects.Client, clock: virtual_time.Clock, die: random.Random, name: str
    ) -> None:
        super().__init__(client, "topolog", "recorder", durations=TERMS, identity=name, clock=clock, die=die)
        self.frozen = False
        """Stopped by a signal: nothing in it goes on."""
        self.dead = False
        self._time = clock
        self._turning = False
        self._looked = False
        self._waits = 0
        clock.later(0.0, self._renew)

    def start(self) -> None:
        pass

    def wait(self, timeout: float) -> electors.Tenure | None:
        self._waits += 1
        if self._waits > _PATIENCE or (self._looked and self.tenure is None):
            self._looked, self._waits = False, 0
            raise OnStandby
        self._looked = self.tenure is None
        return self.tenure

    def run_once(self) -> float:
        if self._turning:
            return 0.1
        self._turning = True
        try:
            return super().run_once()
        finally:
            self._turning = False

    def _renew(self) -> None:
        if not self.dead:
            self._time.later(0.5 if self.frozen else self.run_once(), self._renew)


class Recorder:
    """A recorder whose watches are read one change at a time."""

    def __init__(
        self,
        store: stores.Store,
        client: cluster_objects.Client,
        clock: virtual_time.Clock,
        die: random.Random,
        name: str = "",
    ) -> None:
        """Stands for election under the ``name``, if it has one; else it is alone."""
        self.store = store
        self.name = name
        self.elector = Candidate(client, clock, die, name) if name else None
        self._die = die
        self._core = recorders.Recorder(store.log, store.follower, client, elector=self.elector)
        self._core._stopped = virtual_time.Waiting(clock)
        self._waiting = self._core._leadership._stopped = virtual_time.Waiting(clock)
        self._client = client
        self._clock = clock
        self.changes: dict[str, Iterator[reflectors.Change]] = {}

    @property
    def leadership(self) -> leadership.RecorderLeadership:
        """Its part in the election."""
        return self._core._leadership

    @property
    def problem(self) -> str:
        """Why it cannot write right now."""
        return self._core.problem

    @property
    def leads(self) -> bool:
        """It holds the post, as far as it can know."""
        return bool(self.changes) and self._core._leadership.held

    @property
    def frozen(self) -> bool:
        """Stopped by a signal."""
        return self.elector is not None and self.elector.frozen

    def freeze(self, frozen: bool) -> None:
        """Stop it by a signal, or let it go on."""
        if self.elector is not None:
            self.elector.frozen = frozen

    def begin(self) -> bool:
        """Take the post if it can be had: read the log, resume the watches where it ends."""
        self.changes.clear()
        try:
            term = self._core._leadership.acquire()
        except OnStandby:
            return False
        assert term is not None
        self._core._begin(term)
        for kind in kinds.watched(declared.SCHEMA):
            reflector = reflectors.Reflector(
                self._client,
                kind,
                since=term.marks.get(batch_builder.mark(kind), ""),
                reason=term.reason,
                clock=self._clock,
                die=random.Random(self._die.random()),
                page=PAGE,
            )
            self.changes[kind.name] = reflector.changes()
        return True

    def handed_over(self) -> bool:
        """Take the leadership, and be stopped while a loss settles; returns whether that happened."""
        self._waiting.ended = _settling
        try:
            return not self.begin()
        finally:
            self._waiting.ended = lambda _: None

    def observe(self, kind: str) -> reflectors.Change:
        """The next change of a kind, into the inbox."""
        change = next(self.changes[kind])
        self._core._inbox.put(change)
        return change

    def run_once(self) -> errors.Fenced | errors.Rewound | None:
        """Append what is in the inbox. What it was refused for, if it was: then it has lost its post."""
        try:
            if self._core._inbox._changes:
                self._core._run_once()
            else:
                self._core._idle()
        except (errors.Fenced, errors.Rewound) as problem:
            self.changes.clear()
            self._core._leadership.recover(problem)
            return problem
        return None

    def resign(self) -> None:
        """End in order."""
        if self.elector is not None:
            self.elector.resign()
            self.elector.dead = True

    def close(self) -> None:
        """End, in order or not."""
        if self.elector is not None:
            self.elector.dead = True
        self.changes.clear()
        self.store.close()


@dataclass
class Extender:
    """An extender process: its view of the store, its own memory of pods."""

    store: stores.Store
    context: contexts.Context
    client: cluster_objects.Client

    def offer(self, pod: cluster_objects.Json) -> None:
        """kube-scheduler sends a pod as it knows it, which may be older than it is."""
        raw = msgspec.json.encode(pod)
        found, version = decoding.pod_seen(raw)
        self.context.memo.put(pod_memo.RecentPod(spelled=raw, pod=found, version=version))

    def kept(self, pod: cluster_objects.Json) -> list[str]:
        """The nodes that filter keeps, by what this process knows at present."""
        snapshot, found = self.store.follower.snapshot, decoding.pod(msgspec.json.encode(pod))
        asked = cycles.cycle(found, frozenset(snapshot.nodes), snapshot)
        return sorted(pipeline.run_filter(self.context.plugins, asked).kept)

    def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """The ``Error`` of the reply; empty if the pod was reported as bound."""
        around, self.client.latest = self.client.latest, self.context.monotonic() + self.context.budgets.bind
        try:
            bind_verb.run(self.context, placing.Request(namespace, name, uid, node))
        except verb_errors.VerbError as refused:
            return str(refused)
        finally:
            self.client.latest = around
        return ""


def extender(
    store: stores.Store,
    client: cluster_objects.Client,
    clock: virtual_time.Clock,
    name: str,
    *,
    configured: registry.Registry = PLUGINS,
) -> Extender:
    """An extender over a store of its own."""
    context = contexts.Context(
        plugins=configured,
        state=store.follower,
        log=store.log,
        decisions=store.decisions,
        binder=binding.ApiBinder(client),
        now=lambda: f"2026-07-01T10:{int(clock.now) // 60 % 60:02}:{clock.now % 60:09.6f}Z",
        monotonic=clock.monotonic,
        digest=configured.digest,
        identity=name,
        sleep=clock.sleep,
    )
    return Extender(store, context, client)


def settler(extender: Extender, clock: virtual_time.Clock) -> orphaned_placements.OrphanedPlacements:
    """What the controller does about old placements, over the same store."""
    context, follower = extender.context, extender.store.follower

    def release(uid: str, placement: model.Position, cause: events.Cause, reason: str) -> bool:
        return releasing.release(follower, extender.store.log, uid, cause, reason, placement=placement)

    fencer = fencing.ApiFencer(extender.client, now=lambda: "2026-07-01T10:00:00Z")
    return orphaned_placements.OrphanedPlacements(context.binder, fencer, follower.catch_up, release, clock)


def compactor(store: stores.Store, clock: virtual_time.Clock, *, patient: bool) -> compactors.Compactor:
    """A compactor that makes much of little; ``patient``: it trims nothing that a reader has not read."""
    options = settings.Compaction(
        events=12, seconds=40.0, keep=3, checkpoints=3, reader_timeout=1000.0 if patient else -1.0
    )
    return compactors.Compactor(store, options, monotonic=clock.monotonic)
