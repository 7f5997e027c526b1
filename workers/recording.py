"""The recorder: what the watches show becomes facts in the log, exactly once.

One loop drafts and appends; threads list and watch. Of several recorders one leads and the others stand
by (leading). Every append carries the epoch of its Lease, so that one that was overtaken writes nothing
more, and it expects the versions of what it speaks of: who lost a race catches up and drafts again.
Checkpoints travel with the events, so whoever comes next resumes where the log ends.
"""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from app import telemetry
from app.domain import events, projecting
from app.kube import clients, identifying, kinds, reflecting
from app.store import collecting, errors, following, logs
from workers import doubting, drafting, gathering, leading

LINGER = 0.003
"""Seconds that the first change of a batch waits for company, at least."""
PACE = 0.05
"""Seconds from one append to the next, unless there is enough for a full one.

Each costs this process, the store and all who read along about the same, be it of one event or of fifty.
"""
HANDOVER = 0.0005
"""Seconds for which a thread that decodes keeps the one that appends waiting, in a process of its own.

Python's own 5 ms is more than an append takes.
"""
MARKS_EVERY = 10.0
"""Seconds between two appends of checkpoints alone."""
_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_MOST = logs.MOST_EVENTS


class Recorder:
    """Records one cluster; ``run`` is the loop, everything else may be called by any thread."""

    def __init__(
        self,
        log: logs.Log,
        follower: following.Follower,
        client: clients.Client,
        *,
        watched: Iterable[kinds.Kind] = kinds.ALL,
        silence: float = 150.0,
        elector: leading.Leadership | None = None,
        settle: float = doubting.SETTLE,
    ) -> None:
        """``follower`` is caught up and kept current here; its thread need not run.

        Without an ``elector`` there must never be another recorder; ``settle``: see doubting.
        """
        self._log = log
        self._follower = follower
        self._client = client
        self._kinds = tuple(watched)
        self._silence = silence
        self._inbox = gathering.Inbox()
        self._gatherer: gathering.Gatherer | None = None
        self._stopped = threading.Event()
        self._office = leading.Office(
            elector or leading.Alone(),
            log,
            follower,
            [kind.name for kind in self._kinds],
            settle=settle,
            uid=identifying.Identity(client).uid,
        )
        self._guard = logs.NO_GUARD
        self._marks: dict[str, str] = {}
        self._appended = 0.0
        """When something was last appended."""
        self._asked: dict[str, int] = {}
        """Kind -> the last request for a list that was seen to."""
        self.applied: frozenset[str] = frozenset()
        """Kinds of which everything is in the log."""
        self.trouble = ""
        """What keeps the recorder from appending right now."""

    @property
    def ready(self) -> bool:
        """It leads, every kind is in the log, and nothing keeps what comes from following."""
        return self._office.held and len(self.applied) == len(self._kinds) and not self.trouble

    def checks(self) -> Mapping[str, str | None]:
        """What readiness depends on, and what is wrong with it; who stands by only needs to read along."""
        if not self._office.held:
            return self._office.checks()
        missing = [kind.name for kind in self._kinds if kind.name not in self.applied]
        troubles = self._gatherer.troubles() if self._gatherer is not None else {}
        dead = self._gatherer is not None and not self._gatherer.alive and not self._stopped.is_set()
        watch = "; ".join(f"{kind}: {what}" for kind, what in troubles.items())
        return {
            "store": self.trouble or None,
            "watch": "a watching thread has died" if dead else watch or None,
            "kinds": f"not recorded yet: {', '.join(missing)}" if missing else None,
        }

    def run(self) -> None:
        """Stand by, lead and record, stand by again, until stopped.

        Raises Gap, Trimmed, Unreadable or SchemaMismatch: a person must look.
        """
        self._office.begin()
        try:
            telemetry.loops.Loop(
                "recorder", self._lead, wait=self._stopped.wait, fatal=errors.FATAL, longest=_LONGEST_PAUSE
            ).run()
        finally:
            self._stopped.set()
            self._office.leave()

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._stopped.set()
        self._office.stop()
        self._inbox.close()

    # -- the loop ----------------------------------------------------------------------------

    def _lead(self) -> None:
        while (term := self._office.take()) is not None:
            try:
                self._record(term)
            except (errors.Fenced, errors.Rewound) as problem:
                self._office.heal(problem)

    def _record(self, term: leading.Term) -> None:
        """Record as long as this process leads."""
        inbox = self._begin(term)
        reflectors = [
            reflecting.Reflector(
                self._client,
                kind,
                since=term.marks.get(drafting.mark(kind), ""),
                reason=term.reason,
                silence=self._silence,
            )
            for kind in self._kinds
        ]
        self._gatherer = gathering.Gatherer(reflectors, inbox)
        try:
            with collecting.paused(lasting=True):
                self._gatherer.start()
                while self._office.held and not self._complete():
                    self._turn()
            while self._office.held:
                self._turn()
        finally:
            self.applied = frozenset()
            self._gatherer.stop()

    def _begin(self, term: leading.Term) -> gathering.Inbox:
        """Nothing is known yet of what is recorded in this term."""
        self._guard, self._marks, self._appended, self.trouble = term.guard, {}, 0.0, ""
        self._asked = {kind.name: self._answered(kind, term.marks) for kind in self._kinds}
        self._inbox = gathering.Inbox()
        return self._inbox

    def _complete(self) -> bool:
        return len(self.applied) == len(self._kinds)

    def _turn(self) -> None:
        linger = max(LINGER, self._appended + PACE - time.monotonic())
        changes = self._inbox.take(_MOST, linger=linger, timeout=1.0)
        waiting: list[drafting.Step] = []
        for change in changes:
            if isinstance(change, reflecting.Listed):
                # What a list lacks shows only once everything that came before it is in the snapshot.
                self._append(waiting)
                waiting = []
            waiting.extend(drafting.steps(change, self._follower.snapshot))
        self._append(waiting)
        if not changes:
            self._rest()
        self._relist()

    def _rest(self) -> None:
        """Nothing has changed: write the checkpoints that are due, and look after the log."""
        self._append([])
        self._look()

    def _answered(self, kind: kinds.Kind, marks: Mapping[str, str]) -> int:
        """Up to where requests for a list were seen to: by a list that was made, or is due anyway."""
        listed = f"kind:{kind.name}" if drafting.mark(kind) in marks else f"relist:{kind.name}"
        return self._follower.snapshot.version(listed)

    def _relist(self) -> None:
        """List what the auditor wants to be listed."""
        snapshot = self._follower.snapshot
        for reflector in self._gatherer.reflectors if self._gatherer is not None else ():
            name = reflector.kind.name
            if (asked := snapshot.version(f"relist:{name}")) > self._asked[name]:
                self._asked[name] = asked
                reflector.relist(f"asked by the auditor: event {asked}")

    def _look(self) -> None:
        """See that the log is still whole, although there is nothing to write. Raises Rewound."""
        try:
            self._follower.catch_up()
            if self._guard.epoch and self._log.standing().restarted:
                raise errors.Rewound("the store's server was restarted: its latest events may be lost")
            self.trouble = ""
        except errors.StoreAway as away:
            self._away(away, _PAUSE)

    def _append(self, waiting: list[drafting.Step]) -> None:
        """Append all the steps, however many batches it takes, or until this process leads no more."""
        at, attempt, pause = 0, 0, _PAUSE
        unheard: tuple[drafting.Draft, int] | None = None
        """What was sent without an answer. Drafted again from a log that holds it, it would happen twice."""
        while (at < len(waiting) or self._marks_due()) and self._office.held:
            try:
                if unheard is not None and self._arrived(unheard[0]):
                    draft, end = unheard
                    self._written(draft)
                else:
                    draft, end, alone = self._drafted(waiting, at, bet=attempt == 0)
                    unheard = draft, end
                    self._write(draft, alone=alone)
                if not draft.applied <= self.applied:
                    self.applied |= draft.applied
                at, attempt, pause, unheard = end, 0, _PAUSE, None
                self.trouble = ""
            except errors.Conflict as conflict:
                attempt, unheard = attempt + 1, None
                telemetry.metrics.CONFLICTS.labels("facts").inc()
                telemetry.log.debug("drafting again", conflict=str(conflict))
            except errors.StoreAway as away:
                attempt += 1
                self._away(away, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _drafted(
        self, waiting: Sequence[drafting.Step], at: int, *, bet: bool
    ) -> tuple[drafting.Draft, int, bool]:
        """A draft, the step that it ends before, and whether it must be alone.

        It is made at the head of the log. With a ``bet``, and much to do, it is made on what is known
        here: then it must be alone, and large enough to be worth it. A small one expects no more than
        the versions of what it speaks of, and what it does not speak of might be news at the head.
        """
        draft, end = drafting.Draft(self._follower.snapshot), at
        if bet and len(waiting) - at >= drafting.ALONE:
            end = draft.fill(waiting, at)
            if len(draft.facts) >= drafting.ALONE:
                return draft, end, True
        snapshot = self._follower.catch_up()
        if end == at or snapshot is not draft.snapshot:
            draft = drafting.Draft(snapshot)
            end = draft.fill(waiting, at)
        return draft, end, False

    def _write(self, draft: drafting.Draft, *, alone: bool) -> None:
        if not draft.facts and not (self._due(draft.marks)):
            self._marks |= draft.marks
        else:
            projection = projecting.Projection(draft.snapshot)
            projection.apply_all(draft.facts)
            batch = draft.batch(projection, self._marks)
            appended = self._log.append(batch, draft.guard(self._guard, alone=alone))
            if draft.facts and appended.first == draft.snapshot.offset + 1:
                self._follower.adopt(projection.finish(), appended)
            self._written(draft)

    def _arrived(self, draft: drafting.Draft) -> bool:
        """Whether the log holds the facts of the draft, which nobody but this recorder writes."""
        facts, since = draft.facts, draft.snapshot.position
        # By the follower, which notices if the store loses it after this: a mere look is not remembered.
        if not facts or self._follower.catch_up().position.incarnation != since.incarnation:
            return False
        found = [event for read in self._log.read_all(since.offset) for event in read.events]
        return any(found[at : at + len(facts)] == facts for at in range(len(found) - len(facts) + 1))

    def _written(self, draft: drafting.Draft) -> None:
        self._marks, self._appended = {}, time.monotonic()
        _tell(draft)

    def _due(self, marks: Mapping[str, str]) -> bool:
        return bool(marks or self._marks) and time.monotonic() - self._appended >= MARKS_EVERY

    def _marks_due(self) -> bool:
        return bool(self._marks) and self._due({})

    def _away(self, away: errors.StoreAway, pause: float) -> None:
        """Wait."""
        if not self.trouble:
            telemetry.log.warning("the store is away; nothing is lost meanwhile", error=str(away))
        self.trouble = str(away)
        self._stopped.wait(pause)


def _tell(draft: drafting.Draft) -> None:
    metrics = telemetry.metrics
    metrics.APPENDS.inc()
    metrics.EVENTS.inc(len(draft.facts))
    for event in draft.facts:
        match event:
            case events.Relisted(kind=kind, reason=reason):
                metrics.RELISTS.labels(kind, reason.partition(":")[0]).inc()
                telemetry.log.info("listed", kind=kind, since=event.since, until=event.until, reason=reason)
            case events.Quarantined(kind=kind):
                metrics.QUARANTINED.labels(kind).inc()
                telemetry.log.warning("quarantined", kind=kind, object=event.object, reason=event.reason)
