"""Compares recorded decisions with what the shadows would have decided; runs in `topolog view` only.

Each shadow is a replay that continues: it begins at the event that set it, and reads the records behind it.
The log is the truth and the counters are a view of it, so a process that starts again counts again.
"""

import copy
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app import telemetry
from app.domain import model, snapshots
from app.store import errors as store_errors
from app.store.decisions import decision_log, records
from app.store.state import followers, histories, walks
from app.verbs.explain import recorded_configurations
from app.verbs.questions import errors, replays
from app.verbs.questions.shadows import shadowed

LATEST = 100
"""Decisions that differ and are kept, of each shadow."""
_PAGE = 200
_REASON = 500
"""Characters of a problem."""
_EVERY = 1.0
"""Seconds between two polls for new records: the age of a difference at most, unless work is left."""
_CATCH_UP = 1.0
"""Seconds that a poll waits for the store."""
_RETRIED = 10.0
"""Seconds after which a shadow is tried again whose past could not be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class ComparisonReport:
    """The differences of a shadow so far."""

    examined: int
    classes: Counter[str]
    skipped: Counter[str]
    by: Mapping[str, Mapping[str, int]]
    idle: Sequence[int] | None
    unapplied: Mapping[int, str] | None
    items: Sequence[replays.Item]
    """The latest that differ, newest first; at most LATEST."""
    until: str
    """The id of the last record that was read; empty before the first."""
    behind: float
    """Seconds between that record and now, while records are left; else 0."""
    gap: bool
    """Records may have been trimmed before they were read."""
    problem: str
    """Why decisions cannot be compared; empty if they can."""


class _Comparison(replays.Replay):
    """The replay of one shadow: keeps the latest items instead of the gravest."""

    def _keep(self, item: replays.Item) -> None:
        self.items.append(item)
        del self.items[:-LATEST]


class _Held:
    """One shadow, from the event that set it on."""

    def __init__(
        self, shadow: model.Shadow, since: model.Position, run: _Comparison, walk: walks.Walk
    ) -> None:
        self.shadow = shadow
        self.since = since
        self.run = run
        self.walk = walk
        self.behind = ""
        """The id behind which records are read; empty until the time of the shadow's event was read."""
        self.last = ""
        """The id of the last record that was read."""
        self.end: int | None = None
        """The last offset of the shadow; None until a record behind its end is read."""
        self.left = False
        """Whether there may be records to be read."""
        self.gap = False
        self.problem = ""
        """The latest failure of the shadow itself."""
        self.unread = ""
        """Why its past could not be read the last time; empty if it could."""
        self.failed_at = 0.0
        """When that was, by the monotonic clock."""


class ShadowComparison:
    """Follows the records of decisions for every shadow, one decision at a time."""

    def __init__(
        self,
        *,
        follower: followers.Follower,
        past: histories.Histories,
        decisions: decision_log.DecisionLog,
        recorded: recorded_configurations.RecordedConfigurations,
        known: Sequence[type[Any]],
        milliseconds: Callable[[str], int],
        wall: Callable[[], float],
    ) -> None:
        """``known``: the classes of all plugins that can be enabled; ``milliseconds``: of an RFC 3339 time
        since 1970; ``wall``: seconds since 1970.
        """
        self._follower = follower
        self._past = past
        self._decisions = decisions
        self._recorded = recorded
        self._known = known
        self._milliseconds = milliseconds
        self._wall = wall
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._loop = telemetry.loops.repeated("shadows", lambda: 0.0 if self.step() else _EVERY)

    def start(self) -> None:
        """Start the thread: after a fork, never before."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._loop.stop(timeout=5.0)

    def report(self, name: str, since: model.Position) -> ComparisonReport | None:
        """The differences of the shadow that was set at that position; None before its first poll."""
        with self._lock:
            held = self._held.get(name)
            if held is None or held.since != since:
                return None
            return self._report(held)

    def reports(self) -> dict[str, ComparisonReport]:
        """The differences of every shadow that has been compared, by its name."""
        with self._lock:
            return {name: self._report(held) for name, held in self._held.items()}

    def _report(self, held: _Held) -> ComparisonReport:
        run = held.run
        return ComparisonReport(
            examined=run.examined,
            classes=copy.copy(run.classes),
            skipped=copy.copy(run.skipped),
            by={what: dict(numbers) for what, numbers in run.by.items()},
            idle=run.idle,
            unapplied=run.unapplied,
            items=run.items[::-1],
            until=held.last,
            behind=max(0.0, self._wall() - records.written_ms(held.behind) / 1000) if held.left else 0.0,
            gap=held.gap,
            problem=held.unread or held.problem,
        )

    def step(self) -> bool:
        """Compare a page of records for each shadow; returns whether there may be more. Raises StoreError."""
        if not self._follower.snapshot.shadows and not self._held:
            return False  # Without shadows nothing is read.
        snapshot = self._follower.catch_up(timeout=_CATCH_UP)
        self._adopt(snapshot)
        return any([self._try(held) for held in list(self._held.values())])

    def _adopt(self, snapshot: snapshots.Snapshot) -> None:
        """Begin with the shadows that were set, and forget those that are gone."""
        made: dict[str, _Held] = {}
        for name, shadow in snapshot.shadows.items():
            since = model.Position(snapshot.position.incarnation, snapshot.version(f"shadow:{name}"))
            held = self._held.get(name)
            made[name] = held if held is not None and held.since == since else self._begun(shadow, since)
        with self._lock:
            self._held = made

    def _begun(self, shadow: model.Shadow, since: model.Position) -> _Held:
        run = _Comparison(
            lambda plugins: shadowed.hypothesis(shadow, plugins, self._known),
            self._recorded,
            scores=True,
            limit=LATEST,
        )
        return _Held(shadow, since, run, walks.Walk(self._past))

    def _try(self, held: _Held) -> bool:
        """Compare a page of records with one shadow, unless its past cannot be read: others go on.

        Raises StoreAway if the store is away, and not only the archive.
        """
        if held.unread and time.monotonic() - held.failed_at < _RETRIED:
            return False
        try:
            left = self._advance(held)
        except store_errors.StoreError as error:
            if isinstance(error, store_errors.StoreAway) and not isinstance(error, store_errors.ArchiveAway):
                raise
            if not held.unread:
                telemetry.log.warning(
                    "a shadow is not compared, retrying", shadow=held.shadow.name, problem=str(error)
                )
            held.unread, held.failed_at = str(error)[:_REASON], time.monotonic()
            return False
        held.unread = ""
        return left

    def _advance(self, held: _Held) -> bool:
        if not held.behind:
            # A decision is recorded after the event of its position was appended, by the same clock.
            appended = self._past.appended_ms(held.since.offset)
            held.behind = "0-0" if appended is None else f"{max(0, appended - 1)}-0"
        page = self._decisions.since(held.behind, limit=_PAGE)
        if page:
            held.gap = held.gap or self._may_lack_records(held)
            # A configuration is recorded before its decisions, perhaps after the log was last read.
            self._follower.catch_up(timeout=_CATCH_UP)
        held.left = len(page) == _PAGE
        for decision in page:
            self._take(held, decision)
            held.behind = held.last = decision.id
            if self._loop.wait(0.0):  # Between two decisions other threads may run.
                return False
        return held.left

    def _may_lack_records(self, held: _Held) -> bool:
        """Whether records behind ``held.behind`` may have been removed before those of the page were read.

        Called after that: the oldest entries are removed first, so that an entry which is still there, and
        not behind it, proves that none was. Raises StoreError.
        """
        oldest = self._decisions.oldest()
        if oldest and records.order(oldest) <= records.order(held.behind):
            return False
        return bool(held.last) or self._decisions.has_removed()

    def _take(self, held: _Held, decision: records.Decision) -> None:
        """Compare one decision, if it is the shadow's. Raises StoreError; then nothing is counted."""
        if decision.position.incarnation != held.since.incarnation:
            self._skip(held, decision, "superseded")
        elif held.since.offset <= decision.position.offset and not self._behind_the_end(held, decision):
            try:
                self._compare(held, decision)
            except store_errors.Trimmed:
                self._skip(held, decision, "trimmed")
            except store_errors.Shortened:
                self._skip(held, decision, "unrepeatable")
            except errors.Mistake as mistake:
                # The extender that took the shadow has other plugins, or another version.
                held.problem = str(mistake)
                self._skip(held, decision, "configuration")
            except store_errors.StoreError:
                raise
            except Exception as failure:
                # A plugin fails in what the shadow supposes: others are compared all the same.
                if not held.problem:
                    telemetry.log.exception("a shadow fails", shadow=held.shadow.name, decision=decision.id)
                held.problem = f"decision {decision.id}: {type(failure).__name__}: {failure}"[:_REASON]
                self._skip(held, decision, "error")

    def _compare(self, held: _Held, decision: records.Decision) -> None:
        cause = held.run.incomparable(decision)
        if cause:
            self._skip(held, decision, cause)
            return
        snapshot = held.walk.to(decision.position.offset)
        candidates = self._decisions.candidates(decision, snapshot)
        with self._lock:
            held.run.compare(decision, candidates, snapshot)

    def _skip(self, held: _Held, decision: records.Decision, cause: str) -> None:
        with self._lock:
            held.run.skip(decision, cause)

    def _behind_the_end(self, held: _Held, decision: records.Decision) -> bool:
        """Whether the decision saw a state later than the end, by the store's clock."""
        if not held.shadow.until:
            return False
        if held.end is None:
            until = self._milliseconds(held.shadow.until)
            if records.written_ms(decision.id) <= until:
                return False
            held.end = self._past.offset_at(until)
        return decision.position.offset > held.end
