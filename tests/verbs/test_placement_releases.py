"""Releasing placements: only the one that is meant, and rather none than a wrong one."""

from typing import Any

import pytest

from app.domain import model, snapshots
from app.simulation.apiserver import faults
from app.store import errors
from app.verbs import placement_releases
from tests.support.extender import replicas


@pytest.fixture
def placed(shop: replicas.Cluster) -> tuple[replicas.Replica, model.Pod]:
    """A pod that is placed on h1; it is unknown whether it is bound."""
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, faults.calls("POST", "/binding"), status=504)
    assert "not known" in one.bind(pod, "h1")
    return one, pod


def test_a_placement_is_released_once(placed: tuple[replicas.Replica, model.Pod]) -> None:
    one, pod = placed
    before = one.snapshot().offset
    assert placement_releases.release(one.context.state, one.context.log, pod.uid, "refused", "of a test")
    assert placement_releases.release(one.context.state, one.context.log, pod.uid, "refused", "of a test")
    assert one.events(after=before) == [f"PlacementReleased pod:{pod.uid}"]
    assert one.count("host") == 0


@pytest.mark.parametrize(("back", "incarnation"), [(1, None), (0, "another")])
def test_another_placement_is_left_alone(
    placed: tuple[replicas.Replica, model.Pod], back: int, incarnation: str | None
) -> None:
    one, pod = placed
    here = one.snapshot().placement_position(pod.uid)
    assert here is not None
    former = model.Position(incarnation or here.incarnation, here.offset - back)
    assert not placement_releases.release(
        one.context.state, one.context.log, pod.uid, "refused", "of a test", placement=former
    )
    assert one.count("host") == 1


def test_a_confirmed_placement_is_not_released(
    shop: replicas.Cluster, placed: tuple[replicas.Replica, model.Pod]
) -> None:
    one, pod = placed
    shop.put(pod, "h1")
    seen = shop.see()
    assert placement_releases.release(one.context.state, one.context.log, pod.uid, "refused", "of a test")
    assert (one.snapshot().offset, one.count("host")) == (seen, 1)


def test_a_node_that_moves_meanwhile_is_counted_rightly(
    shop: replicas.Cluster, placed: tuple[replicas.Replica, model.Pod]
) -> None:
    one, pod = placed
    behind = replicas.Behind(one)
    shop.api.objects.change("nodes", ("", "h1"), relabelled)
    shop.see()
    assert placement_releases.release(behind, one.context.log, pod.uid, "refused", "of a test")
    assert (one.count("host"), one.count("member")) == (0, 0)


def relabelled(node: dict[str, Any]) -> dict[str, Any]:
    node["metadata"]["labels"][replicas.KEY] = "member"
    return node


def test_a_contended_pod_keeps_its_placement(
    shop: replicas.Cluster, placed: tuple[replicas.Replica, model.Pod]
) -> None:
    one, pod = placed
    behind = replicas.Behind(one, looks=1_000)
    shop.api.objects.change("nodes", ("", "h1"), relabelled)
    shop.see()
    assert not placement_releases.release(behind, one.context.log, pod.uid, "refused", "of a test")
    assert (one.count("host"), one.count("member")) == (0, 1)


class Away(replicas.Behind):
    """A state that is not available."""

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        raise errors.StoreAway(f"not within {timeout} s")


def test_without_the_store_the_placement_stays(placed: tuple[replicas.Replica, model.Pod]) -> None:
    one, pod = placed
    assert not placement_releases.release(Away(one), one.context.log, pod.uid, "refused", "of a test")
    assert one.count("host") == 1
