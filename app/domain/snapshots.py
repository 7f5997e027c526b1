"""The state of the cluster at one offset of the log, which every decision reads.

Immutable, with structural sharing: a snapshot differs from its predecessor only along the paths that the
events between them touched. Keeping thousands of past snapshots is therefore cheap, and a hypothetical
one (victims gone, nominated pods placed) costs only what it changes.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import immutables

from app.domain import counters, memos, model, pod_index
from app.domain import topology as topologies
from app.domain.fitting import node_sums

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Facts and placements up to ``position``, and the indexes over them."""

    position: model.Position = field(default_factory=model.Position)
    nodes: immutables.Map[model.NodeName, model.Node] = field(default_factory=immutables.Map)
    pods: immutables.Map[model.Uid, model.Pod] = field(default_factory=immutables.Map)
    policies: immutables.Map[model.NamespacedName, model.WorkloadPolicy] = field(
        default_factory=immutables.Map
    )
    placements: immutables.Map[model.Uid, model.Placement] = field(default_factory=immutables.Map)
    flags: immutables.Map[str, model.Flag] = field(default_factory=immutables.Map)
    listed: immutables.Map[str, str] = field(default_factory=immutables.Map)
    """Kind -> resourceVersion of its latest list."""
    unlisted: frozenset[str] = model.KINDS
    """Kinds that must be listed before anything is decided: never listed, or the log may have lost events."""
    versions: immutables.Map[str, int] = field(default_factory=immutables.Map)
    """Subject (``pod:UID`` ...) that exists -> offset of its latest event, which guards expect."""
    counts: immutables.Map[counters.CountKey, int] = field(default_factory=immutables.Map)
    """Count of pods per policy and domain; counts of zero are left out."""
    topology: topologies.Topology = topologies.EMPTY
    names: immutables.Map[model.NamespacedName, model.Uid] = field(default_factory=immutables.Map)
    """``namespace/name`` -> uid of the pod that has the name now."""
    residents: immutables.Map[model.NodeName, pod_index.Pods] = field(default_factory=immutables.Map)
    """Node -> pods bound to it or placed on it, in any phase."""
    used: immutables.Map[model.NodeName, node_sums.Amounts] = field(default_factory=immutables.Map)
    """Node -> the summed requests of the pods that occupy it."""
    labelled: immutables.Map[tuple[str, str, str], pod_index.Pods] = field(default_factory=immutables.Map)
    """(namespace, label key, value) -> pods, for the keys in ``indexed``."""
    waiting: pod_index.Pods = pod_index.NO_PODS
    """Pending pods without a placement."""
    nominated: pod_index.Pods = pod_index.NO_PODS
    """Unbound pods with a nominated node."""
    namespaces: immutables.Map[str, pod_index.Pods] = field(default_factory=immutables.Map)
    policies_in: immutables.Map[str, immutables.Map[model.NamespacedName, model.WorkloadPolicy]] = field(
        default_factory=immutables.Map
    )
    """Namespace -> its policies."""
    indexed: frozenset[str] = frozenset()
    """Pod label keys in ``labelled``: those that the configured plugins need."""
    derivations: memos.Memo = field(default_factory=memos.Memo, compare=False, repr=False)
    """Values computed from ``policies`` and ``counts``; shared with the next snapshot if neither changed."""

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

    def siblings(self, namespace: str, label: str, value: str) -> Iterator[model.Pod]:
        """The pods of the namespace with that label value; the key must be among ``indexed``."""
        for uid in self.labelled.get((namespace, label, value), pod_index.NO_PODS):
            pod = self.pod(uid)
            if pod is not None:
                yield pod

    def on(self, name: model.NodeName) -> Iterator[model.Pod]:
        """The pods bound to or placed on the node."""
        for uid in self.residents.get(name, pod_index.NO_PODS):
            pod = self.pod(uid)
            if pod is not None:
                yield pod

    def policies_of(self, namespace: str) -> Iterable[model.WorkloadPolicy]:
        """The policies of a namespace, valid or not."""
        found = self.policies_in.get(namespace)
        return found.values() if found is not None else ()

    def count(self, policy: model.WorkloadPolicy, domain: str) -> int:
        """The number of pods that the policy counts in the domain."""
        return self.counts.get(counters.key(policy, domain), 0)

    def derived(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value that ``compute`` derives from ``policies`` and ``counts`` alone.

        It is computed once and shared with later snapshots until a policy or a count changes, so ``compute``
        must read nothing else of the snapshot. What follows from nodes alone is kept by topology.Column.
        """
        return self.derivations.get(key, compute)

    def version(self, subject: str) -> int:
        """The offset of the subject's latest event; 0 if it does not exist."""
        return self.versions.get(subject, 0)


def empty(*, indexed: Iterable[str] = (), incarnation: str = "") -> Snapshot:
    """The snapshot before the first event."""
    return Snapshot(position=model.Position(incarnation, 0), indexed=frozenset(indexed))
