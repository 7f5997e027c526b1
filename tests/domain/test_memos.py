"""Memo: computed once, bounded, and safe to share between threads."""

import operator
import threading
from dataclasses import replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, memos, model, projections, snapshots
from app.plugins.workload_policy import logic, policy_model
from tests.support import declared


@given(limit=st.integers(1, 4), asked=st.lists(st.integers(0, 6), max_size=60))
def test_a_memo_gives_what_was_computed_for_the_key_and_is_bounded(limit: int, asked: list[int]) -> None:
    memo = memos.Memo(limit)
    for key in asked:
        assert memo.get(key, partial(operator.mul, key, 10)) == key * 10
        assert len(memo) <= 2 * limit


def test_a_value_is_computed_once() -> None:
    memo = memos.Memo()
    first = memo.get("key", object)
    assert memo.get("key", object) is first


def test_a_value_in_use_outlives_values_that_are_not() -> None:
    memo = memos.Memo(2)
    used, unused = memo.get("used", object), memo.get("unused", object)
    for number in range(8):
        memo.get(number, object)
        assert memo.get("used", object) is used
    assert memo.get("unused", object) is not unused


def test_threads_that_miss_at_once_get_the_same_value() -> None:
    memo = memos.Memo()
    both = threading.Barrier(2, timeout=60)
    found: list[object] = []

    def compute() -> object:
        both.wait()  # Both threads have missed.
        return object()

    threads = [threading.Thread(target=lambda: found.append(memo.get("key", compute))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0] is found[1]


# -- of a snapshot -------------------------------------------------------------------------

POLICY = policy_model.WorkloadPolicy(
    uid="u", namespace="ns", name="p", topology_key="zone", allocations=(policy_model.Allocation("a", 2),)
)
NODE = model.Node(name="n1", uid="un", labels={"zone": "a"})


def pod(uid: str, namespace: str = "ns") -> model.Pod:
    return model.Pod(uid=uid, namespace=namespace, name=uid)


def world() -> snapshots.Snapshot:
    first: list[events.AnyEvent] = [events.NodeSeen(node=NODE), declared.observed(POLICY)]
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA), first)


def test_snapshots_used_alternately_both_keep_their_values() -> None:
    one = world()
    other = projections.project(one, events.placed(pod("x"), "n1"))
    held = logic.quotas(one, POLICY), logic.quotas(other, POLICY)
    assert [quota.count for listed in held for quota in listed] == [0, 1]
    for _ in range(3):
        assert logic.quotas(one, POLICY) is held[0]
        assert logic.quotas(other, POLICY) is held[1]


def test_values_are_shared_with_the_next_snapshot_if_no_policy_and_no_count_changed() -> None:
    one = world()
    other = projections.project(one, events.PodSeen(pod=pod("y", "elsewhere")))
    assert logic.quotas(other, POLICY) is logic.quotas(one, POLICY)


def test_a_policy_that_changed_has_its_own_values() -> None:
    one = world()
    wider = policy_model.WorkloadPolicy(
        uid="u", namespace="ns", name="p", topology_key="zone", allocations=(policy_model.Allocation("a", 5),)
    )
    assert [quota.desired for quota in logic.quotas(one, POLICY)] == [2]
    other = projections.project(one, declared.observed(wider))
    assert [quota.desired for quota in logic.quotas(other, wider)] == [5]
    # A policy that is not the snapshot's own is computed from its own content.
    assert [quota.desired for quota in logic.quotas(one, wider)] == [5]
    assert [quota.desired for quota in logic.quotas(one, POLICY)] == [2]


def test_what_is_computed_of_a_state_is_held_until_anything_of_it_changes() -> None:
    node, pod = model.Node(name="n", uid="n"), model.Pod(uid="p", namespace="ns", name="p")
    changes: list[events.AnyEvent] = [
        events.NodeSeen(node=node),
        events.PodSeen(pod=pod),
        events.placed(pod, "n"),
        declared.observed(policy_model.WorkloadPolicy(uid="u", namespace="ns", name="policy")),
        events.NodeGone(name="n", uid="n"),
    ]
    snapshot = snapshots.empty(schema=declared.SCHEMA)
    values = []
    for change in changes:
        snapshot = projections.project(snapshot, change)
        values.append(snapshot.computed("key", object))
        same = replace(snapshot, position=model.Position("other", 7))
        assert same.computed("key", object) is values[-1]
        assert snapshot.computed("another", object) is not values[-1]
    assert len(set(map(id, values))) == len(changes)
