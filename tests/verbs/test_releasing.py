"""Taking promises back: only the one that is meant, and not at all rather than wrongly."""

from typing import Any

import pytest

from app.domain import model, snapshots
from app.simulation import faults
from app.store import errors
from app.verbs import releasing
from tests.verbs import replicas


@pytest.fixture
def placed(shop: replicas.Cluster) -> tuple[replicas.Replica, model.Pod]:
    """A pod that was promised h1; nobody knows whether it is bound."""
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    shop.api.faults.add(faults.Kind.FAIL, faults.calls("POST", "/binding"), status=504)
    assert "not known" in one.bind(pod, "h1")
    return one, pod


def test_the_promise_is_taken_back_once(placed: tuple[replicas.Replica, model.Pod]) -> None:
    one, pod = placed
    before = one.snapshot().offset
    assert releasing.release(one.context.state, one.context.log, pod.uid, "refused", "a test says so")
    assert releasing.release(one.context.state, one.context.log, pod.uid, "refused", "a test says so")
    assert one.events(after=before) == [f"PlacementReleased pod:{pod.uid}"]
    assert one.count("host") == 0


@pytest.mark.parametrize(("back", "incarnation"), [(1, None), (0, "another")])
def test_another_promise_is_left_alone(
    placed: tuple[replicas.Replica, model.Pod], back: int, incarnation: str | None
) -> None:
    one, pod = placed
    here = one.snapshot().promise(pod.uid)
    assert here is not None
    former = model.Position(incarnation or here.incarnation, here.offset - back)
    assert not releasing.release(
        one.context.state, one.context.log, pod.uid, "refused", "a test says so", promise=former
    )
    assert one.count("host") == 1


def test_what_the_watch_has_confirmed_is_no_promise(
    shop: replicas.Cluster, placed: tuple[replicas.Replica, model.Pod]
) -> None:
    one, pod = placed
    shop.put(pod, "h1")
    seen = shop.see()
    assert releasing.release(one.context.state, one.context.log, pod.uid, "refused", "a test says so")
    assert (one.snapshot().offset, one.count("host")) == (seen, 1)


def test_a_node_that_moves_meanwhile_is_counted_rightly(
    shop: replicas.Cluster, placed: tuple[replicas.Replica, model.Pod]
) -> None:
    one, pod = placed
    behind = replicas.Behind(one)
    shop.api.objects.change("nodes", ("", "h1"), relabelled)
    shop.see()
    assert releasing.release(behind, one.context.log, pod.uid, "refused", "a test says so")
    assert (one.count("host"), one.count("member")) == (0, 0)


def relabelled(node: dict[str, Any]) -> dict[str, Any]:
    node["metadata"]["labels"][replicas.KEY] = "member"
    return node


def test_a_pod_that_others_always_write_about_keeps_its_promise(
    shop: replicas.Cluster, placed: tuple[replicas.Replica, model.Pod]
) -> None:
    one, pod = placed
    behind = replicas.Behind(one, looks=1_000)
    shop.api.objects.change("nodes", ("", "h1"), relabelled)
    shop.see()
    assert not releasing.release(behind, one.context.log, pod.uid, "refused", "a test says so")
    assert (one.count("host"), one.count("member")) == (0, 1)


class Away(replicas.Behind):
    """A state that cannot be had."""

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        raise errors.StoreAway(f"not within {timeout} s")


def test_without_the_store_the_promise_stays(placed: tuple[replicas.Replica, model.Pod]) -> None:
    one, pod = placed
    assert not releasing.release(Away(one), one.context.log, pod.uid, "refused", "a test says so")
    assert one.count("host") == 1
