"""The fold of the log: after any history, every index equals a recomputation from the facts.

Not here: that the counts in Redis equal this fold (tests/store/log/test_machine.py).
"""

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.domain.fold import recounts
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import recomputation, strategies

POD = model.Pod(uid="u1", namespace="blue", name="one", labels={"app": "a"})


def empty() -> snapshots.Snapshot:
    return snapshots.empty(schema=declared.SCHEMA, indexed=("app", "job"), incarnation="i")


@given(strategies.histories)
@example(strategies.life())
@settings(max_examples=sizes.examples(100), deadline=None)
def test_every_index_equals_a_recomputation_at_every_offset(history: list[events.AnyEvent]) -> None:
    snapshot = empty()
    for event in history:
        snapshot = projections.project(snapshot, event)
        assert recomputation.kept(snapshot) == recomputation.derived(snapshot)
    assert snapshot.offset == len(history)


@given(strategies.histories, st.data())
@settings(max_examples=sizes.examples(80), deadline=None)
def test_a_fold_in_pieces_equals_the_fold_at_once(
    history: list[events.AnyEvent], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    at_once = projections.project_all(empty(), history)
    in_pieces = projections.project_all(projections.project_all(empty(), history[:cut]), history[cut:])
    assert recomputation.kept(in_pieces) == recomputation.kept(at_once)
    assert dict(in_pieces.versions) == dict(at_once.versions)
    assert (in_pieces.pods, in_pieces.placements, in_pieces.flags) == (
        at_once.pods,
        at_once.placements,
        at_once.flags,
    )


@given(strategies.histories, st.data())
@example(strategies.life(), None)
@settings(max_examples=sizes.examples(80), deadline=None)
def test_all_nodes_that_a_fold_does_not_name_are_as_they_were(
    history: list[events.AnyEvent], data: st.DataObject | None
) -> None:
    cut = data.draw(st.integers(0, len(history))) if data is not None else 2
    before = projections.project_all(empty(), history[:cut])
    for name in before.nodes:
        before.used(name)
    projection = projections.Projection(before)
    projection.apply_all(history[cut:])
    after = projection.finish()
    for name in {*before.nodes, *after.nodes, *before.residents, *after.residents} - projection.touched:
        assert after.nodes.get(name) == before.nodes.get(name)
        assert after.used(name) == before.used(name)
        assert set(after.residents.get(name, ())) == set(before.residents.get(name, ()))


BOUND = msgspec.structs.replace(POD, node="n1")
PLACED = events.placed(POD, "n0")
BOUND_AND_NOT = [PLACED, events.PodSeen(pod=BOUND), events.PodSeen(pod=POD)]
OTHER = msgspec.structs.replace(POD, uid="u2")
GONE = events.PodGone(uid="u1", namespace="blue", name="one")
GONE_WHEN_KNOWN = [events.PodSeen(pod=POD), PLACED, events.PodSeen(pod=POD), GONE]
GONE_WHEN_JUST_SEEN = [events.PodSeen(pod=POD), GONE]
NAMED_BY_OBSERVATIONS = [events.PodSeen(pod=POD), events.PodSeen(pod=OTHER), events.placed(OTHER, "n0")]
NAMED_BY_A_PLACEMENT = [events.PodSeen(pod=POD), events.placed(OTHER, "n0")]


@given(st.one_of(strategies.histories, strategies.crowds))
@example(strategies.life())
@example(BOUND_AND_NOT)
@example(GONE_WHEN_KNOWN)
@example(GONE_WHEN_JUST_SEEN)
@example(NAMED_BY_OBSERVATIONS)
@example(NAMED_BY_A_PLACEMENT)
@settings(max_examples=sizes.examples(80), deadline=None)
def test_a_run_is_folded_as_its_events_one_by_one(history: list[events.AnyEvent]) -> None:
    """Observations without effect are skipped; the result does not show it, even if pods share a name."""
    history = [strategies.namesake(event) for event in history]
    one_by_one = empty()
    for event in history:
        one_by_one = projections.project(one_by_one, event)
    at_once = projections.project_all(empty(), history)
    assert recomputation.kept(at_once) == recomputation.kept(one_by_one)
    assert at_once.offset == one_by_one.offset
    for index in ("pods", "placements", "versions", "counts", "names", "waiting", "nominated", "flags"):
        assert dict(getattr(at_once, index)) == dict(getattr(one_by_one, index)), index


@given(strategies.histories, strategies.histories)
@settings(max_examples=sizes.examples(50), deadline=None)
def test_a_projection_leaves_its_start_alone(
    history: list[events.AnyEvent], more: list[events.AnyEvent]
) -> None:
    start = projections.project_all(empty(), history)
    before = recomputation.kept(start)
    projections.project_all(start, more)
    assert recomputation.kept(start) == before


@given(strategies.histories, strategies.histories)
@example([], strategies.life())
@settings(max_examples=sizes.examples(80), deadline=None)
def test_increments_are_the_difference_of_the_counts(
    history: list[events.AnyEvent], more: list[events.AnyEvent]
) -> None:
    start = projections.project_all(empty(), history)
    projection = projections.Projection(start)
    projection.apply_all(more)
    increments = {key: by for key, by in projection.increments.items() if by}
    end = projection.finish()
    keys = {*start.counts, *end.counts}
    assert increments == {
        key: by for key in keys if (by := end.counts.get(key, 0) - start.counts.get(key, 0))
    }


@given(strategies.histories)
@example(strategies.life())
@settings(max_examples=sizes.examples(50), deadline=None)
def test_a_pod_that_only_counts_on_a_node_raises_what_its_placement_raises(
    history: list[events.AnyEvent],
) -> None:
    start = projections.project_all(empty(), history)
    unknown = model.Pod(uid="unknown", namespace="blue", name="unknown", labels={"app": "a"})
    for pod in (*map(start.pods.__getitem__, start.waiting), unknown):
        for name in start.nodes:
            counting = start.counting([(pod, name)])
            projection = projections.Projection(start)
            projection.apply(events.placed(pod, name))
            assert counting.counts == projection.finish().counts
            assert (counting.pods, counting.placements) == (start.pods, start.placements)
            changed = recounts.between(start.recounted, counting.recounted)
            assert changed == (projection.increments if start.recounted else None)
            assert counting.counting([(pod, name)], -1).counts == start.counts


def test_nodes_that_did_not_change_are_the_same_object() -> None:
    before = projections.project(empty(), events.NodeSeen(node=model.Node(name="n", uid="1")))
    after = projections.project(before, events.PodSeen(pod=POD))
    assert after.nodes is before.nodes


# -- placements ----------------------------------------------------------------------------


def placed() -> snapshots.Snapshot:
    seen = projections.project(empty(), events.PodSeen(pod=POD))
    return projections.project(seen, events.placed(POD, "n0"))


def bound(node: str) -> events.PodSeen:
    return events.PodSeen(
        pod=model.Pod(uid="u1", namespace="blue", name="one", labels={"app": "a"}, node=node)
    )


def test_a_placement_moves_the_pod_before_the_watch_does() -> None:
    snapshot = placed()
    assert snapshot.node_of("u1") == "n0"
    assert [pod.uid for pod in snapshot.on("n0")] == ["u1"]
    assert not snapshot.waiting


def test_the_bound_pod_confirms_the_placement() -> None:
    snapshot = projections.project(placed(), bound("n0"))
    assert not snapshot.placements
    assert snapshot.node_of("u1") == "n0"


def test_a_pod_bound_elsewhere_ends_the_placement() -> None:
    snapshot = projections.project(placed(), bound("n1"))
    assert not snapshot.placements
    assert not list(snapshot.on("n0"))
    assert [pod.uid for pod in snapshot.on("n1")] == ["u1"]


def test_an_unbound_pod_keeps_the_placement() -> None:
    snapshot = projections.project(placed(), events.PodSeen(pod=POD))
    assert snapshot.node_of("u1") == "n0"


def test_a_released_pod_is_pending_again() -> None:
    event = events.PlacementReleased(
        uid="u1", namespace="blue", name="one", node="n0", reason="refused", cause="refused"
    )
    snapshot = projections.project(placed(), event)
    assert snapshot.node_of("u1") == ""
    assert "u1" in snapshot.waiting


def test_a_deleted_pod_leaves_no_trace_in_any_index() -> None:
    snapshot = projections.project(placed(), GONE)
    assert (dict(snapshot.pods), dict(snapshot.placements), dict(snapshot.names)) == ({}, {}, {})
    assert not list(snapshot.on("n0"))


def test_a_name_stays_with_the_latest_pod() -> None:
    observations = [POD, OTHER, msgspec.structs.replace(POD, labels={"app": "b"})]
    snapshot = empty()
    for observed in observations:
        snapshot = projections.project(snapshot, events.PodSeen(pod=observed))
    found = snapshot.pod_named("blue", "one")
    assert found is not None
    assert found.uid == "u2"


def test_a_name_passes_to_the_pod_that_is_recreated_under_it() -> None:
    first = projections.project(empty(), events.PodSeen(pod=POD))
    second = projections.project_all(
        first,
        [
            events.PodGone(uid="u1", namespace="blue", name="one"),
            events.PodSeen(pod=model.Pod(uid="u2", namespace="blue", name="one")),
        ],
    )
    found = second.pod_named("blue", "one")
    assert found is not None
    assert found.uid == "u2"
    assert second.version("pod:u1") == 0
    assert second.version("pod:u2") == 3


def test_pods_are_indexed_by_label_annotation_and_group() -> None:
    keys = ("app", "example.com/job", model.GROUP)
    pod = model.Pod(
        uid="u",
        namespace="ns",
        name="p",
        labels={"app": "a"},
        annotations={"example.com/job": "j"},
        group="g",
    )
    before = snapshots.empty(schema=declared.SCHEMA, indexed=keys)
    seen = projections.project(before, events.PodSeen(pod=pod))
    for key, value in zip(keys, "ajg", strict=True):
        assert list(seen.siblings("ns", key, value)) == [pod]
        assert not list(seen.siblings("ns", key, "other"))
    alone = msgspec.structs.replace(pod, labels={}, annotations={}, group="")
    assert not projections.project(seen, events.PodSeen(pod=alone)).labelled
    gone = events.PodGone(uid="u", namespace="ns", name="p")
    assert not projections.project(seen, gone).labelled


def test_an_annotation_is_indexed_whatever_label_has_its_key() -> None:
    key = "example.com/job"
    own = model.annotation(key)
    pod = model.Pod(uid="u", namespace="ns", name="p", labels={key: "label"}, annotations={key: "annotation"})
    before = snapshots.empty(schema=declared.SCHEMA, indexed=(key, own))
    seen = projections.project(before, events.PodSeen(pod=pod))
    assert set(seen.labelled) == {("ns", key, "label"), ("ns", own, "annotation")}
    unmarked = msgspec.structs.replace(pod, annotations={})
    assert set(projections.project(seen, events.PodSeen(pod=unmarked)).labelled) == {("ns", key, "label")}
