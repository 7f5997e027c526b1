"""transform -> filter -> score -> weigh -> Trace.

Nominated pods of at least the pod's priority count as placed in a first pass; what passes must
also pass without them, because they may yet go elsewhere (kube-scheduler's own rule, PR-7..14).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from app.domain import counting, events, model, verdicts
from app.framework import capabilities, cycles, registry


def run_filter(plugins: registry.Registry, cycle: cycles.Cycle) -> verdicts.Trace:
    """Which candidates the interested plugins refuse, and why."""
    cycle = _transformed(plugins, cycle)
    nominated = cycles.nominated(cycle)
    refusals = _refusals(plugins, cycles.assuming(cycle, nominated))
    if nominated:
        refusals = _merged(refusals, _refusals(plugins, cycle))
    return verdicts.Trace(
        position=cycle.snapshot.position,
        pod=cycle.pod,
        candidates=cycle.candidates,
        interested=plugins.interested(cycle.pod),
        refusals=refusals,
        assumed=tuple(pod.key for pod in nominated),
    )


def run_score(plugins: registry.Registry, cycle: cycles.Cycle) -> verdicts.Trace:
    """How the interested plugins score the candidates, without filtering them."""
    cycle = _transformed(plugins, cycle)
    ratings = tuple(
        replace(plugin.score(cycle), plugin=plugin.name, weight=plugins.weights.get(plugin.name, 1))
        for plugin in plugins.scores
        if plugin.interested(cycle.pod)
    )
    return verdicts.Trace(
        position=cycle.snapshot.position,
        pod=cycle.pod,
        candidates=cycle.candidates,
        interested=plugins.interested(cycle.pod),
        ratings=ratings,
        totals=weigh(ratings),
    )


def run(plugins: registry.Registry, cycle: cycles.Cycle) -> verdicts.Trace:
    """Filter, then score what is kept: the whole diagnosis that explain shows."""
    filtered = run_filter(plugins, cycle)
    scored = run_score(plugins, replace(cycle, candidates=filtered.kept))
    return replace(filtered, ratings=scored.ratings, totals=scored.totals)


def best(plugins: registry.Registry, cycle: cycles.Cycle, trace: verdicts.Trace) -> model.NodeName | None:
    """The one kept node with the highest sum; ties by rank, then by a stable hash of pod and node."""
    kept = trace.kept
    if not kept:
        return None
    top = max(trace.totals, default=0)
    scored = frozenset().union(*trace.totals.values()) if trace.totals else verdicts.NONE
    leaders = kept - scored if top <= 0 and kept - scored else trace.totals[top]
    ranks = [plugin.rank(cycle, leaders) for plugin in plugins.ranks if plugin.interested(cycle.pod)]
    return min(
        leaders, key=lambda node: (*(rank.get(node, 0) for rank in ranks), _stable(cycle.pod.uid, node))
    )


def claim(plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName) -> capabilities.Claim:
    """Everything that must still hold when the pod is placed on the node."""
    subjects = {*counting.footprint(cycle.pod, node), events.RUN}
    ceilings: dict[str, int] = {}
    for plugin in plugins.reserves:
        if plugin.interested(cycle.pod):
            one = plugin.reserve(cycle, node)
            subjects.update(one.subjects)
            for key, ceiling in one.ceilings.items():
                ceilings[key] = min(ceiling, ceilings.get(key, ceiling))
    return capabilities.Claim(subjects=tuple(sorted(subjects)), ceilings=ceilings)


def veto(
    plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]
) -> str | None:
    """Why evicting the victims would be wrong or for nothing, or None.

    Every plugin may veto, also one that has no interest in the preemptor: victims have rights too.
    """
    for plugin in plugins.preempts:
        reason = plugin.veto(cycle, node, victims)
        if reason is not None:
            return reason
    alone = replace(cycles.without(cycle, victims), candidates=frozenset((node,)))
    refusals = run_filter(plugins, alone).refusals
    return refusals[0].reason if refusals else None


def weigh(ratings: Sequence[verdicts.Rating]) -> Mapping[int, verdicts.Names]:
    """Weighted sum -> nodes, for sums that are not 0, within what the scheduler can read (int64)."""
    ratings = [rating for rating in ratings if rating.groups]
    if len(ratings) == 1:
        weight = ratings[0].weight
        single: dict[int, verdicts.Names] = {}
        for score, nodes in ratings[0].groups.items():
            if score and nodes:
                total = _int64(score * weight)
                single[total] = single[total] | nodes if total in single else nodes
        return single
    sums: dict[model.NodeName, int] = {}
    for rating in ratings:
        for score, nodes in rating.groups.items():
            for node in nodes:
                sums[node] = sums.get(node, 0) + score * rating.weight
    groups: dict[int, set[model.NodeName]] = {}
    for node, total in sums.items():
        if total:
            groups.setdefault(_int64(total), set()).add(node)
    return {total: frozenset(nodes) for total, nodes in groups.items()}


def _int64(total: int) -> int:
    return min(max(total, -(2**63)), 2**63 - 1)


def _transformed(plugins: registry.Registry, cycle: cycles.Cycle) -> cycles.Cycle:
    for plugin in plugins.transforms:
        if plugin.interested(cycle.pod):
            cycle = plugin.transform(cycle)
    return cycle


def _refusals(plugins: registry.Registry, cycle: cycles.Cycle) -> tuple[verdicts.Refusal, ...]:
    found: list[verdicts.Refusal] = []
    for plugin in plugins.filters:
        if plugin.interested(cycle.pod):
            refusal = plugin.filter(cycle)
            if refusal is not None and refusal.nodes:
                found.append(replace(refusal, plugin=plugin.name))
    return tuple(found)


def _merged(
    first: tuple[verdicts.Refusal, ...], second: tuple[verdicts.Refusal, ...]
) -> tuple[verdicts.Refusal, ...]:
    """Refused in either pass is refused; the sentence of the first pass is kept."""
    merged = {refusal.plugin: refusal for refusal in second}
    for refusal in first:
        other = merged.get(refusal.plugin)
        extra = other.nodes - refusal.nodes if other is not None else verdicts.NONE
        merged[refusal.plugin] = (
            replace(
                refusal,
                nodes=refusal.nodes | extra,
                details={**(other.details if other else {}), **refusal.details},
            )
            if extra
            else refusal
        )
    order = [refusal.plugin for refusal in (*first, *second)]
    return tuple(merged[name] for name in dict.fromkeys(order))


def _stable(uid: model.Uid, node: model.NodeName) -> bytes:
    return blake2b(f"{uid}\0{node}".encode(), digest_size=8).digest()
