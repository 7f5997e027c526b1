"""Builds batches from changes of the cluster: events, count increments, resume versions and the guard.

A batch is built on one snapshot; if another writer appends first, it is rebuilt on the next snapshot
from the same steps. If it counts many pods again, which can take longer than the log stands still, it is kept
instead, and only what others have appended is folded.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.domain import event_subjects, events, model, projections, snapshots
from app.kube.objects import decoding
from app.kube.watch import kinds, reflectors
from app.store.log import batches

MAX_EVENTS = 256
"""Events of a batch, which may be as large as the objects that they hold."""
MAX_FACTS = MAX_EVENTS - 2
"""A batch with more events takes no further step: a step makes at most two."""

OPTIMISTIC_MIN = 64
"""Batches of so many events are first appended without comparing versions: the guard expects the
snapshot's offset to be the head, which is one comparison."""


class UnknownKind(ValueError):
    """A change of a kind that the log has no events for."""

    def __init__(self, kind: kinds.WatchedKind, known: Iterable[str]) -> None:
        super().__init__(f"unknown kind {kind.name!r}; known kinds: {', '.join(sorted(known))}")


class Missing(NamedTuple):
    """An object that a complete list lacks."""

    kind: kinds.WatchedKind
    identity: str


Step = (
    decoding.Object
    | Missing
    | reflectors.Listed
    | reflectors.Seen
    | reflectors.Gone
    | reflectors.Bookmark
    | kinds.UndecodableObject
)


def steps(change: reflectors.Change, snapshot: snapshots.Snapshot) -> Iterator[Step]:
    """A change in steps that fit into any batch.

    For a complete list the snapshot must include every change that came before it.
    """
    match change:
        case reflectors.Part():
            yield from change.objects
        case reflectors.Listed():
            known = change.kind.listed(snapshot)
            missing = sorted(identity for identity in known if identity not in change.identities)
            yield from (Missing(change.kind, identity) for identity in missing)
            yield change
        case _:
            yield change


class BatchBuilder:
    """A batch under construction, on top of a snapshot."""

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self.snapshot = snapshot
        self.facts: list[events.AnyEvent] = []
        self.marks: dict[str, str] = {}
        """Where the watches can resume once this batch is appended (WatchedKind.mark)."""
        self.applied: set[str] = set()
        """Kinds that are complete once this batch is appended."""
        self.head = snapshot.offset
        """The last offset of the log that the increments take into account."""
        self._shared = False
        self._unknown: set[model.Uid] = set()
        """Pods that are gone, and that nothing was known about: others may have placed one of them since."""
        self._schema = snapshot.schema
        self._changed: dict[str, dict[str, decoding.Object | None]] = {
            name: {} for name in snapshot.schema.names
        }
        """Kind -> identity -> the object as this batch leaves it; None if it is gone."""

    def fill(self, waiting: Sequence[Step], start: int, *, apart: bool = False) -> int:
        """Add steps from ``start`` on while they fit; returns the index of the first that was not added.

        ``apart``: no pods beside other objects, so that no event about a pod keeps the batch from following.
        Raises UnknownKind.
        """
        at = start
        while at < len(waiting) and len(self.facts) <= MAX_FACTS:
            if apart and _of_pod(waiting[at]) != _of_pod(waiting[start]):
                break
            self._add(waiting[at])
            at += 1
        return at

    @property
    def shared(self) -> bool:
        """The batch moves counts that many pods depend on: it is appended at ``head`` and nowhere else."""
        return self._shared

    @functools.cached_property
    def projection(self) -> projections.Projection:
        """The facts, and then what others have appended; no step may be added once this was asked for."""
        projection = projections.Projection(self.snapshot)
        projection.apply_all(self.facts)
        return projection

    @functools.cached_property
    def _others(self) -> projections.Projection:
        """What others have appended behind the snapshot, up to ``head``."""
        return projections.Projection(self.snapshot)

    def follow(self, appended: Sequence[events.AnyEvent]) -> bool:
        """Move the batch behind what others have appended at ``head``; false if it has to be rebuilt.

        Counts are sums over pods, so the order of the facts and of events about other pods does not matter.
        The increments are then those of facts and events together, less those of the events alone: they cost
        two folds of the events, however many pods the facts count again.
        """
        pods = {uid for fact in self.facts for uid in event_subjects.pods_about(fact)} | self._unknown
        for event in appended:
            about = event_subjects.pods_about(event)
            if not about or not pods.isdisjoint(about):
                return False
        self.projection.apply_all(appended)
        self._others.apply_all(appended)
        self.head += len(appended)
        return True

    def batch(self, marks: Mapping[str, str], kubernetes: str = "") -> batches.Batch:
        """The batch to append; ``marks`` are earlier resume versions that are not written yet.

        ``kubernetes``: see batches.Batch.
        """
        increments = self.projection.increments
        if self.head > self.snapshot.offset:
            others = self._others.increments
            keys = {**increments, **others}
            increments = {key: increments.get(key, 0) - others.get(key, 0) for key in keys}
        return batches.Batch(
            events=self.facts,
            increments=increments,
            marks={**marks, **self.marks},
            kubernetes=kubernetes,
        )

    def guard(self, holder: batches.Guard, *, optimistic: bool) -> batches.Guard:
        """What must hold for the append, in addition to the epoch and the writer in ``holder``.

        ``optimistic``: expect that no other writer has appended, instead of comparing each version.
        """
        incarnation = self.snapshot.position.incarnation
        # If shared counts move, no other writer may have appended at all.
        if optimistic or self._shared:
            return msgspec.structs.replace(holder, incarnation=incarnation, head=self.head)
        subjects = {event.subject for event in self.facts}
        version = self.snapshot.version
        versions = {subject: version(subject) for subject in subjects}
        return msgspec.structs.replace(holder, incarnation=incarnation, versions=versions)

    def _add(self, step: Step) -> None:
        match step:
            case model.Pod() | model.Node() | model.DeclaredObject():
                kind = kinds.of(self._schema, step)
                self._observe(kind, step)
                self._clear_mark(kind)
            case reflectors.Seen():
                self._observe(step.kind, step.object)
                self.marks[step.kind.mark] = step.kind.marked(step.version)
            case reflectors.Gone():
                self._delete(step)
                self.marks[step.kind.mark] = step.kind.marked(step.version)
            case Missing():
                known = self._known(step.kind, step.identity)
                if known is not None:
                    self._end(step.kind, step.identity, known, assumed=True)
                self._clear_mark(step.kind)
            case reflectors.Listed():
                self.facts.append(
                    events.Relisted(
                        kind=step.kind.name, since=step.since, until=step.version, reason=step.reason
                    )
                )
                self.marks[step.kind.mark] = step.kind.marked(step.version)
                self.applied.add(step.kind.name)
            case reflectors.Bookmark():
                self.marks[step.kind.mark] = step.kind.marked(step.version)
                self.applied.add(step.kind.name)
            case kinds.UndecodableObject():
                self.facts.append(events.Quarantined(kind=step.kind, object=step.name, reason=step.reason))

    def _clear_mark(self, kind: kinds.WatchedKind) -> None:
        """Let the watch resume nowhere until the list is complete: a part of it is newer than the mark."""
        self.marks[kind.mark] = kind.marked("")

    def _observe(self, kind: kinds.WatchedKind, seen: decoding.Object) -> None:
        identity, changed = kind.identity(seen), self._changed_of(kind)
        before = changed[identity] if identity in changed else kind.listed(self.snapshot).get(identity)
        self.facts.extend(kind.observe(before, seen))
        self._shared |= kind.shared(self._schema, before, seen)
        changed[identity] = seen

    def _delete(self, gone: reflectors.Gone) -> None:
        identity = gone.kind.identify(gone.namespace, gone.name, gone.uid)
        known = self._known(gone.kind, identity)
        # The end of a former object of this name does not concern the one that has the name now.
        if known is not None and known.uid == gone.uid:
            self._end(gone.kind, identity, known, assumed=False)
        elif known is None and gone.kind is kinds.PODS:
            self._unknown.add(gone.uid)

    def _end(self, kind: kinds.WatchedKind, identity: str, known: decoding.Object, *, assumed: bool) -> None:
        namespace = "" if isinstance(known, model.Node) else known.namespace
        self.facts.append(kind.gone(namespace, known.name, known.uid, assumed))
        self._shared |= kind.shared(self._schema, known, None)
        self._changed_of(kind)[identity] = None

    def _known(self, kind: kinds.WatchedKind, identity: str) -> decoding.Object | None:
        changed = self._changed_of(kind)
        return changed[identity] if identity in changed else kind.find(self.snapshot, identity)

    def _changed_of(self, kind: kinds.WatchedKind) -> dict[str, decoding.Object | None]:
        try:
            return self._changed[kind.name]
        except KeyError:
            raise UnknownKind(kind, self._schema.names) from None


def _of_pod(step: Step) -> bool:
    return isinstance(step, model.Pod) or getattr(step, "kind", None) is kinds.PODS
