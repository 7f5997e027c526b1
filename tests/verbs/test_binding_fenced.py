"""A Binding carries the pod's version: the evidence that this gives, and its cost."""

from app.domain import events, projections
from app.kube.writes import binding
from app.simulation.apiserver import faults
from app.store.log import batches
from tests.support.extender import replicas

BINDING = faults.calls("POST", "/binding")


def versions(replica: replicas.Replica, *, after: int) -> list[str]:
    """The versions that the placements in the log name."""
    entries = replica.store.log.read(after, limit=1000)
    return [
        placement.resource_version
        for one in entries
        if isinstance(one.event, events.PlacementsCommitted)
        for placement in one.event.placements
    ]


def test_what_filter_was_sent_is_the_version_and_costs_no_request(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    before = shop.see()
    one.offer(pod)
    sent = len(shop.api.seen)
    assert one.bind(pod, "h1") == ""
    assert [request.method for request in shop.api.seen[sent:]] == ["POST"]
    assert versions(one, after=before) == [one.version(pod)] != [""]


def test_a_replica_that_did_not_filter_the_pod_reads_it(shop: replicas.Cluster) -> None:
    one, other, pod = shop.replica(), shop.replica(), shop.pod("web-1")
    before = shop.see()
    one.offer(pod)
    sent = len(shop.api.seen)
    assert other.bind(pod, "h1") == ""
    assert [request.method for request in shop.api.seen[sent:]] == ["GET", "POST"]
    assert versions(one, after=before) == [one.version(pod)]


def test_a_pod_that_was_written_to_meanwhile_is_bound_for_its_new_version(shop: replicas.Cluster) -> None:
    """kube-scheduler patches the status of pods itself; each version is in the log before it is sent."""
    one, pod = shop.replica(), shop.pod("web-1")
    before = shop.see()
    one.offer(pod)
    first = one.version(pod)
    shop.touch(pod)
    sent = len(shop.api.seen)
    assert one.bind(pod, "h1") == ""
    assert [request.method for request in shop.api.seen[sent:]] == ["POST", "GET", "POST"]
    assert shop.bound(pod) == "h1"
    one.offer(pod)
    named = versions(one, after=before)
    assert (named[0], len(named)) == (first, 2)
    assert int(first) < int(named[1]) < int(one.version(pod))
    assert one.count("host") == 1


def test_a_pod_that_is_always_written_to_leaves_nothing_counted(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(bind=1.5), shop.pod("web-1")
    shop.see()
    one.offer(pod)

    def busy(request: object) -> bool:
        shop.touch(pod)
        return False

    shop.api.faults.add(faults.FaultKind.FAIL, busy)
    error = one.bind(pod, "h1")
    assert "has changed while it was being bound" in error or "the time for this bind is over" in error
    assert (shop.bound(pod), one.count("host")) == ("", 0)


def test_a_place_is_free_at_once_when_its_binding_is_fenced(shop: replicas.Cluster) -> None:
    """kube-scheduler has written the failure into the pod's status: no wait, on any node."""
    one, other = shop.replica(bind=1.8), shop.replica(bind=1.8)
    pod, rival = shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=504)
    assert "not known" in one.bind(pod, "h1")
    assert "may still be bound there" in other.bind(pod, "m1")
    shop.touch(pod)
    assert other.bind(pod, "m1") == ""
    assert other.bind(rival, "h2") == ""
    assert (one.count("host"), one.count("member"), shop.bound(pod)) == (1, 1, "m1")


def test_the_same_node_is_free_at_once_when_the_binding_is_fenced(shop: replicas.Cluster) -> None:
    one, other, pod = shop.replica(bind=1.8), shop.replica(bind=1.8), shop.pod("web-1")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=504)
    assert "not known" in one.bind(pod, "h1")
    assert "another call is binding the pod" in other.bind(pod, "h1")
    shop.touch(pod)
    assert other.bind(pod, "h1") == ""
    assert shop.bound(pod) == "h1"


def test_an_old_placement_without_a_version_is_waited_for(shop: replicas.Cluster) -> None:
    """As an older Topolog wrote it: a change of the pod is no evidence."""
    one, other, pod = shop.replica(), shop.replica(bind=1.8), shop.pod("web-1")
    shop.see()
    snapshot = one.snapshot()
    event = events.placed(pod, "h1")
    projection = projections.Projection(snapshot)
    projection.apply(event)
    one.store.log.append(batches.Batch(events=(event,), increments=projection.increments))
    shop.touch(pod)
    assert "may still be bound there" in other.bind(pod, "m1")
    other.clock.ahead += binding.UNFENCED
    assert other.bind(pod, "m1") == ""


def test_a_call_that_waits_for_another_polls_less_and_less(shop: replicas.Cluster) -> None:
    one, other, pod = shop.replica(), shop.replica(), shop.pod("web-1")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=504)
    assert "not known" in one.bind(pod, "h1")
    before = shop.asked("/web-1")
    other.clock.passes = True
    assert "another call is binding the pod" in other.bind(pod, "h1")
    assert 3 <= shop.asked("/web-1") - before <= 10
