"""Runs the plugins over a cycle: transform -> filter -> score -> weigh -> Trace.

In a first pass, nominated pods of at least the pod's priority count as placed. A node must also pass
without them, because they may yet go elsewhere. This is kube-scheduler's own rule (PR-7..14). A plugin that
decides about several pods at once is asked in the second pass only: it could answer each with another plan.
The nominations of these pods do not count for one another, because its plan has the node of each.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import compress, repeat
from operator import and_, eq, mul, xor
from typing import Final
from zlib import crc32

from app.domain import model, node_sets, snapshots, verdicts
from app.framework import capabilities, cycles, registry, transformer_chain

_WORD: Final = 2**64 - 1


def run_filter(
    plugins: registry.Registry, cycle: cycles.Cycle, *, without: Collection[str] = ()
) -> verdicts.Trace:
    """Filter the candidates: the trace names those that the interested plugins refuse, and why.

    Raises HookFailed. ``without``: names of plugins whose filters are left out.
    """
    planned, counted = cycle.placement, cycle.snapshot.schema
    if planned is not None and planned.planned and plugins.outdated(counted, cycle.pod, planned):
        cycle = replace(cycle, reserved="")
    before = transformer_chain.before_filter(plugins, cycle)
    gone = bool(before.refusals) and not before.cycle.candidates
    holding = nominated(plugins, before.cycle, without) if not gone else ()
    found = _pass(plugins, before.cycle, without) if not gone else _Pass()
    if holding:
        once = frozenset((*without, *plugins.consulting))
        assumed = _pass(plugins, cycles.assuming(before.cycle, holding), once)
        found = _Pass(_merged(assumed.refusals, found.refusals), assumed.changes)
    return verdicts.Trace(
        position=cycle.snapshot.position,
        pod=cycle.pod,
        candidates=cycle.candidates,
        interested=_interested(plugins, cycle, before.cycle),
        refusals=_beside_its_own(cycle, (*before.refusals, *found.refusals)),
        assumed=tuple(sorted(pod.key for pod in holding)),
        transformed=(*before.changes, *found.changes),
    )


def _beside_its_own(
    cycle: cycles.Cycle, refusals: tuple[verdicts.Refusal, ...]
) -> tuple[verdicts.Refusal, ...]:
    """The refusals without the node on which the pod is placed in the log: that is decided (decision 23).

    The pod counts there. A gang of which a member is refused later would stay partly bound.
    """
    if cycle.reserved not in cycle.candidates:
        return refusals
    own = frozenset((cycle.reserved,))
    left = (refusal.without(own) if cycle.reserved in refusal.nodes else refusal for refusal in refusals)
    return tuple([refusal for refusal in left if refusal.nodes])


def nominated(
    plugins: registry.Registry, cycle: cycles.Cycle, without: Collection[str] = ()
) -> tuple[model.Pod, ...]:
    """The nominated pods that count for this pod. Those that are placed together with it have other nodes."""
    found = cycles.nominated(cycle)
    for plugin in plugins.consults:
        # One that asks the others about a pod shows them the state as it plans it.
        if found and plugin.name not in without:
            found = tuple(plugin.others(cycle, found))
    return found


def as_planned(plugins: registry.Registry, cycle: cycles.Cycle) -> snapshots.Snapshot:
    """The state in which pods are judged that are placed together with that of the cycle.

    They are not nominated there: the plan has their nodes, and leaves out some of them.
    """
    everyone = [pod for uid in cycle.snapshot.nominated if (pod := cycle.snapshot.pods.get(uid)) is not None]
    counting: Sequence[model.Pod] = everyone
    for plugin in plugins.consults:
        counting = plugin.others(cycle, counting) if counting else ()
    kept = {pod.uid for pod in counting}
    return cycles.unnominated(cycle, [pod for pod in everyone if pod.uid not in kept]).snapshot


def run_score(
    plugins: registry.Registry, cycle: cycles.Cycle, *, without: Collection[str] = ()
) -> verdicts.Trace:
    """Score the candidates by the interested plugins, without filtering them. Raises HookFailed.

    ``without``: names of plugins whose scores are left out.
    """
    before = transformer_chain.before_score(plugins, cycle)
    scored = before.cycle
    ratings = tuple(
        _rating(plugin, scored, plugins.weights.get(plugin.name, 1))
        for plugin in plugins.scores
        if plugin.interested(scored.pod) and plugin.name not in without
    )
    return verdicts.Trace(
        position=cycle.snapshot.position,
        pod=cycle.pod,
        candidates=cycle.candidates,
        interested=_interested(plugins, cycle, scored),
        ratings=ratings,
        totals=verdicts.weighed(ratings),
        transformed=before.changes,
    )


def _rating(plugin: capabilities.Scores, cycle: cycles.Cycle, weight: int) -> verdicts.Rating:
    try:
        return plugin.score(cycle).given_by(plugin.name, weight)
    except Exception as problem:
        raise cycles.HookFailed.of(plugin.name, "score", problem) from problem


def run(plugins: registry.Registry, cycle: cycles.Cycle) -> verdicts.Trace:
    """Filter the candidates, then score those that are kept: the trace that explain shows."""
    filtered = run_filter(plugins, cycle)
    kept = node_sets.narrowed(filtered.kept, cycle.candidates)
    scored = run_score(plugins, replace(cycle, candidates=kept))
    return replace(
        filtered, ratings=scored.ratings, totals=scored.totals, transformed=transformed(filtered, scored)
    )


def transformed(filtered: verdicts.Trace, scored: verdicts.Trace) -> tuple[verdicts.Transformation, ...]:
    """What was changed for filter, and then for score alone."""
    later = (change for change in scored.transformed if change.phase == transformer_chain.SCORE)
    return (*filtered.transformed, *later)


def best(plugins: registry.Registry, cycle: cycles.Cycle, trace: verdicts.Trace) -> model.NodeName | None:
    """The kept node with the highest sum; ties are broken by rank, then by a stable hash of pod and node.

    Raises HookFailed.
    """
    kept = trace.kept
    if not kept:
        return None
    top = max(trace.totals, default=0)
    unscored = kept.difference(*trace.totals.values()) if top <= 0 else node_sets.NONE
    leaders = unscored or trace.totals[top]
    ranked = transformer_chain.before_score(plugins, cycle).cycle
    for plugin in plugins.ranks:
        if plugin.interested(ranked.pod):
            try:
                leaders = _lowest(plugin.rank(ranked, leaders), leaders)
            except Exception as problem:
                raise cycles.HookFailed.of(plugin.name, "rank", problem) from problem
    return _spread(cycle.pod.uid, leaders)


def _lowest(ranks: Mapping[model.NodeName, int], nodes: node_sets.Names) -> node_sets.Names:
    """The nodes of the lowest rank."""
    names = list(nodes)
    found = list(map(ranks.get, names, repeat(0)))
    return frozenset(compress(names, map(eq, found, repeat(min(found)))))


def _spread(uid: model.Uid, nodes: node_sets.Names) -> model.NodeName:
    """One of the nodes, by rendezvous hashing: pods spread evenly, and a further node moves no pod but to it.

    A node's number is cheap to compute; multiply-shift hashing orders the numbers differently for each pod.
    """
    seed = blake2b(uid.encode(), digest_size=12).digest()
    mask, factor = int.from_bytes(seed[:4], "big"), int.from_bytes(seed[4:], "big") | 1
    names = list(nodes)
    masked = map(xor, map(crc32, map(str.encode, names)), repeat(mask))
    numbers = list(map(and_, map(mul, masked, repeat(factor)), repeat(_WORD)))
    return min(compress(names, map(eq, numbers, repeat(min(numbers)))))


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


def _nothing_further(_: cycles.Cycle) -> Iterable[cycles.Cycle]:
    return ()


def veto(
    plugins: registry.Registry,
    cycle: cycles.Cycle,
    node: model.NodeName,
    victims: Sequence[model.Pod],
    further: Callable[[cycles.Cycle], Iterable[cycles.Cycle]] = _nothing_further,
) -> str | None:
    """Why the victims must not be evicted or the pod would not fit after that; None if it would fit.

    ``further``: the cycle without the victims -> the same where more pods may be gone. A pod that is placed
    together with others fits if it does in one of these.
    """
    reason = protection(plugins, cycle, node, victims)
    if reason is not None:
        return reason
    alone = replace(cycles.without(cycle, victims), candidates=frozenset((node,)))
    refusals = run_filter(plugins, alone).refusals
    for supposed in further(alone) if refusals else ():
        refusals = run_filter(plugins, supposed).refusals
        if not refusals:
            break
    return refusals[0].reason if refusals else None


def protection(
    plugins: registry.Registry, cycle: cycles.Cycle, node: model.NodeName, victims: Sequence[model.Pod]
) -> str | None:
    """Why the victims must not be evicted for the pod of the cycle.

    Every plugin may veto, even if the preemptor does not concern it: it may protect the victims.
    """
    judged = transformer_chain.at(plugins, cycle, node) if plugins.preempts else cycle
    reasons = (
        plugin.veto(with_peers(plugins, judged, plugin.name), node, victims) for plugin in plugins.preempts
    )
    return next((reason for reason in reasons if reason is not None), None)


def objection(
    plugins: registry.Registry,
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    node: model.NodeName,
    victims: Sequence[model.Pod],
) -> str | None:
    """``veto`` for a pod that waits in a state (effects.Objection)."""
    cycle = cycles.cycle(pod, frozenset((node,)), snapshot, score_max=plugins.score_max)
    return veto(plugins, cycle, node, victims)


@dataclass(frozen=True, slots=True)
class _Others:
    """The plugins beside one (cycles.Peers)."""

    plugins: registry.Registry
    asking: str

    def concerned(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        narrows = self.plugins.narrows
        return any(
            name not in narrows or narrows[name].concerned(pod, snapshot) for name in self._interested(pod)
        )

    def _interested(self, pod: model.Pod) -> list[str]:
        """Those that may refuse the pod in some state."""
        filters = self.plugins.filters
        return [one.name for one in filters if one.name != self.asking and one.interested(pod)]

    def refusals(
        self, pod: model.Pod, candidates: node_sets.Names, snapshot: snapshots.Snapshot
    ) -> tuple[verdicts.Refusal, ...]:
        asked = cycles.cycle(pod, candidates, snapshot, score_max=self.plugins.score_max)
        return run_filter(self.plugins, asked, without=(self.asking,)).refusals

    def summed(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> cycles.SumClass | None:
        return summed(self.plugins, pod, snapshot, self._interested(pod))

    def by_sums(self, pods: Iterable[model.Pod]) -> bool:
        plugins = self.plugins
        if plugins.transforms or plugins.transforms_nodes:
            return False
        apart = [one for one in plugins.filters if one.name != self.asking and one.name not in plugins.sums]
        return not (apart and any(one.interested(pod) for pod in pods for one in apart))

    def stays_refused(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        sums = self.plugins.sums
        return all(name in sums and sums[name].stays_refused(pod, snapshot) for name in self._interested(pod))


def summed(
    plugins: registry.Registry, pod: model.Pod, snapshot: snapshots.Snapshot, names: Iterable[str]
) -> cycles.SumClass | None:
    """The kind of the pod, if all of the named plugins decide about it by sums; else None."""
    if plugins.transforms or plugins.transforms_nodes or pod.uid in snapshot.nominated:
        return None  # Judged as another pod, or in a state of its own.
    labels: tuple[str, ...] = ()
    found: list[Hashable] = [pod.namespace, pod.priority]
    for name in names:
        if name not in plugins.sums or name not in plugins.classifies:
            return None
        labels += plugins.sums[name].summed_by(pod.namespace, snapshot)
        found.append((name, plugins.classifies[name].pod_class(pod, snapshot)))
    return cycles.SumClass(labels, tuple(found))


def peers(plugins: registry.Registry, asking: str) -> cycles.Peers:
    """The plugins beside one, if it consults them."""
    return _Others(plugins, asking) if asking in plugins.consulting else cycles.ALONE


def with_peers(plugins: registry.Registry, cycle: cycles.Cycle, asking: str) -> cycles.Cycle:
    """The cycle as one plugin gets it: with the others, if it consults them."""
    return replace(cycle, peers=peers(plugins, asking)) if asking in plugins.consulting else cycle


def _interested(plugins: registry.Registry, sent: cycles.Cycle, changed: cycles.Cycle) -> tuple[str, ...]:
    """The plugins that the pod concerns as it was sent, or as transformers changed it."""
    first = plugins.interested(sent.pod)
    if changed.pod is sent.pod:
        return first
    either = {*first, *plugins.interested(changed.pod)}
    return tuple(plugin.name for plugin in plugins.plugins if plugin.name in either)


@dataclass(frozen=True, slots=True)
class _Pass:
    """The refusals of one pass, and what was changed on single nodes."""

    refusals: tuple[verdicts.Refusal, ...] = ()
    changes: tuple[verdicts.Transformation, ...] = ()


def _pass(plugins: registry.Registry, cycle: cycles.Cycle, without: Collection[str]) -> _Pass:
    """Filter the candidates, each on the state that transformers show there."""
    if not plugins.transforms_nodes:
        return _Pass(_refusals(plugins, cycle, without))
    given = transformer_chain.at_nodes(plugins, cycle)
    if not given.views:
        return _Pass(_refusals(plugins, given.cycle, without))
    found = list(_refusals(plugins, given.cycle, without)) if given.cycle.candidates else []
    for view in given.views.values():
        found += view.refusals
        if view.cycle.candidates:
            found += _refusals(plugins, view.cycle, without)
    return _Pass(_joined(plugins, found), given.changes)


def _joined(plugins: registry.Registry, found: Sequence[verdicts.Refusal]) -> tuple[verdicts.Refusal, ...]:
    """The refusals of several groups of nodes: one per plugin and reason, in plugin order."""
    joined: dict[tuple[str, str], verdicts.Refusal] = {}
    for refusal in found:
        key = (refusal.plugin, refusal.reason)
        former = joined.get(key)
        if former is None:
            joined[key] = refusal
            continue
        details = dict(former.details)
        for detail, nodes in refusal.details.items():
            details[detail] = details.get(detail, node_sets.NONE) | nodes
        joined[key] = replace(former, nodes=former.nodes | refusal.nodes, details=details)
    places = {plugin.name: place for place, plugin in enumerate(plugins.plugins)}
    return tuple(sorted(joined.values(), key=lambda refusal: places[refusal.plugin]))


def _refusals(
    plugins: registry.Registry, cycle: cycles.Cycle, without: Collection[str]
) -> tuple[verdicts.Refusal, ...]:
    found: list[verdicts.Refusal] = []
    for plugin in plugins.filters:
        if plugin.interested(cycle.pod) and plugin.name not in without:
            try:
                refusal = plugin.filter(with_peers(plugins, cycle, plugin.name))
                if refusal is not None and refusal.nodes:
                    found.append(refusal.given_by(plugin.name))
            except Exception as problem:
                raise cycles.HookFailed.of(plugin.name, "filter", problem) from problem
    return tuple(found)


def _merged(
    first: tuple[verdicts.Refusal, ...], second: tuple[verdicts.Refusal, ...]
) -> tuple[verdicts.Refusal, ...]:
    """The refusals of both passes; where both refuse, the reason of the first pass is kept."""
    merged = list(first)
    for refusal in second:
        same = [place for place, one in enumerate(merged) if one.plugin == refusal.plugin]
        extra = refusal.nodes.difference(*(merged[place].nodes for place in same))
        if not same:
            merged.append(refusal)
        elif extra:
            one = merged[same[0]]
            details = {**refusal.details, **one.details}
            merged[same[0]] = replace(one, nodes=one.nodes | extra, details=details)
    return tuple(merged)
