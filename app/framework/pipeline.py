"""Runs the plugins over a cycle: transform -> filter -> score -> weigh -> Trace.

In a first pass, nominated pods of at least the pod's priority count as placed. A node must also pass
without them, because they may yet go elsewhere. This is kube-scheduler's own rule (PR-7..14).
"""

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from app.domain import model, node_sets, snapshots, verdicts
from app.domain.fitting import budgets
from app.framework import cycles, registry


def run_filter(
    plugins: registry.Registry, cycle: cycles.Cycle, *, without: Container[str] = ()
) -> verdicts.Trace:
    """Filter the candidates: the trace names those that the interested plugins refuse, and why.

    ``without``: names of plugins whose filters are left out.
    """
    cycle = _transformed(plugins, cycle)
    nominated = cycles.nominated(cycle)
    refusals = _refusals(plugins, cycles.assuming(cycle, nominated), without)
    if nominated:
        refusals = _merged(refusals, _refusals(plugins, cycle, without))
    return verdicts.Trace(
        position=cycle.snapshot.position,
        pod=cycle.pod,
        candidates=cycle.candidates,
        interested=plugins.interested(cycle.pod),
        refusals=refusals,
        assumed=tuple(pod.key for pod in nominated),
    )


def run_score(plugins: registry.Registry, cycle: cycles.Cycle) -> verdicts.Trace:
    """Score the candidates by the interested plugins, without filtering them."""
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
    """Filter the candidates, then score those that are kept: the trace that explain shows."""
    filtered = run_filter(plugins, cycle)
    scored = run_score(plugins, replace(cycle, candidates=filtered.kept))
    return replace(filtered, ratings=scored.ratings, totals=scored.totals)


def best(plugins: registry.Registry, cycle: cycles.Cycle, trace: verdicts.Trace) -> model.NodeName | None:
    """The kept node with the highest sum; ties are broken by rank, then by a stable hash of pod and node."""
    kept = trace.kept
    if not kept:
        return None
    top = max(trace.totals, default=0)
    scored = frozenset().union(*trace.totals.values()) if trace.totals else node_sets.NONE
    leaders = kept - scored if top <= 0 and kept - scored else trace.totals[top]
    ranks = [plugin.rank(cycle, leaders) for plugin in plugins.ranks if plugin.interested(cycle.pod)]
    return min(
        leaders, key=lambda node: (*(rank.get(node, 0) for rank in ranks), _stable(cycle.pod.uid, node))
    )


def adjust(
    plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]
) -> Sequence[model.Pod] | str:
    """All victims, with those that plugins add, or why the node must be dropped.

    Repeated until no plugin adds any: a pod may depend on one that another plugin added.
    """
    found = {victim.uid: victim for victim in victims}
    while True:
        before = len(found)
        for plugin in plugins.adjusts:
            added = plugin.adjust(cycle, node, tuple(found.values()))
            if isinstance(added, str):
                return added
            found.update((victim.uid, victim) for victim in added)
        if len(found) == before:
            return tuple(found.values())


def veto(
    plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]
) -> str | None:
    """Why the victims must not be evicted or the pod would not fit after that; None if it would fit.

    Every plugin may veto, even if the preemptor does not concern it: it may protect the victims.
    """
    for plugin in plugins.preempts:
        reason = plugin.veto(cycle, node, victims)
        if reason is not None:
            return reason
    alone = replace(cycles.without(cycle, victims), candidates=frozenset((node,)))
    refusals = run_filter(plugins, alone).refusals
    return refusals[0].reason if refusals else None


def budgets_of(
    plugins: registry.Registry, snapshot: snapshots.Snapshot
) -> tuple[budgets.DisruptionBudget, ...] | None:
    """The PodDisruptionBudgets of the cluster, by name; None if no plugin knows them."""
    known = [found for plugin in plugins.budgets if (found := plugin.budgets(snapshot)) is not None]
    if not known:
        return None
    return tuple(sorted(itertools.chain.from_iterable(known), key=lambda budget: budget.key))


def weigh(ratings: Sequence[verdicts.Rating]) -> Mapping[int, node_sets.Names]:
    """Weighted sum -> nodes, for sums other than 0, clamped to kube-scheduler's int64."""
    ratings = [rating for rating in ratings if rating.groups]
    if len(ratings) == 1:
        weight = ratings[0].weight
        single: dict[int, node_sets.Names] = {}
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


@dataclass(frozen=True, slots=True)
class _Others:
    """The plugins beside one (cycles.Peers)."""

    plugins: registry.Registry
    asking: str
    score_max: int

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        filters = {plugin.name for plugin in self.plugins.filters}
        return any(name != self.asking and name in filters for name in self.plugins.concerned(pod, snapshot))

    def refusals(
        self, pod: model.Pod, candidates: node_sets.Names, snapshot: snapshots.Snapshot
    ) -> tuple[verdicts.Refusal, ...]:
        asked = cycles.cycle(pod, candidates, snapshot, score_max=self.score_max)
        return run_filter(self.plugins, asked, without=(self.asking,)).refusals


def with_peers(plugins: registry.Registry, cycle: cycles.Cycle, asking: str) -> cycles.Cycle:
    """The cycle as one plugin gets it: with the others, if it consults them."""
    if asking not in plugins.consulting:
        return cycle
    return replace(cycle, peers=_Others(plugins, asking, cycle.score_max))


def _int64(total: int) -> int:
    return min(max(total, -(2**63)), 2**63 - 1)


def _transformed(plugins: registry.Registry, cycle: cycles.Cycle) -> cycles.Cycle:
    for plugin in plugins.transforms:
        if plugin.interested(cycle.pod):
            cycle = plugin.transform(cycle)
    return cycle


def _refusals(
    plugins: registry.Registry, cycle: cycles.Cycle, without: Container[str]
) -> tuple[verdicts.Refusal, ...]:
    found: list[verdicts.Refusal] = []
    for plugin in plugins.filters:
        if plugin.interested(cycle.pod) and plugin.name not in without:
            refusal = plugin.filter(with_peers(plugins, cycle, plugin.name))
            if refusal is not None and refusal.nodes:
                found.append(replace(refusal, plugin=plugin.name))
    return tuple(found)


def _merged(
    first: tuple[verdicts.Refusal, ...], second: tuple[verdicts.Refusal, ...]
) -> tuple[verdicts.Refusal, ...]:
    """The refusals of both passes; where both refuse, the reason of the first pass is kept."""
    merged = {refusal.plugin: refusal for refusal in second}
    for refusal in first:
        other = merged.get(refusal.plugin)
        extra = other.nodes - refusal.nodes if other is not None else node_sets.NONE
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
