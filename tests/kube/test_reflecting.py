"""The reflector against the simulated API server, with everything that can go wrong between them.

Time is virtual, so that pauses cost nothing and can be looked at. Not here: what becomes of the
changes (tests/workers).
"""

import json
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from app.domain import model
from app.kube import clients, decoding, kinds, reflecting
from app.simulation import apiservers, faults, populating
from tests.kube import clocks

C = TypeVar("C")


class Cluster:
    """The server's side of a test."""

    def __init__(self, server: apiservers.ApiServer, client: clients.Client) -> None:
        self.server = server
        self._client = client

    def pod(self, name: str, node: str = "") -> model.Pod:
        """Create a pod."""
        body = json.dumps(populating.pod("ns", name, node=node)).encode()
        return decoding.pod(self._client.post("/api/v1/namespaces/ns/pods", body))

    def label(self, name: str, value: str) -> None:
        patch = json.dumps({"metadata": {"labels": {"l": value}}}).encode()
        self._client.patch(f"/api/v1/namespaces/ns/pods/{name}", patch)

    def delete(self, name: str) -> None:
        self._client.delete(f"/api/v1/namespaces/ns/pods/{name}")

    @property
    def lists(self) -> int:
        """How many lists were begun."""
        met = faults.lists("pods")
        return sum(met(request) and "continue" not in request.query for request in self.server.seen)

    @property
    def watches(self) -> int:
        return sum(map(faults.watches("pods"), self.server.seen))


class Reading:
    """A reflector being read step by step."""

    def __init__(
        self,
        client: clients.Client,
        kind: kinds.Kind = kinds.PODS,
        *,
        since: str = "",
        silence: float = 20.0,
        page: int = 500,
        meanwhile: Callable[[int], None] | None = None,
    ) -> None:
        self.clock = clocks.VirtualClock(meanwhile)
        self.reflector = reflecting.Reflector(
            client, kind, since=since, clock=self.clock, silence=silence, page=page
        )
        self._changes = self.reflector.changes()

    def until(self, kind: type[C], fits: Callable[[C], bool] = lambda _: True) -> C:
        """The next change of that type that fits; the test's time limit ends a vain wait."""
        for change in self._changes:
            if isinstance(change, kind) and fits(change):
                return change
        raise AssertionError("the reflector ended")

    def next(self) -> reflecting.Change:
        """The next change that is no bookmark."""
        return next(one for one in self._changes if not isinstance(one, reflecting.Bookmark))


@pytest.fixture
def cluster(server: apiservers.ApiServer, client: clients.Client) -> Cluster:
    return Cluster(server, client)


@pytest.fixture
def reading(client: clients.Client) -> Iterator[Reading]:
    made = Reading(client)
    yield made
    made.reflector.stop()


def named(change: reflecting.Change) -> tuple[str, str]:
    """What happened to which pod."""
    match change:
        case reflecting.Seen():
            return "seen", change.object.name
        case reflecting.Gone():
            return "gone", change.name
        case _:
            return type(change).__name__, ""


# -- lists ------------------------------------------------------------------------------------


def test_a_list_comes_in_parts_and_then_as_a_whole(cluster: Cluster, client: clients.Client) -> None:
    uids = [cluster.pod(f"p{at}").uid for at in range(5)]
    reading = Reading(client, page=2)
    parts = [reading.until(reflecting.Part).objects for _ in range(3)]
    assert [len(part) for part in parts] == [2, 2, 1]
    listed = reading.until(reflecting.Listed)
    assert listed.identities == frozenset(uids)
    assert (listed.since, listed.reason) == ("", "first list")
    assert reading.until(reflecting.Bookmark).version == listed.version
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")


def test_a_forgotten_page_restarts_the_list(cluster: Cluster, client: clients.Client) -> None:
    for at in range(4):
        cluster.pod(f"p{at}")
    reading = Reading(client, page=2)
    reading.until(reflecting.Part)
    cluster.delete("p0")
    survivor = cluster.pod("p9")
    cluster.server.objects.compact("pods")
    listed = reading.until(reflecting.Listed)
    assert len(listed.identities) == 4
    assert survivor.uid in listed.identities
    assert listed.reason.startswith("410 Expired")


def test_errors_of_the_list_make_pauses_grow(cluster: Cluster, reading: Reading) -> None:
    cluster.server.faults.add(faults.Kind.FAIL, faults.lists("pods"), times=7, status=500)
    reading.until(reflecting.Listed)
    assert len(reading.clock.waits) == 7
    for wait, least in zip(reading.clock.waits, (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0), strict=True):
        assert least <= wait <= 2 * least


def test_what_stands_in_the_way_is_told(cluster: Cluster, client: clients.Client) -> None:
    told: list[str] = []
    refused = Reading(client, meanwhile=lambda _: told.append(refused.reflector.trouble))
    cluster.server.faults.add(faults.Kind.FAIL, faults.lists("pods"), status=403)
    refused.until(reflecting.Listed)
    assert "403" in told[0]
    assert refused.reflector.trouble == ""


# -- watches ----------------------------------------------------------------------------------


def test_a_checkpoint_is_resumed_without_a_list(cluster: Cluster, client: clients.Client) -> None:
    cluster.pod("before")
    since = str(cluster.server.objects.version)
    cluster.pod("after")
    reading = Reading(client, since=since)
    assert reading.until(reflecting.Bookmark).version == since
    assert named(reading.next()) == ("seen", "after")
    assert cluster.lists == 0


def test_a_forgotten_version_is_listed_anew(cluster: Cluster, reading: Reading) -> None:
    gone = cluster.pod("gone")
    first = reading.until(reflecting.Listed)
    cluster.delete("gone")
    back = cluster.pod("gone")
    cluster.server.objects.compact("pods")
    listed = reading.until(reflecting.Listed)
    assert gone.uid not in listed.identities
    assert back.uid in listed.identities
    assert listed.reason.startswith("410 Expired")
    assert int(listed.since) >= int(first.version)


def test_a_broken_watch_goes_on_where_it_stood(cluster: Cluster, reading: Reading) -> None:
    reading.until(reflecting.Bookmark)
    for at in range(20):
        cluster.pod(f"p{at}")
        if at % 4 == 0:
            cluster.server.disconnect()
    seen = [named(reading.next()) for _ in range(20)]
    assert seen == [("seen", f"p{at}") for at in range(20)]
    assert cluster.lists == 1


def test_a_cut_stream_shows_nothing_twice(cluster: Cluster, reading: Reading) -> None:
    cluster.server.faults.add(faults.Kind.CUT, faults.watches("pods"), times=3)
    reading.until(reflecting.Listed)
    for at in range(6):
        cluster.pod(f"p{at}")
    seen = [named(reading.next()) for _ in range(6)]
    assert seen == [("seen", f"p{at}") for at in range(6)]
    assert cluster.lists == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_refused_watch_waits_and_lists_nothing(cluster: Cluster, reading: Reading, status: int) -> None:
    reading.until(reflecting.Listed)
    met = faults.watches("pods")
    cluster.server.faults.add(faults.Kind.FAIL, met, times=3, status=status, retry_after=9)
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")
    assert cluster.lists == 1
    assert len(reading.clock.waits) == 3
    assert min(reading.clock.waits) >= 9.0


def test_a_server_that_is_away_is_asked_again(cluster: Cluster, client: clients.Client) -> None:
    def meanwhile(waits: int) -> None:
        if waits == 4:
            cluster.server.start()

    reading = Reading(client, meanwhile=meanwhile)
    reading.until(reflecting.Bookmark)
    cluster.pod("before")
    cluster.server.stop()
    assert named(reading.next()) == ("seen", "before")
    cluster.server.objects.create("pods", json.loads(json.dumps(populating.pod("ns", "later"))))
    assert named(reading.next()) == ("seen", "later")
    assert cluster.lists == 1
    assert len(reading.clock.waits) >= 4


def test_a_stalled_watch_is_given_up(cluster: Cluster, client: clients.Client) -> None:
    cluster.server.faults.add(faults.Kind.STALL, faults.watches("pods"))
    reading = Reading(client, silence=0.2)
    reading.until(reflecting.Listed)
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")
    assert (cluster.lists, cluster.watches) == (1, 2)


def test_a_watch_that_is_closed_without_a_word_is_no_hot_loop(
    cluster: Cluster, client: clients.Client
) -> None:
    cluster.server.answering.bookmarks = 60
    reading = Reading(client)
    reading.until(reflecting.Listed)
    cluster.server.faults.add(faults.Kind.DROP, faults.watches("pods"), times=5)
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")
    assert len(reading.clock.waits) == 5


def test_a_bookmark_moves_the_version_on(cluster: Cluster, reading: Reading) -> None:
    listed = reading.until(reflecting.Listed)
    cluster.server.objects.create("nodes", populating.node("n"))  # the counter goes on, pods do not
    mark = reading.until(reflecting.Bookmark, lambda one: one.version != listed.version)
    assert int(mark.version) > int(listed.version)


def test_stop_ends_a_watch_that_waits(cluster: Cluster, client: clients.Client) -> None:
    cluster.server.answering.bookmarks = 60
    reflector = reflecting.Reflector(client, kinds.PODS)
    watching = threading.Event()
    ended = threading.Event()

    def read() -> None:
        for change in reflector.changes():
            if isinstance(change, reflecting.Bookmark):
                watching.set()
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert watching.wait(10)
    reflector.stop()
    assert ended.wait(10)
    thread.join()


def test_stop_ends_a_pause(cluster: Cluster, client: clients.Client) -> None:
    cluster.server.faults.add(faults.Kind.FAIL, faults.lists("pods"), times=1000)
    reflector = reflecting.Reflector(client, kinds.PODS)
    thread = threading.Thread(target=lambda: list(reflector.changes()))
    thread.start()
    while not reflector.trouble:
        threading.Event().wait(0.01)
    reflector.stop()
    thread.join(10)
    assert not thread.is_alive()


# -- objects ----------------------------------------------------------------------------------


def line(kind: str, uid: str, version: int, name: str = "x") -> bytes:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return json.dumps({"type": kind, "object": {"metadata": metadata, "spec": {}, "status": {}}}).encode()


@pytest.mark.scenario("WP-15")
def test_what_is_not_newer_is_ignored(cluster: Cluster, client: clients.Client) -> None:
    cluster.server.answering.bookmarks = 60
    reading = Reading(client)
    at = int(reading.until(reflecting.Listed).version)
    told = (
        line("MODIFIED", "a", at),  # in the list already
        line("MODIFIED", "a", at + 10),
        line("MODIFIED", "a", at + 10),
        line("MODIFIED", "a", at + 5),
        line("MODIFIED", "b", at + 7),  # older than another object's: not of this one's
        line("DELETED", "a", at + 12),
        line("MODIFIED", "a", at + 11),  # a late word about the dead
        line("ADDED", "c", at + 13, "x"),
    )
    for one in told:
        cluster.server.objects.say("pods", one)
    changes = [reading.next() for _ in range(4)]
    told_of = [one for one in changes if isinstance(one, reflecting.Seen | reflecting.Gone)]
    assert [(named(one)[0], one.version) for one in told_of] == [
        ("seen", str(at + 10)),
        ("seen", str(at + 7)),
        ("gone", str(at + 12)),
        ("seen", str(at + 13)),
    ]


def test_a_pod_deleted_and_made_anew_is_another_one(cluster: Cluster, reading: Reading) -> None:
    reading.until(reflecting.Bookmark)
    first = cluster.pod("x")
    cluster.delete("x")
    second = cluster.pod("x")
    uids = []
    for change in (reading.next() for _ in range(4)):
        assert isinstance(change, reflecting.Seen | reflecting.Gone)
        uids.append(change.uid if isinstance(change, reflecting.Gone) else change.object.uid)
    assert uids == [first.uid, first.uid, first.uid, second.uid]


def test_a_bookmark_that_goes_back_means_another_history(cluster: Cluster, reading: Reading) -> None:
    reading.until(reflecting.Bookmark)
    mark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "5"}}}
    cluster.server.objects.say("pods", json.dumps(mark).encode())
    listed = reading.until(reflecting.Listed)
    assert listed.reason.startswith("went back: bookmark 5")


def test_a_list_that_goes_back_says_so(cluster: Cluster, client: clients.Client) -> None:
    reading = Reading(client, since="99999999999999999999999")
    mark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "5"}}}
    reading.until(reflecting.Bookmark)
    cluster.server.objects.say("pods", json.dumps(mark).encode())
    cluster.server.disconnect()
    cluster.server.faults.add(faults.Kind.FAIL, faults.watches("pods"), status=410)
    listed = reading.until(reflecting.Listed)
    assert listed.reason.startswith("went back: resourceVersion 99999999999999999999999 before")


# -- poison -----------------------------------------------------------------------------------

BAD = {"metadata": {"name": "bad", "namespace": "ns", "uid": "u-bad", "labels": {"a": 1}}}


def test_poison_in_a_list_is_set_aside_and_known_to_exist(cluster: Cluster, reading: Reading) -> None:
    good = cluster.pod("good")
    cluster.server.objects.create("pods", json.loads(json.dumps(BAD)))
    poison = reading.until(reflecting.Poison)
    assert (poison.kind, poison.name) == ("pods", "ns/bad")
    assert [one.name for one in reading.until(reflecting.Part).objects] == ["good"]
    assert reading.until(reflecting.Listed).identities == {good.uid, "u-bad"}


def test_poison_in_a_watch_is_set_aside_and_the_stream_goes_on(cluster: Cluster, reading: Reading) -> None:
    reading.until(reflecting.Bookmark)
    cluster.server.objects.create("pods", json.loads(json.dumps(BAD)))
    cluster.server.objects.say("pods", b"this is no JSON")
    cluster.server.objects.say("pods", b'{"type":"INVENTED","object":{}}')
    cluster.pod("good")
    names = []
    for change in (reading.next() for _ in range(3)):
        assert isinstance(change, reflecting.Poison)
        names.append(change.name)
    assert names == ["ns/bad", "(unreadable line)", "(unknown change)"]
    assert named(reading.next()) == ("seen", "good")
    cluster.server.disconnect()
    cluster.pod("later")
    assert named(reading.next()) == ("seen", "later")


# -- kinds that come and go -------------------------------------------------------------------


def test_a_kind_that_is_not_served_is_empty_until_it_is(cluster: Cluster, client: clients.Client) -> None:
    store = cluster.server.objects

    def meanwhile(waits: int) -> None:
        if waits == 3:
            store.serve("workloadpolicies", True)
            store.create("workloadpolicies", populating.policy("ns", "p", {}))

    store.serve("workloadpolicies", False)
    reading = Reading(client, kinds.POLICIES, meanwhile=meanwhile)
    listed = reading.until(reflecting.Listed)
    assert (listed.identities, listed.version) == (frozenset(), "")
    assert listed.reason.startswith("not served")
    listed = reading.until(reflecting.Listed)
    assert listed.identities == {"ns/p"}
    assert max(reading.clock.waits) <= 16.0


def test_a_kind_that_is_taken_away_is_empty_again(cluster: Cluster, client: clients.Client) -> None:
    store = cluster.server.objects
    store.create("workloadpolicies", populating.policy("ns", "p", {}))
    reading = Reading(client, kinds.POLICIES)
    assert reading.until(reflecting.Listed).identities == {"ns/p"}
    reading.until(reflecting.Bookmark)
    store.serve("workloadpolicies", False)
    assert reading.until(reflecting.Listed).identities == frozenset()
