"""(snapshot, event) -> snapshot: the fold of the log.

A ``Projection`` is the fold in progress: it takes events one by one, keeps the indexes and the
counts true, and remembers by how much each count changed, which is what a writer sends along with
the events so that the counts in Redis stay equal to this fold.
"""

from collections.abc import Iterable

import immutables

from app.domain import counting, events, indexing, model, snapshots

_NOWHERE: tuple[str, str | None] = ("", None)


def project(snapshot: snapshots.Snapshot, event: events.AnyEvent) -> snapshots.Snapshot:
    """The snapshot one event later."""
    return project_all(snapshot, (event,))


def project_all(snapshot: snapshots.Snapshot, batch: Iterable[events.AnyEvent]) -> snapshots.Snapshot:
    """The snapshot after a run of consecutive events."""
    projection = Projection(snapshot)
    projection.apply_all(batch)
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
        """By how much each count changed since the start; some by zero."""
        self._nodes = snapshot.nodes.mutate()
        self._nodes_changed = False
        self._pods = snapshot.pods.mutate()
        self._policies = snapshot.policies.mutate()
        self._placements = snapshot.placements.mutate()
        self._flags = snapshot.flags
        self._listed = snapshot.listed
        self._unlisted = snapshot.unlisted
        self._moves: dict[str, int] = {}
        """The subjects touched since the start, and by which offset last; 0 for those that are gone."""
        self._counts = snapshot.counts.mutate()
        self._names = snapshot.names.mutate()
        self._residents = indexing.Index(snapshot.residents)
        self._labelled = indexing.Index(snapshot.labelled)
        self._waiting = snapshot.waiting.mutate()
        self._nominated = snapshot.nominated.mutate()
        self._namespaces = indexing.Index(snapshot.namespaces)
        self._policies_in = snapshot.policies_in
        self._topology = snapshot.topology

    def apply_all(self, batch: Iterable[events.AnyEvent]) -> None:
        """Take a run of consecutive events.

        Most pods are seen several times within a short time, and all but the last sight of them comes to
        nothing: so a sight waits for the next one, or for another event about the pod.
        """
        sights: dict[model.Uid, tuple[events.PodSeen, int]] = {}
        offset = self.offset
        for event in batch:
            offset += 1
            if type(event) is events.PodSeen:
                pod = event.pod
                if pod.uid in sights and settles(sights[pod.uid][0].pod) and not settles(pod):
                    self._see(sights)
                sights[pod.uid] = event, offset
                continue
            uid = pod_of(event)
            # Pods that come are named in their order: the name belongs to the last one.
            if uid in sights and uid in self._pods:
                self._sight(*sights.pop(uid))
            elif uid in sights or (type(event) is events.PodPlaced and uid not in self._pods):
                self._see(sights)
            self.offset = offset - 1
            self.apply(event)
        self._see(sights)
        self.offset = offset

    def _see(self, sights: dict[model.Uid, tuple[events.PodSeen, int]]) -> None:
        for event, offset in sights.values():
            self._sight(event, offset)
        sights.clear()

    def _sight(self, event: events.PodSeen, offset: int) -> None:
        self._pod_seen(event.pod)
        self._moves[event.subject] = offset

    def apply(self, event: events.AnyEvent) -> None:
        """Take the next event of the log."""
        self.offset += 1
        if type(event) is events.PodSeen:
            self._sight(event, self.offset)  # nine of ten events: no detours
            return
        match event:
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
                self._unlisted = self._unlisted.difference((event.kind,))
            case events.StoreRewound() | events.StoreRestarted():
                self._listed = immutables.Map()
                self._unlisted = model.KINDS
            case events.FlagSet():
                self._flags = self._flags.set(event.flag.name, event.flag)
            case (
                events.Quarantined()
                | events.RecorderElected()
                | events.EpochAdopted()
                | events.ViewsRepaired()
                | events.RelistRequested()
            ):
                # Repairs bring what is stored to this fold, not this fold to what is stored.
                pass
        for subject in touched(event):
            self._moves[subject] = 0 if ends(event, subject) else self.offset

    def finish(self) -> snapshots.Snapshot:
        """The snapshot after all the events taken; the projection must not be used afterwards."""
        return snapshots.Snapshot(
            position=model.Position(self._start.position.incarnation, self.offset),
            # The same map if no node changed: what is derived from it stays valid by identity.
            nodes=self._nodes.finish() if self._nodes_changed else self._start.nodes,
            pods=self._pods.finish(),
            policies=self._policies.finish(),
            placements=self._placements.finish(),
            flags=self._flags,
            listed=self._listed,
            unlisted=self._unlisted,
            versions=self._moved_on(),
            counts=self._counts.finish() if self.increments else self._start.counts,
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

    def _moved_on(self) -> "immutables.Map[str, int]":
        versions = self._start.versions.mutate()
        for subject, offset in self._moves.items():
            if offset:
                versions[subject] = offset
            else:
                versions.pop(subject, None)
        return versions.finish()

    # -- pods ------------------------------------------------------------------------------

    def _pod_seen(self, pod: model.Pod) -> None:
        uid = pod.uid
        before, at = self._standing(uid)
        self._pods[uid] = pod
        if settles(pod):
            # The watch is the evidence: bound here confirms the promise, bound elsewhere ends it.
            self._placements.pop(uid, None)
            self._moved(uid, before, at, pod, pod.node)
        else:
            self._moved(uid, before, at, *self._standing(uid))

    def _pod_gone(self, uid: model.Uid) -> None:
        before, at = self._standing(uid)
        self._pods.pop(uid, None)
        self._placements.pop(uid, None)
        self._moved(uid, before, at, None, "")

    def _placed(self, event: events.PodPlaced) -> None:
        uid = event.pod.uid
        before, at = self._standing(uid)
        self._placements[uid] = model.Placement(
            pod=event.pod,
            node=event.node,
            at=event.at,
            offset=self.offset,
            resource_version=event.resource_version,
        )
        self._moved(uid, before, at, *self._standing(uid))

    def _released(self, uid: model.Uid) -> None:
        before, at = self._standing(uid)
        self._placements.pop(uid, None)
        self._moved(uid, before, at, *self._standing(uid))

    def _standing(self, uid: model.Uid) -> tuple[model.Pod | None, model.NodeName]:
        """The pod, be it seen or only placed, and where it is or is promised to be."""
        seen = self._pods.get(uid)
        if seen is not None and seen.node:
            return seen, seen.node
        placement = self._placements.get(uid)
        if placement is None:
            return seen, ""
        return seen if seen is not None else placement.pod, placement.node

    def _moved(
        self,
        uid: model.Uid,
        before: model.Pod | None,
        at: model.NodeName,
        after: model.Pod | None,
        to: model.NodeName,
    ) -> None:
        """Bring every index and count from one standing of a pod to the next; most do not change."""
        if before is None or after is None or at != to or not _counts_alike(before, after):
            if before is not None:
                self._count(before, at, -1)
            if after is not None:
                self._count(after, to, +1)
        if at != to:
            if at:
                self._residents.discard(at, uid)
            if to:
                self._residents.add(to, uid)
        if before is None or after is None or before.key != after.key:
            self._renamed(uid, before, after)
        if self._start.indexed:
            self._relabelled(uid, before, after)
        _enlist(self._waiting, uid, after is not None and not to and after.pending)
        _enlist(self._nominated, uid, after is not None and after.holds_nomination)

    def _renamed(self, uid: model.Uid, before: model.Pod | None, after: model.Pod | None) -> None:
        """A pod comes or goes. The name belongs to the one that came last."""
        if before is not None:
            self._namespaces.discard(before.namespace, uid)
            if self._names.get(before.key) == uid:
                del self._names[before.key]
        if after is not None:
            self._namespaces.add(after.namespace, uid)
            self._names[after.key] = uid

    def _relabelled(self, uid: model.Uid, before: model.Pod | None, after: model.Pod | None) -> None:
        for label in self._start.indexed:
            old = (before.namespace, before.labels.get(label)) if before is not None else _NOWHERE
            new = (after.namespace, after.labels.get(label)) if after is not None else _NOWHERE
            if old == new:
                continue
            if old[1] is not None:
                self._labelled.discard((old[0], label, old[1]), uid)
            if new[1] is not None:
                self._labelled.add((new[0], label, new[1]), uid)

    # -- nodes and policies ----------------------------------------------------------------

    def _node_changed(self, before: model.Node | None, after: model.Node | None) -> None:
        node = after or before
        if node is None:
            return
        moved = (before.labels if before else None) != (after.labels if after else None)
        residents = self._residents.pods(node.name) if moved else ()
        for uid in residents:
            self._recount(uid, -1)
        self._nodes_changed = True
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
        for uid in self._namespaces.pods(policy.namespace):
            pod, node = self._standing(uid)
            if pod is not None:
                self._add_up(counting.contributions(pod, self._nodes.get(node), (policy,)), by)

    # -- counts ----------------------------------------------------------------------------

    def _recount(self, uid: model.Uid, by: int) -> None:
        pod, node = self._standing(uid)
        if pod is not None:
            self._count(pod, node, by)

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
        case events.ViewsRepaired():
            return event.subject, *event.moved, *event.ended
        case events.PolicySeen():
            return event.subject, f"policies:{event.policy.namespace}"
        case events.PolicyGone():
            return event.subject, f"policies:{event.namespace}"
        case _:
            return (event.subject,)


def ends(event: events.AnyEvent, subject: str) -> bool:
    """Whether a subject that the event touches does not exist any more after it."""
    match event:
        case events.PodGone() | events.NodeGone() | events.PolicyGone():
            return subject == event.subject
        case events.ViewsRepaired():
            return subject in event.ended
        case _:
            return False


def pod_of(event: events.AnyEvent) -> model.Uid:
    """The pod that the event is about; empty if it is about something else."""
    match event:
        case events.PodGone() | events.PlacementReleased():
            return event.uid
        case events.PodPlaced():
            return event.pod.uid
        case _:
            return ""


def settles(pod: model.Pod) -> bool:
    """Whether the pod as it was seen ends a promise."""
    return bool(pod.node) or pod.finished


def _counting(policy: model.WorkloadPolicy) -> tuple[object, ...]:
    """What of a policy its counts depend on."""
    return policy.topology_key, policy.selector, bool(policy.errors)


def _counts_alike(before: model.Pod, after: model.Pod) -> bool:
    """Whether the two forms of a pod count alike on the same node."""
    return (
        before.phase == after.phase
        and before.terminating == after.terminating
        and before.namespace == after.namespace
        and before.labels == after.labels
    )


def _enlist(pods: "immutables.MapMutation[model.Uid, None]", uid: model.Uid, belongs: bool) -> None:
    if belongs:
        pods[uid] = None
    else:
        pods.pop(uid, None)
