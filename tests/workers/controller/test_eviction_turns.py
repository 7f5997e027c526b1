"""Evictions that wait for their turn among the calls to the API server: what changes meanwhile counts."""

from collections.abc import Callable

import pytest

from app.domain import snapshots
from app.framework import effects
from app.simulation.apiserver import faults
from tests.support.workers import clusters
from tests.support.workers.evictors import Evicting, Protects, outcomes
from workers.controller import evictions

EVICT = faults.calls("POST", "/eviction")
BUSY = 30
"""Seconds for which the API server asks to be left alone."""


def waiting(evicting: Evicting) -> None:
    """Another call has just been refused because the API server is busy."""
    evicting.cluster.server.faults.add(faults.FaultKind.FAIL, EVICT, status=429, retry_after=BUSY)
    evicting.want("c", plugin="Q")
    assert evicting.asked() == ["c"]
    evicting.want(plugin="Q")


def meanwhile(evicting: Evicting, change: Callable[[], None]) -> None:
    """Change the cluster while the evictor waits, once, so that the recorder observes it."""

    def changed() -> None:
        evicting.meanwhile = lambda: None
        change()
        evicting.observe()
        evicting.cluster.server.seen.clear()

    evicting.meanwhile = changed


def until_gone(evicting: Evicting, name: str) -> Callable[[snapshots.Snapshot], effects.Eviction | None]:
    """Wants pod a evicted as long as the other one is there."""
    a = evicting.pod("a")

    def renewed(snapshot: snapshots.Snapshot) -> effects.Eviction | None:
        there = snapshot.pod_named("ns", name) is not None
        return effects.Eviction("subject", (a,), f"for {name}", renewed=renewed) if there else None

    return renewed


@pytest.mark.scenario("TR-17")
def test_what_is_not_wanted_any_more_when_its_turn_comes_is_not_evicted(evicting: Evicting) -> None:
    waiting(evicting)
    before = outcomes()
    meanwhile(evicting, lambda: evicting.cluster.end_pod("b"))
    evicting.want_renewed("a", until_gone(evicting, "b"), after=0)
    assert evicting.asked() == []
    assert evicting.clock.waits
    assert outcomes() == before
    assert evicting.asked(after=evictions.RETRY) == [], "it was interrupted"
    assert evicting.posted == []


def test_what_is_still_wanted_when_its_turn_comes_is_evicted(evicting: Evicting) -> None:
    waiting(evicting)
    meanwhile(evicting, lambda: evicting.cluster.end_pod("c"))
    evicting.want_renewed("a", until_gone(evicting, "b"), after=0)
    assert evicting.asked() == ["a"]
    assert sum(evicting.clock.waits) >= BUSY


def test_what_the_plugin_has_withdrawn_when_its_turn_comes_is_not_evicted(evicting: Evicting) -> None:
    waiting(evicting)
    evicting.want("a")
    meanwhile(evicting, lambda: evicting.want("b"))
    assert evicting.asked() == []
    assert evicting.asked() == ["b"]


def test_a_pod_that_terminates_when_its_turn_comes_is_not_evicted(evicting: Evicting) -> None:
    waiting(evicting)
    meanwhile(evicting, lambda: evicting.cluster.delete_pod("a"))
    evicting.want("a b")
    assert evicting.asked() == ["b"], "the other one is the next"


def test_a_plugin_that_objects_when_the_turn_comes_prevents_the_eviction(
    cluster_side: clusters.Cluster,
) -> None:
    """The members of a gang that is complete may all go; by then one stays."""
    evicting = Evicting(cluster_side, Protects(together=frozenset(("a", "b"))))
    waiting(evicting)
    meanwhile(evicting, lambda: evicting.cluster.end_pod("b"))
    evicting.want("a b")
    assert evicting.asked() == []
    assert evicting.asked(after=evictions.RETRY - 1) == []


def test_what_a_standby_has_forgotten_when_its_turn_comes_is_not_evicted(evicting: Evicting) -> None:
    waiting(evicting)
    meanwhile(evicting, evicting.evictor.forget)
    evicting.want("a")
    assert evicting.asked() == []
    assert evicting.clock.waits
    assert evicting.asked(after=evictions.RETRY) == []
    evicting.want("a")
    assert evicting.asked() == ["a"]
