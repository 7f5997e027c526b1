"""The pod for which others are evicted is nominated until it has a node, or was tried once they are gone."""

import json

import pytest

from app.domain import events, projecting, snapshots
from app.framework import effects
from app.kube import call_limits
from app.kube.objects import decoding
from app.simulation.apiserver import faults
from tests.support import declared
from tests.support.kube import fake_clock
from tests.support.workers import clusters
from workers.controller.evictions import nominations

TERM = "term"
NOMINATE = faults.calls("PATCH", "/status")


class Holding:
    """A victim on node n, a pod that waits for its room, and the state that the controller has."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        self.cluster, self.clock = cluster, fake_clock.VirtualClock()
        self.term = TERM
        limit = call_limits.CallLimit(self.clock, term=lambda: self.term, burst=1000.0, rate=1000.0)
        self.nominations = nominations.Nominations(cluster.client, limit, self.clock)
        self.victim = cluster.pod("victim", node="n")
        self.asks = cluster.pod("asks")
        self.snapshot = snapshots.empty(schema=declared.SCHEMA)
        self.observe()
        self.nominations.evicted(self.victim, effects.Room(self.asks, "n"), TERM)

    def observe(self) -> None:
        """The recorder observes the pods."""
        found = (json.dumps(one).encode() for one in self.cluster.server.objects.all("pods"))
        seen = [events.PodSeen(pod=decoding.pod(one)) for one in found]
        self.snapshot = projecting.project_all(snapshots.empty(schema=declared.SCHEMA), seen)

    def written(self, *, after: float = 0.0) -> int:
        """How often the controller writes when that many seconds have passed."""
        self.clock.now += after
        self.cluster.server.seen.clear()
        self.nominations.run_once(self.snapshot)
        return sum(one.method == "PATCH" for one in self.cluster.server.seen)

    def nominated(self, name: str = "asks") -> str:
        """The nominated node at the API server."""
        return decoding.pod(self.cluster.client.get(f"/api/v1/namespaces/ns/pods/{name}")).nominated

    def status(self, node: str | None, name: str = "asks") -> None:
        """kube-scheduler writes another nomination, or removes it."""
        path = f"/api/v1/namespaces/ns/pods/{name}/status"
        self.cluster.patch(path, {"status": {"nominatedNodeName": node}})
        self.observe()


@pytest.fixture
def holding(cluster_side: clusters.Cluster) -> Holding:
    return Holding(cluster_side)


@pytest.mark.scenario("EQ-26")
def test_the_pod_is_nominated_again_while_the_victim_terminates(holding: Holding) -> None:
    assert holding.written() == 1
    assert holding.nominated() == "n"
    # The state does not show it yet.
    assert holding.written() == 0
    holding.observe()
    assert holding.written(after=100) == 0
    for _ in range(3):
        holding.status(None)
        assert holding.written(after=nominations.AGAIN) == 1
        holding.observe()
    assert holding.nominated() == "n"


def test_it_ends_once_the_pod_could_be_tried_after_the_victim_is_gone(holding: Holding) -> None:
    holding.cluster.end_pod("victim")
    holding.observe()
    assert holding.written() == 1
    holding.status(None)
    assert holding.written(after=nominations.HELD - 1) == 1
    holding.status(None)
    assert holding.written(after=1) == 0
    assert holding.nominated() == ""


def test_a_victim_of_several_that_remains_keeps_the_nomination(holding: Holding) -> None:
    other = holding.cluster.pod("other", node="n")
    holding.cluster.end_pod("victim")
    holding.observe()
    assert holding.written() == 1
    holding.clock.now += nominations.HELD - 1
    holding.nominations.evicted(other, effects.Room(holding.asks, "n"), TERM)
    holding.status(None)
    assert holding.written(after=nominations.HELD) == 1


@pytest.mark.parametrize("change", ["bound", "gone", "nominated elsewhere", "another pod", "another leader"])
def test_it_ends_with_its_reason(holding: Holding, change: str) -> None:
    cluster = holding.cluster
    match change:
        case "bound":
            cluster.bind("asks", "n2")
        case "gone" | "another pod":
            cluster.end_pod("asks")
        case "nominated elsewhere":
            holding.status("n2")
        case "another leader":
            holding.term = "next"
    if change == "another pod":
        # The state is older: the API server compares the uid.
        cluster.pod("asks")
        assert holding.written() == 1
        assert holding.nominated() == ""
    holding.observe()
    assert holding.written(after=nominations.AGAIN) == 0
    holding.term = TERM
    if change == "nominated elsewhere":
        holding.status(None)
    assert holding.written(after=nominations.AGAIN) == 0


def test_a_call_that_fails_is_repeated(holding: Holding) -> None:
    holding.cluster.server.faults.add(faults.FaultKind.FAIL, NOMINATE, times=1, status=503)
    assert holding.written() == 1
    assert holding.nominated() == ""
    assert holding.written(after=nominations.AGAIN) == 1
    assert holding.nominated() == "n"


def test_a_call_that_is_not_permitted_is_not_repeated(holding: Holding) -> None:
    holding.cluster.server.faults.add(faults.FaultKind.FAIL, NOMINATE, times=1, status=403)
    assert holding.written() == 1
    assert holding.written(after=nominations.AGAIN) == 0
