"""Renders an explanation as rows, Markdown, CSV or JSON values. Pure."""

import csv
import heapq
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.domain import model, node_sets, verdicts
from app.store.decisions import records
from app.verbs.explain import explanations

PIPE = "\\|"
"""A pipe inside a markdown cell."""
EXAMPLES = 5
"""Node names shown of a group; the others are counted."""
_FEW = 200
"""Names of which sorting all is faster than a heap of the first."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The score of one plugin for one node."""

    plugin: str
    raw: int
    weighted: int


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate."""

    node: model.NodeName
    kept: bool
    plugin: str
    """The first plugin that refused it; empty if it was kept."""
    reason: str
    cells: tuple[Cell, ...]
    total: int
    rank: int
    """Its place among all candidates, from 1."""


def rows(trace: verdicts.Trace, limit: int, also: Collection[model.NodeName] = ()) -> list[Row]:
    """The first candidates: kept ones first, higher sums first, then by name; then those of ``also``.

    Taken from the trace's groups, best first: the other candidates are not rendered.
    """
    found: list[tuple[model.NodeName, int, int]] = []
    before, missing = 0, frozenset(also) & trace.candidates
    for nodes in (trace.kept, trace.refused & trace.candidates):
        for total in sorted({0, *trace.totals}, reverse=True):
            if before >= limit and not missing:
                break
            group = _among(nodes, trace, total)
            first = heapq.nsmallest(max(0, limit - before), group)
            found += [(node, total, before + at) for at, node in enumerate(first, 1)]
            missing -= frozenset(first)
            for node in sorted(missing & group):
                found.append((node, total, before + sum(one <= node for one in group)))
            missing -= group
            before += len(group)
    shown = frozenset(node for node, *_ in found)
    scores = [
        {node: score for score, nodes in rating.groups.items() for node in nodes & shown}
        for rating in trace.ratings
    ]
    return [_row(trace, node, total, rank, scores) for node, total, rank in found]


def _among(nodes: node_sets.Names, trace: verdicts.Trace, total: int) -> node_sets.Names:
    """Those of the nodes with this weighted sum."""
    if total:
        return nodes & trace.totals[total]
    return nodes.difference(*(scored for one, scored in trace.totals.items() if one))


def _row(
    trace: verdicts.Trace,
    node: model.NodeName,
    total: int,
    rank: int,
    scores: Sequence[Mapping[model.NodeName, int]],
) -> Row:
    refusal = next((refusal for refusal in trace.refusals if node in refusal.nodes), None)
    given = zip(trace.ratings, (score.get(node, 0) for score in scores), strict=True)
    cells = tuple(Cell(rating.plugin, raw, raw * rating.weight) for rating, raw in given)
    if refusal is None:
        return Row(node, kept=True, plugin="", reason="", cells=cells, total=total, rank=rank)
    return Row(
        node, kept=False, plugin=refusal.plugin, reason=refusal.reason, cells=(), total=total, rank=rank
    )


def spelled(nodes: Collection[model.NodeName], limit: int = EXAMPLES) -> str:
    """The first names in order, and the number of the others."""
    first = first_of(nodes, limit)
    more = len(nodes) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def first_of(nodes: Collection[model.NodeName], limit: int = EXAMPLES) -> list[model.NodeName]:
    """The first names in order."""
    return sorted(nodes)[:limit] if len(nodes) <= _FEW else heapq.nsmallest(limit, nodes)


def markdown(explanation: explanations.Explanation, *, limit: int = 100) -> str:
    """The score table and the reasons as Markdown, for a terminal or an issue."""
    return "\n".join(
        [
            *_head(explanation),
            *_refused(explanation.trace.refusals, limit),
            *_scores(explanation, limit),
            *_rest(explanation, limit),
        ]
    )


def structure(
    explanation: explanations.Explanation, *, limit: int = 100, chosen: model.NodeName = ""
) -> dict[str, object]:
    """The whole explanation as JSON values; rows and names are limited, their counts are complete.

    ``chosen``: a node that is shown even if its score is not among the first.
    """
    trace, decision = explanation.trace, explanation.decision
    kept = len(trace.kept)
    scored = rows(trace, limit, {chosen, *_named(explanation)})
    return {
        "pod": {"namespace": trace.pod.namespace, "name": trace.pod.name, "uid": trace.pod.uid},
        "source": "computed" if decision is None else "decision",
        "decision": None if decision is None else _decision(decision),
        "position": str(trace.position),
        "summary": explanation.summary,
        "fits": kept > 0,
        "difference": explanation.difference or None,
        "plugins": list(explanation.concerned),
        "transformed": [
            {"plugin": one.plugin, "phase": one.phase, "changed": list(one.changed)}
            for one in trace.transformed
        ],
        "candidates": len(trace.candidates),
        "kept": kept,
        "chosen": explanation.chosen or None,
        "place": explanation.place or None,
        "refusals": [_refusal(refusal, limit) for refusal in trace.refusals],
        "weights": {rating.plugin: rating.weight for rating in trace.ratings},
        "notes": [
            {"plugin": rating.plugin, **_group(detail, nodes)}
            for rating in trace.ratings
            for detail, nodes in _first(rating.details, limit)
        ],
        "moreNotes": sum(max(0, len(rating.details) - limit) for rating in trace.ratings),
        "scores": [_scored(row) for row in scored],
        "more": len(trace.candidates) - len(scored),
        "change": list(explanation.changes),
        "inFlight": [
            {"pod": one.pod, "node": one.node, "at": one.at, "counts": list(one.counts)}
            for one in explanation.placements[:limit]
        ],
        "moreInFlight": max(0, explanation.in_flight - limit),
        "nominated": list(trace.assumed),
        "remarks": [{"plugin": one.plugin, "text": one.text} for one in explanation.remarks],
    }


def scores(trace: verdicts.Trace, top: int) -> str:
    """The best ``top`` nodes in the form of Koordinator's debug flag ``s``, with raw and weighted scores."""
    kept = len(trace.kept)
    names = [rating.plugin for rating in trace.ratings]
    head = f"Top{top} scores for Pod: {trace.pod.key}, feasibleNodes: {kept}, plugins:[{' '.join(names)}]"
    table = _table(
        ("#", "Pod", "Node", "Score", *_columns(trace)),
        (3, *range(4, 4 + len(names))),
        (
            (str(at), trace.pod.key, row.node, str(row.total), *(_cell(cell) for cell in row.cells))
            for at, row in enumerate(rows(trace, min(top, kept)))
        ),
    )
    changed = [f"transformed by: {transformed(trace)}"] if trace.transformed else []
    return "\n".join([head, *changed, *table])


def transformed(trace: verdicts.Trace) -> str:
    """The transformers in the order of their calls, and what each changed."""
    return "; ".join(map(str, trace.transformed))


def spreadsheet(explanation: explanations.Explanation, *, limit: int = 1000) -> str:
    """One line for each candidate (RFC 4180)."""
    out = io.StringIO()
    writer = csv.writer(out)
    names = [rating.plugin for rating in explanation.trace.ratings]
    columns = [f"{name} {kind}" for name in names for kind in ("raw", "weighted")]
    writer.writerow(["node", "kept", "plugin", "reason", *columns, "total"])
    for row in rows(explanation.trace, limit, _named(explanation)):
        given: list[object] = [value for cell in row.cells for value in (cell.raw, cell.weighted)]
        given += [""] * (len(columns) - len(given))
        kept = "true" if row.kept else "false"
        writer.writerow([row.node, kept, row.plugin, row.reason, *given, row.total if row.kept else ""])
    return out.getvalue()


def _named(explanation: explanations.Explanation) -> set[model.NodeName]:
    """The nodes that the explanation names, of which the reader looks for the scores."""
    return {explanation.chosen, explanation.place}


def _decision(decision: records.Decision) -> dict[str, object]:
    return {
        "id": decision.id,
        "verb": decision.verb,
        "at": decision.at,
        "outcome": decision.outcome,
        "error": decision.error,
        "milliseconds": decision.milliseconds,
        "configuration": decision.configuration,
    }


def _first(details: Mapping[str, node_sets.Names], limit: int) -> list[tuple[str, node_sets.Names]]:
    """The first details in order: there may be as many as nodes, where each node is a domain."""
    return [(detail, details[detail]) for detail in heapq.nsmallest(limit, details)]


def _refusal(refusal: verdicts.Refusal, limit: int) -> dict[str, object]:
    return {
        "plugin": refusal.plugin,
        "reason": refusal.reason,
        "nodes": len(refusal.nodes),
        "examples": first_of(refusal.nodes),
        "details": [_group(detail, nodes) for detail, nodes in _first(refusal.details, limit)],
        "moreDetails": max(0, len(refusal.details) - limit),
    }


def _group(detail: str, nodes: node_sets.Names) -> dict[str, object]:
    return {"detail": detail, "nodes": len(nodes), "examples": first_of(nodes)}


def _scored(row: Row) -> dict[str, object]:
    return {
        "node": row.node,
        "kept": row.kept,
        "plugin": row.plugin,
        "scores": {cell.plugin: {"raw": cell.raw, "weighted": cell.weighted} for cell in row.cells},
        "total": row.total,
    }


def _head(explanation: explanations.Explanation) -> Iterator[str]:
    trace, decision = explanation.trace, explanation.decision
    fit = explanation.nowhere or f"{len(trace.kept)} of {len(trace.candidates)} nodes fit"
    yield f"# {trace.pod.key}: {fit}"
    yield ""
    if decision is None:
        yield f"No decision is recorded: computed now over all nodes, at position {trace.position}."
    else:
        node = f", node {explanation.chosen}" if explanation.chosen else ""
        yield (
            f"Decision {decision.id}: {decision.verb} of {decision.at}, {decision.outcome}{node},"
            f" at position {decision.position}, {decision.milliseconds:.1f} ms."
        )
    if explanation.difference:
        yield f"**Differs from the recorded answer:** {explanation.difference}."
    yield f"Plugins concerned: {', '.join(explanation.concerned) or 'none'}."
    if trace.transformed:
        yield f"Transformed by: {transformed(trace)}."
    if explanation.place:
        yield f"The pod is on {explanation.place}."
    yield ""


def _refused(refusals: Sequence[verdicts.Refusal], limit: int) -> Iterator[str]:
    if not refusals:
        return
    yield "## Refused"
    yield ""
    lines = []
    for refusal in refusals:
        lines.append((str(len(refusal.nodes)), refusal.plugin, refusal.reason, spelled(refusal.nodes)))
        lines += [
            (str(len(nodes)), "", f"· {detail}", spelled(nodes))
            for detail, nodes in _first(refusal.details, limit)
        ]
        more = len(refusal.details) - limit
        if more > 0:
            lines.append((str(more), "", "· more details", "not shown"))
    yield from _table(("Nodes", "Plugin", "Reason", "Which"), (0,), lines)
    yield ""


def _scores(explanation: explanations.Explanation, limit: int) -> Iterator[str]:
    trace = explanation.trace
    if not trace.kept:
        return
    shown = rows(trace, limit, _named(explanation))
    yield "## Scores"
    yield ""
    blank = [""] * len(trace.ratings)
    width = len(trace.ratings)
    yield from _table(
        ("#", "Node", "Kept", *_columns(trace), "Total"),
        (0, *range(3, 4 + width)),
        (
            (
                str(row.rank),
                row.node,
                "yes" if row.kept else f"no: {row.plugin}",
                *(map(_cell, row.cells) if row.cells else blank),
                str(row.total) if row.kept else "",
            )
            for row in shown
        ),
    )
    more = len(trace.candidates) - len(shown)
    if more:
        yield f"\n{more} more nodes are not shown."
    yield ""
    notes = [
        f"- {rating.plugin}: {detail} ({spelled(nodes)})"
        for rating in trace.ratings
        for detail, nodes in _first(rating.details, limit)
    ]
    if notes:
        yield from ("The scores come from:", "", *notes, "")


def _rest(explanation: explanations.Explanation, limit: int) -> Iterator[str]:
    if explanation.changes:
        yield "## What would let it fit"
        yield ""
        yield from (f"- {change}" for change in explanation.changes)
        yield ""
    if explanation.remarks:
        yield "## Remarks"
        yield ""
        yield from (f"- {one.plugin}: {one.text}" for one in explanation.remarks)
        yield ""
    if explanation.placements or explanation.trace.assumed:
        yield "## In flight in the namespace, counted like bound pods"
        yield ""
        for placement in explanation.placements[:limit]:
            counts = f" ({', '.join(placement.counts)})" if placement.counts else ""
            since = f" since {placement.at}" if placement.at else ""
            yield f"- {placement.pod} on {placement.node}, in flight{since}{counts}"
        if explanation.in_flight > limit:
            yield f"- {explanation.in_flight - limit} more, which are not shown"
        yield from (f"- {pod}, nominated" for pod in explanation.trace.assumed)
        yield ""


def _columns(trace: verdicts.Trace) -> list[str]:
    return [f"{rating.plugin} x{rating.weight}" for rating in trace.ratings]


def _cell(cell: Cell) -> str:
    return str(cell.raw) if cell.raw == cell.weighted else f"{cell.raw} -> {cell.weighted}"


def _table(header: Sequence[str], right: Sequence[int], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _line(header)
    yield _line(["---:" if at in right else "---" for at in range(len(header))])
    yield from (_line(line) for line in lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', PIPE) for cell in cells)} |"
