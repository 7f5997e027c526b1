"""A writer of statuses on a virtual clock, and the policies that it writes about."""

import json
from collections.abc import Callable
from typing import Any

from app import telemetry
from app.domain import declared_objects, projections, snapshots
from app.framework import effects
from app.kube import call_limits
from app.kube.watch import kinds
from app.plugins.workload_policy import policy_model
from tests.support import declared
from tests.support.kube import fake_clock
from tests.support.workers import clusters
from workers.controller import status_targets, statuses

Json = dict[str, Any]
KIND = "workloadpolicies"
NOW = "2026-07-01T10:00:00Z"
TERM = "term"


def path(name: str) -> str:
    return f"/apis/kosmos.io/v1alpha1/namespaces/ns/workloadpolicies/{name}"


def outcomes(kind: str = KIND) -> dict[str, float]:
    """The metric: outcome -> number."""
    return {
        sample.labels["outcome"]: sample.value
        for metric in telemetry.metrics.STATUS_PATCHES.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and sample.labels["kind"] == kind
    }


class Writing:
    """A status writer on a virtual clock, and the snapshot that it is given."""

    def __init__(self, cluster: clusters.Cluster, *, rate: float = 1000.0) -> None:
        self.cluster = cluster
        self.clock = fake_clock.VirtualClock()
        self.term: Callable[[], str | None] = lambda: TERM
        self._limit = call_limits.CallLimit(self.clock, term=lambda: self.term(), burst=1000.0, rate=rate)
        self.now = NOW
        self.writer = self.of(declared.POLICIES)
        self.snapshot = snapshots.empty(schema=declared.SCHEMA)
        self._before = outcomes()

    def of(self, kind: declared_objects.Kind[policy_model.WorkloadPolicy]) -> statuses.StatusWriter:
        """A writer of the policies as this kind declares them."""
        target = status_targets.KindTarget(kinds.declared(kind))
        return statuses.StatusWriter(
            self.cluster.client, {KIND: target}, self._limit, self.clock, now=lambda: self.now
        )

    def observe(self, *names: str) -> None:
        """The recorder observes the policies."""
        for name in names:
            found, _ = kinds.declared(declared.POLICIES).decode(self.cluster.client.get(path(name)))
            assert isinstance(found, policy_model.WorkloadPolicy)
            known = self.snapshot.get(declared.POLICIES, found.key)
            seen = kinds.declared(declared.POLICIES).observe(known, found)
            self.snapshot = projections.project_all(self.snapshot, seen)

    def submit(self, name: str, placed: int, *, enforced: str = "True", term: str = TERM) -> None:
        condition = {"type": "Accepted", "status": enforced, "reason": "R", "message": "m"}
        status = {"placed": placed, "conditions": [condition]}
        self.writer.submit(effects.PatchStatus(KIND, f"ns/{name}", status), self.snapshot, term)

    def write(self, name: str, placed: int, **more: str) -> dict[str, int]:
        """Submit a status and write what is due; the outcomes since the last call."""
        self.submit(name, placed, **more)
        return self.written()

    def written(self, *, after: float = 0.0) -> dict[str, int]:
        self.clock.now += after
        self.writer.run_once()
        before, self._before = self._before, outcomes()
        found = {name: int(number - before.get(name, 0.0)) for name, number in self._before.items()}
        return {name: number for name, number in found.items() if number}

    def status(self, name: str) -> Json:
        found: Json = json.loads(self.cluster.client.get(path(name)))
        status: Json = found.get("status", {})
        return status

    def asked(self) -> list[str]:
        """The methods of the requests about policies since the last call."""
        found = [one.method for one in self.cluster.server.seen if "/workloadpolicies/" in one.path]
        self.cluster.server.seen.clear()
        return found
