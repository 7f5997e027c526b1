"""A placed pod counts as its Binding will make it: with the annotations that plugins assigned to it."""

import collections
import dataclasses
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import example, given, settings

from app.domain import declared_objects, events, model, projections, schema, snapshot_contents, snapshots
from app.verbs.pictures import in_flight
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import recomputation, strategies

KEY = "example.org/a"
"""An annotation that drawn placements assign."""


def _contributions(
    pod: model.Pod, node: model.Node, objects: declared_objects.Objects
) -> Iterator[tuple[schema.CountKey, int]]:
    if pod.counted and KEY in pod.annotations:
        policies = len(objects.within(declared.POLICIES, pod.namespace))
        yield f"assigned|{node.name}|{pod.annotations[KEY]}", 1 + policies


COUNTER = schema.Counter(
    family="assigned",
    form=1,
    contributions=_contributions,
    pod_fields=("annotations", "namespace", "phase", "terminating"),
    node_fields=("name",),
    depends_on=(schema.Dependency(declared.POLICIES, reads=lambda policy: policy.key),),
)
SCHEMA = schema.Schema(declared.SCHEMA.kinds, (COUNTER,))
POD = model.Pod(uid="u1", namespace="blue", name="one")


def empty() -> snapshots.Snapshot:
    return snapshots.empty(schema=SCHEMA)


def recounted(snapshot: snapshots.Snapshot) -> dict[str, int]:
    """The counts, from the facts and placements alone."""
    found: collections.Counter[str] = collections.Counter()
    for uid, (pod, name) in recomputation.pods_and_nodes(snapshot).items():
        seen, placement = snapshot.pods.get(uid), snapshot.placements.get(uid)
        bound = seen is not None and bool(seen.node)
        assigned = placement.annotations if placement is not None and not bound else {}
        counted = msgspec.structs.replace(pod, annotations={**pod.annotations, **assigned})
        if name in snapshot.nodes:
            found.update(dict(_contributions(counted, snapshot.nodes[name], snapshot.objects)))
    return dict(found)


def rebuilt(snapshot: snapshots.Snapshot) -> dict[str, int]:
    """The counts of a checkpoint that was written without them."""
    contents = dataclasses.replace(snapshot_contents.extract(snapshot), counts=None)
    return dict(snapshot_contents.build(contents, snapshot.position, schema=SCHEMA).counts)


def observed_with(event: events.AnyEvent) -> events.AnyEvent:
    """The same event, in which pods on nodes have an annotation."""
    if not isinstance(event, events.PodSeen) or not event.pod.node:
        return event
    return events.PodSeen(pod=msgspec.structs.replace(event.pod, annotations={KEY: "a"}))


def assigning(node: str, device: str, pod: model.Pod = POD) -> events.PlacementsCommitted:
    placement = model.Placement(pod=pod, node=node, annotations={KEY: device})
    return events.PlacementsCommitted(placements=(placement,))


def bound(node: str, **annotations: str) -> events.PodSeen:
    return events.PodSeen(pod=msgspec.structs.replace(POD, node=node, annotations=annotations))


LIFE: list[events.AnyEvent] = [
    events.NodeSeen(node=model.Node(name="n0", uid="n0")),
    assigning("n0", "a"),
    events.PodSeen(pod=POD),
    assigning("n0", "b"),
    assigning("n1", "b"),
    events.NodeSeen(node=model.Node(name="n1", uid="n1")),
    *strategies.life(),
    events.not_placed(POD, "n1"),
    assigning("n0", "c"),
    events.NodeGone(name="n0", uid="n0"),
    events.NodeSeen(node=model.Node(name="n0", uid="n0")),
    bound("n0", **{KEY: "c"}),
    assigning("n1", "a"),
    bound("n0"),
]


@given(strategies.histories)
@example(LIFE)
@settings(max_examples=sizes.examples(100), deadline=None)
def test_the_counts_of_every_fold_are_those_of_the_pods_as_bound(history: list[events.AnyEvent]) -> None:
    history = [observed_with(event) for event in history]
    snapshot, sums = empty(), collections.Counter[str]()
    for event in history:
        projection = projections.Projection(snapshot)
        projection.apply(event)
        sums.update(projection.increments)
        snapshot = projection.finish()
        wanted = recounted(snapshot)
        assert dict(snapshot.counts) == rebuilt(snapshot) == wanted
        assert {key: count for key, count in sums.items() if count} == wanted
    assert projections.project_all(empty(), history).counts == snapshot.counts


@pytest.mark.parametrize(
    ("happened", "counts"),
    [
        ([assigning("n0", "a")], {"assigned|n0|a": 1}),
        ([events.PodSeen(pod=POD), assigning("n0", "a")], {"assigned|n0|a": 1}),
        ([assigning("n0", "a"), events.PodSeen(pod=POD)], {"assigned|n0|a": 1}),
        ([assigning("n0", "a"), assigning("n0", "b")], {"assigned|n0|b": 1}),
        ([assigning("n0", "a"), events.placed(POD, "n0")], {}),
        ([assigning("n0", "a"), events.not_placed(POD, "n0")], {}),
        ([assigning("n0", "a"), bound("n0", **{KEY: "a"})], {"assigned|n0|a": 1}),
        ([assigning("n0", "a"), bound("n0")], {}),
        ([bound("n0"), assigning("n0", "a")], {}),
    ],
)
def test_an_assigned_annotation_counts_until_the_pod_is_bound_or_released(
    happened: list[events.AnyEvent], counts: dict[str, int]
) -> None:
    node = events.NodeSeen(node=model.Node(name="n0", uid="n0"))
    snapshot = projections.project_all(empty(), [node, *happened])
    assert dict(snapshot.counts) == counts
    flying = in_flight.InFlight().of(snapshot)
    assert dict(flying) == (counts if "u1" in snapshot.placements else {})


def test_a_placement_without_annotations_counts_the_pod_itself() -> None:
    placement = model.Placement(pod=POD, node="n0")
    assert placement.written(POD) is POD
