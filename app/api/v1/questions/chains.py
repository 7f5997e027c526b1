"""The answer of a chained replay: placements, counts and waiting times in both histories."""

import heapq
from collections.abc import Iterator, Sequence
from statistics import median

from marshmallow import Schema, fields

from app.api.introspection import heavy, moments, pages, schemas, services, times
from app.api.v1.pictures import answers
from app.api.v1.questions import bodies, differences, ranges
from app.store import errors as store_errors
from app.store.decisions import records
from app.verbs.pictures import figures
from app.verbs.questions import question_schema
from app.verbs.questions.chains import chains

_AHEAD = 1_000
"""Records that are held to be sorted by their offset: a record is written after its decision."""
_READ = 1_000
_LIMITS = ("candidates are those that kube-scheduler offered at the time",)


class ChainedCount(Schema):
    """A count in both histories."""

    count = schemas.text("The count, OBJECT|KEY=VALUE.")
    was = schemas.number("At the end of the range, as recorded.")
    would = schemas.number("At its end in the situation.")
    peakWas = schemas.number("The largest value within the range, as recorded.")
    peakWould = schemas.number("The largest value in the situation.")
    desired = schemas.anything("The quota in the situation at the end; null without one.")


class Overrun(Schema):
    """A quota that would have been exceeded."""

    count = schemas.text("The count.")
    offset = schemas.number("The first offset at which it would have been at its largest.")
    value = schemas.number("The value then.")
    desired = schemas.number("The quota at the end of the range.")


class Waited(Schema):
    """How long the placed pods waited, from their creation to their placement, in seconds."""

    medianWas = schemas.anything("As recorded; null without placements.")
    medianWould = schemas.anything("In the situation.")
    p95Was = schemas.anything("95th percentile, as recorded.")
    p95Would = schemas.anything("95th percentile in the situation.")


class Chained(Schema):
    """What would have become of the cluster."""

    placements = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "Placed pods of the range: same, elsewhere, onlyThen, onlyNow."},
    )
    counts = schemas.nested(
        ChainedCount, "The counts that differ, or changed within the range; at most ``limit``.", many=True
    )
    moreCounts = schemas.number("Counts that are not shown.")
    overruns = schemas.nested(Overrun, "Quotas that would have been exceeded, and were not.", many=True)
    waiting = schemas.nested(Waited, "Waiting times.")


def answer(
    question: question_schema.Replay,
    digest: str,
    begin: int | None,
    shown: moments.Moment,
    budget: bodies.Budget,
    kept: Sequence[str],
) -> pages.Body:
    """The range, played once. Raises Mistake and StoreError.

    ``begin``: the offset of ``from``; ``kept``: sentences about what is no longer kept.
    """
    given = services.current()
    situation = question_schema.Situation(overrides=question.overrides, configuration=question.configuration)
    last = shown.position.offset
    first = min(bodies.oldest(), last) if begin is None else begin
    incarnation = shown.position.incarnation
    selected = ranges.Range(question, incarnation, first, last, budget)
    run = chains.Chain(
        lambda configured: bodies.hypothesis(situation, "", configured),
        given.configurations,
        given.histories.at(first, attended=heavy.attended()),
        choice=question.choice,
        scores=question.compare == "scores",
        limit=question.limit,
        first=question.first,
        counted=selected.selects,
    )
    complete = _play(run, selected, last, budget)
    return {
        **differences.counted(run),
        "from_": f"{incarnation}/{first}",
        "to": f"{incarnation}/{run.was.snapshot.offset}",
        "configuration": digest,
        "complete": complete,
        "continue_": None,
        "chain": _chained(run, question.limit),
        "limits": [*chains.LIMITS, *_LIMITS, *kept, *selected.limits()],
        "spentMs": budget.spent,
    }


def _play(run: chains.Chain, selected: ranges.Range, last: int, budget: bodies.Budget) -> bool:
    """Play the range up to its end; returns False if the budget was spent before."""
    given = services.current()
    for decision in _by_offset(selected.decisions()):
        with ranges.skipping(run, decision):
            if selected.comparable(run, decision):
                offset = decision.position.offset
                if not _advance(run, offset, budget):
                    return False
                snapshot = run.was.snapshot
                if snapshot.offset != offset:
                    snapshot = given.histories.at(offset, attended=heavy.attended())
                run.compare(decision, given.decisions.candidates(decision, snapshot), snapshot)
        if not budget.running():
            return False
    return selected.rest is None and _advance(run, last, budget)


def _advance(run: chains.Chain, offset: int, budget: bodies.Budget) -> bool:
    """Advance to an offset; returns False if the budget was spent before. Raises StoreError."""
    histories = services.current().histories
    while run.was.snapshot.offset < offset:
        if not budget.running():
            return False
        at = run.was.snapshot.offset + 1
        entries = histories.entries(at, offset, limit=_READ)
        if not entries or entries[0].offset != at:
            raise store_errors.Trimmed(histories.oldest())
        run.advance(entries, budget.running)
    return True


def _by_offset(decisions: Iterator[records.Decision]) -> Iterator[records.Decision]:
    """The decisions by the offset at which they were decided, as far as a bounded queue can sort them."""
    held: list[tuple[int, int, records.Decision]] = []
    for number, decision in enumerate(decisions):
        heapq.heappush(held, (decision.position.offset, number, decision))
        if len(held) > _AHEAD:
            yield heapq.heappop(held)[2]
    while held:
        yield heapq.heappop(held)[2]


def _chained(run: chains.Chain, limit: int) -> pages.Body:
    was, would = run.was.snapshot.counts, run.would.snapshot.counts
    desired = {
        f"{one.of}|{one.key}={one.value}": one.desired
        for one in figures.quotas(run.would.snapshot, answers.counts_of)
    }
    rows = []
    overruns = []
    for key in sorted(run.was.peaks.keys() | run.would.peaks.keys()):
        peak_was, peak_would = run.was.peaks.get(key), run.would.peaks.get(key)
        quota = desired.get(key)
        row = {
            "count": key,
            "was": was.get(key, 0),
            "would": would.get(key, 0),
            "peakWas": peak_was.value if peak_was is not None else 0,
            "peakWould": peak_would.value if peak_would is not None else 0,
            "desired": quota,
        }
        if key in run.was.changed or key in run.would.changed or row["was"] != row["would"]:
            rows.append(row)
        if quota is not None and peak_would is not None and peak_would.value > quota:
            before = peak_was.value if peak_was is not None else 0
            if peak_would.value > before:
                overruns.append(
                    {"count": key, "offset": peak_would.offset, "value": peak_would.value, "desired": quota}
                )
    rows.sort(key=lambda row: (row["was"] == row["would"], row["count"]))
    return {
        "placements": run.placements.numbers(),
        "counts": rows[:limit],
        "moreCounts": max(0, len(rows) - limit),
        "overruns": overruns[:limit],
        "waiting": _waiting(run),
    }


def _waiting(run: chains.Chain) -> pages.Body:
    placed = run.placements
    was = _waits(run, placed.was_at)
    would = _waits(run, placed.would_at)
    return {
        "medianWas": _rounded(median(was)) if was else None,
        "medianWould": _rounded(median(would)) if would else None,
        "p95Was": _rounded(_p95(was)) if was else None,
        "p95Would": _rounded(_p95(would)) if would else None,
    }


def _waits(run: chains.Chain, at: dict[str, int]) -> list[float]:
    """Seconds from the creation of each pod to its placement, by length, where its creation is known."""
    found = []
    for uid, placed_ms in at.items():
        try:
            created_ms = times.milliseconds(run.created.get(uid, ""))
        except ValueError:
            continue
        found.append(max(0.0, (placed_ms - created_ms) / 1000))
    return sorted(found)


def _p95(values: list[float]) -> float:
    return values[min(len(values) - 1, int(0.95 * len(values)))]


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
