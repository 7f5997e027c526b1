"""Pods whose labels change while they are bound: what is judged, what counts and what is bound is one."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest

from app.domain import events, model, verdicts
from app.framework import cycles, pipeline, registry
from app.kube.writes import binding
from app.plugins.coscheduling import membership
from app.plugins.coscheduling.plugin import Coscheduling
from app.simulation import populations
from app.simulation.apiserver import faults, objects
from app.store.server import embedded
from tests.support.extender import bind_plays, replicas

OTHER = {"app": "other"}
BEHIND = "the log does not show the pod as it is yet; nothing was bound, try again"
FULL = "no capacity"


@pytest.fixture
def shop(store_server: embedded.Server, cluster: str) -> Iterator[replicas.Cluster]:
    """A host with capacity for one pod of the policy, and a group of two; the log is up to date."""
    with replicas.cluster(store_server.url, cluster) as made:
        node = populations.node("h1", {replicas.KEY: "host"})
        node["status"]["allocatable"] |= {"cpu": "8", "memory": "8Gi", "pods": "110"}
        made.api.objects.create("nodes", node)
        made.policy({"host": 1})
        for name in ("a", "b"):
            metadata = {"namespace": replicas.NAMESPACE, "name": name}
            made.api.objects.create("sigspodgroups", {"metadata": metadata, "spec": {"minMember": 2}})
        made.see()
        yield made


def replica(shop: replicas.Cluster, beside: Sequence[type[object]] = ()) -> replicas.Replica:
    """A replica whose sleeps are all that takes time."""
    one = shop.replica(beside=beside)
    one.clock.passes = True
    return one


def pods(shop: replicas.Cluster, names: str, labels: dict[str, str]) -> list[model.Pod]:
    """Pods with these labels that the log shows."""
    made = [shop.pod(name, labels) for name in names.split()]
    shop.see()
    return made


def before_each(
    one: replicas.Replica, monkeypatch: pytest.MonkeyPatch, happens: Callable[[int], None]
) -> list[binding.Carried]:
    """Have something happen before each Binding, given how many were sent before; what they carried."""
    bind, sent = one.context.binder.bind, list[binding.Carried]()

    def late(
        namespace: str, name: str, uid: str, to: str, *, carried: binding.Carried, timeout: float
    ) -> binding.Outcome:
        happens(len(sent))
        sent.append(carried)
        return bind(namespace, name, uid, to, carried=carried, timeout=timeout)

    monkeypatch.setattr(one.context.binder, "bind", late)
    return sent


def unnamed(found: objects.Json) -> objects.Json:
    """The pod without the label that names its policy."""
    found["metadata"]["labels"].pop(replicas.LABEL)
    return found


# -- the log does not show the change yet --------------------------------------------------------


def test_pods_that_were_labelled_into_a_policy_wait_until_the_log_shows_it(shop: replicas.Cluster) -> None:
    one = replica(shop)
    both = [bind_plays.relabelled(shop, pod, replicas.WEB) for pod in pods(shop, "p0 p1", OTHER)]
    for pod in both:
        one.offer(pod)
        assert BEHIND in one.bind(pod, "h1")
    assert (one.count("host"), shop.asked("/binding")) == (0, 0)
    shop.see()
    answers = [one.bind(pod, "h1") for pod in both]
    assert answers[0] == ""
    assert FULL in answers[1]
    shop.see()
    assert (shop.quotas_used(), shop.most("host")) == ({"shop/spread|role=host": 1}, 1)


def test_a_pod_that_is_labelled_between_filter_and_bind_leaves_nothing_counted(
    shop: replicas.Cluster,
) -> None:
    """The Binding is refused for the former version; what was placed for it does not hold any more."""
    one = replica(shop)
    both = pods(shop, "p0 p1", OTHER)
    for pod in both:
        one.offer(pod)
    for pod in both:
        bind_plays.relabelled(shop, pod, replicas.WEB)
        assert BEHIND in one.bind(pod, "h1")
    assert not one.snapshot().placements
    shop.see()
    assert (shop.quotas_used(), one.count("host"), shop.most("host")) == ({}, 0, 0)
    assert one.bind(both[0], "h1") == ""
    assert FULL in one.bind(both[1], "h1")


def test_a_bind_goes_on_as_soon_as_the_log_shows_the_pod(shop: replicas.Cluster) -> None:
    one = replica(shop)
    (pod,) = pods(shop, "p0", OTHER)
    now = bind_plays.relabelled(shop, pod, replicas.WEB)
    one.offer(now)

    def recorded(seconds: float) -> None:
        one.clock.sleep(seconds)
        if len(one.clock.slept) == 2:
            shop.see()

    one.context = dataclasses.replace(one.context, sleep=recorded)
    assert one.bind(now, "h1") == ""
    assert len(one.clock.slept) == 2
    assert (shop.bound(pod), one.count("host")) == ("h1", 1)


def test_a_wait_for_the_log_is_short_and_others_are_bound_meanwhile(shop: replicas.Cluster) -> None:
    """While no recorder writes, each attempt takes a second at most, and few reads."""
    one = replica(shop)
    pod, other, web = (*pods(shop, "p0 p1", OTHER), *pods(shop, "web", dict(replicas.WEB)))
    now = bind_plays.relabelled(shop, pod, replicas.WEB)
    for attempt in range(1, 4):
        one.offer(now)
        began = one.clock.monotonic()
        assert BEHIND in one.bind(now, "h1")
        assert one.clock.monotonic() - began <= 1.0
        assert 3 <= shop.asked("/p0") / attempt <= 8
    assert [one.bind(each, "h1") for each in (other, web)] == ["", ""]
    assert one.count("host") == 1


def test_a_label_that_no_policy_selects_is_not_waited_for(shop: replicas.Cluster) -> None:
    """It is read once, because what was sent may be older than the log."""
    one = replica(shop)
    (pod,) = pods(shop, "p0", dict(replicas.WEB))
    now = bind_plays.relabelled(shop, pod, {"version": "2"})
    one.offer(now)
    sent = len(shop.api.seen)
    assert one.bind(now, "h1") == ""
    assert [request.method for request in shop.api.seen[sent:]] == ["GET", "POST"]
    assert one.clock.slept == []


def test_a_pod_that_has_not_changed_is_not_read(shop: replicas.Cluster) -> None:
    one = replica(shop)
    (pod,) = pods(shop, "p0", dict(replicas.WEB))
    one.offer(pod)
    sent = len(shop.api.seen)
    assert one.bind(pod, "h1") == ""
    assert [request.method for request in shop.api.seen[sent:]] == ["POST"]


def test_what_counters_do_not_read_is_not_waited_for(shop: replicas.Cluster) -> None:
    """During an upgrade the recorder may keep other annotations than the extender for as long as it takes."""
    one = replica(shop)
    (pod,) = pods(shop, "p0", dict(replicas.WEB))
    more = msgspec.structs.replace(
        pod, annotations={"newer": "kept"}, unscheduled="0/1 nodes", nominated="h1"
    )
    one.offer(more)
    sent = len(shop.api.seen)
    assert one.bind(more, "h1") == ""
    assert [request.method for request in shop.api.seen[sent:]] == ["POST"]


def test_a_pod_that_the_log_shows_later_than_it_was_sent_is_read_once(shop: replicas.Cluster) -> None:
    one = replica(shop)
    (pod,) = pods(shop, "p0", OTHER)
    one.offer(pod)
    bind_plays.relabelled(shop, pod, replicas.WEB)
    shop.see()
    sent = len(shop.api.seen)
    assert one.bind(pod, "h1") == ""
    assert [request.method for request in shop.api.seen[sent:]] == ["GET", "POST"]
    assert (one.clock.slept, one.count("host")) == ([], 1)


def test_a_pod_that_names_the_policy_only_in_the_log_does_not_exceed_its_quota(
    shop: replicas.Cluster,
) -> None:
    """It counts alike in both versions, and only the later one is limited."""
    one = replica(shop)
    (full,) = pods(shop, "full", dict(replicas.WEB))
    assert one.bind(full, "h1") == ""
    (pod,) = pods(shop, "p0", {"app": "web"})
    one.offer(pod)
    bind_plays.relabelled(shop, pod, replicas.WEB)
    shop.see()
    before = len(shop.recorded())
    assert FULL in one.bind(pod, "h1")
    assert (len(shop.recorded()), one.count("host")) == (before, 1)


def test_a_pod_that_names_the_policy_only_in_the_memory_is_bound(shop: replicas.Cluster) -> None:
    one = replica(shop)
    (full,) = pods(shop, "full", dict(replicas.WEB))
    assert one.bind(full, "h1") == ""
    (pod,) = pods(shop, "p0", dict(replicas.WEB))
    one.offer(pod)
    shop.api.objects.change("pods", (pod.namespace, pod.name), unnamed)
    shop.see()
    assert one.bind(pod, "h1") == ""
    assert shop.bound(pod) == "h1"


def test_a_pod_that_the_log_shows_changed_during_the_call_is_read(shop: replicas.Cluster) -> None:
    """The first append loses a race, and the next snapshot shows the change, too."""
    one = replica(shop)
    full, pod = *pods(shop, "full", dict(replicas.WEB)), *pods(shop, "p0", {"app": "web"})
    one.offer(pod)
    one.context = replicas.with_state(one, replicas.Behind(one, looks=1))
    bind_plays.relabelled(shop, pod, replicas.WEB)
    shop.see()
    assert replica(shop).bind(full, "h1") == ""
    before = len(shop.recorded())
    assert FULL in one.bind(pod, "h1")
    assert (len(shop.recorded()), one.count("host")) == (before, 1)


def test_a_replica_that_did_not_filter_the_pod_judges_what_it_reads(shop: replicas.Cluster) -> None:
    one = replica(shop)
    (full,) = pods(shop, "full", dict(replicas.WEB))
    assert one.bind(full, "h1") == ""
    (pod,) = pods(shop, "p0", OTHER)
    bind_plays.relabelled(shop, pod, replicas.WEB)
    assert BEHIND in one.bind(pod, "h1")
    shop.see()
    assert FULL in one.bind(pod, "h1")


def test_a_pod_that_the_log_does_not_have_is_judged_as_it_was_read(
    shop: replicas.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replica(shop)
    (full,) = pods(shop, "full", dict(replicas.WEB))
    assert one.bind(full, "h1") == ""
    pod = shop.pod("p0", OTHER)
    one.offer(pod)

    def relabelled(before: int) -> None:
        if not before:
            bind_plays.relabelled(shop, pod, replicas.WEB)

    sent = before_each(one, monkeypatch, relabelled)
    assert FULL in one.bind(pod, "h1")
    assert (len(sent), shop.bound(pod), shop.most("host")) == (1, "", 1)


def test_a_pod_that_leaves_its_gang_is_not_bound_to_its_seat(shop: replicas.Cluster) -> None:
    """filter refuses it as a member of the other gang; so does bind, before the log shows the change."""
    members = pods(shop, "a-0 a-1", {membership.SIGS_LABEL: "a"})
    one = replica(shop, (Coscheduling,))
    assert one.bind(members[0], "h1") == ""
    now = bind_plays.relabelled(shop, members[1], {membership.SIGS_LABEL: "b"})
    one.offer(now)
    assert not one.filter(now).trace.kept
    assert "gang sigs/shop/b: 1 of 2 members exist" in one.bind(now, "h1")
    assert shop.bound(now) == ""


# -- a placement without a Binding ---------------------------------------------------------------


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
