"""Kinds that come and go, are served in several versions, or seem to be absent."""

import dataclasses

import pytest
import structlog

from app.kube.client import clients
from app.kube.watch import kinds, reflectors
from app.plugins.workload_policy import samples
from app.simulation.apiserver import apiservers, faults, objects
from tests.support import declared, gadgets
from tests.support.kube import plain_access, readings


def test_a_kind_that_is_not_served_is_empty_until_it_is(
    cluster: readings.Cluster, client: clients.Client
) -> None:
    store = cluster.server.objects

    def meanwhile(waits: int) -> None:
        if waits == 3:
            store.serve("workloadpolicies", True)
            store.create("workloadpolicies", samples.policy("ns", "p", {}))

    store.serve("workloadpolicies", False)
    reading = readings.Reading(client, kinds.declared(declared.POLICIES), meanwhile=meanwhile)
    listed = reading.until(reflectors.Listed)
    assert (listed.identities, listed.version) == (frozenset(), "")
    assert listed.reason.startswith("not served")
    listed = reading.until(reflectors.Listed)
    assert listed.identities == {"ns/p"}
    assert max(reading.clock.waits) <= 16.0


def test_the_watch_of_a_kind_that_is_not_served_is_not_restored(
    cluster: readings.Cluster, client: clients.Client
) -> None:
    cluster.server.objects.serve("workloadpolicies", False)
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.lists("workloadpolicies"), status=503)
    reading = readings.Reading(client, kinds.declared(declared.POLICIES))
    with structlog.testing.capture_logs() as lines:
        assert reading.until(reflectors.Listed).reason.startswith("not served")
    assert [line["event"] for line in lines] == ["cannot watch"]
    assert reading.reflector.problem == ""


def test_a_kind_whose_definition_is_deleted_is_empty_again(
    cluster: readings.Cluster, client: clients.Client
) -> None:
    store = cluster.server.objects
    store.create("workloadpolicies", samples.policy("ns", "p", {}))
    reading = readings.Reading(client, kinds.declared(declared.POLICIES))
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
    cluster: readings.Cluster, client: clients.Client, reply: bytes, resource: str
) -> None:
    cluster.pod("here")
    cluster.server.objects.create("workloadpolicies", samples.policy("ns", "p", {}))
    # A proxy does not reach the API server for a while.
    cluster.server.faults.add(faults.FaultKind.RAW, lambda _: True, raw=reply, times=6)
    kind = kinds.PODS if resource == "pods" else kinds.declared(declared.POLICIES)
    listed = readings.Reading(client, kind).until(reflectors.Listed)
    assert len(listed.identities) == 1


def test_a_kind_is_not_absent_while_discovery_is_forbidden(
    cluster: readings.Cluster, client: clients.Client
) -> None:
    """A proxy answers 404 for the list, and the API server refuses to name the kinds that it serves."""
    cluster.server.objects.create("workloadpolicies", samples.policy("ns", "p", {}))
    listing = faults.lists("workloadpolicies")
    cluster.server.faults.add(faults.FaultKind.RAW, listing, raw=MISROUTED)
    cluster.server.faults.add(faults.FaultKind.FAIL, faults.calls("GET", "/apis"), status=403)
    problems: list[str] = []
    refused = readings.Reading(
        client,
        kinds.declared(declared.POLICIES),
        meanwhile=lambda _: problems.append(refused.reflector.problem),
    )
    assert refused.until(reflectors.Listed).identities == {"ns/p"}
    assert "bind the ClusterRole system:discovery" in problems[0]


def gadget(name: str) -> dict[str, object]:
    return {"metadata": {"namespace": "ns", "name": name}, "spec": {"size": 2}}


def test_the_first_version_that_is_served_is_watched() -> None:
    only = objects.Resource("gadgets", "Gadget", "example.org/v1")
    with apiservers.ApiServer(declared.SCHEMA, further=[only], bookmarks=0.05) as server:
        client = clients.Client(plain_access.of(server.url))
        reading = readings.Reading(client, kinds.declared(gadgets.GADGETS))
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


def test_a_watch_resumes_in_the_first_version_that_is_served() -> None:
    only = objects.Resource("gadgets", "Gadget", "example.org/v1")
    with apiservers.ApiServer(declared.SCHEMA, further=[only], bookmarks=0.05) as server:
        client = clients.Client(plain_access.of(server.url))
        server.objects.create("gadgets", gadget("a"))
        since = str(server.objects.version)
        reading = readings.Reading(client, kinds.declared(gadgets.GADGETS), since=since)
        try:
            server.objects.create("gadgets", gadget("b"))
            change = reading.next()
            assert isinstance(change, reflectors.Seen)
            assert change.object.name == "b"
            assert not any(map(faults.lists("gadgets"), server.seen))
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
        client = clients.Client(plain_access.of(server.url))
        reading = readings.Reading(client, kind)
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
