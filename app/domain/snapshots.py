"""The state of the cluster at one offset of the log, which every decision reads.

Immutable, with structural sharing: a snapshot differs from its predecessor only along the paths that the
events between them touched. Keeping thousands of past snapshots is therefore cheap, and a hypothetical
one (victims gone, nominated pods placed) costs only what it changes.
"""

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import immutables

from app.domain import declared_objects, memos, model
from app.domain import schema as schemas
from app.domain import topology as topologies
from app.domain.fold import node_sums, pod_index, recounts

_STATES = 4
"""preempt asks about a state of its own for each node, beside those before and after all evictions."""
T = TypeVar("T")
D = TypeVar("D", bound=model.DeclaredObject)


class _LatestState:
    """What was computed of the latest states that were asked about: some are often supposed beside another.
    Threads may share it.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: tuple[tuple[tuple[object, ...], memos.Memo], ...] = ()

    def get(self, parts: tuple[object, ...], key: Hashable, compute: Callable[[], T]) -> T:
        """The value of the state of these parts, which are compared by identity."""
        before = self._held
        held = next((one for one in before if not any(map(operator.is_not, one[0], parts))), None)
        if held is None:
            held = parts, memos.Memo()
        kept = (held, *(one for one in before if one is not held))[:_STATES]
        self._held = kept
        value = held[1].get(key, compute)
        # It may have been computed from values of states that are only supposed: none of them is the latest.
        self._held = kept
        return value


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Facts and placements up to ``position``, and the indexes over them."""

    schema: schemas.Schema = field(repr=False)
    """The kinds and counters by which the log was folded."""
    position: model.Position = field(default_factory=model.Position)
    nodes: immutables.Map[model.NodeName, model.Node] = field(default_factory=immutables.Map)
    pods: immutables.Map[model.Uid, model.Pod] = field(default_factory=immutables.Map)
    objects: declared_objects.Objects = field(default_factory=declared_objects.Objects)
    """The objects of the kinds that plugins declare."""
    placements: immutables.Map[model.Uid, model.Placement] = field(default_factory=immutables.Map)
    flags: immutables.Map[str, model.Flag] = field(default_factory=immutables.Map)
    configurations: tuple[model.Configuration, ...] = ()
    """Those that processes decided by, in the order of the log, each digest once."""
    shadows: immutables.Map[str, model.Shadow] = field(default_factory=immutables.Map)
    """Those that are set, also beyond their end."""
    listed: immutables.Map[str, str] = field(default_factory=immutables.Map)
    """Kind -> resourceVersion of its latest list."""
    unlisted: frozenset[str] = frozenset()
    """Kinds that must be listed before anything is decided: never listed, or the log may have lost events."""
    versions: immutables.Map[str, int] = field(default_factory=immutables.Map)
    """Subject (``pod:UID`` ...) that exists -> offset of its latest event, which guards expect."""
    counts: immutables.Map[schemas.CountKey, int] = field(default_factory=immutables.Map)
    """The counts of all counters; those of zero are left out."""
    topology: topologies.Topology = topologies.EMPTY
    names: immutables.Map[model.NamespacedName, model.Uid] = field(default_factory=immutables.Map)
    """``namespace/name`` -> uid of the pod that has the name now."""
    residents: immutables.Map[model.NodeName, node_sums.Residents] = field(default_factory=immutables.Map)
    """Node -> pods bound to it or placed on it, in any phase."""
    labelled: immutables.Map[tuple[str, str, str], pod_index.Pods] = field(default_factory=immutables.Map)
    """(namespace, key, value) -> pods, for the keys in ``indexed``."""
    waiting: pod_index.Pods = pod_index.NO_PODS
    """Pending pods without a placement."""
    nominated: pod_index.Pods = pod_index.NO_PODS
    """Unbound pods with a nominated node."""
    namespaces: immutables.Map[str, pod_index.Pods] = field(default_factory=immutables.Map)
    indexed: frozenset[str] = frozenset()
    """Keys in ``labelled``, as model.Pod.indexed reads them: those that the configured plugins need."""
    derivations: memos.Memo = field(default_factory=memos.Memo, compare=False, repr=False)
    """Values computed from ``objects`` and ``counts``; shared with the next snapshot if neither changed."""
    recounted: recounts.Steps = field(default=(), compare=False, repr=False)
    """The latest changes of ``counts``."""

    @property
    def offset(self) -> int:
        """The offset part of the position."""
        return self.position.offset

    def pod(self, uid: model.Uid) -> model.Pod | None:
        """The pod of the uid, observed or only placed so far."""
        seen = self.pods.get(uid)
        if seen is not None:
            return seen
        placement = self.placements.get(uid)
        return placement.pod if placement is not None else None

    def placement_position(self, uid: model.Uid) -> model.Position | None:
        """The position of the pod's placement, which identifies the placement; None without a placement.

        The offset alone does not identify it: after a loss, the new incarnation uses the same offsets again.
        """
        placement = self.placements.get(uid)
        if placement is None:
            return None
        return model.Position(self.position.incarnation, placement.offset)

    def node_of(self, uid: model.Uid) -> model.NodeName:
        """The node that the pod is bound to or placed on; empty without one."""
        seen = self.pods.get(uid)
        if seen is not None and seen.node:
            return seen.node
        placement = self.placements.get(uid)
        return placement.node if placement is not None else ""

    def pod_named(self, namespace: str, name: str) -> model.Pod | None:
        """The pod that currently has this name."""
        uid = self.names.get(f"{namespace}/{name}")
        return self.pod(uid) if uid is not None else None

    def nominated_before(self, pod: model.Pod) -> Iterator[model.Pod]:
        """The nominated pods that kube-scheduler counts for this pod: of at least its priority (PR-7..10)."""
        for uid in self.nominated:
            one = self.pods.get(uid)
            if one is None or uid == pod.uid or uid in self.placements:
                continue
            if one.priority >= pod.priority:
                yield one

    def siblings(
        self, namespace: str, label: str, value: str, *, waiting: bool = False
    ) -> Iterator[model.Pod]:
        """The pods of the namespace with that label value, or of these only those that wait.

        The key must be among ``indexed``.
        """
        found = self.labelled.get((namespace, label, value), pod_index.NO_PODS)
        fewer, more = sorted((found, self.waiting), key=len) if waiting else (found, found)
        for uid in fewer:
            pod = self.pod(uid) if uid in more else None
            if pod is not None:
                yield pod

    def selectable(self, namespace: str, selector: model.Selector) -> pod_index.Pods:
        """Pods of the namespace among which are all that the selector matches: few, if a label is indexed."""
        found = self.namespaces.get(namespace, pod_index.NO_PODS)
        for key in self.indexed & selector.labels.keys():
            pods = self.labelled.get((namespace, key, selector.labels[key]), pod_index.NO_PODS)
            found = min(found, pods, key=len)
        return found

    def on(self, name: model.NodeName) -> Iterator[model.Pod]:
        """The pods bound to or placed on the node."""
        for uid in self.residents.get(name, node_sums.EMPTY):
            pod = self.pod(uid)
            if pod is not None:
                yield pod

    def attached(self, name: model.NodeName) -> Iterator[model.Pod]:
        """The pods that occupy the node and require other pods near them."""
        for uid in self.residents.get(name, node_sums.EMPTY).attached(self.pod):
            pod = self.pod(uid)
            if pod is not None:
                yield pod

    def used(self, name: model.NodeName) -> node_sums.Amounts:
        """The summed requests of the pods that occupy the node; empty if none does."""
        return self.residents.get(name, node_sums.EMPTY).occupied(self.pod)

    def add_up(self) -> None:
        """Compute what ``used`` returns of each node: later snapshots share it until its pods change."""
        for residents in self.residents.values():
            residents.occupied(self.pod)

    def configuration(self, digest: str) -> model.Configuration | None:
        """The recorded configuration with the digest."""
        return next((one for one in self.configurations if one.digest == digest), None)

    def all(self, kind: declared_objects.Kind[D]) -> "immutables.Map[str, D]":
        """Identity -> object of a declared kind."""
        return self.objects.all(kind)

    def get(self, kind: declared_objects.Kind[D], identity: str) -> D | None:
        """The object of a declared kind: by ``namespace/name``, or by name if the kind is cluster-scoped."""
        return self.objects.get(kind, identity)

    def within(self, kind: declared_objects.Kind[D], namespace: str) -> "immutables.Map[str, D]":
        """Identity -> object of a declared kind, of one namespace."""
        return self.objects.within(kind, namespace)

    def contributions(self, pod: model.Pod, node: model.NodeName) -> Mapping[schemas.CountKey, int]:
        """The counts that the pod raises on the node, each with its amount."""
        raised: dict[schemas.CountKey, int] = {}
        for key, amount in self.schema.contributed(pod, self.nodes.get(node), self.objects):
            raised[key] = raised.get(key, 0) + amount
        return raised

    def alike(self, one: model.Pod, other: model.Pod, node: model.NodeName) -> bool:
        """Whether two versions of a pod raise the same counts on the node."""
        read = self.schema.read_of_pod
        return read(one) == read(other) or self.contributions(one, node) == self.contributions(other, node)

    def counting(self, seats: Iterable[tuple[model.Pod, model.NodeName]], by: int = 1) -> "Snapshot":
        """The state in which pods count on these nodes, and all else is the same: each pod is where it was.

        The pods are on no node, or unknown. It is for what reads no more of them than counts. With -1 for
        ``by``, they no longer count there.
        """
        more: dict[schemas.CountKey, int] = {}
        for pod, node in seats:
            known = self.pods.get(pod.uid)
            for key, amount in self.schema.contributed(known or pod, self.nodes.get(node), self.objects):
                more[key] = more.get(key, 0) + by * amount
            for key, amount in self.schema.pending(known, self.objects) if known is not None else ():
                more[key] = more.get(key, 0) - by * amount
        if not more:
            return self
        counts = recounts.counted(self.counts, more)
        recounted = recounts.then(self.recounted, more)
        return replace(self, counts=counts, derivations=memos.Memo(), recounted=recounted)

    def derived(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value that ``compute`` derives from ``objects`` and ``counts`` alone.

        It is computed once and shared with later snapshots until an object or a count changes, so ``compute``
        must read nothing else of the snapshot. What follows from nodes alone is kept by topology.Column.
        """
        return self.derivations.get(key, compute)

    def computed(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value that ``compute`` derives from this state, which may read all facts and placements.

        It is held until any of them changes, and only for the latest four states that were asked about.
        """
        latest = self.derived(_LatestState, _LatestState)
        return latest.get((self.pods, self.placements, self.nodes, self.versions), key, compute)

    def version(self, subject: str) -> int:
        """The offset of the subject's latest event; 0 if it does not exist."""
        return self.versions.get(subject, 0)


def empty(*, schema: schemas.Schema, indexed: Iterable[str] = (), incarnation: str = "") -> Snapshot:
    """The snapshot before the first event."""
    return Snapshot(
        schema=schema,
        position=model.Position(incarnation, 0),
        unlisted=schema.names,
        indexed=frozenset(indexed),
    )
