"""Explains a past decision by computing its Trace again, from the log at the decision's position.

A decision is a pure function of (snapshot, pod, candidates, configuration), so its record holds only these
and the outcome; the reasons, the scores and the advice are computed again by the same code. An explanation
that differs from the recorded outcome (other configuration, store away at the time) states why.
"""

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from app.domain import model, node_sets, schema, snapshots, verdicts
from app.domain.fit import fitting_nodes
from app.framework import cycles, pipeline, registry
from app.store import errors
from app.store.decisions import decision_log, records
from app.store.state import fold_limit, histories
from app.verbs import preempting
from app.verbs.explain import advice, equivalence, recorded_configurations
from app.verbs.preemption import offers

ATTEMPTS = ("filter", "filter_onlyone")
"""The verbs that begin a scheduling attempt."""
DIAGNOSED = 100
"""Classes of pods with advice in one answer: each evaluates up to a hundred changes of the cluster."""
UNDIAGNOSED = (
    "not computed: the pods of this page wait for too many different reasons; request a smaller page,"
    " or explain this pod"
)
MAX_REMARKS = 100
"""Remarks of one plugin that are shown."""
MAX_PLACEMENTS = 1000
"""In-flight placements shown of one namespace."""


@dataclass(frozen=True, slots=True)
class PlacementSummary:
    """An in-flight placement: counted although the watch has not confirmed it yet."""

    pod: model.NamespacedName
    node: model.NodeName
    at: str
    counts: tuple[schema.CountKey, ...]
    """The counts that it increments."""


class Remark(NamedTuple):
    """A sentence of a plugin."""

    plugin: str
    text: str


class _InFlight(NamedTuple):
    first: tuple[PlacementSummary, ...]
    number: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision with its reasons, scores and advice."""

    trace: verdicts.Trace
    concerned: tuple[str, ...]
    """Names of the plugins that the pod concerns in the state of the decision."""
    decision: records.Decision | None = None
    """None if no decision is recorded: this was computed over all nodes for the request."""
    chosen: model.NodeName = ""
    """The one node of filter_onlyone and bind."""
    place: model.NodeName = ""
    """The node that the pod is bound to or placed on at the requested moment; empty without one."""
    nowhere: str = ""
    """Why there is no candidate; empty if there is one."""
    changes: tuple[str, ...] = ()
    """The changes that would let the pod fit; empty if it fits."""
    placements: tuple[PlacementSummary, ...] = ()
    """The first in-flight placements of the namespace, by pod."""
    in_flight: int = 0
    """The number of in-flight placements of the namespace."""
    remarks: tuple[Remark, ...] = ()
    """What the plugins add about the state that the decision was based on."""
    difference: str = ""
    """Why this differs from the recorded answer; empty if it does not."""

    @property
    def fits(self) -> bool:
        """Whether some candidate was kept."""
        return bool(self.trace.kept)

    @property
    def summary(self) -> str:
        """One sentence: how many nodes fit, and why the others do not."""
        return self.nowhere or summary(self.trace)


def explain(
    decision: records.Decision,
    book: decision_log.DecisionLog,
    past: histories.Histories,
    recorded: recorded_configurations.RecordedConfigurations,
    *,
    attended: fold_limit.Check = fold_limit.always_attended,
) -> Explanation:
    """The explanation of a recorded decision, by the plugins that took it. Raises what ``attended`` raises.

    Raises StoreError: Trimmed if its position is no longer kept, Shortened if an input is neither in the
    record nor in the log.
    """
    plugins = recorded.find(decision.configuration) or recorded.present
    snapshot = past.of(decision.position, attended=attended)
    cycle = cycle_of(decision, book.candidates(decision, snapshot), snapshot, plugins)
    trace = trace_of(decision, cycle, plugins)
    chosen = decision.node
    if decision.verb == "filter_onlyone" and not chosen:
        chosen = pipeline.best(plugins, replace(cycle, candidates=trace.kept), trace) or ""
    advised = decision.verb in ATTEMPTS and not trace.kept
    placements, in_flight = _in_flight(cycle)
    return Explanation(
        trace=trace,
        concerned=plugins.concerned_in(trace, snapshot),
        decision=decision,
        chosen=chosen,
        changes=advice.smallest(plugins, cycle, trace.refusals) if advised else (),
        placements=placements,
        in_flight=in_flight,
        remarks=_remarks(plugins, cycle),
        difference=_difference(decision, trace, plugins),
    )


def presently(pod: model.Pod, snapshot: snapshots.Snapshot, plugins: registry.Registry) -> Explanation:
    """The answer if all nodes were offered now: for pods without a recorded decision."""
    cycle = cycles.cycle(pod, frozenset(snapshot.nodes), snapshot, score_max=plugins.score_max)
    return of_cycle(cycle, plugins)


def of_cycle(cycle: cycles.Cycle, plugins: registry.Registry) -> Explanation:
    """The explanation of the decision that the verbs would take in the cycle."""
    trace = pipeline.run(plugins, cycle) if plugins.interested(cycle.pod) else untouched(cycle)
    placements, in_flight = _in_flight(cycle)
    return Explanation(
        trace=trace,
        concerned=plugins.concerned_in(trace, cycle.snapshot),
        nowhere=nowhere(cycle),
        changes=_advice(plugins, cycle, trace),
        placements=placements,
        in_flight=in_flight,
        remarks=_remarks(plugins, cycle),
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a pod waits, short enough to hold a page of thousands."""

    reason: str
    """Why every node is refused; empty if some node would be accepted."""
    changes: tuple[str, ...]
    """The changes that would let it fit; empty if it fits."""


class Waits:
    """Why the pods of one snapshot wait, computed once for each class of pods (see equivalence)."""

    def __init__(self, snapshot: snapshots.Snapshot, plugins: registry.Registry) -> None:
        self._snapshot = snapshot
        self._plugins = plugins
        self._classes = equivalence.Classes(plugins, snapshot)
        self._candidates = frozenset(snapshot.topology.everywhere)
        self._known: dict[equivalence.PodClass, Waiting] = {}
        self._diagnosed = 0

    def of(self, pod: model.Pod) -> Waiting:
        """Why the pod waits, assuming that all nodes are offered."""
        alike = self._classes.of(pod)
        found = self._known.get(alike)
        if found is None:
            found = self._known[alike] = self._computed(pod)
        return found

    def _computed(self, pod: model.Pod) -> Waiting:
        plugins = self._plugins
        cycle = cycles.cycle(pod, self._candidates, self._snapshot, score_max=plugins.score_max)
        trace = pipeline.run_filter(plugins, cycle)
        if trace.kept:
            return Waiting("", ())
        self._diagnosed += 1
        advised = self._diagnosed <= DIAGNOSED
        changes = _advice(plugins, cycle, trace) if advised else (UNDIAGNOSED,)
        return Waiting(nowhere(cycle) or summary(trace), changes)


def nowhere(cycle: cycles.Cycle) -> str:
    """Why the cycle has no candidate, in one sentence; empty if it has one."""
    return "" if cycle.candidates else fitting_nodes.FittingNodes(cycle.snapshot).nowhere(cycle.pod)


def summary(trace: verdicts.Trace) -> str:
    """One sentence: how many nodes fit, and the reasons of the others."""
    text = f"{len(trace.kept)} of {len(trace.candidates)} nodes fit"
    parts = [f"{len(refusal.nodes)} {refusal.reason}" for refusal in trace.refusals]
    return f"{text}: {'; '.join(parts)}" if parts else text


def _advice(plugins: registry.Registry, cycle: cycles.Cycle, trace: verdicts.Trace) -> tuple[str, ...]:
    return () if trace.kept or not trace.candidates else advice.smallest(plugins, cycle, trace.refusals)


def _remarks(plugins: registry.Registry, cycle: cycles.Cycle) -> tuple[Remark, ...]:
    """The remarks of the plugins that the pod concerns, the first ones of each."""
    concerned = plugins.concerned(cycle.pod, cycle.snapshot)
    return tuple(
        Remark(name, text)
        for name, shown in plugins.shown.items()
        if name in concerned
        for text in islice(shown.remarks(pipeline.with_peers(plugins, cycle, name)), MAX_REMARKS)
    )


def _in_flight(cycle: cycles.Cycle) -> _InFlight:
    """The first in-flight placements of the pod's namespace, by pod, and their number."""
    namespace = cycle.pod.namespace
    found = [one for one in cycle.snapshot.placements.values() if one.pod.namespace == namespace]
    first = heapq.nsmallest(MAX_PLACEMENTS, found, key=lambda placement: placement.pod.key)
    placements = tuple(
        PlacementSummary(
            pod=placement.pod.key,
            node=placement.node,
            at=placement.at,
            counts=tuple(cycle.snapshot.contributions(placement.written(placement.pod), placement.node)),
        )
        for placement in first
    )
    return _InFlight(placements, len(found))


def cycle_of(
    decision: records.Decision,
    candidates: node_sets.Names,
    snapshot: snapshots.Snapshot,
    plugins: registry.Registry,
) -> cycles.Cycle:
    """The input of a recorded decision, on a snapshot. Raises Shortened."""
    pod = _pod(decision, snapshot)
    if decision.verb == "bind":
        # bind carries only the pod's names; its labels and owners are in the log.
        pod = snapshot.pod(pod.uid) or pod
        candidates = frozenset((decision.node,)) if decision.node else candidates
    elif decision.verb == "preempt":
        candidates = frozenset(decision.victims)
    offered = decision.verb in ATTEMPTS
    base = cycles.cycle(pod, candidates, snapshot, score_max=plugins.score_max, offered=offered)
    return cycles.without(base, [one for uid in decision.going if (one := snapshot.pod(uid)) is not None])


def _pod(decision: records.Decision, snapshot: snapshots.Snapshot) -> model.Pod:
    """The pod of the decision. Raises Shortened."""
    if "pod" not in decision.shortened:
        return decision.pod
    known = snapshot.pod(decision.pod.uid)
    if known is not None and records.digest(known) == decision.digest:
        return known
    if decision.error or decision.verb == "bind":
        return decision.pod  # The decision did not depend on its fields.
    raise errors.Shortened(
        decision.id,
        "the pod as it was sent was too large for a record, and the log holds another version of it at"
        f" {decision.position}",
    )


def trace_of(decision: records.Decision, cycle: cycles.Cycle, plugins: registry.Registry) -> verdicts.Trace:
    """The trace of a recorded decision, computed again on the cycle."""
    if not plugins.interested(cycle.pod) and decision.verb != "preempt":
        return untouched(cycle)
    match decision.verb:
        case "prioritize" | "priority":
            return pipeline.run_score(plugins, cycle)
        case "preempt":
            reason = next(iter(preempting.WHOLE & decision.reasons.keys()), "")
            if reason:  # It rests on the calls before, which the record does not name.
                return _refused(cycle, {reason: set(decision.victims)}, plugins)
            return _vetoed(decision, cycle, plugins)
        case "bind":
            return pipeline.run_filter(plugins, cycle)
        case _:
            return pipeline.run(plugins, cycle)


def untouched(cycle: cycles.Cycle) -> verdicts.Trace:
    """The trace of a pod that no plugin is interested in: decided without state."""
    return verdicts.Trace(
        position=cycle.snapshot.position, pod=cycle.pod, candidates=cycle.candidates, interested=()
    )


def _vetoed(decision: records.Decision, cycle: cycles.Cycle, plugins: registry.Registry) -> verdicts.Trace:
    """The objections of preempt as refusals: one for each reason."""
    grouped: dict[str, set[model.NodeName]] = {}
    answer = offers.judge(plugins, cycle, decision.victims, going=frozenset(decision.going))
    for node, reason in answer.dropped.items():
        grouped.setdefault(reason, set()).add(node)
    return _refused(cycle, grouped, plugins)


def _refused(
    cycle: cycles.Cycle, grouped: Mapping[str, Collection[model.NodeName]], plugins: registry.Registry
) -> verdicts.Trace:
    """A trace in which preempt refuses the nodes, by reason."""
    return verdicts.Trace(
        position=cycle.snapshot.position,
        pod=cycle.pod,
        candidates=cycle.candidates,
        interested=plugins.interested(cycle.pod),
        refusals=tuple(
            verdicts.Refusal(reason=reason, nodes=frozenset(nodes), plugin="preempt")
            for reason, nodes in sorted(grouped.items())
        ),
    )


def _difference(decision: records.Decision, trace: verdicts.Trace, plugins: registry.Registry) -> str:
    if decision.configuration and decision.configuration != plugins.digest:
        return (
            f"decided under configuration {decision.configuration}, which the log does not hold or this"
            f" version cannot repeat; reasons and scores are those of the present one, {plugins.digest}"
        )
    if decision.error:
        return f"the verb answered with an error: {decision.error}"
    if decision.verb not in (*ATTEMPTS, "bind", "preempt"):
        return ""
    if decision.outcome == "bound":
        # A repeated call is answered as the first one was: the placement was the pod's own.
        return "" if trace.kept else "the pod already had its placement there; a new one would be refused"
    kept = min(len(trace.kept), 1) if decision.verb == "filter_onlyone" else len(trace.kept)
    reasons = {refusal.reason: len(refusal.nodes) for refusal in trace.refusals}
    if decision.kept != kept or decision.reasons != reasons:
        return (
            f"{decision.kept} of {decision.count} nodes were kept, and {kept} by the state in the log:"
            " the store was away or behind at the time"
        )
    return ""
