"""Judges an offer in one state: on which nodes the pod would fit after the eviction of their victims."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain import model, snapshots
from app.domain.fit import budgets, victims
from app.framework import cycles, pipeline, registry
from app.verbs import nominations
from app.verbs.preemption import companion_victims

UNRECORDED = "a listed victim is not recorded"

Offer = Mapping[model.NodeName, Sequence[model.Uid]]
"""Node -> the uids of its proposed victims, most important first."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The victims of a node that stays in the offer."""

    uids: tuple[model.Uid, ...]
    """The most important first."""
    added: tuple[model.Pod, ...] = ()
    """Those among them that plugins added."""
    violations: int | None = None
    """Number of victims that violate a recorded PodDisruptionBudget; None if no victim was added."""


@dataclass(frozen=True, slots=True)
class PreemptAnswer:
    """The nodes to keep in the offer, and why the others are dropped."""

    snapshot: snapshots.Snapshot
    """The state that was decided on."""
    kept: Mapping[model.NodeName, Kept] = field(default_factory=dict)
    dropped: Mapping[model.NodeName, str] = field(default_factory=dict)
    going: tuple[model.Uid, ...] = ()
    """The pods that count as gone because kube-scheduler is about to evict them for other calls."""


def judge(
    plugins: registry.Registry,
    base: cycles.Cycle,
    offer: Offer,
    *,
    adjusting: bool = True,
    going: frozenset[model.Uid] = frozenset(),
    running: Callable[[], bool] | None = None,
) -> PreemptAnswer:
    """Which offered nodes remain in the state of the cycle.

    ``adjusting``: plugins may add victims. ``going``: the pods that the cycle lacks because they are evicted
    for other calls; any other listed pod that it lacks is not recorded. ``running``: whether there is time to
    judge one more node; those for which there is none are neither kept nor dropped.
    """
    kept: dict[model.NodeName, Kept] = {}
    dropped: dict[model.NodeName, str] = {}
    snapshot, leaving = base.snapshot, nominations.leaving(plugins, base.pod, base.snapshot)
    base, going = cycles.without(base, leaving), going.union(pod.uid for pod in leaving)
    limits = functools.cache(lambda: plugins.budgets_in(base.snapshot) or budgets.NONE)
    judging = _Judging(
        plugins,
        base,
        companion_victims.CompanionVictims(plugins, base, _listed(base, offer), nodes=len(offer)),
        limits,
        ruled=bool(plugins.preempts or plugins.concerned(base.pod, base.snapshot)),
        adjusting=adjusting and bool(plugins.adjusts),
        going=going,
    )
    for node, uids in offer.items():
        if running is not None and not running():
            break
        verdict = judging.of(node, tuple(uids))
        if isinstance(verdict, str):
            dropped[node] = verdict
        else:
            kept[node] = verdict
    return PreemptAnswer(snapshot, kept, dropped)


@dataclass(frozen=True, slots=True)
class _Judging:
    """What holds for all nodes of one offer."""

    plugins: registry.Registry
    base: cycles.Cycle
    companions: companion_victims.CompanionVictims
    limits: Callable[[], budgets.ByNamespace]
    ruled: bool
    """Whether a plugin may refuse the pod, or object to an eviction."""
    adjusting: bool
    """Whether plugins may add victims."""
    going: frozenset[model.Uid]
    """The pods that the cycle lacks because they are evicted for other calls."""

    def of(self, node: model.NodeName, uids: tuple[model.Uid, ...]) -> Kept | str:
        """The victims of the node, or why no pod must be evicted there for this pod."""
        if not uids:
            return "no victims listed"
        plugins, base, snapshot = self.plugins, self.base, self.base.snapshot
        if any(snapshot.node_of(uid) not in ("", node) for uid in uids):
            return "a listed victim runs on another node"
        listed = [victim for uid in uids if (victim := snapshot.pod(uid)) is not None]
        if any(victim.priority >= base.pod.priority for victim in listed):
            return "a listed victim is not less important than the pod"
        if not (self.ruled or self.adjusting):
            return _ordered(uids, listed)
        lacking = [uid for uid in uids if snapshot.pod(uid) is None]
        if not self.going.issuperset(lacking):
            return UNRECORDED
        if node not in snapshot.nodes:
            return "node not known" if self.ruled else Kept(uids)
        adjusted = pipeline.adjust(plugins, base, node, listed) if self.adjusting else listed
        if isinstance(adjusted, str):
            return adjusted
        added = tuple(victim for victim in adjusted if victim.uid not in uids)
        if any(not victim.node for victim in added):
            # kube-scheduler may not have it there, and fails the preemption of all nodes for one such UID.
            return "a pod that would have to go is still being bound"
        if self.ruled:
            further = functools.partial(self.companions.supposed, node=node, going=adjusted)
            reason = pipeline.veto(plugins, base, node, adjusted, further)
            if reason is not None:
                return reason
        if not added:
            return _ordered(uids, listed)
        ordered = victims.by_importance(adjusted)
        violating = budgets.violating(ordered, self.limits())
        return Kept((*(victim.uid for victim in ordered), *lacking), added, len(violating))


def _listed(base: cycles.Cycle, offer: Offer) -> companion_victims.Offered:
    """The recorded victims of the nodes that may be kept."""
    found: dict[model.NodeName, list[model.Pod]] = {}
    for node, uids in offer.items():
        there = [victim for uid in uids if (victim := base.snapshot.pod(uid)) is not None]
        if all(base.snapshot.node_of(one.uid) == node for one in there):
            found[node] = [one for one in there if one.priority < base.pod.priority]
    return found


def _ordered(uids: tuple[model.Uid, ...], listed: Sequence[model.Pod]) -> Kept:
    """The victims as listed, but the most important first; unchanged if one of them is unknown."""
    if len(listed) < len(uids):
        return Kept(uids)
    return Kept(tuple(victim.uid for victim in victims.by_importance(listed)))
