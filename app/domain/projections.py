"""Applies events to a snapshot: the fold of the log.

A ``Projection`` is a fold in progress. It applies events one by one, keeps indexes and counts consistent,
and records by how much each count changed: a writer sends these increments with the events, so that the
counts in Redis stay equal to this fold.
"""

from collections.abc import Iterable

import immutables
import msgspec

from app.domain import declared_objects, event_subjects, events, memos, model, snapshots
from app.domain import schema as schemas
from app.domain.fold import list_fold, node_sums, pod_index, recounts, settings_fold

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
    """A fold in progress over one snapshot, which itself never changes.

    For hypothetical states (dry runs) the result is discarded: its offsets have no meaning in the log, so
    nothing may be appended on the basis of it.
    """

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self._start = snapshot
        self._schema = snapshot.schema
        self.offset = snapshot.position.offset
        self.increments: dict[schemas.CountKey, int] = {}
        """Count -> change since the start; may be zero."""
        self._recounted: set[model.Uid] = set()
        """The pods on nodes that were counted again since the start, there or where they were before."""
        self._nodes = snapshot.nodes.mutate()
        self._changed_nodes: dict[model.NodeName, model.Node | None] = {}
        """Node -> its form at the start."""
        self._pods = snapshot.pods.mutate()
        self._objects = snapshot.objects
        self._placed_gate, self._waiting_gate = self._schema.gates(self._objects)
        self._placements = snapshot.placements.mutate()
        self._settings = settings_fold.SettingsFold(snapshot.flags, snapshot.configurations, snapshot.shadows)
        self._lists = list_fold.ListFold(snapshot.listed, snapshot.unlisted, self._schema.names)
        self._moves: dict[str, int] = {}
        """Subject touched since the start -> offset of its latest event; 0 if it no longer exists."""
        self._names = snapshot.names.mutate()
        self._residents = pod_index.Index(snapshot.residents, node_sums.Residents)
        self._labelled = pod_index.Index(snapshot.labelled, pod_index.plain)
        self._waiting = snapshot.waiting.mutate()
        self._nominated = snapshot.nominated.mutate()
        self._namespaces = pod_index.Index(snapshot.namespaces, pod_index.plain)

    def apply_all(self, batch: Iterable[events.AnyEvent]) -> None:
        """Apply a run of consecutive events.

        Most pods are observed several times within a short time, and only the last observation has an
        effect: so an observation is held back until the next one, or another event about the pod, arrives.
        """
        held: dict[model.Uid, tuple[events.PodSeen, int]] = {}
        offset = self.offset
        for event in batch:
            offset += 1
            if type(event) is events.PodSeen:
                pod = event.pod
                former = held.get(pod.uid)
                before = former[0].pod if former is not None else pod
                # Often it is the same: codecs.decode_run repeats the latest observation of a pod.
                if before is not pod and settles(before) and not settles(pod):
                    self._observe_all(held)
                held[pod.uid] = event, offset
                continue
            for uid in event_subjects.pods_of(event):
                # New pods are applied in order, because a name belongs to the last pod that took it.
                if uid in held and uid in self._pods:
                    self._observe(*held.pop(uid))
                elif uid in held or (type(event) is events.PlacementsCommitted and uid not in self._pods):
                    self._observe_all(held)
            self.offset = offset - 1
            self.apply(event)
        self._observe_all(held)
        self.offset = offset

    def _observe_all(self, held: dict[model.Uid, tuple[events.PodSeen, int]]) -> None:
        for event, offset in held.values():
            self._observe(event, offset)
        held.clear()

    def _observe(self, event: events.PodSeen, offset: int) -> None:
        self._pod_seen(event.pod)
        self._moves[event.subject] = offset

    def apply(self, event: events.AnyEvent) -> None:
        """Apply the next event of the log."""
        self.offset += 1
        if type(event) is events.PodSeen:
            self._observe(event, self.offset)  # Nine of ten events: the shortest path.
            return
        match event:
            case events.PodGone():
                self._pod_gone(event.uid)
            case events.PlacementsCommitted():
                for placement in event.placements:
                    self._placed(placement, event.at)
            case events.PlacementReleased():
                self._released(event.uid)
            case events.NodeSeen():
                self._node_changed(self._nodes.get(event.node.name), event.node)
            case events.NodeGone():
                self._node_changed(self._nodes.get(event.name), None)
            case events.ObjectObserved():
                self._object_changed(event.kind, event.identity, self._schema.read(event.kind, event.data))
            case events.ObjectGone():
                self._object_changed(event.kind, event.identity, None)
            case (
                events.Relisted() | events.RecorderElected() | events.StoreRewound() | events.StoreRestarted()
            ):
                self._lists.apply(event)
            case events.FlagSet() | events.ConfigurationApplied() | events.ShadowSet() | events.ShadowGone():
                self._settings.apply(event)
            case (
                events.Quarantined()
                | events.EpochAdopted()
                | events.ViewsRepaired()
                | events.RelistRequested()
            ):
                # Repairs adapt the stored views to this fold, never the fold to the views.
                pass
        for subject in event_subjects.touched(event):
            self._moves[subject] = 0 if event_subjects.ends(event, subject) else self.offset

    @property
    def touched(self) -> frozenset[model.NodeName]:
        """The nodes that may differ from the start, themselves or in what is on them."""
        return frozenset((*self._changed_nodes, *self._residents.opened))

    def finish(self) -> snapshots.Snapshot:
        """The snapshot after all applied events; the projection must not be used afterwards."""
        recounted = bool(self.increments) or self._objects is not self._start.objects
        # The same map if no node changed, so that caches keyed by its identity stay valid.
        nodes = self._nodes.finish() if self._changed_nodes else self._start.nodes
        changed = ((before, nodes.get(name)) for name, before in self._changed_nodes.items())
        return snapshots.Snapshot(
            schema=self._schema,
            position=model.Position(self._start.position.incarnation, self.offset),
            nodes=nodes,
            pods=self._pods.finish(),
            objects=self._objects,
            placements=self._placements.finish(),
            flags=self._settings.flags,
            configurations=self._settings.configurations,
            shadows=self._settings.shadows,
            listed=self._lists.listed,
            unlisted=self._lists.unlisted,
            versions=self._moved_on(),
            counts=recounts.counted(self._start.counts, self.increments),
            topology=self._start.topology.moved(changed),
            names=self._names.finish(),
            residents=self._residents.finish(),
            labelled=self._labelled.finish(),
            waiting=self._waiting.finish(),
            nominated=self._nominated.finish(),
            namespaces=self._namespaces.finish(),
            indexed=self._start.indexed,
            derivations=memos.Memo() if recounted else self._start.derivations,
            recounted=self._steps(),
        )

    def _steps(self) -> recounts.Steps:
        steps, pods = self._start.recounted, self._recounted
        return recounts.then(steps, self.increments, pods) if self.increments or pods else steps

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
        before, at = self._pod_and_node(uid)
        self._pods[uid] = pod
        if settles(pod):
            # Bound to the placed node, the pod confirms the placement; bound elsewhere, it ends it.
            self._placements.pop(uid, None)
            self._moved(uid, before, at, pod, pod.node)
        else:
            self._moved(uid, before, at, *self._pod_and_node(uid))

    def _pod_gone(self, uid: model.Uid) -> None:
        before, at = self._pod_and_node(uid)
        self._pods.pop(uid, None)
        self._placements.pop(uid, None)
        self._moved(uid, before, at, None, "")

    def _placed(self, placement: model.Placement, when: str) -> None:
        uid = placement.pod.uid
        before, at = self._pod_and_node(uid)
        self._placements[uid] = msgspec.structs.replace(placement, at=when, offset=self.offset)
        self._moved(uid, before, at, *self._pod_and_node(uid))

    def _released(self, uid: model.Uid) -> None:
        before, at = self._pod_and_node(uid)
        self._placements.pop(uid, None)
        self._moved(uid, before, at, *self._pod_and_node(uid))

    def _pod_and_node(self, uid: model.Uid) -> tuple[model.Pod | None, model.NodeName]:
        """The pod, observed or only placed, and the node that it is bound to or placed on.

        A placed pod has the annotations that its Binding sets, so that a counter reads what was allocated.
        """
        seen = self._pods.get(uid)
        if seen is not None and seen.node:
            return seen, seen.node
        placement = self._placements.get(uid)
        if placement is None:
            return seen, ""
        return placement.written(seen if seen is not None else placement.pod), placement.node

    def _moved(
        self,
        uid: model.Uid,
        before: model.Pod | None,
        at: model.NodeName,
        after: model.Pod | None,
        to: model.NodeName,
    ) -> None:
        """Update every index and count for one pod that changed, moved, or both; most stay the same."""
        if before is None or after is None or at != to or self._counted_apart(before, after):
            if before is not None:
                self._count(before, at, -1)
            if after is not None:
                self._count(after, to, +1)
        if at != to:
            if at:
                self._residents.discard(at, uid)
            if to:
                self._residents.add(to, uid)
        elif to and not node_sums.alike(before, after):
            self._residents.renew(to)
        if before is not after:
            if before is None or after is None or before.key != after.key:
                self._renamed(uid, before, after)
            if self._start.indexed:
                self._relabelled(uid, before, after)
        if after is not None and not to and after.pending:
            self._waiting[uid] = None
        else:
            self._waiting.pop(uid, None)
        if after is not None and after.holds_nomination:
            self._nominated[uid] = None
        else:
            self._nominated.pop(uid, None)

    def _counted_apart(self, before: model.Pod, after: model.Pod) -> bool:
        """Whether the two versions of a pod may contribute to different counts on one node."""
        read = self._schema.read_of_pod
        return read(before) != read(after)

    def _renamed(self, uid: model.Uid, before: model.Pod | None, after: model.Pod | None) -> None:
        """Update the indexes by name for a pod that is new or gone; a name belongs to its latest pod."""
        if before is not None:
            self._namespaces.discard(before.namespace, uid)
            if self._names.get(before.key) == uid:
                del self._names[before.key]
        if after is not None:
            self._namespaces.add(after.namespace, uid)
            self._names[after.key] = uid

    def _relabelled(self, uid: model.Uid, before: model.Pod | None, after: model.Pod | None) -> None:
        for label in self._start.indexed:
            old = (before.namespace, before.indexed(label)) if before is not None else _NOWHERE
            new = (after.namespace, after.indexed(label)) if after is not None else _NOWHERE
            if old == new:
                continue
            if old[1] is not None:
                self._labelled.discard((old[0], label, old[1]), uid)
            if new[1] is not None:
                self._labelled.add((new[0], label, new[1]), uid)

    # -- nodes and declared objects --------------------------------------------------------

    def _node_changed(self, before: model.Node | None, after: model.Node | None) -> None:
        node = after or before
        if node is None:
            return
        read = self._schema.read_of_node
        moved = before is None or after is None or read(before) != read(after)
        residents = self._residents.pods(node.name) if moved else ()
        for uid in residents:
            self._recount(uid, -1)
        self._changed_nodes.setdefault(node.name, before)
        if after is None:
            del self._nodes[node.name]
        else:
            self._nodes[node.name] = after
        for uid in residents:
            self._recount(uid, +1)

    def _object_changed(self, kind: str, identity: str, after: model.DeclaredObject | None) -> None:
        before = self._objects.named(kind).get(identity)
        held = self._objects
        if after is not None:
            self._objects = held.set(kind, after)
        elif before is not None:
            self._objects = held.without(kind, before)
        self._placed_gate, self._waiting_gate = self._schema.gates(self._objects)
        for counter, needed in self._schema.dependents(kind):
            if before is None or after is None or needed.reads(before) != needed.reads(after):
                former, present = held, self._objects
                if needed.additive:
                    former, present = held.only(kind, before), held.only(kind, after)
                self._recount_all(counter, needed, before or after, former, present)

    def _recount_all(
        self,
        counter: schemas.Counter,
        needed: schemas.Dependency[model.DeclaredObject],
        changed: model.DeclaredObject | None,
        former: declared_objects.Objects,
        present: declared_objects.Objects,
    ) -> None:
        """Count again what an object contributes to, for the pods that it reaches."""
        if changed is None:
            return
        near = needed.reach == "namespace"
        for uid in self._namespaces.pods(changed.namespace) if near else self._namespaces.everything():
            pod, name = self._pod_and_node(uid)
            if pod is None:
                continue
            node = self._nodes.get(name) if name else None
            if node is None and not counter.node_fields:
                node = schemas.UNKNOWN
            try:
                if name and node is not None:
                    gone = tuple(counter.contributions(pod, node, former))
                    added = tuple(counter.contributions(pod, node, present))
                elif not name and counter.pending is not None:
                    gone = tuple(counter.pending(pod, former))
                    added = tuple(counter.pending(pod, present))
                else:
                    continue
            except Exception as problem:
                raise self._schema.failure(pod, name, node, present, problem) from problem
            if gone != added:
                self._add_up(gone, -1)
                self._add_up(added, +1)

    # -- counts ----------------------------------------------------------------------------

    def _recount(self, uid: model.Uid, by: int) -> None:
        pod, node = self._pod_and_node(uid)
        if pod is not None:
            self._count(pod, node, by)

    def _count(self, pod: model.Pod, name: model.NodeName, by: int) -> None:
        raised, spaces = self._placed_gate if name else self._waiting_gate
        if spaces is not None:
            namespace = pod.namespace
            for space in spaces:
                if namespace in space:
                    break
            else:
                return  # Most pods are in namespaces without objects that counters read.
        node = self._nodes.get(name) if name else None
        try:
            if not name:
                self._add_up(raised(pod, self._objects), by)
                return
            self._recounted.add(pod.uid)
            known = raised if node is not None else self._schema.contributed
            self._add_up(known(pod, node, self._objects), by)
        except Exception as problem:
            raise self._schema.failure(pod, name, node, self._objects, problem) from problem

    def _add_up(self, contributed: Iterable[tuple[schemas.CountKey, int]], by: int) -> None:
        for key, amount in contributed:
            self.increments[key] = self.increments.get(key, 0) + amount * by


def settles(pod: model.Pod) -> bool:
    """Whether the observed pod ends its placement: it is bound or finished."""
    return bool(pod.node) or pod.finished
