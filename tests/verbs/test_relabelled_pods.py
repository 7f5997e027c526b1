"""Pods whose labels change while they are bound: what is judged, what counts and what is bound is one."""

import dataclasses
from collections.abc import Iterator

import msgspec
import pytest

from app.plugins.coscheduling import membership
from app.plugins.coscheduling.plugin import Coscheduling
from app.simulation.apiserver import objects
from app.store.server import embedded
from tests.support.extender import bind_plays, relabelled_pods, replicas
from tests.support.extender.relabelled_pods import BEHIND, FULL, OTHER, before_each, pods, replica


@pytest.fixture
def shop(store_server: embedded.Server, cluster: str) -> Iterator[replicas.Cluster]:
    with relabelled_pods.scene(store_server.url, cluster) as made:
        yield made


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
