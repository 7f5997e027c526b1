"""Finds the smallest change that would let a refused pod fit.

The plugins that refused propose changes (capabilities.Advises). Each change is evaluated on a hypothetical
snapshot by the same code that refused the pod, and only changes after which some candidate is kept are shown:
advice that does not help is never given.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from app import plurals
from app.domain import projections, verdicts
from app.framework import cluster_changes, cycles, pipeline, registry

MAX_SHOWN = 5
"""Changes shown at most."""
_EVALUATED = 64
"""Hypotheses evaluated at most: a diagnosis must stay cheap."""
_PAIRED = 10
"""The cheapest hypotheses, whose pairs are evaluated if no single one helps."""
LEFT_OUT = f"there may be a smaller change: of those proposed, only the first {_EVALUATED} were evaluated"
"""The last line if hypotheses were left out that cost less than those shown, or if none is shown."""


def smallest(
    plugins: registry.Registry, cycle: cycles.Cycle, refusals: Sequence[verdicts.Refusal]
) -> tuple[str, ...]:
    """The cheapest changes that would let the refused pod fit; the refusals themselves if none is known."""
    if not cycle.candidates:
        return (
            "no node was offered: kube-scheduler's own filters refused every node before Topolog was asked",
        )
    # A plain set: results over an interned one would be memoised, and no hypothesis is evaluated twice.
    cycle = replace(cycle, candidates=frozenset(cycle.candidates))
    counted = cycles.assuming(cycle, cycles.nominated(cycle))
    found_all = proposed(plugins, counted, refusals)
    ordered = heapq.nsmallest(_EVALUATED + 1, found_all, key=_order)
    single = ordered[:_EVALUATED]
    found = _cheapest(plugins, cycle, single)
    if not found:
        pairs = [_both(*pair) for pair in combinations(single[:_PAIRED], 2)]
        found = _cheapest(plugins, cycle, sorted(pairs, key=_order))
    sentences = [hypothesis.sentence for hypothesis in found] or [
        f"{refusal.plugin} would have to accept one of the {plurals.counted(len(refusal.nodes), 'node')}"
        f" that it refuses: {refusal.reason}"
        for refusal in refusals
    ]
    left = ordered[_EVALUATED:]
    if left and not (found and found[0].cost <= left[0].cost):
        sentences.append(LEFT_OUT)
    return tuple(sentences)


def proposed(
    plugins: registry.Registry, cycle: cycles.Cycle, refusals: Sequence[verdicts.Refusal]
) -> Iterator[cluster_changes.Hypothesis]:
    """What the plugins that refused propose; nominated pods count as placed in the cycle.

    One stays ``indirect`` only if it cannot help alone: its plugin, to which no transformer shows another
    pod, is the only one that refuses, so that it refuses all nodes.
    """
    only = len(refusals) == 1 and not (plugins.transforms or plugins.transforms_nodes)
    for refusal in refusals:
        plugin = plugins.advises.get(refusal.plugin)
        if plugin is None:
            continue
        for one in plugin.hypotheses(pipeline.with_peers(plugins, cycle, refusal.plugin), refusal):
            yield replace(one, indirect=False) if one.indirect and not only else one


def _cheapest(
    plugins: registry.Registry, cycle: cycles.Cycle, ordered: Sequence[cluster_changes.Hypothesis]
) -> list[cluster_changes.Hypothesis]:
    """The hypotheses of the lowest cost that help."""
    found: list[cluster_changes.Hypothesis] = []
    for hypothesis in ordered:
        if len(found) >= MAX_SHOWN or (found and hypothesis.cost > found[0].cost):
            break
        if not hypothesis.indirect and _helps(plugins, cycle, hypothesis):
            found.append(hypothesis)
    return found


def _both(one: cluster_changes.Hypothesis, other: cluster_changes.Hypothesis) -> cluster_changes.Hypothesis:
    return cluster_changes.Hypothesis(
        f"{one.sentence}; and {other.sentence}",
        one.cost + other.cost,
        (*one.changes, *other.changes),
        one.pod or other.pod,
        indirect=one.indirect and other.indirect,
    )


def _helps(plugins: registry.Registry, cycle: cycles.Cycle, hypothesis: cluster_changes.Hypothesis) -> bool:
    changed = replace(
        cycle,
        snapshot=projections.project_all(cycle.snapshot, [make() for make in hypothesis.changes]),
        pod=hypothesis.pod or cycle.pod,
    )
    return bool(pipeline.run_filter(plugins, changed).kept)


def _order(hypothesis: cluster_changes.Hypothesis) -> tuple[int, str]:
    return hypothesis.cost, hypothesis.sentence
