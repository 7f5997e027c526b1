"""The events of a range for a time axis: how many of which type, what to mark, and what was not watched."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from app.domain import event_subjects, events, model

MOST_MARKS = 500


class Mark(NamedTuple):
    """An event that a time axis marks."""

    offset: int
    at_ms: int
    kind: str
    """change, plan, flag, shadow, repair, store or configuration."""
    text: str


class Gap(NamedTuple):
    """A stretch in which changes of the cluster were not watched."""

    first: int
    """The offset of the last event before it."""
    last: int
    """The offset of the event that ends it; that of the latest event while it lasts."""
    reason: str


class Wall(NamedTuple):
    """An event that began an incarnation, because the store had lost events."""

    offset: int
    at_ms: int
    event: events.StoreRewound


class ChronicleEntry(NamedTuple):
    """An event with its offset and time."""

    offset: int
    at_ms: int
    event: events.AnyEvent


@dataclass(slots=True)
class Bucket:
    """A run of offsets."""

    first: int
    last: int
    first_ms: int = 0
    """When its first event was appended; 0 without events."""
    last_ms: int = 0
    types: dict[str, int] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    """Kind of mark -> number."""


class Chronicle:
    """Collects a range of events in buckets of equal width."""

    def __init__(self, first: int, last: int, buckets: int, unlisted: frozenset[str]) -> None:
        """``unlisted``: kinds that are not listed yet at the start."""
        self._first = first
        self._width = max(1, -(-(last - first + 1) // buckets))
        self.buckets = [
            Bucket(start, min(last, start + self._width - 1)) for start in range(first, last + 1, self._width)
        ]
        self.marks: deque[Mark] = deque(maxlen=MOST_MARKS)
        """The latest; the buckets count all of them."""
        self.gaps: list[Gap] = []
        self.walls: list[Wall] = []
        self._waiting = set(unlisted)
        self._since = first - 1
        self._cause = "not listed yet" if unlisted else ""

    def add(self, entries: Iterable[ChronicleEntry], kinds: frozenset[str]) -> None:
        """Count and mark events in order; ``kinds``: all that are watched."""
        for entry in entries:
            bucket = self.buckets[(entry.offset - self._first) // self._width]
            name = type(entry.event).__name__
            bucket.types[name] = bucket.types.get(name, 0) + 1
            bucket.first_ms = bucket.first_ms or entry.at_ms
            bucket.last_ms = entry.at_ms
            self._watch(entry, kinds)
            if isinstance(entry.event, events.StoreRewound):
                self.walls.append(Wall(entry.offset, entry.at_ms, entry.event))
            marked = _marked(entry.event)
            if marked is not None:
                mark = Mark(entry.offset, entry.at_ms, *marked)
                bucket.marks[mark.kind] = bucket.marks.get(mark.kind, 0) + 1
                self.marks.append(mark)

    @property
    def more_marks(self) -> int:
        """How many marks are older than the latest."""
        return sum(sum(one.marks.values()) for one in self.buckets) - len(self.marks)

    def finish(self, last: int) -> None:
        """End a gap that lasts until the end of the range."""
        if self._waiting and self._cause:
            self.gaps.append(Gap(self._since, last, self._cause))

    def _watch(self, entry: ChronicleEntry, kinds: frozenset[str]) -> None:
        match entry.event:
            case events.StoreRewound() | events.StoreRestarted():
                if not self._waiting:
                    self._since = entry.offset
                self._waiting = set(kinds)
                self._cause = "the store was restarted or had lost events"
            case events.RecorderElected(unwatched=gone) if kinds.intersection(gone):
                if not self._waiting:
                    self._since = entry.offset
                    self._cause = f"{', '.join(gone)}: not watched by the recorder"
                self._waiting.update(kinds.intersection(gone))
            case events.Relisted(kind=kind, since=since, reason=reason):
                if kind in self._waiting:
                    self._waiting.discard(kind)
                    if not self._waiting:
                        self.gaps.append(Gap(self._since, entry.offset, self._cause))
                elif since:
                    self.gaps.append(Gap(entry.offset - 1, entry.offset, f"{kind}: {reason}"))
            case _:
                pass


def _marked(event: events.AnyEvent) -> tuple[str, str] | None:
    match event:
        case events.ObjectObserved():
            return "change", f"{event.subject} changed"
        case events.ObjectGone():
            return "change", f"{event.subject} deleted"
        case events.NodeGone():
            return "change", f"node:{event.name} deleted"
        case events.PlacementsCommitted(placements=(first, _, *_)):
            return "plan", f"plan of {len(event.placements)} pods committed by the bind of {first.pod.key}"
        case events.FlagSet():
            return "flag", f"flag {event.flag.name} set to {event.flag.value}"
        case events.ShadowSet():
            return "shadow", f"shadow {event.shadow.name} set"
        case events.ShadowGone():
            return "shadow", f"shadow {event.name} deleted"
        case events.ViewsRepaired():
            return "repair", f"views repaired: {event.reason}"
        case events.StoreRewound():
            return "store", f"the store lost events: {event.reason}"
        case events.StoreRestarted():
            return "store", "the store was restarted"
        case events.ConfigurationApplied():
            return "configuration", f"configuration {event.configuration.digest} applied"
        case _:
            return None


class Happening(NamedTuple):
    """What an event means for one pod."""

    kind: str
    """seen, message, placed, bound, released, terminating, finished, gone or changed."""
    text: str
    node: model.NodeName = ""


def of_pod(
    event: events.AnyEvent, key: model.NamespacedName, before: model.Pod | None, *, uid: model.Uid = ""
) -> Happening | None:
    """What happened to the pod of a name; None for an event about others.

    ``before``: as last observed. ``uid``: of the pod; without it, of every pod that had the name.
    """
    if uid and uid not in event_subjects.pods_about(event):
        return None
    match event:
        case events.PodSeen(pod=pod) if pod.key == key:
            return _observed(before if before is not None and before.uid == pod.uid else None, pod)
        case events.PodGone() if f"{event.namespace}/{event.name}" == key:
            return Happening("gone", "deleted, as a list showed" if event.assumed else "deleted")
        case events.PlacementReleased() if f"{event.namespace}/{event.name}" == key:
            return Happening("released", f"placement released: {event.reason}", event.node)
        case events.PlacementsCommitted():
            for placement in event.placements:
                if placement.pod.key == key:
                    by = f" by {event.by}" if event.by else ""
                    return Happening("placed", f"placed on {placement.node}{by}", placement.node)
            return None
        case _:
            return None


def _observed(before: model.Pod | None, pod: model.Pod) -> Happening:
    if pod.node and (before is None or before.node != pod.node):
        return Happening("bound", f"bound to {pod.node}", pod.node)
    if before is None:
        return Happening("seen", "gated" if pod.gated else "seen, waiting for a node")
    if pod.finished and not before.finished:
        return Happening("finished", f"finished: {pod.phase}", pod.node)
    if pod.terminating and not before.terminating:
        return Happening("terminating", "terminating", pod.node)
    if pod.unscheduled and pod.unscheduled != before.unscheduled:
        return Happening("message", f"kube-scheduler: {pod.unscheduled}")
    return Happening("changed", f"changed, phase {pod.phase}", pod.node)
