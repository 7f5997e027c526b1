"""The cluster at one offset of the log: what every decision reads.

Immutable, with structural sharing: a snapshot differs from its predecessor only along the paths
that the events between them touched, so that keeping thousands of past ones is cheap and a
hypothetical one (victims gone, nominated pods placed) costs what it changes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import immutables

from app.domain import counting, indexing, model
from app.domain import topology as topologies

Pods = indexing.Pods
NO_PODS = indexing.NO_PODS


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Facts and promises up to ``position``, and the indexes over them."""

    position: model.Position = field(default_factory=model.Position)
    nodes: immutables.Map[model.NodeName, model.Node] = field(default_factory=immutables.Map)
    pods: immutables.Map[model.Uid, model.Pod] = field(default_factory=immutables.Map)
    policies: immutables.Map[model.NamespacedName, model.WorkloadPolicy] = field(
        default_factory=immutables.Map
    )
    placements: immutables.Map[model.Uid, model.Placement] = field(default_factory=immutables.Map)
    flags: immutables.Map[str, model.Flag] = field(default_factory=immutables.Map)
    listed: immutables.Map[str, str] = field(default_factory=immutables.Map)
    """For each kind, the resourceVersion of its latest list."""
    unlisted: frozenset[str] = model.KINDS
    """Kinds to be listed, for the first time or since the log may have lost events: nothing is decided."""
    versions: immutables.Map[str, int] = field(default_factory=immutables.Map)
    """For each subject (``pod:UID`` ...) that exists, the offset of its latest event: what guards expect."""
    counts: immutables.Map[counting.CountKey, int] = field(default_factory=immutables.Map)
    """Never holds a zero."""
    topology: topologies.Topology = topologies.EMPTY
    names: immutables.Map[model.NamespacedName, model.Uid] = field(default_factory=immutables.Map)
    """The current pod of a name."""
    residents: immutables.Map[model.NodeName, Pods] = field(default_factory=immutables.Map)
    """The pods bound to or placed on a node, whatever their phase."""
    labelled: immutables.Map[tuple[str, str, str], Pods] = field(default_factory=immutables.Map)
    """(namespace, label key, value) -> pods, for the keys in ``indexed``."""
    waiting: Pods = NO_PODS
    """Pods that wait for a scheduler and hold no placement."""
    nominated: Pods = NO_PODS
    """Unbound pods with a nominated node."""
    namespaces: immutables.Map[str, Pods] = field(default_factory=immutables.Map)
    policies_in: immutables.Map[str, immutables.Map[model.NamespacedName, model.WorkloadPolicy]] = field(
        default_factory=immutables.Map
    )
    """The policies of each namespace."""
    indexed: frozenset[str] = frozenset()
    """Label keys of pods that the configured plugins ask ``labelled`` for."""

    @property
    def offset(self) -> int:
        """The offset part of the position."""
        return self.position.offset

    def pod(self, uid: model.Uid) -> model.Pod | None:
        """The pod, be it seen or only placed so far."""
        seen = self.pods.get(uid)
        if seen is not None:
            return seen
        placement = self.placements.get(uid)
        return placement.pod if placement is not None else None

    def promise(self, uid: model.Uid) -> model.Position | None:
        """Where the pod was promised its node, which tells this promise from any other; None if it was not.

        An offset alone would not: after a loss the log has others at the same ones.
        """
        placement = self.placements.get(uid)
        if placement is None:
            return None
        return model.Position(self.position.incarnation, placement.offset)

    def node_of(self, uid: model.Uid) -> model.NodeName:
        """Where the pod is or is promised to be; empty if nowhere."""
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
        for uid in self.labelled.get((namespace, label, value), NO_PODS):
            pod = self.pod(uid)
            if pod is not None:
                yield pod

    def on(self, name: model.NodeName) -> Iterator[model.Pod]:
        """The pods bound to or placed on the node."""
        for uid in self.residents.get(name, NO_PODS):
            pod = self.pod(uid)
            if pod is not None:
                yield pod

    def policies_of(self, namespace: str) -> Iterable[model.WorkloadPolicy]:
        """The policies of a namespace, valid or not."""
        found = self.policies_in.get(namespace)
        return found.values() if found is not None else ()

    def count(self, policy: model.WorkloadPolicy, domain: str) -> int:
        """How many pods the policy counts in the domain."""
        return self.counts.get(counting.key(policy, domain), 0)

    def version(self, subject: str) -> int:
        """The offset of the subject's latest event; 0 if it does not exist."""
        return self.versions.get(subject, 0)


def empty(*, indexed: Iterable[str] = (), incarnation: str = "") -> Snapshot:
    """The snapshot before the first event."""
    return Snapshot(position=model.Position(incarnation, 0), indexed=frozenset(indexed))
