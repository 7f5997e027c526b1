"""The reflector against the simulated API server, with every fault between them.

Time is virtual, so that pauses cost nothing and can be checked. The effects of the changes are tested in
tests/workers.
"""

import json
import threading

import pytest
import structlog

from app.kube.client import clients
from app.kube.watch import kinds, reflectors
from app.simulation import populations
from app.simulation.apiserver import faults
from tests.support.kube import readings

# -- lists ------------------------------------------------------------------------------------


def test_a_list_comes_in_parts_and_then_as_a_whole(cluster: readings.Cluster, client: clients.Client) -> None:
    uids = [cluster.pod(f"p{at}").uid for at in range(5)]
    reading = readings.Reading(client, page=2)
    parts = [reading.until(reflectors.Part).objects for _ in range(3)]
    assert [len(part) for part in parts] == [2, 2, 1]
    listed = reading.until(reflectors.Listed)
    assert listed.identities == frozenset(uids)
    assert (listed.since, listed.reason) == ("", "first list")
    assert reading.until(reflectors.Bookmark).version == listed.version
    cluster.pod("later")
    assert readings.named(reading.next()) == ("seen", "later")


def test_a_compacted_page_restarts_the_list(cluster: readings.Cluster, client: clients.Client) -> None:
    for at in range(4):
        cluster.pod(f"p{at}")
    reading = readings.Reading(client, page=2)
    reading.until(reflectors.Part)
    cluster.delete("p0")
    survivor = cluster.pod("p9")
    cluster.server.objects.compact("pods")
    listed = reading.until(reflectors.Listed)
    assert len(listed.identities) == 4
    assert survivor.uid in listed.identities
    assert listed.reason.startswith("410 Expired")


def test_errors_of_the_list_make_pauses_grow(cluster: readings.Cluster, reading: readings.Reading) -> None:
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.lists("pods"), times=7, status=500)
    reading.until(reflectors.Listed)
    assert len(reading.clock.waits) == 7
    for wait, least in zip(reading.clock.waits, (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0), strict=True):
        assert least <= wait <= 2 * least


def test_the_current_problem_is_reported(cluster: readings.Cluster, client: clients.Client) -> None:
    problems: list[str] = []
    refused = readings.Reading(client, meanwhile=lambda _: problems.append(refused.reflector.problem))
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.lists("pods"), status=403)
    refused.until(reflectors.Listed)
    assert "403" in problems[0]
    assert refused.reflector.problem == ""


def test_a_problem_is_logged_when_it_begins_and_when_a_watch_receives_something(
    cluster: readings.Cluster, reading: readings.Reading
) -> None:
    of_watch = cluster.server.faults.add(faults.FaultKind.FAIL, faults.watches("pods"), times=2, status=503)
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.lists("pods"), times=3, status=403)
    with structlog.testing.capture_logs() as lines:
        reading.until(reflectors.Bookmark)
        assert of_watch.struck == 2
        assert [(line["log_level"], line["event"], line["kind"]) for line in lines] == [
            ("warning", "cannot watch", "pods")
        ]
        assert "403" in lines[0]["problem"]
        for name in ("first", "second"):
            cluster.pod(name)
            reading.next()
        assert [(line["log_level"], line["event"], line["kind"]) for line in lines[1:]] == [
            ("info", "watch restored", "pods")
        ]
        cluster.server.disconnect()
        reading.until(reflectors.Bookmark)
    assert [line["event"] for line in lines[2:]] == ["cannot watch"]


def test_a_watch_that_fails_and_a_list_that_succeeds_by_turns_are_one_problem(
    cluster: readings.Cluster, reading: readings.Reading
) -> None:
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.watches("pods"), times=5, status=400)
    closed = cluster.server.faults.add(
        faults.FaultKind.RAW, faults.watches("pods"), times=5, raw=b"HTTP/1.1 200 OK\r\n\r\n"
    )
    with structlog.testing.capture_logs() as lines:
        while closed.struck < 5:
            reading.until(reflectors.Bookmark)
    assert [line["event"] for line in lines] == ["cannot watch"]
    assert cluster.lists == 6


# -- watches ----------------------------------------------------------------------------------


def test_a_checkpoint_is_resumed_without_a_list(cluster: readings.Cluster, client: clients.Client) -> None:
    cluster.pod("before")
    since = str(cluster.server.objects.version)
    cluster.pod("after")
    reading = readings.Reading(client, since=since)
    assert reading.until(reflectors.Bookmark).version == since
    assert readings.named(reading.next()) == ("seen", "after")
    assert cluster.lists == 0


def test_a_compacted_version_is_listed_again(cluster: readings.Cluster, reading: readings.Reading) -> None:
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


def test_a_broken_watch_resumes_at_its_last_version(
    cluster: readings.Cluster, reading: readings.Reading
) -> None:
    reading.until(reflectors.Bookmark)
    for at in range(20):
        cluster.pod(f"p{at}")
        if at % 4 == 0:
            cluster.server.disconnect()
    seen = [readings.named(reading.next()) for _ in range(20)]
    assert seen == [("seen", f"p{at}") for at in range(20)]
    assert cluster.lists == 1


def test_a_cut_stream_shows_nothing_twice(cluster: readings.Cluster, reading: readings.Reading) -> None:
    cluster.server.faults.add(faults.FaultKind.CUT, faults.watches("pods"), times=3)
    reading.until(reflectors.Listed)
    for at in range(6):
        cluster.pod(f"p{at}")
    seen = [readings.named(reading.next()) for _ in range(6)]
    assert seen == [("seen", f"p{at}") for at in range(6)]
    assert cluster.lists == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_refused_watch_waits_and_lists_nothing(
    cluster: readings.Cluster, reading: readings.Reading, status: int
) -> None:
    reading.until(reflectors.Listed)
    met = faults.watches("pods")
    cluster.server.faults.add(faults.FaultKind.FAIL, met, times=3, status=status, retry_after=9)
    cluster.pod("later")
    assert readings.named(reading.next()) == ("seen", "later")
    assert cluster.lists == 1
    assert len(reading.clock.waits) == 3
    assert min(reading.clock.waits) >= 9.0


def test_an_unreachable_server_is_retried(cluster: readings.Cluster, client: clients.Client) -> None:
    def meanwhile(waits: int) -> None:
        if waits == 4:
            cluster.server.start()

    reading = readings.Reading(client, meanwhile=meanwhile)
    reading.until(reflectors.Bookmark)
    cluster.pod("before")
    cluster.server.stop()
    assert readings.named(reading.next()) == ("seen", "before")
    cluster.server.objects.create("pods", json.loads(json.dumps(populations.pod("ns", "later"))))
    assert readings.named(reading.next()) == ("seen", "later")
    assert cluster.lists == 1
    assert len(reading.clock.waits) >= 4


def test_a_stalled_watch_is_reopened(cluster: readings.Cluster, client: clients.Client) -> None:
    cluster.server.faults.add(faults.FaultKind.STALL, faults.watches("pods"))
    reading = readings.Reading(client, silence=2.0)
    reading.until(reflectors.Listed)
    cluster.pod("later")
    assert readings.named(reading.next()) == ("seen", "later")
    assert (cluster.lists, cluster.watches) == (1, 2)


def test_a_watch_at_a_version_that_etcd_lost_is_listed_again(
    cluster: readings.Cluster, client: clients.Client
) -> None:
    kept = cluster.pod("kept")
    backup = cluster.server.objects.backup()
    lost = cluster.pod("lost")
    reading = readings.Reading(client, silence=1.0)
    listed = reading.until(reflectors.Listed)
    assert listed.identities == {kept.uid, lost.uid}
    reading.until(reflectors.Bookmark)
    cluster.server.objects.restore(backup)
    cluster.server.disconnect()
    again = reading.until(reflectors.Listed)
    assert again.identities == {kept.uid}
    assert again.reason.startswith(
        f"went back: resourceVersion {listed.version} before, {backup.version} now"
    )
    cluster.pod("later")
    assert readings.named(reading.next()) == ("seen", "later")


NOTHING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def test_a_watch_that_received_nothing_costs_one_read_of_one_object(
    cluster: readings.Cluster, client: clients.Client
) -> None:
    cluster.pod("here")
    cluster.server.faults.add(faults.FaultKind.RAW, faults.watches("pods"), times=3, raw=NOTHING)
    reading = readings.Reading(client)
    reading.until(reflectors.Listed)
    for _ in range(4):
        reading.until(reflectors.Bookmark)  # of a watch that is open
    met = faults.lists("pods")
    _, *reads = [request.query for request in cluster.server.seen if met(request)]
    assert reads == [{"limit": "1"}] * 3
    assert cluster.watches == 4


def test_a_read_that_fails_after_a_watch_that_received_nothing_keeps_no_watch_closed(
    cluster: readings.Cluster, client: clients.Client
) -> None:
    cluster.server.faults.add(faults.FaultKind.RAW, faults.watches("pods"), raw=NOTHING)
    reading = readings.Reading(client)
    reading.until(reflectors.Bookmark)
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.lists("pods"), times=1000, status=429)
    reading.until(reflectors.Bookmark)
    cluster.pod("later")
    assert readings.named(reading.next()) == ("seen", "later")


def test_a_watch_that_is_closed_at_once_is_not_a_hot_loop(
    cluster: readings.Cluster, client: clients.Client
) -> None:
    cluster.server.router.bookmarks = 60
    reading = readings.Reading(client)
    reading.until(reflectors.Listed)
    cluster.server.faults.add(faults.FaultKind.DROP, faults.watches("pods"), times=5)
    cluster.pod("later")
    assert readings.named(reading.next()) == ("seen", "later")
    assert len(reading.clock.waits) == 5


def test_a_bookmark_moves_the_version_on(cluster: readings.Cluster, reading: readings.Reading) -> None:
    listed = reading.until(reflectors.Listed)
    cluster.server.objects.create("nodes", populations.node("n"))  # the counter goes on, pods do not
    mark = reading.until(reflectors.Bookmark, lambda one: one.version != listed.version)
    assert int(mark.version) > int(listed.version)


def test_stop_ends_a_watch_that_waits(cluster: readings.Cluster, client: clients.Client) -> None:
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


def test_stop_ends_a_pause(cluster: readings.Cluster, client: clients.Client) -> None:
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.lists("pods"), times=1000)
    reflector = reflectors.Reflector(client, kinds.PODS)
    thread = threading.Thread(target=lambda: list(reflector.changes()))
    thread.start()
    while not reflector.problem:
        threading.Event().wait(0.01)
    reflector.stop()
    thread.join(10)
    assert not thread.is_alive()
