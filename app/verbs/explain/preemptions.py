"""Predicts preemption for a pod: on which node which pods would be evicted, or why no pod would be.

The same steps as kube-scheduler's: its filters on every node (app.domain.fit), its dry run on the nodes
that evictions may help (app.domain.fit.victims), the extender's answer to ``preempt``
(app.verbs.preempting), and its choice. Unlike kube-scheduler, which dry-runs 100 nodes or a tenth from a
random offset, it considers all nodes that it has the time for. Nothing is written or evicted.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.domain import model, snapshots
from app.domain.fit import budgets, node_fit, victims
from app.domain.fold import node_sums
from app.framework import cycles, pipeline, registry
from app.verbs.preemption import offers

NEVER = "not eligible due to preemptionPolicy=Never."
WAITING = "not eligible due to a terminating pod on the nominated node."
UNHELPFUL = "Preemption is not helpful for scheduling"
GROUPS = "preemption of PodGroups as a whole (feature gate GenericWorkload)"
BUDGETS = "PodDisruptionBudgets"
"""Named if no enabled plugin provides them, or if they were not recorded at that moment."""
SEVERAL = "the order of several PodDisruptionBudgets of one pod, of which one is exhausted"
Running = Callable[[], bool]
"""Whether there is time left."""


def unlimited() -> bool:
    """There is always time left."""
    return True


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """What preemption would do on one node."""

    node: model.NodeName
    reasons: tuple[str, ...]
    """Why the pod does not fit there as it is."""
    candidates: int = 0
    """Number of less important pods there."""
    eviction: victims.Eviction | None = None
    """The pods that would be evicted; None if the node is not a candidate."""
    added: frozenset[model.Uid] = frozenset()
    """Victims that kube-scheduler would not evict by itself, but plugins add."""
    dropped: str = ""
    """Why the node is not a candidate; empty if it is one."""
    apart: bool = False
    """Whether kube-scheduler may count violations of budgets there otherwise."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """The result of a dry run for one pod in one state."""

    pod: model.Pod
    position: model.Position
    ineligible: str = ""
    """Why the pod may not preempt; empty if it may."""
    fitting: tuple[model.NodeName, ...] = ()
    """Nodes that the pod fits on as they are, by name: with any, kube-scheduler preempts nothing."""
    outcomes: tuple[NodeOutcome, ...] = ()
    """The nodes that refuse the pod: candidates first, then by name."""
    choice: victims.Choice | None = None
    unmodelled: tuple[str, ...] = ()
    """Rules of kube-scheduler that may change the result and are not applied."""
    unjudged: int = 0
    """Number of nodes for which no time was left: they are neither in ``fitting`` nor in ``outcomes``."""

    @property
    def needed(self) -> bool:
        """Whether kube-scheduler would try preemption at all, as far as nodes were judged."""
        return not self.fitting


@dataclass(slots=True)
class _Sorted:
    """The nodes of a dry run, by what kube-scheduler's filters return."""

    free: list[model.NodeName] = field(default_factory=list)
    hopeless: list[NodeOutcome] = field(default_factory=list)
    """Evictions would not help."""
    possible: dict[model.NodeName, tuple[str, ...]] = field(default_factory=dict)
    """Node -> why the pod does not fit there while the present pods run."""


def dry_run(
    pod: model.Pod,
    snapshot: snapshots.Snapshot,
    plugins: registry.Registry,
    *,
    selecting: Running = unlimited,
    running: Running = unlimited,
) -> Preemption:
    """What preemption would do for the pod in this state; with time for all nodes, always the same.

    ``selecting``: whether there is time to select the victims of one more node; ``running``: whether there is
    time to ask the plugins about one more of those. Only nodes that were judged to the end are in the result.
    """
    base = cycles.cycle(pod, frozenset(snapshot.nodes), snapshot, score_max=plugins.score_max)
    nominated: dict[model.NodeName, list[model.Pod]] = {}
    for one in cycles.nominated(base):
        nominated.setdefault(one.nominated, []).append(one)
    found = _sorted(base, nominated, selecting)
    free, refused = _filtered(base, found.free, plugins)
    known = plugins.budgets_in(snapshot)
    apart = False
    ineligible = _not_pending(pod, snapshot) or _ineligible(pod, base.snapshot, frozenset(found.possible))
    if not (free or ineligible):
        held = known or budgets.NONE
        selected = [
            _on(base.snapshot, pod, node, reasons, nominated, held)
            for node, reasons in found.possible.items()
            if selecting()
        ]
        apart = any(one.apart for one in selected)
        offered = {one.node: one for one in selected if one.eviction is not None}
        refused += [one for one in selected if one.eviction is None]
        refused += _answered(base, offered, plugins, held, running)
    else:
        refused += [NodeOutcome(node, reasons) for node, reasons in found.possible.items()]
    outcomes = sorted([*found.hopeless, *refused], key=lambda one: (one.eviction is None, one.node))
    kept = {one.node: one.eviction for one in outcomes if one.eviction is not None}
    return Preemption(
        pod=pod,
        position=snapshot.position,
        ineligible=ineligible,
        fitting=tuple(sorted(free)),
        outcomes=tuple(outcomes),
        choice=victims.choose(kept),
        unmodelled=(*_unmodelled(pod, snapshot, known), *((SEVERAL,) if apart else ())),
        unjudged=len(snapshot.nodes) - len(free) - len(outcomes),
    )


def _sorted(
    base: cycles.Cycle, nominated: Mapping[model.NodeName, list[model.Pod]], selecting: Running
) -> _Sorted:
    found = _Sorted()
    for name, node in base.snapshot.nodes.items():
        if not selecting():
            break
        reasons = node_fit.fits(base.snapshot, base.pod, node, plus=nominated.get(name, ()))
        texts = tuple(reason.text for reason in reasons)
        if not reasons:
            found.free.append(name)
        elif all(reason.resolvable for reason in reasons):
            found.possible[name] = texts
        else:
            found.hopeless.append(NodeOutcome(name, texts, dropped=UNHELPFUL))
    return found


def _filtered(
    base: cycles.Cycle, free: list[model.NodeName], plugins: registry.Registry
) -> tuple[frozenset[model.NodeName], list[NodeOutcome]]:
    """The nodes that the plugins accept, too; evictions do not help where only a plugin refuses."""
    offered = cycles.Cycle(base.pod, frozenset(free), base.snapshot, base.score_max)
    trace = pipeline.run_filter(plugins, offered)
    reasons = trace.reasons()
    return trace.kept, [NodeOutcome(node, (reason,), dropped=UNHELPFUL) for node, reason in reasons.items()]


def _not_pending(pod: model.Pod, snapshot: snapshots.Snapshot) -> str:
    """Why kube-scheduler does not schedule the pod at all; empty if it does, or will without its gates."""
    node = snapshot.node_of(pod.uid)
    if node:
        return f"not pending: it is on node {node}."
    return "not pending: it is being deleted or finished." if pod.terminating or pod.finished else ""


def _ineligible(pod: model.Pod, snapshot: snapshots.Snapshot, possible: frozenset[model.NodeName]) -> str:
    """Why the pod may not preempt (PodEligibleToPreemptOthers), in kube-scheduler's words; empty if it
    may."""
    if pod.preemption_policy == "Never":
        return NEVER
    if pod.nominated in possible and any(
        one.terminating and one.preempted and one.priority < pod.priority and node_sums.holding(one)
        for one in snapshot.on(pod.nominated)
    ):
        return WAITING
    return ""


def _on(
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    node: model.NodeName,
    reasons: tuple[str, ...],
    nominated: Mapping[model.NodeName, list[model.Pod]],
    held: budgets.ByNamespace,
) -> NodeOutcome:
    """kube-scheduler's dry run on one node."""
    candidates = victims.candidates(snapshot, pod, node)
    number, apart = len(candidates), budgets.counted_apart(candidates, held)
    selected = victims.select(snapshot, pod, snapshot.nodes[node], nominated.get(node, ()), held)
    if isinstance(selected, str):
        return NodeOutcome(node, reasons, number, dropped=selected, apart=apart)
    return NodeOutcome(node, reasons, number, selected, apart=apart)


def _answered(
    base: cycles.Cycle,
    offered: Mapping[model.NodeName, NodeOutcome],
    plugins: registry.Registry,
    held: budgets.ByNamespace,
    running: Running,
) -> list[NodeOutcome]:
    """The candidates after the extender's answer to preempt; without those that were not judged in time."""
    offer = {
        node: [victim.uid for victim in one.eviction.victims]
        for node, one in offered.items()
        if one.eviction is not None
    }
    answer = offers.judge(plugins, base, offer, running=running)
    found = [
        NodeOutcome(node, offered[node].reasons, offered[node].candidates, dropped=f"preempt: {reason}")
        for node, reason in answer.dropped.items()
    ]
    for node, kept in answer.kept.items():
        one = offered[node]
        if kept.added and one.eviction is not None:
            everyone = victims.by_importance((*one.eviction.victims, *kept.added))
            eviction = victims.Eviction(tuple(everyone), budgets.violating(everyone, held))
            added = frozenset(victim.uid for victim in kept.added)
            one = NodeOutcome(node, one.reasons, one.candidates, eviction, added)
        found.append(one)
    return found


def _unmodelled(
    pod: model.Pod, snapshot: snapshots.Snapshot, known: budgets.ByNamespace | None
) -> tuple[str, ...]:
    every = itertools.chain.from_iterable((known or budgets.NONE).values())
    return (
        *node_fit.unmodelled(snapshot, pod),
        *((BUDGETS,) if known is None else ()),
        *(f"PodDisruptionBudget {one.key}: {one.error}" for one in every if one.error),
        *((GROUPS,) if pod.group or any(one.group for one in snapshot.pods.values()) else ()),
    )
