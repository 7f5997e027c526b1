"""(snapshot, event) -> snapshot: the fold of the log.

A ``Projection`` is the fold in progress: it takes events one by one, keeps the indexes and the
counts true, and remembers by how much each count changed, which is what a writer sends along with
the events so that the counts in Redis stay equal to this fold.
"""

from collections.abc import Iterable
from typing import TypeVar

import immutables

from app.domain import counting, events, model, snapshots

K = TypeVar("K")


def project(snapshot: snapshots.Snapshot, event: events.AnyEvent) -> snapshots.Snapshot:
    """The snapshot one event later."""
    return project_all(snapshot, (event,))


def project_all(snapshot: snapshots.Snapshot, batch: Iterable[events.AnyEvent]) -> snapshots.Snapshot:
    """The snapshot after a run of consecutive events."""
    projection = Projection(snapshot)
    for event in batch:
        projection.apply(event)
    return projection.finish()


class Projection:
    """A fold in progress over one snapshot, which itself is never changed.

    Hypothetical states (dry runs) are projections whose result is thrown away: their offsets mean
    nothing, so they must not be appended from.
    """

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self._start = snapshot
        self.offset = snapshot.position.offset
        self.increments: dict[counting.CountKey, int] = {}
        """By how much each count changed since the start; zeros are left in."""
        self._nodes = snapshot.nodes.mutate()
        self._pods = snapshot.pods.mutate()
        self._policies = snapshot.policies.mutate()
        self._placements = snapshot.placements.mutate()
        self._flags = snapshot.flags
        self._listed = snapshot.listed
        self._versions = snapshot.versions.mutate()
        self._counts = snapshot.counts.mutate()
        self._names = snapshot.names.mutate()
        self._residents = snapshot.residents.mutate()
        self._labelled = snapshot.labelled.mutate()
        self._waiting = snapshot.waiting.mutate()
        self._nominated = snapshot.nominated.mutate()
        self._namespaces = snapshot.namespaces.mutate()
        self._policies_in = snapshot.policies_in
        self._topology = snapshot.topology

    def apply(self, event: events.AnyEvent) -> None:
        """Take the next event of the log."""
        self.offset += 1
        match event:
            case events.PodSeen():
                self._pod_seen(event.pod)
            case events.PodGone():
                self._pod_gone(event.uid)
            case events.PodPlaced():
                self._placed(event)
            case events.PlacementReleased():
                self._released(event.uid)
            case events.NodeSeen():
                self._node_changed(self._nodes.get(event.node.name), event.node)
            case events.NodeGone():
                self._node_changed(self._nodes.get(event.name), None)
            case events.PolicySeen():
                self._policy_changed(self._policies.get(event.policy.key), event.policy)
            case events.PolicyGone():
                self._policy_changed(self._policies.get(f"{event.namespace}/{event.name}"), None)
            case events.Relisted():
                self._listed = self._listed.set(event.kind, event.until)
            case events.FlagSet():
                self._flags = self._flags.set(event.flag.name, event.flag)
            case events.Quarantined():
                pass
        for subject in touched(event):
            if gone(event) and subject == event.subject:
                self._versions.pop(subject, None)
            else:
                self._versions[subject] = self.offset

    def finish(self) -> snapshots.Snapshot:
        """The snapshot after all the events taken; the projection must not be used afterwards."""
        return snapshots.Snapshot(
            position=model.Position(self._start.position.incarnation, self.offset),
            nodes=self._nodes.finish(),
            pods=self._pods.finish(),
            policies=self._policies.finish(),
            placements=self._placements.finish(),
            flags=self._flags,
            listed=self._listed,
            versions=self._versions.finish(),
            counts=self._counts.finish(),
            topology=self._topology,
            names=self._names.finish(),
            residents=self._residents.finish(),
            labelled=self._labelled.finish(),
            waiting=self._waiting.finish(),
            nominated=self._nominated.finish(),
            namespaces=self._namespaces.finish(),
            policies_in=self._policies_in,
            indexed=self._start.indexed,
        )

    # -- pods ------------------------------------------------------------------------------

    def _pod_seen(self, pod: model.Pod) -> None:
        self._withdraw(pod.uid)
        self._pods[pod.uid] = pod
        if pod.node or pod.finished:
            # The watch is the evidence: bound here confirms the promise, bound elsewhere ends it.
            self._placements.pop(pod.uid, None)
        self._enter(pod.uid)

    def _pod_gone(self, uid: model.Uid) -> None:
        self._withdraw(uid)
        self._pods.pop(uid, None)
        self._placements.pop(uid, None)

    def _placed(self, event: events.PodPlaced) -> None:
        self._withdraw(event.pod.uid)
        self._placements[event.pod.uid] = model.Placement(pod=event.pod, node=event.node, at=event.at)
        self._enter(event.pod.uid)

    def _released(self, uid: model.Uid) -> None:
        self._withdraw(uid)
        self._placements.pop(uid, None)
        self._enter(uid)

    def _withdraw(self, uid: model.Uid) -> None:
        """Take a pod, as it is now, out of every index and count."""
        pod = self._pod(uid)
        if pod is None:
            return
        node = self._node_of(uid)
        self._count(pod, node, -1)
        if node:
            _discard(self._residents, node, uid)
        for label in self._start.indexed & pod.labels.keys():
            _discard(self._labelled, (pod.namespace, label, pod.labels[label]), uid)
        _discard(self._namespaces, pod.namespace, uid)
        self._waiting.pop(uid, None)
        self._nominated.pop(uid, None)
        if self._names.get(pod.key) == uid:
            del self._names[pod.key]

    def _enter(self, uid: model.Uid) -> None:
        """Put a pod, as it is now, into every index and count."""
        pod = self._pod(uid)
        if pod is None:
            return
        node = self._node_of(uid)
        self._count(pod, node, +1)
        if node:
            _add(self._residents, node, uid)
        for label in self._start.indexed & pod.labels.keys():
            _add(self._labelled, (pod.namespace, label, pod.labels[label]), uid)
        _add(self._namespaces, pod.namespace, uid)
        if pod.pending and not node:
            self._waiting[uid] = None
        if pod.nominated and not pod.node and pod.counted:
            self._nominated[uid] = None
        self._names[pod.key] = uid

    def _pod(self, uid: model.Uid) -> model.Pod | None:
        seen = self._pods.get(uid)
        if seen is not None:
            return seen
        placement = self._placements.get(uid)
        return placement.pod if placement is not None else None

    def _node_of(self, uid: model.Uid) -> model.NodeName:
        seen = self._pods.get(uid)
        if seen is not None and seen.node:
            return seen.node
        placement = self._placements.get(uid)
        return placement.node if placement is not None else ""

    # -- nodes and policies ----------------------------------------------------------------

    def _node_changed(self, before: model.Node | None, after: model.Node | None) -> None:
        node = after or before
        if node is None:
            return
        moved = (before.labels if before else None) != (after.labels if after else None)
        residents = self._residents.get(node.name, snapshots.NO_PODS) if moved else snapshots.NO_PODS
        for uid in residents:
            self._recount(uid, -1)
        if after is None:
            del self._nodes[node.name]
        else:
            self._nodes[node.name] = after
        self._topology = self._topology.moved(before, after)
        for uid in residents:
            self._recount(uid, +1)

    def _policy_changed(
        self, before: model.WorkloadPolicy | None, after: model.WorkloadPolicy | None
    ) -> None:
        policy = after or before
        if policy is None:
            return
        recount = before is None or after is None or _counting(before) != _counting(after)
        if before is not None and recount:
            self._recount_policy(before, -1)
        mine = self._policies_in.get(policy.namespace, immutables.Map())
        if after is None:
            del self._policies[policy.key]
            mine = mine.delete(policy.key)
        else:
            self._policies[policy.key] = after
            mine = mine.set(policy.key, after)
        if mine:
            self._policies_in = self._policies_in.set(policy.namespace, mine)
        else:
            self._policies_in = self._policies_in.delete(policy.namespace)
        if after is not None and recount:
            self._recount_policy(after, +1)

    def _recount_policy(self, policy: model.WorkloadPolicy, by: int) -> None:
        for uid in self._namespaces.get(policy.namespace, snapshots.NO_PODS):
            pod, node = self._pod(uid), self._nodes.get(self._node_of(uid))
            if pod is not None:
                self._add_up(counting.contributions(pod, node, (policy,)), by)

    # -- counts ----------------------------------------------------------------------------

    def _recount(self, uid: model.Uid, by: int) -> None:
        pod = self._pod(uid)
        if pod is not None:
            self._count(pod, self._node_of(uid), by)

    def _count(self, pod: model.Pod, node: model.NodeName, by: int) -> None:
        policies = self._policies_in.get(pod.namespace)
        if node and policies:
            self._add_up(counting.contributions(pod, self._nodes.get(node), policies.values()), by)

    def _add_up(self, keys: Iterable[counting.CountKey], by: int) -> None:
        for key in keys:
            self.increments[key] = self.increments.get(key, 0) + by
            count = self._counts.get(key, 0) + by
            if count:
                self._counts[key] = count
            else:
                self._counts.pop(key, None)


def touched(event: events.AnyEvent) -> tuple[str, ...]:
    """The subjects whose version the event moves on.

    A policy also moves ``policies:NAMESPACE``: whoever places a pod there must have known it.
    """
    match event:
        case events.PolicySeen():
            return event.subject, f"policies:{event.policy.namespace}"
        case events.PolicyGone():
            return event.subject, f"policies:{event.namespace}"
        case _:
            return (event.subject,)


def gone(event: events.AnyEvent) -> bool:
    """Whether the event ends the existence of its subject."""
    return isinstance(event, events.PodGone | events.NodeGone | events.PolicyGone)


def _counting(policy: model.WorkloadPolicy) -> tuple[object, ...]:
    """What of a policy its counts depend on."""
    return policy.topology_key, policy.selector, bool(policy.errors)


def _add(index: "immutables.MapMutation[K, snapshots.Pods]", key: K, uid: model.Uid) -> None:
    index[key] = index.get(key, snapshots.NO_PODS).set(uid, None)


def _discard(index: "immutables.MapMutation[K, snapshots.Pods]", key: K, uid: model.Uid) -> None:
    members = index.get(key)
    if members is None or uid not in members:
        return
    if len(members) == 1:
        del index[key]
    else:
        index[key] = members.delete(uid)
