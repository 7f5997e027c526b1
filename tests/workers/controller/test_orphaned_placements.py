"""Orphaned placements: when a Binding is fenced and a placement released. Only the pod is evidence."""

import contextlib
from typing import Any

import pytest
import structlog

from app.domain import events, model, projections, snapshots
from app.framework import effects
from app.kube import errors
from app.kube.writes import binding, pod_conditions
from app.simulation.apiserver import faults
from tests.project import reference_pages
from tests.support import bind_times, declared
from tests.support.workers import clusters, orphans
from workers.controller import executors
from workers.controller.placements import orphaned_placements

OLD = bind_times.OLD
FENCE = faults.calls("PATCH", "/status")
READ = faults.calls("GET", "/pods/p0")


def version(cluster: clusters.Cluster, pod: model.Pod) -> str:
    """The pod's resourceVersion now."""
    found: str = cluster.server.objects.get("pods", (pod.namespace, pod.name))["metadata"]["resourceVersion"]
    return found


def write(cluster: clusters.Cluster, pod: model.Pod, part: str = "status", **changed: str) -> None:
    """Another writer changes the pod."""

    def noted(found: dict[str, Any]) -> dict[str, Any]:
        found[part].update(changed or {"message": "written by a test"})
        return found

    cluster.server.objects.change("pods", (pod.namespace, pod.name), noted)


def bind_late(cluster: clusters.Cluster, pod: model.Pod, before: str) -> bool:
    """The Binding that was under way arrives; whether it is carried out."""
    with contextlib.suppress(errors.ApiError):
        body = b'{"metadata":{"name":"p0","uid":"%s","resourceVersion":"%s"},"target":{"name":"n"}}'
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"
        cluster.client.post(path, body % (pod.uid.encode(), before.encode()))
        return True
    return False


def asked(cluster: clusters.Cluster, method: str) -> int:
    return sum(request.method == method for request in cluster.server.seen)


@pytest.fixture
def pod(cluster_side: clusters.Cluster) -> model.Pod:
    return cluster_side.pod("p0")


def test_a_binding_without_an_outcome_is_fenced_and_its_placement_released(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    """In one round; whenever the Binding arrives, it is refused."""
    before = version(cluster_side, pod)
    settler = orphans.Settling(cluster_side, pod, before)
    assert settler.after(OLD - 1.0) == []
    assert version(cluster_side, pod) == before, "an honest bind is not disturbed"
    assert settler.after(1.0) == [(pod.uid, "unbound")]
    assert version(cluster_side, pod) != before
    assert not bind_late(cluster_side, pod, before)
    found = cluster_side.server.objects.get("pods", (pod.namespace, pod.name))
    condition = {one["type"]: one for one in found["status"]["conditions"]}[pod_conditions.FENCED]
    assert (condition["status"], condition["reason"]) == ("True", "OutcomeUnknown")
    assert f"node n for version {before} " in condition["message"]


def test_a_binding_that_is_fenced_already_costs_no_write(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    """The pod was changed: it no longer has the version that the Binding carries."""
    before = version(cluster_side, pod)
    write(cluster_side, pod)
    settler = orphans.Settling(cluster_side, pod, before)
    assert settler.after(OLD - 1.0) == []
    assert settler.after(1.0) == [(pod.uid, "unbound")]
    assert asked(cluster_side, "PATCH") == 0


def test_a_binding_that_nothing_fences_is_waited_for(cluster_side: clusters.Cluster, pod: model.Pod) -> None:
    """A placement that names no version: the API server may be working on its Binding for a minute."""
    settler = orphans.Settling(cluster_side, pod)
    assert settler.after(OLD, OLD, binding.UNFENCED - 2 * OLD - 1.0) == []
    assert asked(cluster_side, "PATCH") == 0
    assert settler.after(OLD) == [(pod.uid, "unbound")]


def test_a_pod_that_is_bound_before_the_fence_keeps_its_placement(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    before = version(cluster_side, pod)
    settler = orphans.Settling(cluster_side, pod, before)
    carried_out: list[bool] = []
    settler.before = lambda: carried_out.append(bind_late(cluster_side, pod, before))
    assert settler.after(OLD, OLD, binding.UNFENCED) == []
    assert carried_out == [True]
    found = cluster_side.server.objects.get("pods", (pod.namespace, pod.name))
    assert pod_conditions.FENCED not in {one["type"] for one in found["status"]["conditions"]}


def test_a_write_that_comes_before_the_fence_is_the_fence(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    before = version(cluster_side, pod)
    settler = orphans.Settling(cluster_side, pod, before)
    settler.before = lambda: write(cluster_side, pod)
    assert settler.after(OLD) == [(pod.uid, "unbound")]
    assert not bind_late(cluster_side, pod, before)


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_fence_that_is_refused_releases_nothing_before_its_time(
    cluster_side: clusters.Cluster, pod: model.Pod, status: int
) -> None:
    """As without the right to patch pods/status: then the placement waits as long as without a version."""
    before = version(cluster_side, pod)
    cluster_side.server.faults.add(faults.FaultKind.FAIL, FENCE, times=100, status=status)
    settler = orphans.Settling(cluster_side, pod, before)
    assert settler.after(OLD, OLD, OLD) == []
    assert asked(cluster_side, "PATCH") == 3
    assert version(cluster_side, pod) == before
    assert settler.after(binding.UNFENCED) == [(pod.uid, "unbound")]


def test_a_fence_that_never_arrives_releases_nothing(cluster_side: clusters.Cluster, pod: model.Pod) -> None:
    before = version(cluster_side, pod)
    cluster_side.server.faults.add(faults.FaultKind.DROP, FENCE)
    settler = orphans.Settling(cluster_side, pod, before)
    assert settler.after(OLD) == []
    assert bind_late(cluster_side, pod, before), "nothing prevented it"
    assert settler.after(OLD, binding.UNFENCED) == []


def test_a_fence_whose_answer_is_lost_releases_once_the_pod_shows_it(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    before = version(cluster_side, pod)
    cluster_side.server.faults.add(faults.FaultKind.LOSE, FENCE)
    settler = orphans.Settling(cluster_side, pod, before)
    assert settler.after(OLD) == []
    assert version(cluster_side, pod) != before
    assert settler.after(OLD) == [(pod.uid, "unbound")]
    assert asked(cluster_side, "PATCH") == 1


def test_a_fence_is_no_evidence_without_a_reading_after_it(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    settler = orphans.Settling(cluster_side, pod, version(cluster_side, pod))
    settler.before = lambda: cluster_side.server.faults.add(faults.FaultKind.FAIL, READ, status=500)
    assert settler.after(OLD) == []
    assert settler.after(OLD) == [(pod.uid, "unbound")]


def test_a_pod_that_is_gone_is_released(cluster_side: clusters.Cluster, pod: model.Pod) -> None:
    cluster_side.end_pod("p0")
    cluster_side.pod("p0")
    assert orphans.Settling(cluster_side, pod).after(OLD) == [(pod.uid, "gone")]


def test_a_pod_that_goes_before_the_fence_is_released(cluster_side: clusters.Cluster, pod: model.Pod) -> None:
    """The one that has its name by then is not written to."""
    settler = orphans.Settling(cluster_side, pod, version(cluster_side, pod))

    def recreated() -> None:
        cluster_side.end_pod("p0")
        cluster_side.pod("p0")

    settler.before = recreated
    assert settler.after(OLD) == [(pod.uid, "gone")]
    found = cluster_side.server.objects.get("pods", (pod.namespace, pod.name))
    assert not found["status"].get("conditions")


@pytest.mark.parametrize("node", ["n", "elsewhere"])
def test_a_bound_pod_is_left_to_the_watch(cluster_side: clusters.Cluster, pod: model.Pod, node: str) -> None:
    """Whatever version the placement names, even that of the bound pod."""
    before = version(cluster_side, pod)
    cluster_side.bind("p0", node)
    for named in (before, version(cluster_side, pod)):
        assert orphans.Settling(cluster_side, pod, named).after(OLD, OLD) == []
    assert asked(cluster_side, "PATCH") == 0


def test_a_placement_made_again_for_the_same_node_is_new(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    """Between two rounds it was released and made again: its Binding may be under way."""
    before = version(cluster_side, pod)
    settler = orphans.Settling(cluster_side, pod)
    assert settler.after(OLD, OLD) == []
    again = (
        events.PlacementReleased(pod.uid, pod.namespace, pod.name, "n", "a reason", "refused"),
        orphans.committed(pod, before),
    )
    settler.snapshot = projections.project_all(settler.snapshot, again)
    assert settler.after(OLD - 1.0) == []
    assert version(cluster_side, pod) == before
    assert settler.after(1.0) == [(pod.uid, "unbound")]


def test_a_placement_at_the_same_offset_of_another_incarnation_is_new(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    before = version(cluster_side, pod)
    settler = orphans.Settling(cluster_side, pod)
    assert settler.after(OLD, OLD) == []
    placed = orphans.committed(pod, before)
    settler.snapshot = projections.project(snapshots.empty(schema=declared.SCHEMA, incarnation="new"), placed)
    assert settler.after(OLD - 1.0) == []
    assert version(cluster_side, pod) == before
    assert settler.after(1.0) == [(pod.uid, "unbound")]


def test_time_alone_releases_nothing(cluster_side: clusters.Cluster, pod: model.Pod) -> None:
    settler = orphans.Settling(cluster_side, pod, version(cluster_side, pod))
    cluster_side.server.stop()
    assert settler.after(OLD, 3600.0, 3600.0) == []


@pytest.mark.parametrize(("patience", "kept"), [(0, orphaned_placements.PLANNED), (30, 30.0), (600, 600.0)])
def test_a_planned_placement_is_kept_for_its_patience(
    cluster_side: clusters.Cluster, pod: model.Pod, patience: int, kept: float
) -> None:
    settling = orphans.Settling(cluster_side, pod)
    planned = model.Placement(pod, "n", planned=True, patience=patience)
    settling.plan(planned)
    assert settling.after(kept - 1) == []
    assert settling.after(OLD) == [(pod.uid, "unbound")]


def test_a_planned_placement_is_released_at_once_if_that_is_requested(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    """No Binding was sent for it, so it needs no fence."""
    settling = orphans.Settling(cluster_side, pod)
    settling.plan(model.Placement(pod, "n", planned=True))
    assert settling.after() == []
    settling.request(pod.uid, "the pod has left its gang")
    assert settling.after() == [(pod.uid, "unbound")]
    assert settling.reasons == ["the pod has left its gang"]
    assert asked(cluster_side, "PATCH") == 0


def test_a_planned_placement_of_a_pod_that_is_being_deleted_is_released(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    """A finalizer holds it. The API server refuses its Binding (assignPod, pkg/registry/core/pod/storage)."""
    settling = orphans.Settling(cluster_side, pod)
    settling.plan(model.Placement(pod, "n", planned=True, patience=600))
    assert settling.after(OLD) == []
    write(cluster_side, pod, "metadata", deletionTimestamp="2026-07-01T10:00:00Z")
    assert settling.after(OLD) == [(pod.uid, "unbound")]
    assert settling.reasons == ["the pod was planned and is being deleted"]


def test_a_request_is_kept_until_the_pod_is_looked_up_and_its_placement_released(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    settling = orphans.Settling(cluster_side, pod)
    settling.plan(model.Placement(pod, "n", planned=True))
    settling.request(pod.uid)
    cluster_side.server.faults.add(faults.FaultKind.FAIL, READ, status=500)
    assert settling.after() == []
    settling.refused = 1
    assert settling.after() == []
    assert settling.after() == [(pod.uid, "unbound")]
    assert settling.after() == [(pod.uid, "unbound")], "looked up once"


def test_a_request_that_is_repeated_before_it_is_done_is_logged_once(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    """A gang that lost a seat gives up the others until they are released."""
    settling = orphans.Settling(cluster_side, pod)
    settling.plan(model.Placement(pod, "n", planned=True))
    unused: Any = None
    executor = executors.Executor(
        unused, unused, unused, unused, settling.settler.look_up, unused, lambda: "term"
    )

    def logged() -> list[str]:
        with structlog.testing.capture_logs() as lines:
            executor.submit(effects.ReleasePlacements((pod.uid,), "a seat was lost"), settling.snapshot)
        return [one["event"] for one in lines]

    assert (logged(), logged()) == (["looking up a placement"], [])
    settling.refused = 1
    assert settling.after() == []
    assert logged() == [], "its release has failed"
    assert settling.after() == [(pod.uid, "unbound")]
    assert logged() == ["looking up a placement"]


def test_requests_beyond_those_of_one_run_are_looked_up_in_the_next(
    cluster_side: clusters.Cluster, pod: model.Pod
) -> None:
    """Two gangs that lose a seat at the same time release all others soon."""
    settling = orphans.Settling(cluster_side, pod)
    lost = [
        model.Pod(uid=f"lost-{number:03}", namespace="shop", name=f"lost-{number:03}")
        for number in range(2 * orphaned_placements.MAX_LOOKUPS)
    ]
    settling.plan(*[model.Placement(one, "n", planned=True, patience=600) for one in lost])
    for one in lost:
        settling.request(one.uid)
    assert len(settling.after()) == orphaned_placements.MAX_LOOKUPS
    assert [uid for uid, _ in settling.after()] == [one.uid for one in lost]


def test_the_oldest_placements_are_looked_up_first(cluster_side: clusters.Cluster, pod: model.Pod) -> None:
    settling = orphans.Settling(cluster_side, pod)
    gone = [
        model.Pod(uid=f"gone-{number}", namespace="shop", name=f"gone-{number}")
        for number in range(orphaned_placements.MAX_LOOKUPS + 5)
    ]
    settling.snapshot = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA), [orphans.committed(one, "") for one in gone]
    )
    oldest = [one.uid for one in gone[: orphaned_placements.MAX_LOOKUPS]]
    assert [uid for uid, _ in settling.after(OLD)] == oldest


@pytest.mark.parametrize("requested", [True, False])
def test_a_seat_that_ends_does_not_wait_for_all_older_seats(
    cluster_side: clusters.Cluster, pod: model.Pod, requested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older seats are kept for long, and so many that the first are due again before the last are."""
    monkeypatch.setattr(orphaned_placements, "MAX_LOOKUPS", 2)
    older = [cluster_side.pod(f"older-{number:02}") for number in range(14)]
    settling = orphans.Settling(cluster_side, pod)
    settling.plan(*[model.Placement(one, "n", planned=True, patience=86_400) for one in older])
    settling.plan(model.Placement(pod, "n", planned=True, patience=86_400 if requested else 30))
    assert settling.after(*[2.0] * 10) == []
    if requested:
        settling.request(pod.uid)
        assert settling.after() == [(pod.uid, "unbound")]
    else:
        assert settling.after(*[2.0] * 14)[:1] == [(pod.uid, "unbound")]


def test_a_binding_is_fenced_before_planned_placements_are_looked_up(
    cluster_side: clusters.Cluster, pod: model.Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are requested, and however long ago they were looked up."""
    monkeypatch.setattr(orphaned_placements, "MAX_LOOKUPS", 2)
    lost = [cluster_side.pod(f"lost-{number:02}") for number in range(14)]
    settling = orphans.Settling(cluster_side, lost[0])
    settling.plan(*[model.Placement(one, "n", planned=True, patience=86_400) for one in lost])
    settling.after(1.0)
    settling.snapshot = projections.project(
        settling.snapshot, orphans.committed(pod, version(cluster_side, pod))
    )
    settling.after()
    settling.clock.now += OLD
    for one in lost:
        settling.request(one.uid)
    assert (pod.uid, "unbound") in settling.after()


def test_the_pages_state_after_which_time_no_binding_is_under_way() -> None:
    docs = reference_pages.ROOT / "docs"
    assert f"the controller does so {OLD:.0f} s after the placement" in (docs / "concepts.md").read_text()
    described = f"wait {OLD:.0f} s (`budgets.bind` and {binding.UNDER_WAY} s)"
    assert described in (docs / "how-to" / "store.md").read_text()
