"""Extracts from a snapshot the contents that cannot be derived, and builds the snapshot again.

The contents are facts, placements, versions and counts. The indexes are rebuilt from them in bulk, which
is far quicker than event by event. One index does not follow from the facts: which of several pods of one
name was recorded last. The others of that name are kept as ``displaced``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import immutables

from app.domain import declared_objects, model, snapshots
from app.domain import schema as schemas
from app.domain import topology as topologies
from app.domain.fold import node_sums, pod_index

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Contents:
    """The parts of a snapshot that are not derived, in no particular order."""

    nodes: Sequence[model.Node] = ()
    pods: Sequence[model.Pod] = ()
    objects: Mapping[str, Sequence[model.DeclaredObject]] = field(default_factory=dict)
    """Kind -> its objects."""
    placements: Sequence[model.Placement] = ()
    flags: Sequence[model.Flag] = ()
    configurations: tuple[model.Configuration, ...] = ()
    """In the order of the snapshot."""
    shadows: Sequence[model.Shadow] = ()
    listed: Mapping[str, str] = field(default_factory=dict)
    unlisted: Sequence[str] = ()
    versions: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] | None = field(default_factory=dict)
    """None: counts of another form were left out, and are computed again."""
    displaced: Sequence[model.Uid] = ()
    """Pods to which their name does not refer: it refers to another pod, or to no pod."""


def extract(snapshot: snapshots.Snapshot) -> Contents:
    """Everything that ``build`` needs."""
    names = snapshot.names
    return Contents(
        nodes=list(snapshot.nodes.values()),
        pods=list(snapshot.pods.values()),
        objects={kind: list(held.values()) for kind, held in snapshot.objects.kinds.items()},
        placements=list(snapshot.placements.values()),
        flags=list(snapshot.flags.values()),
        configurations=snapshot.configurations,
        shadows=list(snapshot.shadows.values()),
        listed=dict(snapshot.listed),
        unlisted=sorted(snapshot.unlisted),
        versions=dict(snapshot.versions),
        counts=dict(snapshot.counts),
        displaced=[pod.uid for pod, _ in _pods_and_nodes(snapshot) if names.get(pod.key) != pod.uid],
    )


def build(
    contents: Contents,
    position: model.Position,
    *,
    schema: schemas.Schema,
    indexed: frozenset[str] = frozenset(),
) -> snapshots.Snapshot:
    """The snapshot of these contents; ``indexed`` may differ from that of the snapshot they came from."""
    bare = snapshots.Snapshot(
        schema=schema,
        position=position,
        nodes=immutables.Map({node.name: node for node in contents.nodes}),
        pods=immutables.Map({pod.uid: pod for pod in contents.pods}),
        placements=immutables.Map({placement.pod.uid: placement for placement in contents.placements}),
    )
    indexes = _Indexes(indexed, frozenset(contents.displaced))
    indexes.enter(_pods_and_nodes(bare))
    objects = declared_objects.objects(contents.objects)
    return snapshots.Snapshot(
        schema=schema,
        position=position,
        nodes=bare.nodes,
        pods=bare.pods,
        objects=objects,
        placements=bare.placements,
        flags=immutables.Map({flag.name: flag for flag in contents.flags}),
        configurations=contents.configurations,
        shadows=immutables.Map({shadow.name: shadow for shadow in contents.shadows}),
        listed=immutables.Map(contents.listed),
        # Not as stored: earlier versions required lists only after a loss.
        unlisted=schema.names.difference(contents.listed),
        versions=immutables.Map(contents.versions),
        counts=immutables.Map(_counted(bare, objects) if contents.counts is None else contents.counts),
        topology=topologies.of(contents.nodes),
        names=immutables.Map(indexes.names),
        residents=immutables.Map(
            {node: node_sums.Residents(pods) for node, pods in _maps(indexes.residents.items()).items()}
        ),
        labelled=_closed(indexes.labelled),
        waiting=immutables.Map(indexes.waiting),
        nominated=immutables.Map(indexes.nominated),
        namespaces=_closed(indexes.namespaces),
        indexed=indexed,
    )


def _counted(bare: snapshots.Snapshot, objects: declared_objects.Objects) -> dict[schemas.CountKey, int]:
    found: defaultdict[schemas.CountKey, int] = defaultdict(int)
    for pod, name in _pods_and_nodes(bare):
        node = bare.nodes.get(name) if name else None
        try:
            contributed = bare.schema.contributed
            for key, amount in contributed(pod, node, objects) if name else bare.schema.pending(pod, objects):
                found[key] += amount
        except Exception as problem:
            raise bare.schema.failure(pod, name, node, objects, problem) from problem
    return {key: count for key, count in found.items() if count}


def _pods_and_nodes(snapshot: snapshots.Snapshot) -> Iterator[tuple[model.Pod, model.NodeName]]:
    """Every pod, observed or only placed, and the node that it is bound to or placed on.

    As in the fold, a placed pod has the annotations that its Binding sets.
    """
    placements = snapshot.placements
    for uid, pod in snapshot.pods.items():
        if not pod.node and placements and uid in placements:
            yield placements[uid].written(pod), placements[uid].node
        else:
            yield pod, pod.node
    for uid, placement in placements.items():
        if uid not in snapshot.pods:
            yield placement.written(placement.pod), placement.node


class _Indexes:
    """The indexes over pods during a build: plain dicts, converted once at the end."""

    def __init__(self, indexed: frozenset[str], displaced: frozenset[model.Uid]) -> None:
        self._indexed = indexed
        self._displaced = displaced
        self.names: dict[model.NamespacedName, model.Uid] = {}
        self.residents: defaultdict[model.NodeName, dict[model.Uid, None]] = defaultdict(dict)
        self.labelled: defaultdict[tuple[str, str, str], dict[model.Uid, None]] = defaultdict(dict)
        self.namespaces: defaultdict[str, dict[model.Uid, None]] = defaultdict(dict)
        self.waiting: dict[model.Uid, None] = {}
        self.nominated: dict[model.Uid, None] = {}

    def enter(self, pods: Iterable[tuple[model.Pod, model.NodeName]]) -> None:
        """Add pods with their nodes, each pod once. Written for speed: there are a hundred thousand pods."""
        names, displaced, indexed = self.names, self._displaced, self._indexed
        namespaces, residents, labelled = self.namespaces, self.residents, self.labelled
        for pod, node in pods:
            uid = pod.uid
            if uid not in displaced:
                names[f"{pod.namespace}/{pod.name}"] = uid
            namespaces[pod.namespace][uid] = None
            if node:
                residents[node][uid] = None
            elif pod.pending:
                self.waiting[uid] = None
            if pod.nominated and pod.holds_nomination:
                self.nominated[uid] = None
            if indexed:
                for label in indexed:
                    value = pod.indexed(label)
                    if value is not None:
                        labelled[pod.namespace, label, value][uid] = None


def _closed(index: Mapping[K, Mapping[model.Uid, None]]) -> "immutables.Map[K, pod_index.Pods]":
    return immutables.Map(_maps(index.items()))


def _maps(items: Iterable[tuple[K, Mapping[model.Uid, None]]]) -> dict[K, pod_index.Pods]:
    return {key: immutables.Map(members) for key, members in items}
