"""Views of the groups: their pods and nodes."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from app.domain import model, snapshots
from app.framework import views

Parameters = Mapping[str, str]
SHOWN = 1000
"""Pods and nodes that a view of a group names at most; ``size`` and the other counts include all of them."""


def groups(label: str) -> Callable[[snapshots.Snapshot, Parameters], views.Listed]:
    """The groups of all namespaces, one summary each."""

    def handle(snapshot: snapshots.Snapshot, _: Parameters) -> views.Listed:
        keys = ((space, value) for space, key, value in snapshot.labelled if key == label and value)
        return views.Listed(keys, lambda key: _summary(snapshot, label, *key))

    return handle


def group(label: str) -> Callable[[snapshots.Snapshot, Parameters], dict[str, object] | None]:
    """One group with its pods; None if it has no pod."""

    def handle(snapshot: snapshots.Snapshot, parameters: Parameters) -> dict[str, object] | None:
        namespace, name = parameters["namespace"], parameters["name"]
        found = snapshot.siblings(namespace, label, name)
        pods = heapq.nsmallest(SHOWN, found, key=lambda pod: (pod.name, pod.uid))
        if not pods:
            return None
        return {
            **_summary(snapshot, label, namespace, name),
            "pods": [_member(snapshot, pod) for pod in pods],
        }

    return handle


def _summary(snapshot: snapshots.Snapshot, label: str, namespace: str, name: str) -> dict[str, object]:
    states: Counter[str] = Counter()
    on: Counter[model.NodeName] = Counter()
    for pod in snapshot.siblings(namespace, label, name):
        states[_state(snapshot, pod)] += 1
        node = snapshot.node_of(pod.uid)
        if node and pod.counted:
            on[node] += 1
    return {
        "namespace": namespace,
        "name": name,
        "size": states.total(),
        "placed": states["placed"],
        "inFlight": states["inFlight"],
        "waiting": states["waiting"],
        "nodes": [{"name": node, "pods": on[node]} for node in heapq.nsmallest(SHOWN, on)],
    }


def _member(snapshot: snapshots.Snapshot, pod: model.Pod) -> dict[str, object]:
    node = snapshot.node_of(pod.uid)
    return {"name": pod.name, "uid": pod.uid, "node": node or None, "state": _state(snapshot, pod)}


def _state(snapshot: snapshots.Snapshot, pod: model.Pod) -> str:
    if not pod.counted:
        return "ending"
    if pod.uid in snapshot.placements:
        return "inFlight"
    return "placed" if pod.node else "waiting"


_SUMMARY: dict[str, object] = {
    "namespace": "training",
    "name": "job-alpha",
    "size": 3,
    "placed": 1,
    "inFlight": 1,
    "waiting": 1,
    "nodes": [{"name": "node-2", "pods": 2}],
}
EXAMPLES: tuple[object, object] = (
    [_SUMMARY],
    {**_SUMMARY, "pods": [{"name": "rl-worker-1", "uid": "6f0c", "node": "node-2", "state": "placed"}]},
)
TABLES = (
    views.Table(
        "groups",
        "groups",
        "job groups whose pods are placed together",
        {
            "GROUP": "namespace+name",
            "SIZE": "size",
            "PLACED": "placed",
            "IN FLIGHT": "inFlight",
            "WAITING": "waiting",
        },
        namespace="namespace",
        named=True,
    ),
)


_CLASSES: tuple[tuple[str, views.Look], ...] = (
    ("no pod of the group", "none"),
    ("a pod of the group", "high"),
    ("several pods of the group", "full"),
)
_ONE, _SEVERAL = 1, 2


def shown(label: str) -> views.Shown:
    """The views of the groups."""
    return views.Shown(
        endpoints=(
            views.Endpoint("groups", "All groups", groups(label), EXAMPLES[0]),
            views.Endpoint("groups/<namespace>/<name>", "One group", group(label), EXAMPLES[1]),
        ),
        summary=partial(_lines, label),
        followed=(
            views.Followed(
                "group",
                "job groups",
                TABLES[0],
                partial(_numbers, label),
                "namespace+name",
                changed_by=partial(_named, label),
            ),
        ),
        painted=(views.Painted("group", _CLASSES, partial(_names, label), partial(_nodes, label)),),
        concerns=(views.Concern("group", partial(_concerned, label)),),
    )


def _numbers(label: str, snapshot: snapshots.Snapshot, name: str) -> Mapping[str, int]:
    """The pods of the group, those with a node, and those that wait for one."""
    states = Counter(_state(snapshot, pod) for pod in _pods(label, snapshot, name))
    if not states:
        return {}
    return {
        "pods": states.total(),
        "with a node": states["placed"] + states["inFlight"],
        "waiting": states["waiting"],
    }


def _names(label: str, snapshot: snapshots.Snapshot) -> Iterator[str]:
    """The groups that have a pod on a node, by name."""
    for name in sorted(f"{space}/{value}" for space, key, value in snapshot.labelled if key == label):
        if _nodes(label, snapshot, name):
            yield name


def _nodes(label: str, snapshot: snapshots.Snapshot, name: str) -> dict[model.NodeName, int]:
    """Node -> the index of its class, of the nodes of the group's pods."""
    on = Counter(snapshot.node_of(pod.uid) for pod in _pods(label, snapshot, name) if pod.counted)
    return {node: _ONE if pods == 1 else _SEVERAL for node, pods in on.items() if node}


def _pods(label: str, snapshot: snapshots.Snapshot, name: str) -> Iterator[model.Pod]:
    namespace, _, group = name.partition("/")
    return snapshot.siblings(namespace, label, group) if group else iter(())


def _named(label: str, pod: model.Pod) -> Iterator[str]:
    """The group under which the index has the pod."""
    if value := pod.indexed(label):
        yield f"{pod.namespace}/{value}"


def _concerned(label: str, _: snapshots.Snapshot, pod: model.Pod) -> Iterator[str]:
    """The group of the pod."""
    if value := pod.labels.get(label):
        yield f"{pod.namespace}/{value}"


def _lines(label: str, snapshot: snapshots.Snapshot) -> Iterator[views.StatusLine]:
    """How many groups there are, and how many of them wait for a pod."""
    found = [(space, value) for space, key, value in snapshot.labelled if key == label and value]
    if found:
        states = [
            {_state(snapshot, pod) for pod in snapshot.siblings(space, label, value)}
            for space, value in found
        ]
        waiting = sum("waiting" in each for each in states)
        yield views.StatusLine("groups", f"{len(found)}, {waiting} with pending pods")
