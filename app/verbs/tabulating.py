"""Renderings of an explanation: rows, markdown for people, csv for spreadsheets. Pure."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.domain import model, verdicts
from app.store import records
from app.verbs import explaining

PIPE = "\\|"
"""A pipe inside a markdown cell."""
EXAMPLES = 5
"""Node names spelled out in a group; the rest is a number."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one plugin gave one node."""

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


def rows(trace: verdicts.Trace) -> list[Row]:
    """All candidates: kept ones first, higher sums first, then by name."""
    scores = [
        {node: score for score, nodes in rating.groups.items() for node in nodes} for rating in trace.ratings
    ]
    refused: dict[model.NodeName, verdicts.Refusal] = {}
    for refusal in reversed(trace.refusals):
        refused.update(dict.fromkeys(refusal.nodes, refusal))
    totals = {node: total for total, nodes in trace.totals.items() for node in nodes}
    found = [
        Row(
            node=node,
            kept=node not in refused,
            plugin=refused[node].plugin if node in refused else "",
            reason=refused[node].reason if node in refused else "",
            cells=tuple(
                Cell(rating.plugin, raw := given.get(node, 0), raw * rating.weight)
                for rating, given in zip(trace.ratings, scores, strict=True)
            )
            if node not in refused
            else (),
            total=totals.get(node, 0),
        )
        for node in trace.candidates
    ]
    return sorted(found, key=lambda row: (not row.kept, -row.total, row.node))


def summary(explanation: explaining.Explanation) -> str:
    """One sentence: how many nodes are left, and what refused the others."""
    trace = explanation.trace
    text = f"{len(trace.kept)} of {len(trace.candidates)} nodes fit"
    parts = [f"{len(refusal.nodes)} {refusal.reason}" for refusal in trace.refusals]
    return f"{text}: {'; '.join(parts)}" if parts else text


def spelled(nodes: Iterable[model.NodeName], most: int = EXAMPLES) -> str:
    """The first names in order, and how many more there are."""
    names = sorted(nodes)
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def markdown(explanation: explaining.Explanation, *, limit: int = 100) -> str:
    """The score table and the reasons, to be read or pasted into an issue."""
    return "\n".join(
        [
            *_head(explanation),
            *_refused(explanation.trace.refusals),
            *_scores(explanation.trace, limit),
            *_rest(explanation),
        ]
    )


def structure(explanation: explaining.Explanation, *, limit: int = 100) -> dict[str, object]:
    """The whole explanation as JSON values; rows and names are bounded, their numbers are not."""
    trace, decision = explanation.trace, explanation.decision
    listed = rows(trace)
    return {
        "pod": {"namespace": trace.pod.namespace, "name": trace.pod.name, "uid": trace.pod.uid},
        "source": "computed" if decision is None else "decision",
        "decision": None if decision is None else _decision(decision),
        "position": str(trace.position),
        "summary": summary(explanation),
        "fits": explanation.fits,
        "difference": explanation.difference or None,
        "plugins": list(trace.interested),
        "candidates": len(trace.candidates),
        "kept": len(trace.kept),
        "chosen": explanation.chosen or None,
        "place": explanation.place or None,
        "refusals": [_refusal(refusal) for refusal in trace.refusals],
        "weights": {rating.plugin: rating.weight for rating in trace.ratings},
        "notes": [
            {"plugin": rating.plugin, **_group(detail, nodes)}
            for rating in trace.ratings
            for detail, nodes in sorted(rating.details.items())
        ],
        "scores": [_scored(row) for row in listed[:limit]],
        "more": max(0, len(listed) - limit),
        "change": list(explanation.changes),
        "inFlight": [
            {"pod": one.pod, "node": one.node, "at": one.at, "counts": list(one.counts)}
            for one in explanation.promises
        ],
        "nominated": list(trace.assumed),
    }


def scores(trace: verdicts.Trace, top: int) -> str:
    """The best ``top`` nodes as Koordinator's debug flag ``s`` prints them, with raw and weighted scores."""
    listed = [row for row in rows(trace) if row.kept]
    names = [rating.plugin for rating in trace.ratings]
    head = (
        f"Top{top} scores for Pod: {trace.pod.key}, feasibleNodes: {len(listed)}, plugins:[{' '.join(names)}]"
    )
    table = _table(
        ("#", "Pod", "Node", "Score", *_columns(trace)),
        (3, *range(4, 4 + len(names))),
        (
            (str(at), trace.pod.key, row.node, str(row.total), *(_cell(cell) for cell in row.cells))
            for at, row in enumerate(listed[:top])
        ),
    )
    return "\n".join([head, *table])


def spreadsheet(explanation: explaining.Explanation, *, limit: int = 1000) -> str:
    """One line for each candidate (RFC 4180)."""
    out = io.StringIO()
    writer = csv.writer(out)
    names = [rating.plugin for rating in explanation.trace.ratings]
    columns = [f"{name} {kind}" for name in names for kind in ("raw", "weighted")]
    writer.writerow(["node", "kept", "plugin", "reason", *columns, "total"])
    for row in rows(explanation.trace)[:limit]:
        given: list[object] = [value for cell in row.cells for value in (cell.raw, cell.weighted)]
        given += [""] * (len(columns) - len(given))
        kept = "true" if row.kept else "false"
        writer.writerow([row.node, kept, row.plugin, row.reason, *given, row.total if row.kept else ""])
    return out.getvalue()


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


def _refusal(refusal: verdicts.Refusal) -> dict[str, object]:
    return {
        "plugin": refusal.plugin,
        "reason": refusal.reason,
        "nodes": len(refusal.nodes),
        "examples": sorted(refusal.nodes)[:EXAMPLES],
        "details": [_group(detail, nodes) for detail, nodes in sorted(refusal.details.items())],
    }


def _group(detail: str, nodes: verdicts.Names) -> dict[str, object]:
    return {"detail": detail, "nodes": len(nodes), "examples": sorted(nodes)[:EXAMPLES]}


def _scored(row: Row) -> dict[str, object]:
    return {
        "node": row.node,
        "kept": row.kept,
        "plugin": row.plugin,
        "scores": {cell.plugin: {"raw": cell.raw, "weighted": cell.weighted} for cell in row.cells},
        "total": row.total,
    }


def _head(explanation: explaining.Explanation) -> Iterator[str]:
    trace, decision = explanation.trace, explanation.decision
    yield f"# {trace.pod.key}: {len(trace.kept)} of {len(trace.candidates)} nodes fit"
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
        yield f"**Not what was answered:** {explanation.difference}."
    yield f"Plugins concerned: {', '.join(trace.interested) or 'none'}."
    if explanation.place:
        yield f"The pod is on {explanation.place}."
    yield ""


def _refused(refusals: Sequence[verdicts.Refusal]) -> Iterator[str]:
    if not refusals:
        return
    yield "## Refused"
    yield ""
    lines = []
    for refusal in refusals:
        lines.append((str(len(refusal.nodes)), refusal.plugin, refusal.reason, spelled(refusal.nodes)))
        lines += [
            (str(len(nodes)), "", f"· {detail}", spelled(nodes))
            for detail, nodes in sorted(refusal.details.items())
        ]
    yield from _table(("Nodes", "Plugin", "Reason", "Which"), (0,), lines)
    yield ""


def _scores(trace: verdicts.Trace, limit: int) -> Iterator[str]:
    if not trace.kept:
        return
    listed = rows(trace)
    yield "## Scores"
    yield ""
    blank = [""] * len(trace.ratings)
    width = len(trace.ratings)
    yield from _table(
        ("#", "Node", "Kept", *_columns(trace), "Total"),
        (0, *range(3, 4 + width)),
        (
            (
                str(at),
                row.node,
                "yes" if row.kept else f"no: {row.plugin}",
                *(map(_cell, row.cells) if row.cells else blank),
                str(row.total) if row.kept else "",
            )
            for at, row in enumerate(listed[:limit], 1)
        ),
    )
    if len(listed) > limit:
        yield f"\n{len(listed) - limit} more nodes are not shown."
    yield ""
    notes = [
        f"- {rating.plugin}: {detail} ({spelled(nodes)})"
        for rating in trace.ratings
        for detail, nodes in sorted(rating.details.items())
    ]
    if notes:
        yield from ("The scores come from:", "", *notes, "")


def _rest(explanation: explaining.Explanation) -> Iterator[str]:
    if explanation.changes:
        yield "## What would let it fit"
        yield ""
        yield from (f"- {change}" for change in explanation.changes)
        yield ""
    if explanation.promises or explanation.trace.assumed:
        yield "## In flight in the namespace, and counted like bound pods"
        yield ""
        for promise in explanation.promises:
            counts = f" ({', '.join(promise.counts)})" if promise.counts else ""
            since = f" since {promise.at}" if promise.at else ""
            yield f"- {promise.pod} on {promise.node}, in flight{since}{counts}"
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
