"""The processes of a simulation, driven step by step: the real code without its loops and threads."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from app import plugins, settings
from app.domain import events, model
from app.framework import cycles, pipeline, registry, registry_builder
from app.kube.election import electors
from app.kube.objects import decoding
from app.kube.watch import kinds, reflectors
from app.kube.writes import binding, fencing
from app.plugins.coscheduling import plugin as coscheduling
from app.plugins.elastic_quota import plugin as elastic_quota
from app.store import errors, stores
from app.verbs import binding as bind_verb
from app.verbs import contexts, placement_releases, placer
from app.verbs import errors as verb_errors
from app.verbs.memory import pod_memo
from tests.support import bind_times, declared
from tests.support.decisions import pod_sets
from tests.support.simulation import virtual_time
from tests.support.simulation.cluster import api_client, cluster_objects
from workers.compactor import compactors
from workers.controller.placements import orphaned_placements
from workers.recorder import leadership, recorders

PAGE = 3
PLUGINS = registry.Registry([plugin() for plugin in plugins.USUAL])
PLANNING = registry.Registry([*(plugin() for plugin in plugins.USUAL), pod_sets.PodSets()])
"""The plugins of histories with sets of pods that are placed together."""
GATHERING = registry.Registry([*(plugin() for plugin in plugins.USUAL), coscheduling.Coscheduling()])
"""The plugins of histories with gangs."""
_QUOTAS = elastic_quota.ElasticQuota(check_parents=True)
SHARING = registry.Registry([*(plugin() for plugin in plugins.USUAL), _QUOTAS])
"""The plugins of histories with elastic quotas."""
_GUARANTEED = elastic_quota.ElasticQuota(check_parents=True, guarantee_usage=True)
GUARANTEEING = registry.Registry([*(plugin() for plugin in plugins.USUAL), _GUARANTEED])
"""The same where what quotas use counts as their min."""
SHARING_GANGS = registry.Registry(
    [*(plugin() for plugin in plugins.USUAL), _QUOTAS, coscheduling.Coscheduling()]
)
"""The plugins of histories with both."""
SELECTED = registry_builder.build(
    plugins.USUAL,
    enabled=[plugin.name for plugin in plugins.USUAL],
    weights={},
    score_max=10,
    args={"WorkloadPolicy": {"enforce": "selected"}},
)
TERMS = electors.Durations(lease=15.0, renew=10.0, retry=3.0)
_PATIENCE = 30
"""Polls of a recorder for the leadership before others take a step."""


def opened(url: str, cluster: str, *, emptied: bool = False) -> stores.Store:
    """The store as a separate process opens it."""
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
    """An elector that the clock drives: it runs when it is due, unless it is frozen."""

    def __init__(
        self, client: api_client.Client, clock: virtual_time.Clock, rng: random.Random, name: str
    ) -> None:
        super().__init__(client, "topolog", "recorder", durations=TERMS, identity=name, clock=clock, rng=rng)
        self.frozen = False
        """Stopped by a signal."""
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
        client: api_client.Client,
        clock: virtual_time.Clock,
        rng: random.Random,
        name: str = "",
    ) -> None:
        """Takes part in the election under the ``name``; without one there is no election."""
        self.store = store
        self.name = name
        self.elector = Candidate(client, clock, rng, name) if name else None
        self._rng = rng
        self._core = recorders.Recorder(
            store.log, store.follower, client, elector=self.elector, settle=bind_times.OLD
        )
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
        """Whether it leads, as far as it has observed."""
        return bool(self.changes) and self._core._leadership.held

    @property
    def frozen(self) -> bool:
        """Stopped by a signal."""
        return self.elector is not None and self.elector.frozen

    def freeze(self, frozen: bool) -> None:
        """Stop it by a signal, or resume it."""
        if self.elector is not None:
            self.elector.frozen = frozen

    def begin(self) -> bool:
        """Acquire the leadership if possible: read the log, resume the watches where it ends."""
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
                since=term.versions.get(kind.name, ""),
                reason=term.reasons[kind.name],
                clock=self._clock,
                rng=random.Random(self._rng.random()),
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
        """Append the changes of the inbox; returns the refusal with which it has lost the leadership."""
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
        """Resign and end."""
        if self.elector is not None:
            self.elector.resign()
            self.elector.dead = True

    def close(self) -> None:
        """End, with or without resignation."""
        if self.elector is not None:
            self.elector.dead = True
        self.changes.clear()
        self.store.close()


@dataclass
class Extender:
    """An extender process: its follower of the store, and its memo of recent pods."""

    store: stores.Store
    context: contexts.Context
    client: api_client.Client

    def offer(self, pod: cluster_objects.Json) -> None:
        """kube-scheduler sends its version of a pod, which may be outdated."""
        raw = msgspec.json.encode(pod)
        found, version = decoding.pod_seen(raw)
        self.context.memo.put(pod_memo.RecentPod(spelled=raw, pod=found, version=version))

    def kept(self, pod: cluster_objects.Json) -> list[str]:
        """The nodes that filter keeps, according to the snapshot of this process."""
        snapshot, found = self.store.follower.snapshot, decoding.pod(msgspec.json.encode(pod))
        asked = cycles.cycle(found, frozenset(snapshot.nodes), snapshot)
        return sorted(pipeline.run_filter(self.context.plugins, asked).kept)

    def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """The ``Error`` of the reply; empty if the pod was reported as bound."""
        around, follower = (self.client.latest, self.client.read), self.store.follower
        began = follower.snapshot
        self.client.latest = self.context.monotonic() + self.context.time_limits.bind
        self.client.read = lambda: (began, follower.snapshot)
        try:
            bind_verb.run(self.context, placer.BindRequest(namespace, name, uid, node))
        except verb_errors.VerbError as refused:
            return str(refused)
        finally:
            self.client.latest, self.client.read = around
        return ""


def extender(
    store: stores.Store,
    client: api_client.Client,
    clock: virtual_time.Clock,
    name: str,
    *,
    configured: registry.Registry = PLUGINS,
) -> Extender:
    """An extender with its own connection to the store."""
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
    """The controller's look-up of orphaned placements, over the store of an extender."""
    context, follower = extender.context, extender.store.follower

    def release(uid: str, placement: model.Position, cause: events.Cause, reason: str) -> bool:
        return placement_releases.release(
            follower, extender.store.log, uid, cause, reason, placement=placement
        )

    fencer = fencing.ApiFencer(extender.client, now=lambda: "2026-07-01T10:00:00Z")
    return orphaned_placements.OrphanedPlacements(
        context.binder, fencer, follower.catch_up, release, clock, old=bind_times.OLD
    )


def compactor(store: stores.Store, clock: virtual_time.Clock, *, patient: bool) -> compactors.Compactor:
    """A compactor for short logs; ``patient``: it trims no entry that a reader has not read."""
    options = settings.Compaction(
        events=12, seconds=40.0, keep=3, checkpoints=3, reader_timeout=1000.0 if patient else -1.0
    )
    return compactors.Compactor(store, options, monotonic=clock.monotonic)
