"""Changes of the cluster -> what is to be appended: events, increments, checkpoints and the guard.

A draft is made against one snapshot; if somebody else wrote first, it is made again against the
next one from the same steps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from app.domain import events, model, observing, projecting, snapshots
from app.kube import decoding, kinds, reflecting
from app.store import logs

_ROOM = logs.MOST_EVENTS - 2
"""A step makes at most two events."""

ALONE = 64
"""Drafts with so many events first hope that nobody else writes meanwhile: that is one comparison."""


class Missing(NamedTuple):
    """An object that a complete list does not have."""

    kind: kinds.Kind
    identity: str


Step = (
    decoding.Object
    | Missing
    | reflecting.Listed
    | reflecting.Seen
    | reflecting.Gone
    | reflecting.Bookmark
    | kinds.Poison
)


def steps(change: reflecting.Change, snapshot: snapshots.Snapshot) -> Iterator[Step]:
    """A change in steps that fit into any batch; a list needs everything before it to be in the snapshot."""
    match change:
        case reflecting.Part():
            yield from change.objects
        case reflecting.Listed():
            known = _known(snapshot, change.kind)
            missing = sorted(identity for identity in known if identity not in change.identities)
            yield from (Missing(change.kind, identity) for identity in missing)
            yield change
        case _:
            yield change


@dataclass
class Draft:
    """A batch in the making, on top of a snapshot."""

    snapshot: snapshots.Snapshot
    facts: list[events.AnyEvent] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    applied: set[str] = field(default_factory=set)
    """Kinds that are complete once this draft is appended."""
    common: bool = False
    """Something changed that the counts of many pods depend on: nobody else may have written at all."""
    _pods: dict[str, model.Pod | None] = field(default_factory=dict)
    _nodes: dict[str, model.Node | None] = field(default_factory=dict)
    _policies: dict[str, model.WorkloadPolicy | None] = field(default_factory=dict)

    def fill(self, waiting: Sequence[Step], start: int) -> int:
        """Take steps from ``start`` on while they fit; returns where it stopped."""
        at = start
        while at < len(waiting) and len(self.facts) <= _ROOM:
            step = waiting[at]
            if isinstance(step, model.Pod):
                self._see_pod(step)  # nine of ten steps of a first list
            else:
                self._take(step)
            at += 1
        return at

    def batch(self, projection: projecting.Projection, marks: Mapping[str, str]) -> logs.Batch:
        """What is appended; ``marks`` are earlier checkpoints that still wait to be written."""
        return logs.Batch(events=self.facts, increments=projection.increments, marks={**marks, **self.marks})

    def guard(self, holder: logs.Guard, *, alone: bool) -> logs.Guard:
        """What must hold, on top of the epoch and the writer in ``holder``.

        ``alone``: expect that nobody else has written, which spares the comparison of each version.
        """
        incarnation = self.snapshot.position.incarnation
        if alone or self.common:
            return msgspec.structs.replace(holder, incarnation=incarnation, head=self.snapshot.offset)
        subjects = {event.subject for event in self.facts}
        version = self.snapshot.version
        versions = {subject: version(subject) for subject in subjects}
        return msgspec.structs.replace(holder, incarnation=incarnation, versions=versions)

    def _take(self, step: Step) -> None:
        match step:
            case model.Pod() | model.Node() | model.WorkloadPolicy():
                self._see(step)
            case reflecting.Seen():
                self._see(step.object)
                self.marks[mark(step.kind)] = step.version
            case reflecting.Gone():
                self._lose(step)
                self.marks[mark(step.kind)] = step.version
            case Missing():
                self._miss(step)
            case reflecting.Listed():
                self.facts.append(
                    events.Relisted(
                        kind=step.kind.name, since=step.since, until=step.version, reason=step.reason
                    )
                )
                self.marks[mark(step.kind)] = step.version
                self.applied.add(step.kind.name)
            case reflecting.Bookmark():
                self.marks[mark(step.kind)] = step.version
                self.applied.add(step.kind.name)
            case kinds.Poison():
                self.facts.append(events.Quarantined(kind=step.kind, object=step.name, reason=step.reason))

    def _see(self, seen: decoding.Object) -> None:
        match seen:
            case model.Pod():
                self._see_pod(seen)
            case model.Node():
                node = self._node(seen.name)
                self.facts.extend(observing.node(node, seen))
                self.common |= node is None or node.labels != seen.labels or node.uid != seen.uid
                self._nodes[seen.name] = seen
            case model.WorkloadPolicy():
                found = observing.policy(self._policy(seen.key), seen)
                self.facts.extend(found)
                self.common |= bool(found)
                self._policies[seen.key] = seen

    def _see_pod(self, seen: model.Pod) -> None:
        pods = self._pods if seen.uid in self._pods else self.snapshot.pods
        self.facts.extend(observing.pod(pods.get(seen.uid), seen))
        self._pods[seen.uid] = seen

    def _lose(self, gone: reflecting.Gone) -> None:
        if gone.kind is kinds.PODS:
            self._lose_pod(gone.uid, gone.namespace, gone.name, assumed=False)
        elif gone.kind is kinds.NODES:
            node = self._node(gone.name)
            if node is not None and node.uid == gone.uid:
                self._lose_node(node, assumed=False)
        else:
            policy = self._policy(f"{gone.namespace}/{gone.name}")
            if policy is not None and policy.uid == gone.uid:
                self._lose_policy(policy, assumed=False)

    def _miss(self, missing: Missing) -> None:
        if missing.kind is kinds.PODS:
            pod = self.snapshot.pods.get(missing.identity)
            if pod is not None:
                self._lose_pod(pod.uid, pod.namespace, pod.name, assumed=True)
        elif missing.kind is kinds.NODES:
            node = self._node(missing.identity)
            if node is not None:
                self._lose_node(node, assumed=True)
        else:
            policy = self._policy(missing.identity)
            if policy is not None:
                self._lose_policy(policy, assumed=True)

    def _lose_pod(self, uid: str, namespace: str, name: str, *, assumed: bool) -> None:
        known = self._pods[uid] is not None if uid in self._pods else self.snapshot.pod(uid) is not None
        if known:
            self.facts.append(events.PodGone(uid=uid, namespace=namespace, name=name, assumed=assumed))
        self._pods[uid] = None

    def _lose_node(self, node: model.Node, *, assumed: bool) -> None:
        self.facts.append(events.NodeGone(name=node.name, uid=node.uid, assumed=assumed))
        self._nodes[node.name] = None
        self.common = True

    def _lose_policy(self, policy: model.WorkloadPolicy, *, assumed: bool) -> None:
        self.facts.append(
            events.PolicyGone(namespace=policy.namespace, name=policy.name, uid=policy.uid, assumed=assumed)
        )
        self._policies[policy.key] = None
        self.common = True

    def _node(self, name: str) -> model.Node | None:
        return self._nodes[name] if name in self._nodes else self.snapshot.nodes.get(name)

    def _policy(self, key: str) -> model.WorkloadPolicy | None:
        return self._policies[key] if key in self._policies else self.snapshot.policies.get(key)


def mark(kind: kinds.Kind) -> str:
    """The name of the kind's checkpoint in the store."""
    return f"rv:{kind.name}"


def _known(snapshot: snapshots.Snapshot, kind: kinds.Kind) -> Mapping[str, object]:
    if kind is kinds.PODS:
        return snapshot.pods
    return snapshot.nodes if kind is kinds.NODES else snapshot.policies
