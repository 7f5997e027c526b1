"""What a plugin that reserves capacity for some pods needs: a state of its own for each pod."""

import pytest

from app.domain import model
from tests.support.decisions import fake_transformers, scheduling_driver
from tests.support.decisions.small_quotas import node, pod

OWNER = {"owner": "r"}


def cluster() -> scheduling_driver.Cluster:
    """A node of 8 cores, 6 of which are reserved; an owner uses 2 of these."""
    return scheduling_driver.Cluster(
        node("n1", 8),
        pod("reserve", 6, node="n1", labels={"reserve": ""}),
        pod("consumer", 2, node="n1", labels=OWNER),
        configured=[fake_transformers.Reserving(), fake_transformers.Fitting()],
    )


def fits(small: scheduling_driver.Cluster, asking: model.Pod) -> bool:
    return small.filter(asking).kept == {"n1"}


@pytest.mark.scenario("TR-9")
def test_what_is_reserved_is_free_for_its_owner_alone() -> None:
    small = cluster()
    before = small.snapshot
    assert fits(small, pod("owner", 6, labels=OWNER))
    assert not fits(small, pod("owner", 7, labels=OWNER))
    assert fits(small, pod("unrelated", 2))
    assert not fits(small, pod("unrelated", 3))
    assert small.snapshot is before
    assert sorted(one.requests["cpu"] for one in small.snapshot.on("n1")) == [2000, 6000]


@pytest.mark.scenario("TR-10")
def test_a_victim_frees_its_part_of_what_is_reserved_and_not_of_the_node_twice() -> None:
    small = cluster()
    consumer = next(one for one in small.snapshot.on("n1") if one.name == "consumer")
    assert small.veto(pod("owner", 8, labels=OWNER, priority=9), "n1", consumer) is None
    assert small.veto(pod("unrelated", 2, priority=9), "n1", consumer) is None
    assert small.veto(pod("unrelated", 3, priority=9), "n1", consumer) == "no cores left"
