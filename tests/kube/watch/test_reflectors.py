"""The reflector against the simulated API server, with every fault between them.

Time is virtual, so that pauses cost nothing and can be checked. The effects of the changes are tested in
tests/workers.
"""

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from app.domain import model
from app.kube.client import clients, credentials
from app.kube.objects import decoding
from app.kube.watch import kinds, reflectors
from app.plugins.workload_policy import samples
from app.simulation import populations
from app.simulation.apiserver import apiservers, faults, objects
from tests.support import declared, gadgets
from tests.support.kube import fake_clock

C = TypeVar("C")


class Cluster:
    """The API server, as a test changes it."""

    def __init__(self, server: apiservers.ApiServer, client: clients.Client) -> None:
        self.server = server
        self._client = client

    def pod(self, name: str, node: str = "") -> model.Pod:
        """Create a pod."""
        body = json.dumps(populations.pod("ns", name, node=node)).encode()
        return decoding.pod(self._client.post("/api/v1/namespaces/ns/pods", body))

    def label(self, name: str, value: str) -> None:
        patch = json.dumps({"metadata": {"labels": {"l": value}}}).encode()
        self._client.patch(f"/api/v1/namespaces/ns/pods/{name}", patch)

    def delete(self, name: str) -> None:
        self._client.delete(f"/api/v1/namespaces/ns/pods/{name}")

    @property
    def lists(self) -> int:
        """Number of lists that were started."""
        met = faults.lists("pods")
        return sum(met(request) and "continue" not in request.query for request in self.server.seen)

    @property
    def watches(self) -> int:
        return sum(map(faults.watches("pods"), self.server.seen))


class Reading:
    """A reflector that is read step by step."""

    def __init__(
        self,
        client: clients.Client,
        kind: kinds.WatchedKind = kinds.PODS,
        *,
        since: str = "",
        silence: float = 20.0,
        page: int = 500,
        meanwhile: Callable[[int], None] | None = None,
    ) -> None:
        self.clock = fake_clock.VirtualClock(meanwhile)
        self.reflector = reflectors.Reflector(
            client, kind, since=since, clock=self.clock, silence=silence, page=page
        )
        self._changes = self.reflector.changes()

    def until(self, kind: type[C], fits: Callable[[C], bool] = lambda _: True) -> C:
        """The next change of that type that fits; the timeout of the test ends a wait in vain."""
        for change in self._changes:
            if isinstance(change, kind) and fits(change):
                return change
        raise AssertionError("the reflector ended")

    def next(self) -> reflectors.Change:
        """The next change other than a bookmark."""
        return next(one for one in self._changes if not isinstance(one, reflectors.Bookmark))


@pytest.fixture
def cluster(server: apiservers.ApiServer, client: clients.Client) -> Cluster:
    return Cluster(server, client)


@pytest.fixture
def reading(client: clients.Client) -> Iterator[Reading]:
    made = Reading(client)
    yield made
    made.reflector.stop()


def named(change: reflectors.Change) -> tuple[str, str]:
    """What happened to which pod."""
    match change:
        case reflectors.Seen():
            return "seen", change.object.name
        case reflectors.Gone():
            return "gone", change.name
        case _:
            return type(change).__name__, ""


# -- lists ------------------------------------------------------------------------------------


def test_a_list_comes_in_parts_and_then_as_a_whole(cluster: Cluster, client: clients.Client) -> None:
    uids = [cluster.pod(f"p{at}").uid for at in range(5)]
    reading = Reading(client, page=2)
    parts = [reading.until(reflectors.Part).objects for _ in range(3)]
    assert [len(part) for part in parts] == [2, 2, 1]
    listed = reading.until(reflectors.Listed)
    assert listed.identities == frozenset(uids)
    assert (listed.since, listed.reason) == ("", "first list")
    assert reading.until(reflectors.Bookmark).version == listed.version
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")


def test_a_compacted_page_restarts_the_list(cluster: Cluster, client: clients.Client) -> None:
    for at in range(4):
        cluster.pod(f"p{at}")
    reading = Reading(client, page=2)
    reading.until(reflectors.Part)
    cluster.delete("p0")
    survivor = cluster.pod("p9")
    cluster.server.objects.compact("pods")
    listed = reading.until(reflectors.Listed)
    assert len(listed.identities) == 4
    assert survivor.uid in listed.identities
    assert listed.reason.startswith("410 Expired")


def test_errors_of_the_list_make_pauses_grow(cluster: Cluster, reading: Reading) -> None:
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.lists("pods"), times=7, status=500)
    reading.until(reflectors.Listed)
    assert len(reading.clock.waits) == 7
    for wait, least in zip(reading.clock.waits, (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0), strict=True):
        assert least <= wait <= 2 * least


def test_the_current_problem_is_reported(cluster: Cluster, client: clients.Client) -> None:
    problems: list[str] = []
    refused = Reading(client, meanwhile=lambda _: problems.append(refused.reflector.problem))
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.lists("pods"), status=403)
    refused.until(reflectors.Listed)
    assert "403" in problems[0]
    assert refused.reflector.problem == ""


# -- watches ----------------------------------------------------------------------------------


def test_a_checkpoint_is_resumed_without_a_list(cluster: Cluster, client: clients.Client) -> None:
    cluster.pod("before")
    since = str(cluster.server.objects.version)
    cluster.pod("after")
    reading = Reading(client, since=since)
    assert reading.until(reflectors.Bookmark).version == since
    assert named(reading.next()) == ("seen", "after")
    assert cluster.lists == 0


def test_a_compacted_version_is_listed_again(cluster: Cluster, reading: Reading) -> None:
    gone = cluster.pod("gone")
    first = reading.until(reflectors.Listed)
    cluster.delete("gone")
    back = cluster.pod("gone")
    cluster.server.objects.compact("pods")
    listed = reading.until(reflectors.Listed)
    assert gone.uid not in listed.identities
    assert back.uid in listed.identities
    assert listed.reason.startswith("410 Expired")
    assert int(listed.since) >= int(first.version)


def test_a_broken_watch_resumes_at_its_last_version(cluster: Cluster, reading: Reading) -> None:
    reading.until(reflectors.Bookmark)
    for at in range(20):
        cluster.pod(f"p{at}")
        if at % 4 == 0:
            cluster.server.disconnect()
    seen = [named(reading.next()) for _ in range(20)]
    assert seen == [("seen", f"p{at}") for at in range(20)]
    assert cluster.lists == 1


def test_a_cut_stream_shows_nothing_twice(cluster: Cluster, reading: Reading) -> None:
    cluster.server.faults.add(faults.FaultKind.CUT, faults.watches("pods"), times=3)
    reading.until(reflectors.Listed)
    for at in range(6):
        cluster.pod(f"p{at}")
    seen = [named(reading.next()) for _ in range(6)]
    assert seen == [("seen", f"p{at}") for at in range(6)]
    assert cluster.lists == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_refused_watch_waits_and_lists_nothing(cluster: Cluster, reading: Reading, status: int) -> None:
    reading.until(reflectors.Listed)
    met = faults.watches("pods")
    cluster.server.faults.add(faults.FaultKind.FAIL, met, times=3, status=status, retry_after=9)
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")
    assert cluster.lists == 1
    assert len(reading.clock.waits) == 3
    assert min(reading.clock.waits) >= 9.0


def test_an_unreachable_server_is_retried(cluster: Cluster, client: clients.Client) -> None:
    def meanwhile(waits: int) -> None:
        if waits == 4:
            cluster.server.start()

    reading = Reading(client, meanwhile=meanwhile)
    reading.until(reflectors.Bookmark)
    cluster.pod("before")
    cluster.server.stop()
    assert named(reading.next()) == ("seen", "before")
    cluster.server.objects.create("pods", json.loads(json.dumps(populations.pod("ns", "later"))))
    assert named(reading.next()) == ("seen", "later")
    assert cluster.lists == 1
    assert len(reading.clock.waits) >= 4


def test_a_stalled_watch_is_reopened(cluster: Cluster, client: clients.Client) -> None:
    cluster.server.faults.add(faults.FaultKind.STALL, faults.watches("pods"))
    reading = Reading(client, silence=0.2)
    reading.until(reflectors.Listed)
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")
    assert (cluster.lists, cluster.watches) == (1, 2)


def test_a_watch_that_is_closed_at_once_is_not_a_hot_loop(cluster: Cluster, client: clients.Client) -> None:
    cluster.server.router.bookmarks = 60
    reading = Reading(client)
    reading.until(reflectors.Listed)
    cluster.server.faults.add(faults.FaultKind.DROP, faults.watches("pods"), times=5)
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")
    assert len(reading.clock.waits) == 5


def test_a_bookmark_moves_the_version_on(cluster: Cluster, reading: Reading) -> None:
    listed = reading.until(reflectors.Listed)
    cluster.server.objects.create("nodes", populations.node("n"))  # the counter goes on, pods do not
    mark = reading.until(reflectors.Bookmark, lambda one: one.version != listed.version)
    assert int(mark.version) > int(listed.version)


def test_stop_ends_a_watch_that_waits(cluster: Cluster, client: clients.Client) -> None:
    cluster.server.router.bookmarks = 60
    reflector = reflectors.Reflector(client, kinds.PODS)
    watching = threading.Event()
    ended = threading.Event()

    def read() -> None:
        for change in reflector.changes():
            if isinstance(change, reflectors.Bookmark):
                watching.set()
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert watching.wait(10)
    reflector.stop()
    assert ended.wait(10)
    thread.join()


def test_stop_ends_a_pause(cluster: Cluster, client: clients.Client) -> None:
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.lists("pods"), times=1000)
    reflector = reflectors.Reflector(client, kinds.PODS)
    thread = threading.Thread(target=lambda: list(reflector.changes()))
    thread.start()
    while not reflector.problem:
        threading.Event().wait(0.01)
    reflector.stop()
    thread.join(10)
    assert not thread.is_alive()


# -- objects ----------------------------------------------------------------------------------


def line(kind: str, uid: str, version: int, name: str = "x") -> bytes:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return json.dumps({"type": kind, "object": {"metadata": metadata, "spec": {}, "status": {}}}).encode()


@pytest.mark.scenario("WP-15")
def test_a_version_that_is_not_newer_is_ignored(cluster: Cluster, client: clients.Client) -> None:
    cluster.server.router.bookmarks = 60
    reading = Reading(client)
    at = int(reading.until(reflectors.Listed).version)
    lines = (
        line("MODIFIED", "a", at),  # in the list already
        line("MODIFIED", "a", at + 10),
        line("MODIFIED", "a", at + 10),
        line("MODIFIED", "a", at + 5),
        line("MODIFIED", "b", at + 7),  # older than the version of another object, which does not matter
        line("DELETED", "a", at + 12),
        line("MODIFIED", "a", at + 11),  # late, after the deletion
        line("ADDED", "c", at + 13, "x"),
    )
    for one in lines:
        cluster.server.objects.send_raw("pods", one)
    changes = [reading.next() for _ in range(4)]
    yielded = [one for one in changes if isinstance(one, reflectors.Seen | reflectors.Gone)]
    assert [(named(one)[0], one.version) for one in yielded] == [
        ("seen", str(at + 10)),
        ("seen", str(at + 7)),
        ("gone", str(at + 12)),
        ("seen", str(at + 13)),
    ]


def test_a_recreated_pod_is_another_pod(cluster: Cluster, reading: Reading) -> None:
    reading.until(reflectors.Bookmark)
    first = cluster.pod("x")
    cluster.delete("x")
    second = cluster.pod("x")
    uids = []
    for change in (reading.next() for _ in range(4)):
        assert isinstance(change, reflectors.Seen | reflectors.Gone)
        uids.append(change.uid if isinstance(change, reflectors.Gone) else change.object.uid)
    assert uids == [first.uid, first.uid, first.uid, second.uid]


def test_a_bookmark_that_goes_back_is_listed_again(cluster: Cluster, reading: Reading) -> None:
    reading.until(reflectors.Bookmark)
    mark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "5"}}}
    cluster.server.objects.send_raw("pods", json.dumps(mark).encode())
    listed = reading.until(reflectors.Listed)
    assert listed.reason.startswith("went back: bookmark 5")


def test_a_list_that_goes_back_has_it_in_its_reason(cluster: Cluster, client: clients.Client) -> None:
    reading = Reading(client, since="99999999999999999999999")
    mark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "5"}}}
    reading.until(reflectors.Bookmark)
    cluster.server.objects.send_raw("pods", json.dumps(mark).encode())
    cluster.server.disconnect()
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.watches("pods"), status=410)
    listed = reading.until(reflectors.Listed)
    assert listed.reason.startswith("went back: resourceVersion 99999999999999999999999 before")


# -- undecodable objects -----------------------------------------------------------------------------------

BAD = {"metadata": {"name": "bad", "namespace": "ns", "uid": "u-bad", "labels": {"a": 1}}}


def test_an_undecodable_object_in_a_list_is_set_aside_and_not_gone(
    cluster: Cluster, reading: Reading
) -> None:
    good = cluster.pod("good")
    cluster.server.objects.create("pods", json.loads(json.dumps(BAD)))
    bad = reading.until(kinds.UndecodableObject)
    assert (bad.kind, bad.name) == ("pods", "ns/bad")
    assert [one.name for one in reading.until(reflectors.Part).objects] == ["good"]
    assert reading.until(reflectors.Listed).identities == {good.uid, "u-bad"}


def test_an_undecodable_object_in_a_watch_is_set_aside_and_the_stream_goes_on(
    cluster: Cluster, reading: Reading
) -> None:
    reading.until(reflectors.Bookmark)
    cluster.server.objects.create("pods", json.loads(json.dumps(BAD)))
    cluster.pod("good")
    change = reading.next()
    assert isinstance(change, kinds.UndecodableObject)
    assert change.name == "ns/bad"
    assert named(reading.next()) == ("seen", "good")
    cluster.server.disconnect()
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")


@pytest.mark.parametrize(
    ("garbage", "name"),
    [
        (b"not JSON", "(unreadable line)"),
        (b'{"type":"INVENTED","object":{}}', "(unknown change)"),
        (b'{"type":"DELETED","object":{"metadata":{}}}', "(unreadable object)"),
        (b'{"type":"MODIFIED","object":[]}', "(unreadable object)"),
    ],
)
def test_a_change_that_names_no_object_is_listed(
    cluster: Cluster, reading: Reading, garbage: bytes, name: str
) -> None:
    """The line may have been the deletion of a pod: the versions behind it do not show that."""
    reading.until(reflectors.Bookmark)
    kept = cluster.pod("kept")
    assert named(reading.next()) == ("seen", "kept")
    cluster.server.objects.send_raw("pods", garbage)
    change = reading.next()
    assert isinstance(change, kinds.UndecodableObject)
    assert change.name == name
    listed = reading.until(reflectors.Listed)
    assert listed.identities == {kept.uid}
    assert listed.reason.startswith(f"{name} in the watch: ")
    assert reading.clock.waits
    cluster.pod("later")
    assert named(reading.until(reflectors.Seen)) == ("seen", "later")


# -- kinds that come and go -------------------------------------------------------------------


def test_a_kind_that_is_not_served_is_empty_until_it_is(cluster: Cluster, client: clients.Client) -> None:
    store = cluster.server.objects

    def meanwhile(waits: int) -> None:
        if waits == 3:
            store.serve("workloadpolicies", True)
            store.create("workloadpolicies", samples.policy("ns", "p", {}))

    store.serve("workloadpolicies", False)
    reading = Reading(client, kinds.declared(declared.POLICIES), meanwhile=meanwhile)
    listed = reading.until(reflectors.Listed)
    assert (listed.identities, listed.version) == (frozenset(), "")
    assert listed.reason.startswith("not served")
    listed = reading.until(reflectors.Listed)
    assert listed.identities == {"ns/p"}
    assert max(reading.clock.waits) <= 16.0


def test_a_kind_whose_definition_is_deleted_is_empty_again(cluster: Cluster, client: clients.Client) -> None:
    store = cluster.server.objects
    store.create("workloadpolicies", samples.policy("ns", "p", {}))
    reading = Reading(client, kinds.declared(declared.POLICIES))
    assert reading.until(reflectors.Listed).identities == {"ns/p"}
    reading.until(reflectors.Bookmark)
    store.serve("workloadpolicies", False)
    assert reading.until(reflectors.Listed).identities == frozenset()


PAGE = b"<html>default backend - 404</html>"
MISROUTED = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)
BLANK = (
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
)


@pytest.mark.parametrize("reply", [MISROUTED, BLANK])
@pytest.mark.parametrize("resource", ["pods", "workloadpolicies"])
def test_a_reply_that_is_not_the_api_servers_empties_no_kind(
    cluster: Cluster, client: clients.Client, reply: bytes, resource: str
) -> None:
    cluster.pod("here")
    cluster.server.objects.create("workloadpolicies", samples.policy("ns", "p", {}))
    # A proxy does not reach the API server for a while.
    cluster.server.faults.add(faults.FaultKind.RAW, lambda _: True, raw=reply, times=6)
    kind = kinds.PODS if resource == "pods" else kinds.declared(declared.POLICIES)
    listed = Reading(client, kind).until(reflectors.Listed)
    assert len(listed.identities) == 1


def test_a_kind_is_not_absent_while_discovery_is_forbidden(cluster: Cluster, client: clients.Client) -> None:
    """A proxy answers 404 for the list, and the API server refuses to name the kinds that it serves."""
    cluster.server.objects.create("workloadpolicies", samples.policy("ns", "p", {}))
    listing = faults.lists("workloadpolicies")
    cluster.server.faults.add(faults.FaultKind.RAW, listing, raw=MISROUTED)
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.calls("GET", "/apis"), status=403)
    problems: list[str] = []
    refused = Reading(
        client,
        kinds.declared(declared.POLICIES),
        meanwhile=lambda _: problems.append(refused.reflector.problem),
    )
    assert refused.until(reflectors.Listed).identities == {"ns/p"}
    assert "bind the ClusterRole system:discovery" in problems[0]


# -- kinds in several versions ----------------------------------------------------------------


def gadget(name: str) -> dict[str, object]:
    return {"metadata": {"namespace": "ns", "name": name}, "spec": {"size": 2}}


def test_the_first_version_that_is_served_is_watched() -> None:
    only = objects.Resource("gadgets", "Gadget", "example.org/v1")
    with apiservers.ApiServer(declared.SCHEMA, further=[only], bookmarks=0.05) as server:
        client = clients.Client(credentials.plain(server.url))
        reading = Reading(client, kinds.declared(gadgets.GADGETS))
        try:
            server.objects.create("gadgets", gadget("a"))
            assert reading.until(reflectors.Listed).identities == {"ns/a"}
            server.objects.create("gadgets", gadget("b"))
            seen = reading.until(reflectors.Seen)
            assert seen.object == gadgets.Gadget(seen.object.uid, "ns", "b", size=2)
            paths = [request.path for request in server.seen if request.path.endswith("/gadgets")]
            assert paths[:2] == ["/apis/example.org/v2/gadgets", "/apis/example.org/v1/gadgets"]
            assert set(paths[2:]) == {"/apis/example.org/v1/gadgets"}
        finally:
            reading.reflector.stop()
            client.close()


def test_a_version_that_ends_is_replaced_by_another() -> None:
    both = [
        objects.Resource("gadgets", "Gadget", "example.org/v2"),
        objects.Resource("gadgets-v1", "Gadget", "example.org/v1"),
    ]
    kind = dataclasses.replace(
        kinds.declared(gadgets.GADGETS),
        paths=("/apis/example.org/v2/gadgets", "/apis/example.org/v1/gadgets-v1"),
    )
    with apiservers.ApiServer(declared.SCHEMA, further=both, bookmarks=0.05) as server:
        client = clients.Client(credentials.plain(server.url))
        reading = Reading(client, kind)
        try:
            server.objects.create("gadgets", gadget("a"))
            assert reading.until(reflectors.Listed).identities == {"ns/a"}
            reading.until(reflectors.Bookmark)
            server.objects.create("gadgets-v1", gadget("b"))
            server.objects.serve("gadgets", False)
            assert reading.until(reflectors.Listed).identities == {"ns/b"}
        finally:
            reading.reflector.stop()
            client.close()
