"""Comparing what is stored with what the log says, and finding where a difference began.

Counts are stored for the head of the log only. So whoever audits remembers by how much they were apart
the last time, and what was appended since: a change of the difference began in between. If exactly one
event in between explains it (as if it had not been counted, or twice) it is named; if none does, the
difference was not made by an append at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from app.domain import counting, events, model, projecting, snapshots

STEPS = 20_000
"""Events remembered since the last look; where there were more, none of them can be named."""
_KEYS = 50
"""Keys that one explanation is sought for."""
_NAMED = 5
FACTS = (
    events.PodSeen
    | events.PodGone
    | events.NodeSeen
    | events.NodeGone
    | events.PolicySeen
    | events.PolicyGone
    | events.Relisted
    | events.Quarantined
)
"""What only the elected recorder writes."""

Object = model.Pod | model.Node | model.WorkloadPolicy


class Step(NamedTuple):
    """One entry of the log, as far as blame needs it."""

    offset: int
    at_ms: int
    epoch: str
    """Of the writer of facts; empty for everybody else."""
    event: events.AnyEvent


class Blame(NamedTuple):
    """Where a difference began, and by whom."""

    offset: int
    """Of the one event that explains it; 0 if there is none or several do."""
    writer: str
    words: str


@dataclass
class Ledger:
    """The log as the auditor follows it: the fold, and what came since the last look."""

    snapshot: snapshots.Snapshot
    before: snapshots.Snapshot
    """As of the last look."""
    steps: list[Step] = field(default_factory=list)
    """What came since; empty with ``skipped`` if that was too much."""
    skipped: bool = False
    recorders: dict[str, str] = field(default_factory=dict)
    """Epoch -> identity of the recorder that was elected with it."""
    epoch: str = ""
    """The highest epoch met so far."""

    def take(self, steps: Sequence[Step]) -> None:
        """Consecutive entries that follow on the snapshot."""
        for step in steps:
            if isinstance(step.event, events.RecorderElected):
                self.recorders[step.epoch or step.event.epoch] = step.event.by
            if lower(self.epoch, step.epoch):
                self.epoch = step.epoch
        self.snapshot = projecting.project_all(self.snapshot, (step.event for step in steps))
        if len(self.steps) + len(steps) > STEPS:
            self.steps, self.skipped = [], True
        elif not self.skipped:
            self.steps.extend(steps)

    def looked(self) -> None:
        """What comes from here on came after this look."""
        self.before, self.steps, self.skipped = self.snapshot, [], False

    @property
    def since(self) -> int:
        """The first offset after the last look."""
        return self.before.offset + 1

    def writer(self, step: Step) -> str:
        """Who wrote an entry, as far as it says."""
        if isinstance(step.event, events.PodPlaced | events.FlagSet | events.ViewsRepaired) and step.event.by:
            return step.event.by
        if step.epoch:
            return self.recorder(step.epoch)
        return f"whoever wrote {type(step.event).__name__} without an epoch"

    def recorder(self, epoch: str) -> str:
        """The recorder of an epoch."""
        return f"recorder {self.recorders.get(epoch, 'unknown')} (epoch {epoch})"

    def writers(self) -> str:
        """Everybody who wrote since the last look."""
        return "; ".join(sorted({self.writer(step) for step in self.steps}))


def lower(one: str, other: str) -> bool:
    """Whether an epoch is lower than another: decimal numbers of any length, as text."""
    return (len(one), one) < (len(other), other)


def apart(stored: Mapping[str, int], folded: Mapping[str, int]) -> dict[str, int]:
    """By how much what is stored exceeds what the log says, where it does not agree."""
    found = {key: value - folded.get(key, 0) for key, value in stored.items() if value != folded.get(key, 0)}
    found.update((key, -value) for key, value in folded.items() if value and key not in stored)
    return {key: by for key, by in found.items() if by}


def changed(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """By how much each difference differs from what it was."""
    keys = {*now, *before}
    return {key: by for key in keys if (by := now.get(key, 0) - before.get(key, 0))}


# -- counts --------------------------------------------------------------------------------


def blame_counts(ledger: Ledger, delta: Mapping[counting.CountKey, int]) -> dict[counting.CountKey, Blame]:
    """For each key whose difference changed since the last look, what explains it.

    First one call of a writer is sought that explains all of them, then for each key one event.
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
    by: Mapping[counting.CountKey, int]


def _contributions(ledger: Ledger, keys: frozenset[counting.CountKey]) -> list[_Contribution]:
    """What each event since the last look added to the counts of the keys, where it added anything."""
    projection = projecting.Projection(ledger.before)
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
    """Each event, and the runs of events that one call may have appended: at one time, by one writer."""
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


def _explained(ledger: Ledger, delta: Mapping[str, int], candidates: Sequence[_Contribution]) -> Blame | None:
    missing = {key: -by for key, by in delta.items()}
    for wanted, words in ((missing, "had not been counted"), (delta, "had been counted twice")):
        found = [one for one in candidates if one.by == wanted]
        if len(found) == 1:
            (only,) = found
            step = only.steps[0]
            writer, named = ledger.writer(step), type(step.event).__name__
            until = f" to {only.steps[-1].offset}" if len(only.steps) > 1 else ""
            return Blame(
                step.offset, writer, f"as if event {step.offset}{until} ({named} by {writer}) {words}"
            )
        if found:
            offsets = ", ".join(str(one.steps[0].offset) for one in found[:_NAMED])
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            writers = "; ".join(sorted({ledger.writer(one.steps[0]) for one in found}))
            return Blame(
                0, writers, f"as if one of the events {offsets}{more} {words}, or written past the log"
            )
    return None


def unexplained(ledger: Ledger, what: str) -> Blame:
    """No append since the last look explains it."""
    since, head = ledger.since, ledger.snapshot.offset
    if ledger.skipped:
        return Blame(
            0, "", f"too much was appended from {since} to {head} to tell which event, if any, it comes from"
        )
    if not ledger.steps:
        return Blame(0, "", f"nothing was appended since it was right: written past the log at offset {head}")
    return Blame(
        0, "", f"no event explains it: {what} was written past the log between offsets {since - 1} and {head}"
    )


# -- versions ------------------------------------------------------------------------------


def blame_version(
    ledger: Ledger, subject: str, stored: int, before: int = 0, *, since: int | None = None
) -> Blame:
    """Why the stored version of a subject is wrong.

    ``before``: by how much it was the last time; ``since``: the first offset after that, if it was not at
    the last look.
    """
    folded = ledger.snapshot.version(subject)
    if since is not None and since < ledger.since:
        if folded >= since and stored < folded:
            return Blame(folded, "", f"as if event {folded} had not moved it, or written past the log since")
        return Blame(0, "", f"written past the log between offsets {since - 1} and {ledger.snapshot.offset}")
    untouched = stored == ledger.before.version(subject) + before
    last = next((one for one in reversed(ledger.steps) if subject in projecting.touched(one.event)), None)
    if last is None or not untouched:
        return unexplained(ledger, subject)
    verb = "move" if folded else "end"
    return Blame(
        last.offset,
        ledger.writer(last),
        f"event {last.offset} did not {verb} it: it was appended past the store's function",
    )


# -- facts ---------------------------------------------------------------------------------


def held(snapshot: snapshots.Snapshot, kind: str) -> Mapping[str, Object]:
    """The objects of a kind by what identifies them: uid, name, namespace/name."""
    if kind == "pods":
        return snapshot.pods
    return snapshot.nodes if kind == "nodes" else snapshot.policies


def subject(kind: str, identity: str) -> str:
    """The subject of an object's events."""
    return f"{ {'pods': 'pod', 'nodes': 'node'}.get(kind, 'policy') }:{identity}"


def differing(snapshot: snapshots.Snapshot, kind: str, listed: Iterable[tuple[str, Object]]) -> list[str]:
    """Those of the (identity, object) that the log does not know, or knows otherwise."""
    known = held(snapshot, kind)
    return [identity for identity, shown in listed if known.get(identity) != shown]


def fields_apart(one: Object, other: Object) -> list[str]:
    """The names of the fields in which two forms of an object differ."""
    return [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]


def subjects_apart(one: snapshots.Snapshot, other: snapshots.Snapshot) -> list[str]:
    """The subjects of which two snapshots say different things, sorted."""
    found: set[str] = set()
    for kind in ("pods", "nodes", "workloadpolicies"):
        mine, theirs = held(one, kind), held(other, kind)
        found.update(
            subject(kind, identity)
            for identity in {*mine, *theirs}
            if mine.get(identity) != theirs.get(identity)
        )
    for uid in {*one.placements, *other.placements}:
        if one.placements.get(uid) != other.placements.get(uid):
            found.add(f"pod:{uid}")
    found.update(changed(dict(one.versions), dict(other.versions)))
    return sorted(found)
