"""project(a, observe(a, b)) has the facts of b, and observe(b, b) is nothing: the two are inverses."""

from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import events, model, observing, projecting, snapshots
from tests.domain import generating, recomputing

worlds = st.builds(
    lambda history: projecting.project_all(snapshots.empty(indexed=("app",)), history), generating.histories
)


def facts(snapshot: snapshots.Snapshot) -> tuple[object, ...]:
    return dict(snapshot.nodes), dict(snapshot.pods), dict(snapshot.policies)


@given(worlds, worlds)
@settings(max_examples=300, deadline=None)
def test_what_is_observed_leads_to_what_was_seen(
    before: snapshots.Snapshot, after: snapshots.Snapshot
) -> None:
    seen = projecting.project_all(before, observing.observe(before, after))
    assert facts(seen) == facts(after)
    assert recomputing.kept(seen) == recomputing.derived(seen)


@given(worlds)
@settings(max_examples=200, deadline=None)
def test_the_same_sight_is_no_event(world: snapshots.Snapshot) -> None:
    assert observing.observe(world, world) == []


@given(worlds, worlds)
@settings(max_examples=100, deadline=None)
def test_a_second_look_adds_nothing(before: snapshots.Snapshot, after: snapshots.Snapshot) -> None:
    seen = projecting.project_all(before, observing.observe(before, after))
    assert observing.observe(seen, after) == []


@given(worlds, worlds)
@settings(max_examples=100, deadline=None)
def test_a_promise_to_a_pod_that_was_never_seen_outlives_a_list(
    before: snapshots.Snapshot, after: snapshots.Snapshot
) -> None:
    unseen = {uid for uid in before.placements if uid not in before.pods and uid not in after.pods}
    seen = projecting.project_all(before, observing.observe(before, after))
    assert unseen <= set(seen.placements)


def test_a_recreated_node_ends_before_it_begins() -> None:
    old, new = model.Node(name="n", uid="1"), model.Node(name="n", uid="2")
    assert observing.node(old, new) == (
        events.NodeGone(name="n", uid="1", assumed=True),
        events.NodeSeen(node=new),
    )


def test_pods_that_a_list_lacks_are_gone_before_others_take_their_names() -> None:
    old = model.Pod(uid="1", namespace="blue", name="x")
    new = model.Pod(uid="2", namespace="blue", name="x")
    before = projecting.project(snapshots.empty(), events.PodSeen(pod=old))
    assert list(observing.pods_listed(before, [new])) == [
        events.PodGone(uid="1", namespace="blue", name="x", assumed=True),
        events.PodSeen(pod=new),
    ]
