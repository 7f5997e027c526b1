"""Why a replica that led does not lead any more, by an elector that runs on a virtual clock."""

from typing import Any

import pytest

from app.kube.election import electors
from app.simulation.apiserver import faults
from tests.support.kube import fake_clock
from tests.support.workers import clusters
from workers import election

LEASE = ("ns", "topolog-recorder")


class Leader:
    """An elector that leads; the test calls run_once in place of its thread."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        self.clock = fake_clock.VirtualClock()
        self.elector = electors.Elector(cluster.client, *LEASE, identity="one", clock=self.clock)
        self.elector.run_once()
        assert self.elector.tenure is not None

    def reason(self) -> str:
        assert self.elector.tenure is None
        return election.reason_of_loss(self.elector)


@pytest.fixture
def leader(cluster_side: clusters.Cluster) -> Leader:
    return Leader(cluster_side)


def test_a_leader_that_was_paused_lost_its_lease_by_time(leader: Leader) -> None:
    leader.clock.now += 11.0
    assert leader.reason() == "its Lease was not renewed in time"


def test_a_leader_whose_renewals_fail_names_the_answer(
    leader: Leader, cluster_side: clusters.Cluster
) -> None:
    cluster_side.server.faults.add(
        faults.FaultKind.FAIL, lambda asked: "/leases" in asked.path, times=10**6, status=503
    )
    leader.elector.run_once()
    leader.clock.now += 11.0
    assert "answered 503" in leader.reason()


def test_a_leader_whose_lease_was_taken_names_the_holder(
    leader: Leader, cluster_side: clusters.Cluster
) -> None:
    def steal(lease: dict[str, Any]) -> dict[str, Any]:
        return lease | {"spec": lease["spec"] | {"holderIdentity": "other"}}

    cluster_side.server.objects.change("leases", LEASE, steal)
    leader.elector.run_once()
    assert leader.reason() == "other has the Lease"


def test_a_leader_that_resigned_names_no_holder(leader: Leader) -> None:
    leader.elector.resign()
    assert leader.reason() == "its Lease was released or deleted"
