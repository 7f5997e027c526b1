"""Nodes full of pods that differ in priority, start and size: the worlds of preemption."""

import msgspec

from app.domain import events, model, projections, snapshots
from tests.support import declared


def node(
    name: str = "n1", *, cpu: int = 8, labels: dict[str, str] | None = None, **more: object
) -> model.Node:
    """A node with so many cores."""
    own = {"kubernetes.io/hostname": name} | (labels or {})
    allocatable = {"cpu": 1000 * cpu, "pods": 100}
    found = model.Node(name=name, uid=name, labels=own, allocatable=allocatable, ready=True)
    return msgspec.structs.replace(found, **more)


def pod(
    name: str,
    priority: int = 0,
    cpu: int = 1,
    *,
    node: str = "",
    start: int | None = None,
    labels: dict[str, str] | None = None,
    needs: dict[str, str] | None = None,
    near: str = "kubernetes.io/hostname",
    **more: object,
) -> model.Pod:
    """A pod; ``start`` in seconds, ``needs``: the labels of a pod that it requires ``near`` it."""
    terms = () if needs is None else (model.PodTerm(near, model.Selector(needs)),)
    found = model.Pod(
        uid=name,
        namespace="ns",
        name=name,
        labels=labels or {},
        node=node,
        phase="Running" if node else "Pending",
        priority=priority,
        requests={"cpu": 1000 * cpu} if cpu else {},
        started="" if start is None else f"2026-01-01T00:00:{start:02}Z",
        constraints=model.Constraints(pod_affinity=terms),
    )
    return msgspec.structs.replace(found, **more)


def world(*objects: model.Node | model.Pod) -> snapshots.Snapshot:
    """The cluster of these objects."""
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA, incarnation="i"), seen(*objects))


def seen(*objects: model.Node | model.Pod) -> list[events.AnyEvent]:
    """The watch shows these objects."""
    return [
        events.NodeSeen(node=one) if isinstance(one, model.Node) else events.PodSeen(pod=one)
        for one in objects
    ]


def four(name: str = "n1") -> list[model.Pod]:
    """The pods of most scenarios, on a node of eight cores: seven are in use."""
    return [
        pod("a", 40, 2, node=name, start=1, labels={"app": "a"}),
        pod("b", 30, 2, node=name, start=2, labels={"app": "b"}),
        pod("c", 30, 2, node=name, start=3, labels={"app": "c"}),
        pod("d", 10, 2, node=name, start=4, labels={"app": "d"}),
    ]
