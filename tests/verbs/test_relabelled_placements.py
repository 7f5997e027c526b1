"""Placements without a Binding of pods whose labels have changed since: which hold, and what is decided."""

import dataclasses
from collections.abc import Iterator

import msgspec
import pytest

from app.domain import events, verdicts
from app.framework import cycles, pipeline, registry
from app.plugins.coscheduling import membership
from app.plugins.coscheduling.plugin import Coscheduling
from app.simulation.apiserver import faults, objects
from app.store import errors
from app.store.log import batches
from app.store.server import embedded
from tests.support.extender import bind_plays, relabelled_pods, replicas
from tests.support.extender.relabelled_pods import BEHIND, FULL, OTHER, before_each, pods, replica


@pytest.fixture
def shop(store_server: embedded.Server, cluster: str) -> Iterator[replicas.Cluster]:
    with relabelled_pods.scene(store_server.url, cluster) as made:
        yield made


def test_a_void_placement_of_a_relabelled_pod_is_decided_again(
    shop: replicas.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replica(shop)
    (full,) = pods(shop, "full", dict(replicas.WEB))
    (late,) = pods(shop, "late", OTHER)
    assert one.bind(full, "h1") == ""
    one.offer(late)

    def relabelled(before: int) -> None:
        if not before:
            bind_plays.relabelled(shop, late, replicas.WEB)
            shop.see()

    sent = before_each(one, monkeypatch, relabelled)
    assert FULL in one.bind(late, "h1")
    assert (len(sent), shop.bound(late), one.count("host")) == (1, "", 1)
    released = [event for event in shop.recorded() if isinstance(event, events.PlacementReleased)]
    assert [(event.cause, event.reason) for event in released] == [
        ("unbound", "the pod has changed since it was placed")
    ]


@pytest.mark.parametrize("first", [0, 1], ids=["no member is bound", "a member is bound"])
def test_a_member_with_a_label_that_no_rule_reads_keeps_its_place(
    shop: replicas.Cluster, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """A release would let another pod take it, and would count as the loss of a seat."""
    one = replica(shop, (Coscheduling,))
    members = pods(shop, "a-0 a-1", {membership.SIGS_LABEL: "a"})
    for member in members:
        one.offer(member)

    def relabelled(before: int) -> None:
        if before == first:
            bind_plays.relabelled(shop, members[first], {"version": "2"})
            shop.see()

    sent = before_each(one, monkeypatch, relabelled)
    assert [one.bind(member, "h1") for member in members] == ["", ""]
    assert len(sent) == 3
    assert not any(isinstance(event, events.PlacementReleased) for event in shop.recorded())
    shop.see()
    assert [shop.bound(member) for member in members] == ["h1", "h1"]


def test_a_seat_with_a_label_that_no_rule_reads_is_taken_in_one_append(shop: replicas.Cluster) -> None:
    one = replica(shop, (Coscheduling,))
    members = pods(shop, "a-0 a-1", {membership.SIGS_LABEL: "a"})
    assert one.bind(members[0], "h1") == ""
    now = bind_plays.relabelled(shop, members[1], {"version": "2"})
    shop.see()
    one.offer(now)
    assert one.bind(now, "h1") == ""
    assert not any(isinstance(event, events.PlacementReleased) for event in shop.recorded())


@pytest.mark.parametrize("bound_since", [False, True], ids=["unbound", "bound by another client"])
def test_a_void_placement_that_is_as_the_pod_and_not_as_the_log_is_not_left(
    shop: replicas.Cluster, monkeypatch: pytest.MonkeyPatch, *, bound_since: bool
) -> None:
    """The pod was labelled into the policy and out of it again, and the log shows the former only.

    It stays for a pod that another client has bound meanwhile: nothing else counts it on the node.
    """
    one = replica(shop)
    (pod,) = pods(shop, "p0", OTHER)
    one.offer(pod)

    def former(found: objects.Json) -> objects.Json:
        found["metadata"]["labels"] = dict(OTHER)
        return found

    def relabelled(before: int) -> None:
        bind_plays.relabelled(shop, pod, replicas.WEB)
        shop.see()
        shop.api.objects.change("pods", (pod.namespace, pod.name), former)

    def bound(seconds: float) -> None:
        one.clock.sleep(seconds)
        if len(one.clock.slept) == 1:
            shop.put(pod, "h1")

    sent = before_each(one, monkeypatch, relabelled)
    if bound_since:
        one.context = dataclasses.replace(one.context, sleep=bound)
    assert BEHIND in one.bind(pod, "h1")
    assert len(sent) == 1
    assert (pod.uid in one.snapshot().placements) == bound_since


@pytest.mark.parametrize(
    "problem", [errors.Conflict(("pod",)), errors.CeilingReached("host", 1, 1)], ids=type
)
def test_a_void_placement_that_cannot_be_replaced_is_not_left(
    shop: replicas.Cluster, monkeypatch: pytest.MonkeyPatch, problem: errors.StoreError
) -> None:
    one = replica(shop)
    (pod,) = pods(shop, "p0", dict(replicas.WEB))
    one.offer(pod)
    append = one.context.log.append

    def failing(batch: batches.Batch, guard: batches.Guard, *, timeout: float) -> batches.Appended:
        if any(isinstance(event, events.PlacementsCommitted) for event in batch.events):
            one.clock.sleep(1.0)
            raise problem
        return append(batch, guard, timeout=timeout)

    def relabelled(before: int) -> None:
        bind_plays.relabelled(shop, pod, {"version": "2"})
        shop.see()
        monkeypatch.setattr(one.context.log, "append", failing)

    sent = before_each(one, monkeypatch, relabelled)
    assert one.bind(pod, "h1") != ""
    assert (len(sent), one.count("host")) == (1, 0)


def test_a_void_placement_of_a_pod_that_cannot_be_read_is_not_left(
    shop: replicas.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read is that of a call that waits for the log; the Binding was refused before."""
    one = replica(shop)
    (pod,) = pods(shop, "p0", OTHER)
    one.offer(pod)

    def unreadable(seconds: float) -> None:
        shop.api.faults.add(faults.FaultKind.FAIL, lambda request: request.method == "GET", status=500)

    def relabelled(before: int) -> None:
        bind_plays.relabelled(shop, pod, replicas.WEB)

    one.context = dataclasses.replace(one.context, sleep=unreadable)
    sent = before_each(one, monkeypatch, relabelled)
    assert "cannot be read" in one.bind(pod, "h1")
    assert (len(sent), pod.uid in one.snapshot().placements) == (1, False)


def test_filter_is_not_asked_about_a_pod_that_another_client_has_bound(
    shop: replicas.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log does not show it yet; the outcome of the Binding shows by whom it was bound."""
    one, asked, judge = replica(shop), list[str](), pipeline.run_filter
    (pod,) = pods(shop, "p0", dict(replicas.WEB))
    shop.put(pod, "h1")

    def judged(plugins: registry.Registry, cycle: cycles.Cycle) -> verdicts.Trace:
        asked.append(cycle.pod.node)
        return judge(plugins, cycle)

    monkeypatch.setattr(pipeline, "run_filter", judged)
    assert one.bind(pod, "h1") == ""
    assert asked == [""]
    shop.see()
    assert (one.count("host"), shop.bound(pod)) == (1, "h1")


def test_a_retry_does_not_repeat_the_placement_of_a_pod_that_was_relabelled(shop: replicas.Cluster) -> None:
    """The outcome of its Binding was unknown, and the relabel has made that Binding impossible."""
    one, other = replica(shop), replica(shop)
    (full,) = pods(shop, "full", dict(replicas.WEB))
    (late,) = pods(shop, "late", OTHER)
    assert one.bind(full, "h1") == ""
    shop.api.faults.add(faults.FaultKind.FAIL, faults.calls("POST", "/binding"), status=504)
    assert "not known" in one.bind(late, "h1")
    bind_plays.relabelled(shop, late, replicas.WEB)
    shop.see()
    assert FULL in other.bind(late, "h1")
    assert (shop.bound(late), one.count("host")) == ("", 1)


def test_a_placement_stays_while_its_binding_may_be_under_way(shop: replicas.Cluster) -> None:
    """Whatever the log shows: only another version of the pod is evidence that it is void."""
    one, other = replica(shop), replica(shop)
    (late,) = pods(shop, "late", OTHER)
    shop.api.faults.add(faults.FaultKind.FAIL, faults.calls("POST", "/binding"), status=504)
    assert "not known" in one.bind(late, "h1")
    other.offer(msgspec.structs.replace(late, labels=dict(replicas.WEB)))
    assert "another call is binding the pod" in other.bind(late, "h1")
    assert late.uid in one.snapshot().placements


def test_a_seat_does_not_hold_for_a_pod_that_a_policy_limits_now(shop: replicas.Cluster) -> None:
    """Neither for filter nor for bind; the seat stays counted until it is given up."""
    one = replica(shop, (Coscheduling,))
    (full,) = pods(shop, "full", dict(replicas.WEB))
    assert one.bind(full, "h1") == ""
    members = pods(shop, "a-0 a-1", {membership.SIGS_LABEL: "a"})
    assert one.bind(members[0], "h1") == ""
    now = bind_plays.relabelled(shop, members[1], replicas.WEB)
    shop.see()
    one.offer(now)
    found = one.filter(now).trace
    assert not found.kept
    assert FULL in found.refusals[0].reason
    assert FULL in one.bind(now, "h1")
    assert shop.quotas_used() == {"shop/spread|role=host": 1}


def test_a_seat_is_kept_by_a_change_that_no_counter_reads(shop: replicas.Cluster) -> None:
    one = replica(shop, (Coscheduling,))
    members = pods(shop, "a-0 a-1", {membership.SIGS_LABEL: "a"})
    assert one.bind(members[0], "h1") == ""
    shop.touch(members[1])
    noted = msgspec.structs.replace(members[1], annotations={"note": "new"}, unscheduled="0/1 nodes")
    shop.see()
    one.offer(noted)
    assert one.filter(noted).trace.kept == {"h1"}
    assert one.bind(noted, "h1") == ""
    assert not any(isinstance(event, events.PlacementReleased) for event in shop.recorded())


def test_a_seat_is_not_given_up_for_what_the_pod_was(shop: replicas.Cluster) -> None:
    """Another replica filtered it since: this one has a version from before the seat in its memory."""
    one, other = replica(shop, (Coscheduling,)), replica(shop, (Coscheduling,))
    members = pods(shop, "a-0 a-1", {membership.SIGS_LABEL: "a"})
    other.offer(members[1])
    bind_plays.relabelled(shop, members[1], {"version": "2"})
    shop.see()
    assert one.bind(members[0], "h1") == ""
    assert other.bind(members[1], "h1") == ""
    assert not any(isinstance(event, events.PlacementReleased) for event in shop.recorded())


def test_a_seat_is_not_given_up_while_the_log_is_behind(shop: replicas.Cluster) -> None:
    """The pod could be placed without it, and would lose its seat for nothing while it has to wait."""
    one = replica(shop, (Coscheduling,))
    members = pods(shop, "a-0 a-1", {membership.SIGS_LABEL: "a"})
    assert one.bind(members[0], "h1") == ""
    now = bind_plays.relabelled(shop, members[1], replicas.WEB)
    one.offer(now)
    assert BEHIND in one.bind(now, "h1")
    assert members[1].uid in one.snapshot().placements
    shop.see()
    assert one.bind(now, "h1") == ""
    assert one.count("host") == 1
