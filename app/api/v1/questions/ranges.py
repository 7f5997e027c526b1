"""The recorded decisions of a range, as a replay selects them."""

import contextlib
from collections.abc import Iterator

from app.api import errors
from app.api.introspection import services
from app.api.v1.questions import bodies
from app.store import errors as store_errors
from app.store.decisions import records
from app.verbs.questions import question_schema, replays

_PAGE = 500


class Range:
    """The decisions between two offsets of one incarnation."""

    def __init__(
        self, question: question_schema.Replay, incarnation: str, first: int, last: int, budget: bodies.Budget
    ) -> None:
        """Raises Mistake."""
        self.rest: str | None = None
        """The id of the latest record that was read, if the end was not reached within the budget."""
        self._recorded = 0
        self._budget = budget
        self._question = question
        self._incarnation = incarnation
        self._first, self._last = first, last
        self._where = question_schema.where(question.where)

    def decisions(self) -> Iterator[records.Decision]:
        """Those that are computed, oldest first, also of former incarnations. Raises StoreError.

        They are those that the question selects; a chain plays all, because each has its effect on the ones
        behind it. Reading the others spends the budget, too.
        """
        examined = 0
        for decision in self._records():
            within = self._superseded(decision) or self._within(decision)
            self._recorded += within
            if within and (self._question.mode == "chain" or self.selects(decision)):
                yield decision
                examined += 1
            if examined >= replays.MOST or not self._budget.running():
                self.rest = decision.id
                return

    def limits(self) -> list[str]:
        """What of the range is not recorded, after ``decisions``; for the rest of a range nothing.

        Raises Problem 404 if nothing is, as far as that is known: an answer about no decision is not an
        answer. Raises StoreError.
        """
        if self._question.continue_:
            return []
        decisions = services.current().decisions
        oldest = decisions.get(decisions.oldest())
        removed = oldest is not None and decisions.has_removed()
        if not self._recorded and self.rest is None:
            raise errors.Problem(404, "NotRecorded", self._unrecorded(oldest if removed else None))
        if oldest is None or not removed or not self._question.from_ or self._superseded(oldest):
            return []
        at = oldest.position.offset
        return [f"decisions before offset {at} are no longer recorded"] if self._first < at else []

    def _unrecorded(self, oldest: records.Decision | None) -> str:
        """Why; ``oldest``: the oldest record that is kept, if older ones were removed."""
        text = f"no decision from offset {self._first} to {self._last} is recorded"
        if oldest is not None and (self._superseded(oldest) or self._last < oldest.position.offset):
            return f"{text}: the oldest that is kept is of {oldest.at}, {oldest.position}"
        if not services.current().decisions.recording:
            return f"{text}: recording is off (store.decisions_kept: 0)"
        return f"{text}: none was made in this range"

    def selects(self, decision: records.Decision) -> bool:
        """Whether the question is about such a decision."""
        question = self._question
        return (
            (not question.verbs or decision.verb in question.verbs)
            and question.namespace in ("", decision.pod.namespace)
            and self._where.holds(decision)
        )

    def comparable(self, run: replays.Replay, decision: records.Decision) -> bool:
        """Whether the decision can be compared, as far as its record shows; if not, it is skipped."""
        cause = "superseded" if self._superseded(decision) else run.incomparable(decision)
        if cause:
            run.skip(decision, cause)
        return not cause

    def _superseded(self, decision: records.Decision) -> bool:
        return decision.position.incarnation != self._incarnation

    def _within(self, decision: records.Decision) -> bool:
        return self._first <= decision.position.offset <= self._last

    def _records(self) -> Iterator[records.Decision]:
        """The records behind ``continue``, or those that can be of the range, oldest first."""
        given, question = services.current(), self._question
        behind = question.continue_
        if not behind:
            # A decision is recorded after the event of its position was appended, by the same clock.
            known = question.from_ and self._first > 1
            appended = given.histories.appended_ms(self._first) if known else None
            behind = "0-0" if appended is None else f"{max(0, appended - 1)}-0"
        while True:
            page = given.decisions.since(behind, limit=_PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            behind = page[-1].id


@contextlib.contextmanager
def skipping(run: replays.Replay, decision: records.Decision) -> Iterator[None]:
    """Count the decision as skipped if its input can no longer be reconstructed."""
    try:
        yield
    except store_errors.Trimmed:
        run.skip(decision, "trimmed")
    except store_errors.Shortened:
        run.skip(decision, "unrepeatable")
