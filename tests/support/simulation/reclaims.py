"""A controller that evicts for quotas, in one simulation: each request is compared with the law."""

import contextlib
import json
import typing
from collections import Counter
from typing import Any

from app.domain import snapshots
from app.framework import effects, registry
from app.kube import call_limits
from app.plugins.elastic_quota import plugin as elastic_quota
from app.store import errors
from tests.support.simulation.cluster import api_client, cluster_objects
from tests.support.simulation.oracle import guarantees, reclaim_law
from tests.support.simulation.store import lossy_calls
from workers.controller import evictions

if typing.TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.simulation import histories

_RULES = elastic_quota.ElasticQuota(
    runtime=False, check_parents=True, quota_preemption="evict", overuse="evict"
)
_TERM = "term"
_PATIENCE = 3.0
"""Seconds for which a plan has to be wanted at least, here."""


class Reclaims:
    """The evictions of one simulation."""

    def __init__(self, simulation: "histories.Simulation", record: "Callable[[], None]") -> None:
        """``record``: a recorder observes every change."""
        self._of = simulation
        self._record = record
        self._snapshot: snapshots.Snapshot | None = None
        self._state: reclaim_law.State | None = None
        self._evicted: dict[str, float] = {}
        """uid -> when it was evicted, or may have been."""
        self.requests: Counter[str] = Counter()
        """Outcome -> evictions."""
        self._evictor: evictions.Evictor | None = None

    def run(self) -> None:
        """The controller reads the log, plans, and evicts at most one pod."""
        of = self._of
        if of.rng.random() < 0.5:
            of.activity.overuse()
        if of.rng.random() < 0.7:
            self._record()
        extender = of.fleet.extenders[0]
        if extender is None:
            of.fleet.start_extender(0)
            return
        try:
            with contextlib.suppress(lossy_calls.Crashed):
                self._snapshot = extender.store.follower.catch_up()
        except errors.StoreError:
            return
        of.watchdog.read()
        snapshot = self._snapshot
        if snapshot is None or not of.watchdog.current or snapshot.offset != of.watchdog.fold.offset:
            return
        self._state = reclaim_law.State(of.watchdog.fold)
        evictor = self._evictor = self._evictor or self._made()
        for found in _RULES.reconcile(snapshot, effects.Changes()):
            if isinstance(found, effects.EvictPods):
                evictor.submit(found, snapshot, _TERM)
        if of.rng.random() < 0.7:
            of.clock.advance(_PATIENCE)
        evictor.run_once()

    def _made(self) -> evictions.Evictor:
        clock = self._of.clock
        limit = call_limits.CallLimit(clock, term=lambda: _TERM)
        client = Judged(self, self._of)
        return evictions.Evictor(
            client, self._read, registry.Registry([_RULES]), lambda event, term: None, limit, clock
        )

    def _read(self) -> snapshots.Snapshot:
        assert self._snapshot is not None
        return self._snapshot

    def judge(self, uid: str) -> cluster_objects.Json | None:
        """Compare a request with the law; the pod at the API server, None if it is gone."""
        of = self._of
        assert self._state is not None
        recent = {one for one, at in self._evicted.items() if of.clock.now - at < evictions.SEEN}
        problem = self._state.problem(uid, recent)
        guarantees.demand(not problem, "P7", f"pod {uid[-4:]} is evicted: {problem}")
        of.log_step(f"the controller evicts {uid[-4:]}")
        return next((one for one in of.cluster.all("pods") if one["metadata"]["uid"] == uid), None)

    def answered(self, uid: str, before: list[cluster_objects.Json]) -> None:
        """The pod goes only if each budget that selects it allowed that; ``before``: these budgets."""
        there = {one["metadata"]["uid"]: one for one in self._of.cluster.all("pods")}
        goes = uid not in there or "deletionTimestamp" in there[uid]["metadata"]
        self.requests["evicted" if goes else "refused"] += 1
        if goes:
            self._evicted[uid] = self._of.clock.now
        broken = [one["metadata"]["name"] for one in before if one["status"]["disruptionsAllowed"] < 1]
        guarantees.demand(not (goes and broken), "P7", f"an eviction exceeds budgets {broken}")

    def budgets(self, pod: cluster_objects.Json) -> list[cluster_objects.Json]:
        """The budgets that select the pod, as they are."""
        labels = pod["metadata"]["labels"]
        return [
            one
            for one in self._of.cluster.all("poddisruptionbudgets")
            if one["spec"]["selector"]["matchLabels"].items() <= labels.items()
        ]


class Judged(api_client.Client):
    """The API client of the controller."""

    def __init__(self, judging: Reclaims, of: "histories.Simulation") -> None:
        super().__init__(of.cluster, of.clock, of.faults, of.between)
        self._judging = judging

    def post(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        assert path.endswith("/eviction"), path
        pod: Any = self._judging.judge(json.loads(body)["deleteOptions"]["preconditions"]["uid"])
        if pod is None:
            return super().post(path, body, timeout=timeout)
        running = pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        before = self._judging.budgets(pod) if running else []
        try:
            return super().post(path, body, timeout=timeout)
        finally:
            self._judging.answered(pod["metadata"]["uid"], before)
