"""PatchStatus beside another writer of the same objects, and without the right to one kind."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from app.domain import declared_objects, projections, snapshots
from app.framework import effects
from app.kube import call_limits
from app.kube.watch import kinds
from app.plugins.elastic_quota import kinds as quota_kinds
from app.simulation.apiserver import faults
from tests.support import declared
from tests.support.kube import fake_clock
from tests.support.monitoring import samples
from tests.support.workers import clusters
from workers.controller import status_targets, statuses

Json = dict[str, Any]
POLICIES = "/apis/kosmos.io/v1alpha1/namespaces/ns/workloadpolicies"
POLICY = f"{POLICIES}/p"
QUOTA = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/ns/elasticquotas/q"
KINDS: dict[str, declared_objects.Kind[Any]] = {
    declared.POLICIES.name: declared.POLICIES,
    quota_kinds.QUOTAS.name: quota_kinds.QUOTAS,
}
STEP = 0.1
"""Seconds between two writes of the other client."""


def writer_of(
    cluster: clusters.Cluster, clock: fake_clock.VirtualClock, term: Callable[[], str | None]
) -> statuses.StatusWriter:
    return statuses.StatusWriter(
        cluster.client,
        {name: status_targets.KindTarget(kinds.declared(kind)) for name, kind in KINDS.items()},
        call_limits.CallLimit(clock, term=term, burst=1000.0, rate=1000.0),
        clock,
        now=lambda: "2026-07-01T10:00:00Z",
    )


class Writing:
    """A status writer of two kinds on a virtual clock, and a policy and a quota that the log has."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        cluster.policy("p", host=3)
        quota = {"metadata": {"namespace": "ns", "name": "q"}, "spec": {"max": {"cpu": "1"}}}
        cluster.server.objects.create(quota_kinds.QUOTAS.name, quota)
        self.cluster = cluster
        self.clock = fake_clock.VirtualClock()
        self.writer = writer_of(cluster, self.clock, lambda: "term")
        self.snapshot = snapshots.empty(schema=declared.SCHEMA)
        for kind, path in zip(KINDS.values(), (POLICY, QUOTA), strict=True):
            found, _ = kinds.declared(kind).decode(cluster.client.get(path))
            self.snapshot = projections.project_all(self.snapshot, kinds.declared(kind).observe(None, found))

    def write(self, kind: str, identity: str, status: Json) -> None:
        found = effects.PatchStatus(kind, identity, status, generation=False)
        self.writer.submit(found, self.snapshot, "term")
        self.writer.run_once()

    def status(self, path: str) -> Json:
        found: Json = json.loads(self.cluster.client.get(path))
        return dict(found.get("status", {}))

    def patches(self) -> int:
        """Writes of the policy's status so far, those that conflicted included."""
        seen = self.cluster.server.seen
        return sum(one.method == "PATCH" and one.path == f"{POLICY}/status" for one in seen)


@pytest.fixture
def writing(cluster_side: clusters.Cluster) -> Writing:
    return Writing(cluster_side)


@pytest.mark.scenario("TR-14")
@pytest.mark.parametrize("computed", [True, False], ids=["a status that changes", "one status"])
def test_an_object_that_another_client_writes_all_the_time_is_written_once_a_second(
    writing: Writing, computed: bool
) -> None:
    seconds = 10
    for step in range(round(seconds / STEP)):
        change = {"metadata": {"labels": {"step": str(step)}}}
        writing.cluster.patch(POLICY, change)
        writing.write("workloadpolicies", "ns/p", {"placed": step if computed else 7})
        writing.clock.now += STEP
    assert writing.patches() <= seconds
    if computed:
        assert writing.patches() >= seconds / 2, "it conflicts again and again, and is tried again"
    writing.clock.now += 2 * statuses.EVERY
    for _ in range(2):
        writing.clock.now += statuses.EVERY
        writing.writer.run_once()
    last = round(seconds / STEP) - 1
    assert writing.status(POLICY) == {"placed": last if computed else 7}


@pytest.mark.scenario("TR-15")
def test_a_missing_right_to_one_kind_leaves_the_others_written(writing: Writing) -> None:
    refused = samples.value("topolog_status_patches_total", kind="workloadpolicies", outcome="refused")
    forbidden = faults.calls("PATCH", "/workloadpolicies/p/status")
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, forbidden, status=403, times=1000)
    with structlog.testing.capture_logs() as lines:
        for used in ("1", "2", "3"):
            writing.write("workloadpolicies", "ns/p", {"placed": int(used)})
            writing.write("elasticquotas", "ns/q", {"used": {"cpu": used}})
            assert writing.status(QUOTA) == {"used": {"cpu": used}}
            writing.clock.now += statuses.EVERY
    assert writing.status(POLICY) == {}
    assert [(line["event"], line["kind"]) for line in lines] == [
        ("cannot write a status", "workloadpolicies")
    ]
    found = samples.value("topolog_status_patches_total", kind="workloadpolicies", outcome="refused")
    assert found == refused + 1


@pytest.mark.scenario("TR-13")
@pytest.mark.parametrize("noticed", [True, False], ids=["and notices it", "and notices it at the end"])
def test_a_leader_that_is_paused_between_five_writes_undoes_none_of_its_successor(
    cluster_side: clusters.Cluster, noticed: bool
) -> None:
    names = [f"p{number}" for number in range(5)]
    snapshot = snapshots.empty(schema=declared.SCHEMA)
    for name in names:
        cluster_side.policy(name, host=1)
        found, _ = kinds.declared(declared.POLICIES).decode(cluster_side.client.get(f"{POLICIES}/{name}"))
        snapshot = projections.project_all(snapshot, kinds.declared(declared.POLICIES).observe(None, found))
    clock = fake_clock.VirtualClock()
    moment = "leads"

    def submit(writer: statuses.StatusWriter, placed: int, term: str) -> None:
        for name in names:
            wanted = effects.PatchStatus(
                declared.POLICIES.name, f"ns/{name}", {"placed": placed}, generation=False
            )
            writer.submit(wanted, snapshot, term)
        writer.run_once()

    def patched() -> int:
        return int(samples.value("topolog_status_patches_total", kind="workloadpolicies", outcome="patched"))

    def shown() -> list[object]:
        read = (json.loads(cluster_side.client.get(f"{POLICIES}/{name}")) for name in names)
        return [one["status"]["placed"] for one in read]

    def term() -> str | None:
        nonlocal moment
        if moment == "paused":
            moment = "replaced"
            clock.now += 60.0
            submit(successor, 5, "second")
        return None if moment == "replaced" and noticed else "first"

    old, successor = writer_of(cluster_side, clock, term), writer_of(cluster_side, clock, lambda: "second")
    submit(old, 1, "first")
    assert shown() == [1] * 5
    before, moment = patched(), "paused"
    clock.now += statuses.EVERY
    submit(old, 2, "first")
    assert (shown(), patched() - before) == ([5] * 5, 5)
    noticed = True
    for _ in range(3):
        clock.now += statuses.EVERY
        old.run_once()
        successor.run_once()
    assert (shown(), patched() - before) == ([5] * 5, 5)
