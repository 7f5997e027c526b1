"""PatchStatus: which statuses are written, how often, and what follows from refusals of the API server."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from app import telemetry
from app.domain import projections, snapshots
from app.framework import effects
from app.kube import call_limits
from app.kube.watch import kinds
from app.plugins.workload_policy import policy_model
from app.simulation.apiserver import faults
from tests.support import declared, gadgets
from tests.support.kube import fake_clock
from tests.support.workers import clusters
from workers.controller import status_targets, statuses

Json = dict[str, Any]
KIND = "workloadpolicies"
PATCH = faults.calls("PATCH", "/status")
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
        limit = call_limits.CallLimit(self.clock, term=lambda: self.term(), burst=1000.0, rate=rate)
        self.now = NOW
        self.writer = statuses.StatusWriter(
            cluster.client,
            {KIND: status_targets.KindTarget(kinds.declared(declared.POLICIES))},
            limit,
            self.clock,
            now=lambda: self.now,
        )
        self.snapshot = snapshots.empty(schema=declared.SCHEMA)
        self._before = outcomes()

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


@pytest.fixture
def writing(cluster_side: clusters.Cluster) -> Writing:
    cluster_side.policy("p", host=3)
    made = Writing(cluster_side)
    made.observe("p")
    made.asked()
    return made


# -- what is written -------------------------------------------------------------------------


def test_a_status_has_the_generation_that_it_is_about_and_the_time_of_each_change(writing: Writing) -> None:
    assert writing.write("p", 1) == {"patched": 1}
    condition = {"type": "Accepted", "status": "True", "reason": "R", "message": "m"}
    first = {"placed": 1, "observedGeneration": 1, "conditions": [{**condition, "lastTransitionTime": NOW}]}
    assert writing.status("p") == first
    writing.cluster.edit_policy("p", topologyKey="another")
    writing.observe("p")
    writing.now = "2026-07-01T11:00:00Z"
    writing.clock.now += 1.0
    assert writing.write("p", 2) == {"patched": 1}
    assert writing.status("p") == {**first, "placed": 2, "observedGeneration": 2}
    writing.clock.now += 1.0
    assert writing.write("p", 2, enforced="False") == {"patched": 1}
    (changed,) = writing.status("p")["conditions"]
    assert (changed["status"], changed["lastTransitionTime"]) == ("False", "2026-07-01T11:00:00Z")


@pytest.mark.scenario("TR-12")
def test_a_status_that_does_not_differ_is_not_written(writing: Writing) -> None:
    assert writing.write("p", 1) == {"patched": 1}
    assert writing.asked() == ["GET", "PATCH"]
    writing.clock.now += 1.0
    assert writing.write("p", 1) == {"unchanged": 1}
    assert writing.asked() == []
    another = Writing(writing.cluster)  # as the next leader, whose clock is another one
    another.observe("p")
    another.now = "2026-07-01T12:00:00Z"
    writing.asked()
    assert another.write("p", 1) == {"unchanged": 1}
    assert writing.asked() == ["GET"]


def test_a_status_without_generation_is_compared_without_it(writing: Writing) -> None:
    """As of a definition that does not have the field."""
    found = effects.PatchStatus(KIND, "ns/p", {"placed": 1}, generation=False)
    writing.writer.submit(found, writing.snapshot, TERM)
    assert writing.written() == {"patched": 1}
    assert writing.status("p") == {"placed": 1}
    writing.writer.verify()
    writing.writer.submit(found, writing.snapshot, TERM)
    assert writing.written(after=1.0) == {"unchanged": 1}


@pytest.mark.scenario("TR-14")
def test_an_object_is_written_at_most_once_a_second_with_the_latest_status(writing: Writing) -> None:
    writing.cluster.policy("q", host=3)
    writing.observe("q")
    assert writing.write("p", 1) == {"patched": 1}
    for placed in range(2, 9):
        assert writing.write("p", placed) == {}
    assert writing.write("q", 1) == {"patched": 1}, "another object does not wait"
    assert writing.written(after=0.9) == {}
    assert writing.status("p")["placed"] == 1
    assert writing.written(after=0.1) == {"patched": 1}
    assert writing.status("p")["placed"] == 8


def test_a_churn_of_10000_pods_costs_one_write_a_second(writing: Writing) -> None:
    """100 pods a second come and go, and the policy's status changes with each of them."""
    for second in range(100):
        for pod in range(100):
            writing.submit("p", 100 * second + pod)
            writing.written(after=0.01)
    written = writing.asked()
    assert written.count("GET") == 1
    assert 99 <= written.count("PATCH") <= 101
    writing.written(after=1.0)
    assert writing.status("p")["placed"] == 9_999


def test_a_field_that_a_status_no_longer_has_is_removed(writing: Writing) -> None:
    writing.write("p", 1)
    writing.clock.now += 1.0
    writing.writer.submit(effects.PatchStatus(KIND, "ns/p", {"desired": 3}), writing.snapshot, TERM)
    writing.written()
    assert writing.status("p") == {"desired": 3, "observedGeneration": 1}


def test_calls_are_limited_over_all_objects(cluster_side: clusters.Cluster) -> None:
    names = [f"p{at}" for at in range(10)]
    for name in names:
        cluster_side.policy(name, host=1)
    writing = Writing(cluster_side, rate=2.0)
    writing.observe(*names)
    limit = call_limits.CallLimit(writing.clock, term=lambda: TERM, burst=2.0, rate=2.0)
    writing.writer = statuses.StatusWriter(
        cluster_side.client,
        {KIND: status_targets.KindTarget(kinds.declared(declared.POLICIES))},
        limit,
        writing.clock,
        now=lambda: NOW,
    )
    for name in names:
        writing.submit(name, 1)
    assert writing.written() == {"patched": 10}
    # 20 calls: two at once, the others half a second apart.
    assert writing.clock.now - 1000.0 == pytest.approx(9.0)


def test_a_status_of_an_undeclared_kind_is_reported(writing: Writing) -> None:
    with structlog.testing.capture_logs() as lines:
        found = effects.PatchStatus("pods", "ns/p", {"placed": 1})
        writing.writer.submit(found, writing.snapshot, TERM)
    assert [(line["event"], line["kind"]) for line in lines] == [
        ("a plugin writes an undeclared status", "pods")
    ]
    assert writing.written() == {}
    assert outcomes("pods")["undeclared"] >= 1


# -- what the API server has ----------------------------------------------------------------


def test_a_status_is_not_written_about_an_object_that_has_changed(writing: Writing) -> None:
    writing.cluster.edit_policy("p", topologyKey="another")
    assert writing.write("p", 1) == {"outdated": 1}
    assert writing.status("p") == {}
    writing.observe("p")
    assert writing.write("p", 1) == {"patched": 1}


def test_a_recreated_object_gets_no_status_of_its_predecessor(writing: Writing) -> None:
    writing.write("p", 1)
    writing.cluster.client.delete(path("p"))
    writing.cluster.policy("p", host=3)
    assert writing.written(after=1.0) == {}
    assert writing.write("p", 2) == {"conflict": 1}
    assert writing.written(after=1.0) == {"outdated": 1}
    assert writing.status("p") == {}


def test_after_a_conflict_the_object_is_read_again(writing: Writing) -> None:
    """A label is not kept in the log: no event, and no status, follows from it."""
    writing.write("p", 1)
    writing.cluster.patch(path("p"), {"metadata": {"labels": {"team": "a"}}})
    writing.asked()
    writing.clock.now += 1.0
    assert writing.write("p", 2) == {"conflict": 1}
    assert writing.asked() == ["PATCH"]
    assert writing.written(after=1.0) == {"patched": 1}
    assert writing.asked() == ["GET", "PATCH"]
    assert writing.status("p")["placed"] == 2


def test_a_newer_status_replaces_the_one_that_conflicted(writing: Writing) -> None:
    writing.write("p", 1)
    writing.cluster.patch(path("p"), {"metadata": {"labels": {"team": "a"}}})
    writing.clock.now += 1.0
    assert writing.write("p", 2) == {"conflict": 1}
    writing.submit("p", 3)
    assert writing.written(after=1.0) == {"patched": 1}
    assert writing.status("p")["placed"] == 3
    assert writing.written(after=1.0) == {}


def test_a_deleted_object_is_left_alone(writing: Writing) -> None:
    writing.cluster.client.delete(path("p"))
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 1) == {"gone": 1}
        assert writing.written(after=5.0) == {}
    assert lines == []


def test_an_object_that_is_deleted_after_it_was_read_is_left_alone(writing: Writing) -> None:
    writing.write("p", 1)
    writing.cluster.client.delete(path("p"))
    writing.clock.now += 1.0
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 2) == {"gone": 1}
    assert lines == []


def test_an_edited_status_is_restored_when_it_is_verified(writing: Writing) -> None:
    writing.write("p", 1)
    before = writing.status("p")
    writing.cluster.patch(f"{path('p')}/status", {"status": {"placed": 77}})
    writing.clock.now += 1.0
    assert writing.write("p", 1) == {"unchanged": 1}
    assert writing.status("p")["placed"] == 77
    writing.writer.verify()
    assert writing.write("p", 1) == {"patched": 1}
    assert writing.status("p") == before


# -- what the API server refuses --------------------------------------------------------------


@pytest.mark.parametrize("served", [False, True], ids=["as before", "with the subresource"])
def test_a_kind_without_status_subresource_is_reported_once_and_tried_again_later(
    writing: Writing, served: bool
) -> None:
    writing.cluster.policy("q", host=3)
    writing.observe("q")
    writing.cluster.server.objects.define_status(KIND, False)
    writing.asked()
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 1) == {"refused": 1}
        assert writing.asked() == ["GET", "PATCH", "GET"]
        for placed in range(5):
            assert writing.write("q", placed) == {"suspended": 1}
    assert writing.asked() == []
    ((level, event, kind, problem),) = (
        (line["log_level"], line["event"], line["kind"], line["problem"]) for line in lines
    )
    assert (level, event, kind) == ("warning", "cannot write a status", KIND)
    assert "has no status subresource" in problem
    writing.cluster.server.objects.define_status(KIND, served)
    writing.writer.verify()
    assert writing.write("q", 1) == {"patched" if served else "refused": 1}


@pytest.mark.scenario("TR-15")
def test_a_missing_right_is_reported_and_the_kind_suspended(writing: Writing) -> None:
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, PATCH, status=403)
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 1) == {"refused": 1}
        assert writing.write("p", 2) == {}
        assert writing.written(after=1.0) == {"suspended": 1}
    assert [line["event"] for line in lines] == ["cannot write a status"]
    assert "403" in lines[0]["problem"]


def test_a_stamped_field_keeps_the_time_at_which_it_was_first_written(writing: Writing) -> None:
    def write(placed: int, *stamped: str) -> Json:
        found = effects.PatchStatus(KIND, "ns/p", {"placed": placed}, generation=False, stamped=stamped)
        writing.writer.submit(found, writing.snapshot, TERM)
        writing.written(after=1.0)
        return writing.status("p")

    assert write(0) == {"placed": 0}
    assert write(1, "started") == {"placed": 1, "started": NOW}
    writing.now = "2026-07-01T11:00:00Z"
    assert write(2, "started") == {"placed": 2, "started": NOW}
    writing.writer.verify()  # As the next leader, which has to read it.
    assert write(3, "started") == {"placed": 3, "started": NOW}


# -- annotations -------------------------------------------------------------------------------


def annotated(writing: Writing, placed: int, **annotations: str | None) -> dict[str, int]:
    """Submit a status with annotations and write what is due; the outcomes."""
    found = effects.PatchStatus(
        KIND, "ns/p", {"placed": placed}, generation=False, annotations=dict(annotations)
    )
    writing.writer.submit(found, writing.snapshot, TERM)
    return writing.written(after=1.0)


def annotations(writing: Writing) -> Json:
    found: Json = json.loads(writing.cluster.client.get(path("p")))["metadata"].get("annotations", {})
    return found


def test_annotations_are_set_and_removed_and_others_are_kept(writing: Writing) -> None:
    writing.cluster.patch(path("p"), {"metadata": {"annotations": {"own": "kept", "old": "x"}}})
    writing.asked()
    assert annotated(writing, 1, runtime="5", old=None) == {"patched": 1}
    assert writing.asked() == ["GET", "PATCH", "PATCH"]
    assert annotations(writing) == {"own": "kept", "runtime": "5"}
    assert writing.status("p") == {"placed": 1}
    assert annotated(writing, 1, runtime="5", old=None) == {"unchanged": 1}
    writing.asked()
    assert annotated(writing, 2, runtime="5", old=None) == {"patched": 1}
    assert writing.asked() == ["PATCH"]
    assert annotated(writing, 2, runtime="6", old=None) == {"patched": 1}
    assert annotations(writing) == {"own": "kept", "runtime": "6"}
    assert writing.status("p") == {"placed": 2}


def test_without_the_right_to_patch_objects_the_status_alone_is_written(writing: Writing) -> None:
    of_object = faults.calls("PATCH", "/workloadpolicies/p")
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, of_object, status=403, times=1)
    with structlog.testing.capture_logs() as lines:
        assert annotated(writing, 1, runtime="5") == {"patched": 1}
        assert annotated(writing, 2, runtime="6") == {"patched": 1}
    assert [line["event"] for line in lines] == ["cannot write annotations"]
    assert (writing.status("p"), annotations(writing)) == ({"placed": 2}, {})
    writing.writer.verify()
    assert annotated(writing, 2, runtime="6") == {"patched": 1}
    assert annotations(writing) == {"runtime": "6"}


def test_without_the_subresource_the_status_is_written_with_the_object(writing: Writing) -> None:
    writing.cluster.server.objects.define_status(KIND, False)
    with structlog.testing.capture_logs() as lines:
        assert annotated(writing, 1, runtime="5") == {"patched": 1}
        assert (writing.status("p"), annotations(writing)) == ({"placed": 1}, {"runtime": "5"})
        # The status alone differs: the subresource is missed, and the object is patched instead.
        assert annotated(writing, 2, runtime="5") == {"failed": 1}
        assert writing.written(after=1.0) == {"patched": 1}
        assert writing.status("p") == {"placed": 2}
        writing.asked()
        assert annotated(writing, 3, runtime="5") == {"patched": 1}
    assert writing.asked() == ["PATCH"]
    assert lines == []


def test_without_subresource_and_right_the_kind_is_suspended(writing: Writing) -> None:
    writing.cluster.server.objects.define_status(KIND, False)
    of_object = faults.calls("PATCH", "/workloadpolicies/p")
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, of_object, status=403, times=1)
    with structlog.testing.capture_logs() as lines:
        assert annotated(writing, 1, runtime="5") == {"refused": 1}
        assert annotated(writing, 2, runtime="5") == {"suspended": 1}
    assert [line["event"] for line in lines] == ["cannot write annotations", "cannot write a status"]


def test_annotations_of_an_object_that_changed_meanwhile_are_written_to_the_changed_one(
    writing: Writing,
) -> None:
    assert annotated(writing, 1, runtime="5") == {"patched": 1}
    writing.cluster.patch(path("p"), {"metadata": {"annotations": {"own": "kept"}}})
    assert annotated(writing, 1, runtime="6") == {"conflict": 1}
    assert writing.written(after=1.0) == {"patched": 1}
    assert annotations(writing) == {"own": "kept", "runtime": "6"}


def test_a_status_that_the_schema_rejects_affects_no_other_object(writing: Writing) -> None:
    writing.cluster.policy("q", host=3)
    writing.observe("q")
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, PATCH, status=422)
    with structlog.testing.capture_logs() as lines:
        assert writing.write("p", 1) == {"refused": 1}
        assert writing.written(after=5.0) == {}
    assert [line["object"] for line in lines] == ["ns/p"]
    assert writing.write("q", 1) == {"patched": 1}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_delays_all_calls_and_loses_no_status(writing: Writing, status: int) -> None:
    writing.cluster.policy("q", host=3)
    writing.observe("q")
    writing.cluster.server.faults.add(faults.FaultKind.FAIL, PATCH, times=2, status=status, retry_after=3)
    writing.submit("p", 1)
    writing.submit("q", 2)
    waited = len(writing.clock.waits)
    assert writing.written() == {"failed": 2, "patched": 2}
    assert sum(writing.clock.waits[waited:]) >= 6.0, "each failure delays all calls as long as requested"
    assert (writing.status("p")["placed"], writing.status("q")["placed"]) == (1, 2)


@pytest.mark.parametrize("kind", [faults.FaultKind.DROP, faults.FaultKind.LOSE])
def test_a_status_whose_reply_is_lost_is_written_once(writing: Writing, kind: faults.FaultKind) -> None:
    writing.cluster.server.faults.add(kind, PATCH)
    assert writing.write("p", 1) == {"failed": 1}
    again = "patched" if kind is faults.FaultKind.DROP else "unchanged"
    assert writing.written(after=30.0) == {again: 1}
    assert writing.status("p")["placed"] == 1


# -- leadership ---------------------------------------------------------------------------


def test_nothing_is_written_after_the_leadership_has_ended(writing: Writing) -> None:
    writing.submit("p", 1)
    writing.term = lambda: None
    writing.asked()
    assert writing.written() == {"ended": 1}
    assert writing.asked() == []
    writing.term = lambda: "another term of this process"
    assert writing.write("p", 2) == {"ended": 1}
    assert writing.asked() == []
    assert writing.write("p", 3, term="another term of this process") == {"patched": 1}


def test_a_leadership_that_ends_between_reading_and_writing_writes_nothing(writing: Writing) -> None:
    terms = iter([TERM])
    writing.term = lambda: next(terms, None)
    assert writing.write("p", 1) == {"ended": 1}
    assert writing.asked() == ["GET"]
    assert writing.status("p") == {}


@pytest.mark.scenario("TR-13")
def test_a_former_leader_whose_call_was_delayed_overwrites_nothing(writing: Writing) -> None:
    """Its call was admitted in time and arrives late: the version that it has read is not the present one."""
    successor = Writing(writing.cluster)
    successor.observe("p")
    calls = 0

    def delayed() -> str:
        nonlocal calls
        calls += 1
        if calls == 2:  # admitted, and not sent yet
            assert successor.write("p", 5) == {"patched": 1}
        return TERM

    writing.term = delayed
    writing.submit("p", 1)
    writing.writer.run_once()
    assert writing.status("p")["placed"] == 5


def test_the_status_of_a_cluster_scoped_object_is_written_below_no_namespace() -> None:
    whole = dataclasses.replace(gadgets.GADGETS, namespaced=False)
    target = status_targets.KindTarget(kinds.declared(whole))
    assert target.path("big") == "/apis/example.org/v2/gadgets/big"
    namespaced = status_targets.KindTarget(kinds.declared(gadgets.GADGETS))
    assert namespaced.path("shop/big") == "/apis/example.org/v2/namespaces/shop/gadgets/big"
