"""bind on real parts: what is placed, what is released, and that no answer is success without a bound pod."""

import socket
import threading
from collections.abc import Iterator

import pytest

from app.kube.client import clients
from app.kube.writes import binding
from app.simulation.apiserver import faults, requests, status_replies
from app.verbs import placer
from tests.support.extender import bind_plays, replicas
from tests.support.kube import plain_access

BINDING = faults.calls("POST", "/binding")
READING = faults.calls("GET", "/web-1")


def test_the_placement_is_first_and_a_repeat_is_the_same_success(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    pod, before = shop.pod("web-1"), shop.see()

    assert one.bind(pod, "h1") == ""
    assert one.events(after=before) == [f"PlacementsCommitted pod:{pod.uid}"]
    assert (shop.bound(pod), one.count("host")) == ("h1", 1)
    # Before the watch shows it and after, here and there.
    assert other.bind(pod, "h1") == ""
    seen = shop.see()
    assert other.bind(pod, "h1") == ""
    assert one.bind(pod, "h1") == ""
    assert one.events(after=before) == [f"PlacementsCommitted pod:{pod.uid}", f"PodSeen pod:{pod.uid}"]
    assert one.snapshot().offset == seen
    assert one.count("host") == 1


@pytest.mark.scenario("LX-12")
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "not seen"])
def test_a_pod_that_is_gone_is_not_bound(shop: replicas.Cluster, seen: bool) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    if seen:
        shop.see()
        one.offer(pod)
    shop.delete(pod)
    assert ("404" if seen else f"{pod.key} with uid {pod.uid} is gone") in one.bind(pod, "h1")
    shop.see()
    assert "is gone" in shop.replica().bind(pod, "h1")
    assert (one.count("host"), shop.bound(pod)) == (0, "")


@pytest.mark.scenario("LX-12")
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "not seen"])
def test_a_namesake_is_not_bound_in_its_place(shop: replicas.Cluster, seen: bool) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    shop.delete(pod)
    namesake = shop.pod("web-1")
    if seen:
        shop.see()
    assert one.bind(pod, "h1") != ""
    assert (shop.bound(namesake), one.count("host")) == ("", 0)
    assert one.bind(namesake, "h1") == ""
    assert one.count("host") == 1


@pytest.mark.scenario("LX-12")
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "not seen"])
def test_a_pod_that_is_bound_elsewhere_is_not_bound_again(shop: replicas.Cluster, seen: bool) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    shop.put(pod, "m1")
    if seen:
        shop.see()
    assert "already bound to node m1" in one.bind(pod, "h1")
    shop.see()
    assert (shop.bound(pod), one.count("host"), one.count("member")) == ("m1", 0, 1)


def test_a_uid_under_another_name_is_refused(shop: replicas.Cluster) -> None:
    one, pod, other = shop.replica(), shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    assert f"belongs to {pod.key}" in one.bind(other, "h1", uid=pod.uid)
    assert shop.bound(pod) == shop.bound(other) == ""


@pytest.mark.scenario("PR-23")
@pytest.mark.parametrize("status", [403, 422])
def test_a_refused_binding_releases_the_placement_and_keeps_the_nomination(
    shop: replicas.Cluster, status: int
) -> None:
    one, other = shop.replica(), shop.replica()
    pod = shop.pod("web-1", priority=10)
    shop.nominate(pod, "h1")
    before = shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=status)

    assert "the API server refused the binding" in one.bind(pod, "h1")

    assert one.events(after=before) == [
        f"PlacementsCommitted pod:{pod.uid}",
        f"PlacementReleased pod:{pod.uid}",
    ]
    snapshot = other.snapshot()
    assert (other.count("host"), snapshot.placements.get(pod.uid)) == (0, None)
    assert pod.uid in snapshot.nominated
    assert pod.uid in snapshot.waiting
    # A pod of less priority still may not take the place; the nominated one may.
    lesser = shop.pod("web-2")
    shop.see()
    assert {"h1", "h2"} <= other.filter(lesser).trace.refused
    assert other.bind(pod, "h1") == ""
    assert shop.bound(pod) == "h1"


@pytest.mark.parametrize(("priority", "bound"), [(0, True), (10, False)])
def test_equal_pods_that_are_bound_at_the_same_time_do_not_refuse_one_another(
    shop: replicas.Cluster, priority: int, bound: bool
) -> None:
    """kube-scheduler nominates a pod while its volumes are prepared, after filter and before bind."""
    one, first = shop.replica(), shop.pod("web-1")
    second = shop.pod("web-2", priority=priority)
    for pod in (first, second):
        shop.nominate(pod, "h1")
    shop.see()
    assert (one.bind(first, "h1") == "") == bound
    assert (one.bind(second, "h1") == "") == (not bound)
    assert one.count("host") == 1


@pytest.mark.parametrize("kind", [faults.FaultKind.LOSE, faults.FaultKind.DROP])
@pytest.mark.parametrize("times", [1, 2])
def test_a_lost_answer_is_resolved(shop: replicas.Cluster, kind: faults.FaultKind, times: int) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    shop.api.faults.add(kind, BINDING, times=times)
    error = one.bind(pod, "h1")
    assert (error == "") == (shop.bound(pod) == "h1")
    assert error == "" or kind is faults.FaultKind.DROP
    assert one.count("host") == 1


def test_an_unknown_outcome_stays_counted_until_the_api_server_shows_it(shop: replicas.Cluster) -> None:
    one, other = shop.replica(bind=1.8), shop.replica()
    pod, rival = shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    one.offer(pod)
    shop.api.faults.add(faults.FaultKind.LOSE, BINDING)
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=500)
    stalled = shop.api.faults.add(faults.FaultKind.STALL, READING, times=5)

    assert "it is not known whether the pod was bound to h1" in one.bind(pod, "h1")

    assert (shop.bound(pod), other.count("host")) == ("h1", 1)
    assert "no capacity" in other.bind(rival, "h2")
    stalled.released.set()
    stalled.times = 0
    assert one.bind(pod, "h1") == ""
    assert one.settled() == 0
    shop.see()
    assert (other.count("host"), other.snapshot().placements.get(pod.uid)) == (1, None)


def test_a_conflict_that_the_pod_does_not_explain_is_an_unknown_outcome(shop: replicas.Cluster) -> None:
    """kube-apiserver answers 409 also if etcd fails after the write was sent to it."""
    one, other = shop.replica(), shop.replica()
    pod, rival = shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    under_way: list[requests.Request] = []
    bind_plays.delay(shop, under_way, status=409)

    assert "it is not known whether the pod was bound to h1" in one.bind(pod, "h1")

    assert "no capacity" in other.bind(rival, "h2")
    shop.api.router.answer(under_way[0])
    shop.see()
    assert (shop.bound(pod), shop.bound(rival), other.count("host")) == ("h1", "", 1)


def test_a_refused_connection_binds_nothing_and_leaves_nothing_counted(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    one.offer(pod)
    shop.api.stop()
    assert "not bound: cannot connect" in one.bind(pod, "h1")
    assert one.count("host") == 0


def test_a_pod_of_which_nothing_is_known_needs_the_api_server(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    before = one.snapshot().offset
    shop.api.stop()
    error = one.bind(pod, "h1")
    assert "the pod cannot be read from the API server" in error
    assert "nothing was bound" in error
    assert one.events(after=before) == []


@pytest.fixture
def short_lived() -> Iterator[str]:
    """A server that answers one request, reads a second one, and closes without an answer."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            body = status_replies.not_found("pods", "pod").body
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            connection.recv(65_536)
            listener.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread.join()


def test_a_binding_that_was_sent_is_not_called_unsent(short_lived: str) -> None:
    """It was sent on a kept connection; that no second one can be opened is no evidence about the first."""
    client = clients.Client(plain_access.of(short_lived))
    binder = binding.ApiBinder(client)
    assert binder.get_pod("ns", "pod") is None
    assert isinstance(binder.bind("ns", "pod", "uid", "node", timeout=1.0), binding.Unknown)
    client.close()


# -- what others see of it ---------------------------------------------------------------------


@pytest.mark.scenario("WP-14")
def test_a_placement_counts_before_the_watch_shows_it(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    first, second = shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    assert one.bind(first, "h1") == ""
    trace = other.filter(second).trace
    assert trace.refused == {"h1", "h2"}
    assert set(trace.reasons().values()) == {
        "workload policy shop/spread: no capacity on these nodes (host 1/1, member 0/2)"
    }
    assert "no capacity on these nodes (host 1/1, member 0/2)" in other.bind(second, "h2")
    assert other.bind(second, "m1") == ""


def test_a_pod_that_is_placed_before_it_is_seen(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    pod = shop.pod("web-1")
    assert one.bind(pod, "h1") == ""
    assert (other.count("host"), other.snapshot().pod(pod.uid)) == (1, pod)
    shop.see()
    assert (other.count("host"), other.snapshot().placements.get(pod.uid)) == (1, None)
    shop.delete(pod)
    shop.see()
    assert (other.count("host"), other.snapshot().pod(pod.uid)) == (0, None)


def test_a_pod_that_is_placed_and_deleted_and_never_seen(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    assert one.bind(pod, "h1") == ""
    shop.delete(pod)
    shop.see()
    # The list may be older than the pod, so that it lacks the pod is no evidence; the API server's word is.
    assert one.count("host") == 1
    assert one.settled() == 1
    assert (one.count("host"), one.snapshot().pod(pod.uid)) == (0, None)


@pytest.mark.scenario("WP-14")
def test_the_last_place_is_given_away_once_however_late_the_snapshots(shop: replicas.Cluster) -> None:
    one, other = shop.replica(), shop.replica()
    first, second = shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    other.context = replicas.with_state(other, replicas.Behind(other))
    assert one.bind(first, "h1") == ""
    error = other.bind(second, "h2")
    assert "workload policy shop/spread: no capacity on these nodes (host 1/1, member 0/2)" in error
    assert (other.count("host"), shop.bound(second)) == (1, "")


def test_a_lost_race_about_the_same_pod_is_tried_again(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    one.context = replicas.with_state(one, replicas.Behind(one))
    shop.nominate(pod, "h1")
    shop.see()
    assert one.bind(pod, "h1") == ""
    assert (one.count("host"), shop.bound(pod)) == (1, "h1")


def test_a_race_that_is_always_lost_ends_in_time(
    shop: replicas.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside other work the last append may take longer than it is given at least.
    monkeypatch.setattr(placer, "MIN_LEFT", 2.0)
    one, pod = shop.replica(bind=0.3), shop.pod("web-1")
    behind = replicas.Behind(one, looks=1_000_000)
    one.context = replicas.with_state(one, behind)
    shop.nominate(pod, "h1")
    shop.see()
    assert "too many pods are placed at the same moment; nothing was bound" in one.bind(pod, "h1")
    assert (shop.bound(pod), shop.asked("/binding")) == ("", 0)


def test_a_count_that_differs_from_its_log_gives_no_place_away(shop: replicas.Cluster) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    key = f"{replicas.NAMESPACE}/{replicas.POLICY}|{replicas.KEY}=host"
    one.store.client.hset(one.store.keys.counts, key, 1)
    assert one.bind(pod, "h1") == "topolog: no capacity left on node h1"
    assert shop.bound(pod) == ""
    assert one.bind(pod, "m1") == ""


# -- an earlier placement on another node ------------------------------------------------------


@pytest.mark.scenario("WP-14")
def test_a_young_placement_is_not_released_for_another(shop: replicas.Cluster) -> None:
    """Its Binding may be under way: the pod would run on h1 while its capacity there is given away."""
    one, other = shop.replica(bind=1.8), shop.replica()
    pod, rival = shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=500)
    assert "not known" in one.bind(pod, "h1")
    before = one.snapshot().offset

    assert "is placed on node h1 and may still be bound there" in other.bind(pod, "m1")
    shop.put(pod, "h1")  # the Binding arrives
    assert "no capacity" in other.bind(rival, "h2")
    assert "already bound to node h1" in other.bind(pod, "m1")
    assert one.events(after=before) == []
    shop.see()
    assert (one.count("host"), one.count("member"), shop.most("host")) == (1, 0, 1)


def test_an_old_placement_that_was_never_bound_is_superseded(shop: replicas.Cluster) -> None:
    one, other = shop.replica(bind=1.8), shop.replica()
    pod = shop.pod("web-1")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=500)
    assert "not known" in one.bind(pod, "h1")
    before = one.snapshot().offset

    assert "may still be bound there" in other.bind(pod, "m1")
    other.clock.ahead += binding.UNFENCED
    assert other.bind(pod, "m1") == ""
    assert one.events(after=before) == [
        f"PlacementReleased pod:{pod.uid}",
        f"PlacementsCommitted pod:{pod.uid}",
    ]
    assert (one.count("host"), one.count("member"), shop.bound(pod)) == (0, 1, "m1")


def test_a_placement_that_was_bound_is_not_released(shop: replicas.Cluster) -> None:
    one, other = shop.replica(bind=1.8), shop.replica()
    pod = shop.pod("web-1")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=500)
    assert "not known" in one.bind(pod, "h1")
    shop.put(pod, "h1")
    other.clock.ahead += binding.UNFENCED
    assert "already bound to node h1" in other.bind(pod, "m1")
    assert one.count("host") == 1


def test_a_placement_of_a_pod_that_is_gone(shop: replicas.Cluster) -> None:
    one = shop.replica(bind=1.8)
    pod = shop.pod("web-1")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=500)
    assert "not known" in one.bind(pod, "h1")
    shop.delete(pod)
    assert "is gone" in one.bind(pod, "m1")
    assert one.settled() == 1
    assert one.count("host") == 0


@pytest.mark.scenario("WP-14")
def test_a_pod_that_is_never_bound_frees_its_place_on_evidence_and_a_late_bind_is_safe(
    shop: replicas.Cluster,
) -> None:
    one, other = shop.replica(bind=1.8), shop.replica()
    pod, rival = shop.pod("web-1"), shop.pod("web-2")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, BINDING, status=500)
    assert "not known" in one.bind(pod, "h1")
    unanswered = shop.api.faults.add(faults.FaultKind.FAIL, READING, status=500, times=100)
    assert other.settled() == 0, "its outcome was unknown"
    assert other.count("host") == 1
    unanswered.times = 0
    assert other.settled() == 1
    assert other.count("host") == 0

    assert other.bind(rival, "h2") == ""
    assert "no capacity" in one.bind(pod, "h1")
    assert one.bind(pod, "m1") == ""
    assert (shop.bound(pod), shop.bound(rival), shop.most("host")) == ("m1", "h2", 1)
