"""What the recorder appends after complete lists leads to what they show.

The batches are those of the recorder (workers.recorder.batch_builder); only the store is left out.
"""

import dataclasses
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import declared_objects, events, model, observations, projections, snapshots
from app.kube.objects import decoding
from app.kube.watch import kinds, reflectors
from app.plugins.workload_policy import policy_model
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import recomputation, strategies
from tests.support.workers import listings
from workers.recorder import batch_builder

worlds = st.builds(
    lambda history: projections.project_all(
        snapshots.empty(schema=declared.SCHEMA, indexed=("app",)), history
    ),
    strategies.histories,
)
JOBS = dataclasses.replace(kinds.declared(declared.POLICIES), name="jobs", paths=("/apis/batch/v1/jobs",))


def facts(snapshot: snapshots.Snapshot) -> tuple[object, ...]:
    objects = {kind.name: dict(snapshot.all(kind)) for kind in declared.SCHEMA.kinds}
    return dict(snapshot.nodes), dict(snapshot.pods), objects


@given(worlds, worlds, st.integers(0, 8))
@settings(max_examples=sizes.examples(50), deadline=None)
def test_complete_lists_lead_to_what_they_show(
    before: snapshots.Snapshot, after: snapshots.Snapshot, limit: int
) -> None:
    with mock.patch.object(batch_builder, "MAX_FACTS", limit):
        batches = list(listings.batches(before, listings.of(after)))
    assert all(len(batch) <= limit + 2 for batch in batches)
    observed = before
    for batch in batches:
        observed = projections.project_all(observed, batch)
        assert recomputation.kept(observed) == recomputation.derived(observed)
    assert facts(observed) == facts(after)
    assert not observed.unlisted


@pytest.mark.parametrize("kind", declared.SCHEMA.kinds, ids=lambda kind: kind.name)
def test_complete_lists_of_every_declared_kind_lead_to_what_they_show(
    kind: declared_objects.Kind[Any],
) -> None:
    def world(**uids: str) -> snapshots.Snapshot:
        found = [kind.type(uid, "blue" if kind.namespaced else "", name) for name, uid in uids.items()]
        return projections.project_all(snapshots.empty(schema=declared.SCHEMA), map(kind.observed, found))

    before, after = world(kept="1", recreated="2", deleted="3"), world(kept="1", recreated="4", created="5")
    found = listings.facts(before, listings.of(after))
    assert facts(projections.project_all(before, found)) == facts(after)
    assert {event.uid for event in found if isinstance(event, events.ObjectGone)} == {"2", "3"}


@given(worlds)
@settings(max_examples=sizes.examples(50), deadline=None)
def test_a_list_of_what_is_known_is_not_an_event(world: snapshots.Snapshot) -> None:
    assert listings.facts(world, listings.of(world)) == []


@given(worlds, worlds)
@settings(max_examples=sizes.examples(50), deadline=None)
def test_a_second_list_adds_nothing(before: snapshots.Snapshot, after: snapshots.Snapshot) -> None:
    observed = projections.project_all(before, listings.facts(before, listings.of(after)))
    assert listings.facts(observed, listings.of(after)) == []


@given(worlds, worlds)
@settings(max_examples=sizes.examples(50), deadline=None)
def test_a_placement_of_a_pod_that_was_never_observed_outlives_a_list(
    before: snapshots.Snapshot, after: snapshots.Snapshot
) -> None:
    unseen = {uid for uid in before.placements if uid not in before.pods and uid not in after.pods}
    observed = projections.project_all(before, listings.facts(before, listings.of(after)))
    assert unseen <= set(observed.placements)


@given(worlds, worlds)
@settings(max_examples=sizes.examples(50), deadline=None)
def test_a_watch_leads_to_what_it_shows(before: snapshots.Snapshot, after: snapshots.Snapshot) -> None:
    builder, held = batch_builder.BatchBuilder(before), listings.of(before)
    for kind, objects in listings.of(after).items():
        shown = {kind.identity(one) for one in objects}
        gone = [one for one in held[kind] if kind.identity(one) not in shown]
        waiting: list[batch_builder.Step] = [
            *(listings.gone(kind, one) for one in gone),
            *(reflectors.Seen(kind, one, "1") for one in objects),
        ]
        assert builder.fill(waiting, 0) == len(waiting)
    assert facts(projections.project_all(before, builder.facts)) == facts(after)


def test_a_recreated_node_ends_before_it_begins() -> None:
    old, new = model.Node(name="n", uid="1"), model.Node(name="n", uid="2")
    assert observations.node(old, new) == (
        events.NodeGone(name="n", uid="1", assumed=True),
        events.NodeSeen(node=new),
    )


def test_a_pod_that_has_taken_the_name_of_another_is_found_by_it() -> None:
    old = model.Pod(uid="1", namespace="blue", name="x")
    new = model.Pod(uid="2", namespace="blue", name="x")
    before = projections.project(snapshots.empty(schema=declared.SCHEMA), events.PodSeen(pod=old))
    found = listings.facts(before, {kinds.PODS: [new]})
    assert found == [
        events.PodSeen(pod=new),
        events.PodGone(uid="1", namespace="blue", name="x", assumed=True),
    ]
    assert projections.project_all(before, found).pod_named("blue", "x") == new


OBJECTS: list[decoding.Object] = [
    model.Pod(uid="1", namespace="blue", name="x"),
    model.Node(name="x", uid="1"),
    policy_model.WorkloadPolicy(uid="1", namespace="blue", name="x", topology_key="zone"),
]


@pytest.mark.parametrize("one", OBJECTS)
def test_an_object_that_ends_and_is_shown_again_is_an_event_again(one: decoding.Object) -> None:
    kind = kinds.of(declared.SCHEMA, one)
    before = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA),
        listings.facts(snapshots.empty(schema=declared.SCHEMA), {kind: [one]}),
    )
    builder = batch_builder.BatchBuilder(before)
    builder.fill([listings.gone(kind, one), reflectors.Seen(kind, one, "2")], 0)
    names = [type(event).__name__ for event in builder.facts]
    assert [name.endswith("Gone") for name in names] == [True, False]
    assert facts(projections.project_all(before, builder.facts)) == facts(before)


@pytest.mark.parametrize("one", OBJECTS[1:])
def test_the_late_end_of_a_former_node_or_policy_leaves_its_successor(one: decoding.Object) -> None:
    kind, former = kinds.of(declared.SCHEMA, one), msgspec.structs.replace(one, uid="0")
    builder = batch_builder.BatchBuilder(snapshots.empty(schema=declared.SCHEMA))
    builder.fill([one, listings.gone(kind, former)], 0)
    assert [type(event).__name__.endswith("Gone") for event in builder.facts] == [False]


@pytest.mark.parametrize(
    "step",
    [
        reflectors.Seen(JOBS, OBJECTS[2], "7"),
        reflectors.Gone(JOBS, "1", "blue", "x", "7"),
        batch_builder.Missing(JOBS, "blue/x"),
    ],
)
def test_an_unknown_kind_is_refused_and_not_taken_for_a_policy(step: batch_builder.Step) -> None:
    before = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA),
        listings.facts(
            snapshots.empty(schema=declared.SCHEMA), {kinds.declared(declared.POLICIES): OBJECTS[2:]}
        ),
    )
    builder = batch_builder.BatchBuilder(before)
    with pytest.raises(batch_builder.UnknownKind, match=r"unknown kind 'jobs'; known kinds: .*nodes, "):
        builder.fill([step], 0)
    assert builder.facts == []
