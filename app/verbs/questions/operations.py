"""The operations on nodes and pods, and those on the objects of any declared kind."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.domain import events, model, observations, snapshots
from app.framework import supposed_operations
from app.verbs.questions import kinds, manifests

MAX_NODES, MAX_PODS = 5_000, 20_000
"""Nodes that one operation adds; pods that one operation adds or deletes."""
CORDONED = "node.kubernetes.io/unschedulable"
"""The taint that the node lifecycle controller sets on a cordoned node."""
_CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Keys of taints that controllers set by a node's condition: they begin with one of these."""
_KUBELET_PODS = 110
"""The kubelet's default of maxPods."""
_SHOWN = 253
"""Characters of a selector in an error message."""
LabelChanges = Annotated[
    dict[supposed_operations.QualifiedName, supposed_operations.LabelValue | None],
    Meta(description="Label -> value; null removes the label."),
]


class NodeSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes by labels."""

    selector: Annotated[dict[str, str], Meta(description="Labels that a node must have; empty for all.")]


Nodes = Annotated[
    Annotated[list[supposed_operations.NodeName], Meta(min_length=1, max_length=MAX_NODES)] | NodeSelection,
    Meta(description="A list of names, or the labels that nodes have."),
]


class PodSelection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pods by namespace and labels."""

    namespace: Annotated[str, Meta(max_length=63, description="Their namespace; empty for all.")] = ""
    selector: Annotated[dict[str, str], Meta(description="Labels that a pod must have.")] = {}


Pods = Annotated[
    list[supposed_operations.Name] | PodSelection,
    Meta(description="A list of NAMESPACE/NAME, or a namespace and labels."),
]
NewPods = Annotated[int, Meta(ge=1, le=MAX_PODS, description="How many pods to add.")]
Manifest = Annotated[dict[str, Any], Meta(description="The object as in kubectl get -o json.")]
KindName = Annotated[str, Meta(max_length=253, description="Plural name of a declared kind.")]


class Cordon(supposed_operations.Operation, frozen=True, tag="cordon"):
    """Nodes are marked unschedulable."""

    nodes: Nodes

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        for node in _chosen(snapshot, self.nodes):
            yield from _changed(node, unschedulable=True)


class Uncordon(supposed_operations.Operation, frozen=True, tag="uncordon"):
    """Nodes are marked schedulable."""

    nodes: Nodes

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        for node in _chosen(snapshot, self.nodes):
            yield from _changed(node, unschedulable=False, taints=_without(node.taints, CORDONED))


class AddNodes(supposed_operations.Operation, frozen=True, tag="addNodes"):
    """Nodes are added: like an existing one, without its taints of the moment and never cordoned."""

    count: Annotated[int, Meta(ge=1, le=MAX_NODES, description="How many nodes to add.")] = 1
    like: Annotated[str, Meta(max_length=253, description="A node whose labels and capacity they have.")] = ""
    labels: LabelChanges = msgspec.field(default_factory=dict)
    allocatable: Annotated[
        dict[supposed_operations.QualifiedName, str],
        Meta(description="Quantities by resource, as in the API."),
    ] = msgspec.field(default_factory=dict)
    prefix: Annotated[
        str,
        Meta(
            pattern=supposed_operations.PREFIX,
            max_length=240,
            description="Their names begin with this, and end in -1 ...",
        ),
    ] = "added"

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        if self.like:
            example = _node(snapshot, self.like, "like")
        else:
            example = model.Node(name="", uid="", allocatable={"pods": _KUBELET_PODS})
        allocatable = dict(example.allocatable)
        if self.allocatable:
            allocatable |= manifests.amounts(self.allocatable)
        labels = _relabelled(example.labels, self.labels)
        taints = _without(example.taints, *_CONDITIONS)
        return [
            events.NodeSeen(
                node=msgspec.structs.replace(
                    example,
                    name=name,
                    uid=f"supposed:{name}",
                    # A hostname is the node's own: domains over it are as many as there are nodes.
                    labels=labels | {HOSTNAME: name} if HOSTNAME in example.labels else labels,
                    allocatable=allocatable,
                    taints=taints,
                    unschedulable=False,
                    ready=True,
                )
            )
            for name in _free(self.prefix, snapshot.nodes, self.count)
        ]


HOSTNAME = "kubernetes.io/hostname"


class RemoveNodes(supposed_operations.Operation, frozen=True, tag="removeNodes"):
    """Nodes are removed, with the pods on them."""

    nodes: Nodes

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        for node in _chosen(snapshot, self.nodes):
            yield from map(events.gone, snapshot.on(node.name))
            yield events.NodeGone(name=node.name, uid=node.uid)


class LabelNodes(supposed_operations.Operation, frozen=True, tag="labelNodes"):
    """Labels of nodes are set or removed."""

    nodes: Nodes
    labels: LabelChanges

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        for node in _chosen(snapshot, self.nodes):
            yield from _changed(node, labels=_relabelled(node.labels, self.labels))


class AddPods(supposed_operations.Operation, frozen=True, tag="addPods"):
    """Pods are added: waiting, or bound to a node."""

    pod: Manifest | None = None
    like: Annotated[str, Meta(max_length=507, description="An existing pod, NAMESPACE/NAME.")] = ""
    count: NewPods = 1
    node: Annotated[str, Meta(max_length=253, description="The node that they are bound to.")] = ""

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        if (self.pod is None) == (not self.like):
            raise supposed_operations.Invalid("pod", "exactly one of pod and like is required")
        if self.node:
            _node(snapshot, self.node, "node")
        example = self._example(snapshot)
        added = waiting(example, example.uid)
        if self.node:
            added = msgspec.structs.replace(added, node=self.node, phase="Running")
        for key in _free(example.key, snapshot.names, self.count):
            name = key.partition("/")[2]
            yield events.PodSeen(pod=msgspec.structs.replace(added, name=name, uid=f"supposed:{key}"))

    def _example(self, snapshot: snapshots.Snapshot) -> model.Pod:
        if self.pod is not None:
            return manifests.pod(self.pod, "pod")
        (found,) = _named(snapshot, [self.like], field="like")
        return found


class DeletePods(supposed_operations.Operation, frozen=True, tag="deletePods"):
    """Pods are deleted: at most ``most`` of those selected, the least important first."""

    pods: Pods
    most: Annotated[int, Meta(ge=1, le=MAX_PODS, description="How many at most.")] = MAX_PODS

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        found = sorted(selected(snapshot, self.pods), key=lambda pod: pod.uid)
        found.sort(key=lambda pod: pod.created, reverse=True)
        found.sort(key=lambda pod: pod.priority)
        return [events.gone(pod) for pod in found[: self.most]]


class LabelPods(supposed_operations.Operation, frozen=True, tag="labelPods"):
    """Labels of pods are set or removed."""

    pods: Pods
    labels: LabelChanges

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        for pod in selected(snapshot, self.pods):
            labels = _relabelled(pod.labels, self.labels)
            yield from observations.pod(pod, msgspec.structs.replace(pod, labels=labels))


class SetObject(supposed_operations.Operation, frozen=True, tag="setObject"):
    """An object of a declared kind is created or replaced."""

    kind: Annotated[
        str, Meta(max_length=253, description="Name of a declared kind; by default the manifest's kind.")
    ] = ""
    manifest: Manifest | None = None
    fields: Annotated[
        dict[str, Any] | None, Meta(description="Instead of a manifest: the fields as the log records them.")
    ] = None

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        if (self.manifest is None) == (self.fields is None):
            raise supposed_operations.Invalid("manifest", "exactly one of manifest and fields is required")
        kind = self.kind or kinds.of_manifest(snapshot, self.manifest or {})
        if self.manifest is not None:
            return kinds.replaced(snapshot, kind, kinds.decoded(snapshot, kind, self.manifest))
        return kinds.replaced(snapshot, kind, kinds.recorded(snapshot, kind, self.fields or {}, "fields"))


class PatchObject(supposed_operations.Operation, frozen=True, tag="patchObject"):
    """Fields of an object of a declared kind are changed, by a JSON merge patch (RFC 7386)."""

    kind: KindName
    name: Annotated[str, Meta(max_length=507, description="NAMESPACE/NAME; NAME if it is not namespaced.")]
    patch: Annotated[dict[str, Any], Meta(description="A merge patch of the fields as the log records them.")]

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        after = kinds.patched(snapshot, self.kind, self.name, self.patch)
        if after.key != self.name:
            raise supposed_operations.Invalid("patch", "the identity of an object cannot be changed")
        return kinds.replaced(snapshot, self.kind, after)


class DeleteObject(supposed_operations.Operation, frozen=True, tag="deleteObject"):
    """An object of a declared kind is deleted."""

    kind: KindName
    name: Annotated[str, Meta(max_length=507, description="NAMESPACE/NAME; NAME if it is not namespaced.")]

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        return kinds.deleted(snapshot, self.kind, kinds.get(snapshot, self.kind, self.name))


OBJECTS: tuple[type[supposed_operations.Operation], ...] = (SetObject, PatchObject, DeleteObject)
CORE: tuple[type[supposed_operations.Operation], ...] = (
    Cordon,
    Uncordon,
    AddNodes,
    RemoveNodes,
    LabelNodes,
    AddPods,
    DeletePods,
    LabelPods,
    SetObject,
    PatchObject,
    DeleteObject,
)
"""The operations that need no plugin."""


def without(
    operation: supposed_operations.Operation, names: Collection[model.NodeName]
) -> supposed_operations.Operation:
    """The operation without these of the nodes that it names; as it is if it names no other ones."""
    match operation:
        case Cordon(nodes=list() as named) | Uncordon(nodes=list() as named):
            pass
        case RemoveNodes(nodes=list() as named) | LabelNodes(nodes=list() as named):
            pass
        case _:
            return operation
    left = [name for name in named if name not in names]
    return msgspec.structs.replace(operation, nodes=left) if left else operation


def read(operation: supposed_operations.Operation, snapshot: snapshots.Snapshot) -> int:
    """How many objects the operation reads to find those that it selects."""
    match operation:
        case DeletePods(pods=PodSelection(namespace=space)) | LabelPods(pods=PodSelection(namespace=space)):
            return len(snapshot.namespaces.get(space, ()) if space else snapshot.names)
        case Cordon(nodes=NodeSelection()) | Uncordon(nodes=NodeSelection()):
            return len(snapshot.nodes)
        case RemoveNodes(nodes=NodeSelection()) | LabelNodes(nodes=NodeSelection()):
            return len(snapshot.nodes)
        case _:
            return 0


def selected(snapshot: snapshots.Snapshot, pods: list[str] | PodSelection) -> Iterable[model.Pod]:
    """The pods, by name or by labels. Raises Impossible for a name that does not exist."""
    if isinstance(pods, PodSelection):
        return matching(snapshot, pods)
    return _named(snapshot, pods, field="pods")


def matching(snapshot: snapshots.Snapshot, wanted: PodSelection) -> Iterator[model.Pod]:
    """The pods that a selection selects, those only placed so far included."""
    spaces = (wanted.namespace,) if wanted.namespace else tuple(snapshot.namespaces)
    for space in spaces:
        for uid in snapshot.namespaces.get(space, ()):
            pod = snapshot.pod(uid)
            if pod is not None and wanted.selector.items() <= pod.labels.items():
                yield pod


def waiting(pod: model.Pod, uid: model.Uid) -> model.Pod:
    """The pod as it would wait for its first attempt, under that uid."""
    return msgspec.structs.replace(
        pod,
        uid=uid,
        node="",
        nominated="",
        phase="Pending",
        terminating=False,
        gated=False,
        started="",
        unscheduled="",
        disrupted=False,
    )


def _chosen(snapshot: snapshots.Snapshot, nodes: list[str] | NodeSelection) -> Collection[model.Node]:
    """The nodes, each once, by name or by labels; at least one."""
    if not isinstance(nodes, NodeSelection):
        return {name: _node(snapshot, name, f"nodes[{at}]") for at, name in enumerate(nodes)}.values()
    wanted = nodes.selector.items()
    # By the columns of the labels, which states have in common: a replay resolves this again and again.
    having = (snapshot.topology[key][value] for key, value in wanted)
    names = snapshot.topology.everywhere.intersection(*having)
    found = [snapshot.nodes[name] for name in sorted(names)]
    if not found:
        labels = ",".join(f"{key}={value}" for key, value in wanted)[:_SHOWN]
        raise supposed_operations.Impossible(
            "nodes.selector", f"no node has the labels {labels} at {snapshot.position}"
        )
    return found


def _node(snapshot: snapshots.Snapshot, name: str, field: str) -> model.Node:
    node = snapshot.nodes.get(name)
    if node is None:
        raise supposed_operations.Impossible(field, f"there is no node {name} at {snapshot.position}")
    return node


def _named(snapshot: snapshots.Snapshot, names: Sequence[str], field: str) -> list[model.Pod]:
    found = []
    for at, name in enumerate(names):
        namespace, _, own = name.partition("/")
        pod = snapshot.pod_named(namespace, own)
        if pod is None:
            where = f"{field}[{at}]" if field == "pods" else field
            raise supposed_operations.Impossible(where, f"there is no pod {name} at {snapshot.position}")
        found.append(pod)
    return found


def _changed(node: model.Node, **fields: object) -> Sequence[events.AnyEvent]:
    return observations.node(node, msgspec.structs.replace(node, **fields))


def _without(taints: tuple[model.Taint, ...], *prefixes: str) -> tuple[model.Taint, ...]:
    return tuple(taint for taint in taints if not taint.key.startswith(prefixes))


def _relabelled(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**labels, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _free(prefix: str, taken: Mapping[str, object], count: int) -> Iterator[str]:
    """The first names PREFIX-1, PREFIX-2 ... that are not taken."""
    number = 0
    while count:
        number += 1
        name = f"{prefix}-{number}"
        if name not in taken:
            count -= 1
            yield name
