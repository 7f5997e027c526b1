"""A counter that raises ends the fold with an error that names the counter, the pod and the node."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import pytest

from app.domain import declared_objects, events, model, projections, schema, snapshot_contents, snapshots
from tests.support import gadgets

Counted = Iterable[tuple[schema.CountKey, int]]


def gpus(pod: model.Pod) -> int:
    return int(pod.labels.get("gpus", "0"))


def placed(pod: model.Pod, node: model.Node, objects: declared_objects.Objects) -> Iterator[tuple[str, int]]:
    yield f"gpu|{node.name}", gpus(pod)


def returned(pod: model.Pod, node: model.Node, objects: declared_objects.Objects) -> Counted:
    return [(f"gpu|{node.name}", gpus(pod))]


def waiting(pod: model.Pod, objects: declared_objects.Objects) -> Counted:
    return [("gpu|", gpus(pod))]


def sized(pod: model.Pod, node: model.Node, objects: declared_objects.Objects) -> Iterator[tuple[str, int]]:
    for gadget in objects.within(gadgets.GADGETS, pod.namespace).values():
        yield f"gpu|{node.name}", gpus(pod) * gadget.size


def none(*_: object) -> Counted:
    return ()


SILENT = schema.Counter("others", 1, none, pod_fields=("labels",), pending=none)
PLACED = schema.Counter("gpu", 1, placed, pod_fields=("labels",), node_fields=("name",))
ANYWHERE = schema.Counter("gpu", 1, placed, pod_fields=("labels",), node_fields=())
RETURNED = schema.Counter("gpu", 1, returned, pod_fields=("labels",))
WAITING = schema.Counter("gpu", 1, none, pod_fields=("labels",), pending=waiting)
SIZED = schema.Counter(
    "gpu",
    1,
    sized,
    pod_fields=("labels",),
    depends_on=(schema.Dependency(gadgets.GADGETS, reads=lambda gadget: gadget.size, additive=True),),
)
NODE = events.NodeSeen(node=model.Node(name="n1", uid="n1"))
GADGET = gadgets.GADGETS.observed(gadgets.Gadget(uid="g", namespace="shop", name="big", size=2))


def bad(node: str) -> events.PodSeen:
    return events.PodSeen(
        pod=model.Pod(uid="u", namespace="shop", name="bad", labels={"gpus": "two"}, node=node)
    )


def folded(found: schema.Schema, *happened: events.AnyEvent) -> object:
    return projections.project_all(snapshots.empty(schema=found), happened)


def built(found: schema.Schema, *happened: events.AnyEvent) -> object:
    """As from a checkpoint without counts."""
    state = projections.project_all(snapshots.empty(schema=schema.Schema()), happened)
    contents = dataclasses.replace(snapshot_contents.extract(state), counts=None)
    return snapshot_contents.build(contents, model.Position("i", 2), schema=found)


@pytest.mark.parametrize(
    ("counter", "node", "read", "where"),
    [
        (PLACED, "n1", folded, "on node n1"),
        (RETURNED, "n1", folded, "on node n1"),
        (ANYWHERE, "gone", folded, "on node gone"),
        (WAITING, "", folded, "without a node"),
        (PLACED, "n1", built, "on node n1"),
        (WAITING, "", built, "without a node"),
    ],
)
def test_the_error_names_the_counter_the_pod_and_the_node(
    counter: schema.Counter, node: str, read: Callable[..., object], where: str
) -> None:
    for counters in ([counter], [SILENT, counter]):
        with pytest.raises(schema.CounterFailed) as raised:
            read(schema.Schema(counters=counters), NODE, bad(node))
        assert str(raised.value) == (
            f"counter 'gpu' ({__name__}) raises for pod shop/bad {where}: ValueError: invalid literal for"
            " int() with base 10: 'two'; correct its plugin, or the pod"
        )


@pytest.mark.parametrize("happened", [(NODE, GADGET, bad("n1")), (NODE, bad("n1"), GADGET)])
def test_an_object_that_lets_a_counter_raise_has_the_same_error(
    happened: tuple[events.AnyEvent, ...],
) -> None:
    found = schema.Schema((gadgets.GADGETS,), (SILENT, SIZED))
    with pytest.raises(
        schema.CounterFailed, match=r"counter 'gpu' .* for pod shop/bad on node n1: ValueError"
    ):
        folded(found, *happened)


def test_a_counter_that_was_not_asked_is_not_named() -> None:
    """Without an object of its kind, or a node, a counter counts nothing."""
    found = schema.Schema((gadgets.GADGETS,), (SIZED,))
    folded(found, NODE, bad("n1"))
    folded(schema.Schema(counters=(RETURNED,)), bad("gone"))
    other = schema.Counter("racks", 1, placed, pod_fields=("labels",), node_fields=())
    both = schema.Schema(counters=(RETURNED, other))
    with pytest.raises(schema.CounterFailed, match="counter 'racks'"):
        folded(both, bad("gone"))
