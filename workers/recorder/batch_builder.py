"""Builds batches from changes of the cluster: events, count increments, resume versions and the guard.

A batch is built on one snapshot; if another writer appends first, it is rebuilt on the next snapshot
from the same steps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.domain import events, model, projections, snapshots
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
        self._shared = False
        """The batch moves counts that many pods depend on."""
        self._schema = snapshot.schema
        self._changed: dict[str, dict[str, decoding.Object | None]] = {
            name: {} for name in snapshot.schema.names
        }
        """Kind -> identity -> the object as this batch leaves it; None if it is gone."""

    def fill(self, waiting: Sequence[Step], start: int) -> int:
        """Add steps from ``start`` on while they fit; returns the index of the first that was not added.

        Raises UnknownKind.
        """
        at = start
        while at < len(waiting) and len(self.facts) <= MAX_FACTS:
            self._add(waiting[at])
            at += 1
        return at

    def batch(
        self, projection: projections.Projection, marks: Mapping[str, str], kubernetes: str = ""
    ) -> batches.Batch:
        """The batch to append; ``marks`` are earlier resume versions that are not written yet.

        ``kubernetes``: see batches.Batch.
        """
        return batches.Batch(
            events=self.facts,
            increments=projection.increments,
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
            return msgspec.structs.replace(holder, incarnation=incarnation, head=self.snapshot.offset)
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
