"""Compares the stored views with the fold of the log and attributes each difference to an event.

Counts are stored for the head of the log only. So the auditor keeps the differences of the previous
comparison and the events appended since: a difference that changed began in between. If exactly one of
these events explains it (as if it had not been counted, or twice), that event is named; if no event does,
the difference was not made by an append.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app import plurals
from app.domain import event_subjects, events, model, projections, schema, snapshots

STEPS = 20_000
"""Events kept since the previous comparison; if there were more, no difference is attributed."""
_KEYS = 50
"""Count keys for which one event is sought."""
_NAMED = 5
FACTS = (
    events.PodSeen
    | events.PodGone
    | events.NodeSeen
    | events.NodeGone
    | events.ObjectObserved
    | events.ObjectGone
    | events.Relisted
    | events.Quarantined
)
"""Events that only the elected recorder writes."""

Object = model.Pod | model.Node | model.DeclaredObject


class Step(NamedTuple):
    """One entry of the log, with what attribution needs of it."""

    offset: int
    at_ms: int
    epoch: str
    """Epoch of the recorder that wrote it; empty for any other writer."""
    event: events.AnyEvent


class Attribution(NamedTuple):
    """Where a difference began, and which process wrote there."""

    offset: int
    """Offset of the event that explains it; 0 unless exactly one event does."""
    writer: str
    words: str


@dataclass
class Ledger:
    """The auditor's own fold of the log, and the events since the previous comparison."""

    snapshot: snapshots.Snapshot
    before: snapshots.Snapshot
    """The fold at the previous comparison."""
    steps: list[Step] = field(default_factory=list)
    """The events since; empty with ``skipped`` if there were more than STEPS."""
    skipped: bool = False
    recorders: dict[str, str] = field(default_factory=dict)
    """Epoch -> identity of the recorder elected with it."""
    epoch: str = ""
    """The highest epoch so far."""

    def take(self, steps: Sequence[Step]) -> None:
        """Apply consecutive entries that follow the snapshot."""
        for step in steps:
            if isinstance(step.event, events.RecorderElected):
                self.recorders[step.epoch or step.event.epoch] = step.event.by
            if lower(self.epoch, step.epoch):
                self.epoch = step.epoch
        self.snapshot = projections.project_all(self.snapshot, (step.event for step in steps))
        if len(self.steps) + len(steps) > STEPS:
            self.steps, self.skipped = [], True
        elif not self.skipped:
            self.steps.extend(steps)

    def examined(self) -> None:
        """Mark a comparison: the events from here on are those since."""
        self.before, self.steps, self.skipped = self.snapshot, [], False

    @property
    def since(self) -> int:
        """The first offset after the previous comparison."""
        return self.before.offset + 1

    def writer(self, step: Step) -> str:
        """The writer of an entry, as far as the entry identifies it."""
        if isinstance(step.event, events.ShadowSet) and step.event.shadow.by:
            return step.event.shadow.by
        if (
            isinstance(
                step.event,
                events.PlacementsCommitted
                | events.FlagSet
                | events.ConfigurationApplied
                | events.ShadowGone
                | events.ViewsRepaired,
            )
            and step.event.by
        ):
            return step.event.by
        if step.epoch:
            return self.recorder(step.epoch)
        return f"an unknown writer ({type(step.event).__name__} without an epoch)"

    def recorder(self, epoch: str) -> str:
        """The recorder of an epoch."""
        return f"recorder {self.recorders.get(epoch, 'unknown')} (epoch {epoch})"

    def writers(self) -> str:
        """Every writer since the previous comparison, joined by semicolons."""
        return "; ".join(sorted({self.writer(step) for step in self.steps}))


def lower(one: str, other: str) -> bool:
    """Whether an epoch is lower than another: decimal numbers of any length, as text."""
    return (len(one), one) < (len(other), other)


def apart(stored: Mapping[str, int], folded: Mapping[str, int]) -> dict[str, int]:
    """Key -> stored minus folded value, for every key where they differ."""
    found = {key: value - folded.get(key, 0) for key, value in stored.items() if value != folded.get(key, 0)}
    found.update((key, -value) for key, value in folded.items() if value and key not in stored)
    return {key: by for key, by in found.items() if by}


def changed(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Key -> change of the difference, for every difference that changed."""
    keys = {*now, *before}
    return {key: by for key in keys if (by := now.get(key, 0) - before.get(key, 0))}


# -- counts --------------------------------------------------------------------------------


def attribute_counts(
    ledger: Ledger, delta: Mapping[schema.CountKey, int]
) -> dict[schema.CountKey, Attribution]:
    """Attribute each count whose difference changed since the previous comparison.

    One append that explains all of the changes is preferred; otherwise one event is sought for each key.
    """
    contributions = _contributions(ledger, frozenset(sorted(delta)[:_KEYS]))
    calls = _calls(contributions)
    whole = _explained(ledger, dict(delta), calls)
    if whole is not None:
        return dict.fromkeys(delta, whole)
    return {
        key: _explained(ledger, {key: by}, _only(key, contributions)) or unexplained(ledger, key)
        for key, by in delta.items()
    }


class _Contribution(NamedTuple):
    steps: tuple[Step, ...]
    by: Mapping[schema.CountKey, int]


def _contributions(ledger: Ledger, keys: frozenset[schema.CountKey]) -> list[_Contribution]:
    """The events since the previous comparison that changed the counts of the keys, and by how much."""
    projection = projections.Projection(ledger.before)
    found = []
    known: dict[str, int] = {}
    for step in ledger.steps:
        projection.apply(step.event)
        now = {key: projection.increments[key] for key in keys if key in projection.increments}
        by = changed(now, known)
        known = now
        if by:
            found.append(_Contribution((step,), by))
    return found


def _calls(contributions: Sequence[_Contribution]) -> list[_Contribution]:
    """Each event, and each run of events that one call may have appended: same time, same epoch."""
    runs: list[_Contribution] = []
    for one in contributions:
        (step,) = one.steps
        last = runs[-1] if runs else None
        if last is not None and (last.steps[-1].at_ms, last.steps[-1].epoch) == (step.at_ms, step.epoch):
            added = {
                key: by for key in {*last.by, *one.by} if (by := last.by.get(key, 0) + one.by.get(key, 0))
            }
            runs[-1] = _Contribution((*last.steps, step), added)
        else:
            runs.append(one)
    return [*contributions, *(run for run in runs if len(run.steps) > 1)]


def _only(key: str, contributions: Sequence[_Contribution]) -> list[_Contribution]:
    return [_Contribution(one.steps, {key: one.by[key]}) for one in contributions if key in one.by]


def _explained(
    ledger: Ledger, delta: Mapping[str, int], candidates: Sequence[_Contribution]
) -> Attribution | None:
    missing = {key: -by for key, by in delta.items()}
    for wanted, words in ((missing, "had not been counted"), (delta, "had been counted twice")):
        found = [one for one in candidates if one.by == wanted]
        if len(found) == 1:
            (only,) = found
            step = only.steps[0]
            writer, named = ledger.writer(step), type(step.event).__name__
            until = f" to {only.steps[-1].offset}" if len(only.steps) > 1 else ""
            return Attribution(
                step.offset, writer, f"as if event {step.offset}{until} ({named} by {writer}) {words}"
            )
        if found:
            offsets = plurals.listed([str(one.steps[0].offset) for one in found], _NAMED)
            writers = "; ".join(sorted({ledger.writer(one.steps[0]) for one in found}))
            return Attribution(
                0, writers, f"as if one of the events {offsets} {words}, or written bypassing the log"
            )
    return None


def unexplained(ledger: Ledger, what: str) -> Attribution:
    """The attribution of a difference that no append since the previous comparison explains."""
    since, head = ledger.since, ledger.snapshot.offset
    if ledger.skipped:
        return Attribution(0, "", f"not attributed: too many events were appended from {since} to {head}")
    if not ledger.steps:
        return Attribution(
            0, "", f"nothing was appended since it was correct: written bypassing the log at offset {head}"
        )
    return Attribution(
        0,
        "",
        f"no event explains it: {what} was written bypassing the log between offsets {since - 1} and {head}",
    )


# -- versions ------------------------------------------------------------------------------


def attribute_version(
    ledger: Ledger, subject: str, stored: int, before: int = 0, *, since: int | None = None
) -> Attribution:
    """Why the stored version of a subject is wrong.

    ``before`` is the difference found by the previous comparison of this subject, and ``since`` the first
    offset after it, if it was not part of the ledger's previous comparison.
    """
    folded = ledger.snapshot.version(subject)
    if since is not None and since < ledger.since:
        if folded >= since and stored < folded:
            return Attribution(
                folded, "", f"as if event {folded} had not updated it, or written bypassing the log since"
            )
        return Attribution(
            0, "", f"written bypassing the log between offsets {since - 1} and {ledger.snapshot.offset}"
        )
    untouched = stored == ledger.before.version(subject) + before
    last = next((one for one in reversed(ledger.steps) if subject in event_subjects.touched(one.event)), None)
    if last is None or not untouched:
        return unexplained(ledger, subject)
    verb = "update" if folded else "remove"
    return Attribution(
        last.offset,
        ledger.writer(last),
        f"event {last.offset} did not {verb} it: it bypassed the append function",
    )


# -- facts ---------------------------------------------------------------------------------


def held(snapshot: snapshots.Snapshot, kind: str) -> Mapping[str, Object]:
    """The objects of a kind by identity: uid, name, or namespace/name."""
    match kind:
        case "pods":
            return snapshot.pods
        case "nodes":
            return snapshot.nodes
        case _:
            return snapshot.objects.named(kind)


def differing(snapshot: snapshots.Snapshot, kind: str, listed: Iterable[tuple[str, Object]]) -> list[str]:
    """The identities of listed objects that differ from the log or are missing there."""
    known = held(snapshot, kind)
    return [identity for identity, shown in listed if known.get(identity) != shown]


def fields_apart(one: Object, other: Object) -> list[str]:
    """The names of the fields in which two versions of an object differ."""
    return [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]


def subjects_apart(one: snapshots.Snapshot, other: snapshots.Snapshot) -> list[str]:
    """The subjects whose state or version differs between two snapshots, sorted."""
    found: set[str] = set()
    for kind in {*schema.CORE, *one.objects.kinds, *other.objects.kinds}:
        mine, theirs = held(one, kind), held(other, kind)
        found.update(
            one.schema.subject(kind, identity)
            for identity in {*mine, *theirs}
            if mine.get(identity) != theirs.get(identity)
        )
    for uid in {*one.placements, *other.placements}:
        if one.placements.get(uid) != other.placements.get(uid):
            found.add(f"pod:{uid}")
    found.update(changed(dict(one.versions), dict(other.versions)))
    return sorted(found)
