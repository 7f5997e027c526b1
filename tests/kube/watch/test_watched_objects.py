"""Objects in a list or a watch: versions that go back, recreated and undecodable ones."""

import json

import pytest

from app.kube.client import clients
from app.kube.watch import kinds, reflectors
from app.simulation.apiserver import faults
from tests.support.kube import readings


def line(kind: str, uid: str, version: int, name: str = "x") -> bytes:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return json.dumps({"type": kind, "object": {"metadata": metadata, "spec": {}, "status": {}}}).encode()


@pytest.mark.scenario("WP-15")
def test_a_version_that_is_not_newer_is_ignored(cluster: readings.Cluster, client: clients.Client) -> None:
    cluster.server.router.bookmarks = 60
    reading = readings.Reading(client)
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
    assert [(readings.named(one)[0], one.version) for one in yielded] == [
        ("seen", str(at + 10)),
        ("seen", str(at + 7)),
        ("gone", str(at + 12)),
        ("seen", str(at + 13)),
    ]


def test_a_recreated_pod_is_another_pod(cluster: readings.Cluster, reading: readings.Reading) -> None:
    reading.until(reflectors.Bookmark)
    first = cluster.pod("x")
    cluster.delete("x")
    second = cluster.pod("x")
    uids = []
    for change in (reading.next() for _ in range(4)):
        assert isinstance(change, reflectors.Seen | reflectors.Gone)
        uids.append(change.uid if isinstance(change, reflectors.Gone) else change.object.uid)
    assert uids == [first.uid, first.uid, first.uid, second.uid]


def test_a_bookmark_that_goes_back_is_listed_again(
    cluster: readings.Cluster, reading: readings.Reading
) -> None:
    reading.until(reflectors.Bookmark)
    mark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "5"}}}
    cluster.server.objects.send_raw("pods", json.dumps(mark).encode())
    listed = reading.until(reflectors.Listed)
    assert listed.reason.startswith("went back: bookmark 5")


def test_a_list_that_goes_back_has_it_in_its_reason(
    cluster: readings.Cluster, client: clients.Client
) -> None:
    reading = readings.Reading(client, since="99999999999999999999999")
    mark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "5"}}}
    reading.until(reflectors.Bookmark)
    cluster.server.objects.send_raw("pods", json.dumps(mark).encode())
    cluster.server.disconnect()
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.watches("pods"), status=410)
    listed = reading.until(reflectors.Listed)
    assert listed.reason.startswith("went back: resourceVersion 99999999999999999999999 before")


BAD = {"metadata": {"name": "bad", "namespace": "ns", "uid": "u-bad", "labels": {"a": 1}}}


def test_an_undecodable_object_in_a_list_is_set_aside_and_not_gone(
    cluster: readings.Cluster, reading: readings.Reading
) -> None:
    good = cluster.pod("good")
    cluster.server.objects.create("pods", json.loads(json.dumps(BAD)))
    bad = reading.until(kinds.UndecodableObject)
    assert (bad.kind, bad.name) == ("pods", "ns/bad")
    assert [one.name for one in reading.until(reflectors.Part).objects] == ["good"]
    assert reading.until(reflectors.Listed).identities == {good.uid, "u-bad"}


def test_an_undecodable_object_in_a_watch_is_set_aside_and_the_stream_goes_on(
    cluster: readings.Cluster, reading: readings.Reading
) -> None:
    reading.until(reflectors.Bookmark)
    cluster.server.objects.create("pods", json.loads(json.dumps(BAD)))
    cluster.pod("good")
    change = reading.next()
    assert isinstance(change, kinds.UndecodableObject)
    assert change.name == "ns/bad"
    assert readings.named(reading.next()) == ("seen", "good")
    cluster.server.disconnect()
    cluster.pod("later")
    assert readings.named(reading.next()) == ("seen", "later")


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
    cluster: readings.Cluster, reading: readings.Reading, garbage: bytes, name: str
) -> None:
    """The line may have been the deletion of a pod: the versions behind it do not show that."""
    reading.until(reflectors.Bookmark)
    kept = cluster.pod("kept")
    assert readings.named(reading.next()) == ("seen", "kept")
    cluster.server.objects.send_raw("pods", garbage)
    change = reading.next()
    assert isinstance(change, kinds.UndecodableObject)
    assert change.name == name
    listed = reading.until(reflectors.Listed)
    assert listed.identities == {kept.uid}
    assert listed.reason.startswith(f"{name} in the watch: ")
    assert reading.clock.waits
    cluster.pod("later")
    assert readings.named(reading.until(reflectors.Seen)) == ("seen", "later")
