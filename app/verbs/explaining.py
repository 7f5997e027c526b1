"""explain: the Trace of a past decision, computed again from the log at the decision's position.

A decision is a pure function of (snapshot, pod, candidates, configuration), so its record holds only
those and what was answered; the reasons, the scores and the advice come from running the same code
again. Where the answer cannot have come from that (other configuration, store away at the time), the
explanation says so instead of pretending.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from app.domain import counting, model, snapshots, verdicts
from app.framework import cycles, registry, running
from app.store import decisions, errors, histories, records
from app.verbs import diagnosing, equivalence, preempting

Victims = Mapping[model.NodeName, Sequence[model.Uid]]
ATTEMPTS = ("filter", "filter_onlyone")
"""The verbs that begin a scheduling attempt."""
DIAGNOSED = 100
"""Classes of pods diagnosed for one answer: a diagnosis tries up to a hundred changes of the cluster."""
UNDIAGNOSED = (
    "not computed: pods of too many kinds are on this page; ask for fewer, or for explain of this pod"
)
MOST_PROMISES = 1000
"""Placements in flight that are shown of one namespace."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A placement that was counted although the watch had not shown it yet."""

    pod: model.NamespacedName
    node: model.NodeName
    at: str
    counts: tuple[counting.CountKey, ...]
    """The counts that it adds one to."""


class _InFlight(NamedTuple):
    first: tuple[Promise, ...]
    number: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that can be said about one decision."""

    trace: verdicts.Trace
    decision: records.Decision | None = None
    """None: no decision is recorded, this was computed over all nodes for the question."""
    chosen: model.NodeName = ""
    """The one node of filter_onlyone and bind."""
    place: model.NodeName = ""
    """Where the pod is, or is promised to be, at the moment of the question; empty if nowhere."""
    changes: tuple[str, ...] = ()
    """What would let the pod fit; empty if it does."""
    promises: tuple[Promise, ...] = ()
    """The first of the namespace's placements in flight, in order of pod."""
    in_flight: int = 0
    """How many of them there are."""
    difference: str = ""
    """Why this is not what was answered then; empty if it is."""

    @property
    def fits(self) -> bool:
        """Some candidate was kept."""
        return bool(self.trace.kept)


def explain(
    decision: records.Decision,
    book: decisions.Decisions,
    past: histories.Histories,
    plugins: registry.Registry,
) -> Explanation:
    """The explanation of a recorded decision; raises StoreError: Trimmed if its position is gone, Shortened
    if the record lacks what it was made from and the log does not have that either.
    """
    snapshot = past.of(decision.position)
    cycle = _cycle(decision, book.candidates(decision, snapshot), snapshot, plugins)
    trace = _trace(decision, cycle, plugins)
    chosen = decision.node
    if decision.verb == "filter_onlyone" and not chosen:
        chosen = running.best(plugins, replace(cycle, candidates=trace.kept), trace) or ""
    advised = decision.verb in ATTEMPTS and not trace.kept
    promises, in_flight = _in_flight(cycle)
    return Explanation(
        trace=trace,
        decision=decision,
        chosen=chosen,
        changes=diagnosing.smallest(plugins, cycle, trace.refusals) if advised else (),
        promises=promises,
        in_flight=in_flight,
        difference=_difference(decision, trace, plugins),
    )


def recompute(
    decision: records.Decision,
    candidates: verdicts.Names,
    snapshot: snapshots.Snapshot,
    plugins: registry.Registry,
) -> verdicts.Trace:
    """The trace of a decision out of its inputs; ``snapshot`` is the one at the decision's position."""
    return _trace(decision, _cycle(decision, candidates, snapshot, plugins), plugins)


def presently(pod: model.Pod, snapshot: snapshots.Snapshot, plugins: registry.Registry) -> Explanation:
    """What the answer would be if all nodes were offered: for pods without a recorded decision."""
    cycle = cycles.cycle(pod, frozenset(snapshot.nodes), snapshot, score_max=plugins.score_max)
    trace = running.run(plugins, cycle)
    promises, in_flight = _in_flight(cycle)
    changes = _advice(plugins, cycle, trace)
    return Explanation(trace=trace, changes=changes, promises=promises, in_flight=in_flight)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a pod waits, in so few words that a page of thousands may be held."""

    reason: str
    """What keeps it from every node; empty if some node would be accepted."""
    changes: tuple[str, ...]
    """What would let it fit; empty if it does."""


class Waits:
    """Why the pods of one snapshot wait: computed once for each class of pods (app.verbs.equivalence)."""

    def __init__(self, snapshot: snapshots.Snapshot, plugins: registry.Registry) -> None:
        self._snapshot = snapshot
        self._plugins = plugins
        self._classes = equivalence.Classes(plugins, snapshot)
        self._candidates = frozenset(snapshot.topology.everywhere)
        self._known: dict[equivalence.PodClass, Waiting] = {}
        self._diagnosed = 0

    def of(self, pod: model.Pod) -> Waiting:
        """Why the pod waits, if all nodes were offered."""
        alike = self._classes.of(pod)
        found = self._known.get(alike)
        if found is None:
            found = self._known[alike] = self._computed(pod)
        return found

    def _computed(self, pod: model.Pod) -> Waiting:
        plugins = self._plugins
        cycle = cycles.cycle(pod, self._candidates, self._snapshot, score_max=plugins.score_max)
        trace = running.run_filter(plugins, cycle)
        if trace.kept:
            return Waiting("", ())
        self._diagnosed += 1
        advised = self._diagnosed <= DIAGNOSED
        return Waiting(summary(trace), _advice(plugins, cycle, trace) if advised else (UNDIAGNOSED,))


def summary(trace: verdicts.Trace) -> str:
    """One sentence: how many nodes are left, and what refused the others."""
    text = f"{len(trace.kept)} of {len(trace.candidates)} nodes fit"
    parts = [f"{len(refusal.nodes)} {refusal.reason}" for refusal in trace.refusals]
    return f"{text}: {'; '.join(parts)}" if parts else text


def _advice(plugins: registry.Registry, cycle: cycles.Cycle, trace: verdicts.Trace) -> tuple[str, ...]:
    if not trace.candidates:
        return ("there is no node in the cluster",)
    return () if trace.kept else diagnosing.smallest(plugins, cycle, trace.refusals)


def _in_flight(cycle: cycles.Cycle) -> _InFlight:
    """The placements of the pod's namespace that were in flight: the first, in order of pod, and how many."""
    namespace = cycle.pod.namespace
    found = [one for one in cycle.snapshot.placements.values() if one.pod.namespace == namespace]
    policies = tuple(cycle.snapshot.policies_of(namespace))
    first = heapq.nsmallest(MOST_PROMISES, found, key=lambda placement: placement.pod.key)
    promises = tuple(
        Promise(
            pod=placement.pod.key,
            node=placement.node,
            at=placement.at,
            counts=tuple(
                counting.contributions(placement.pod, cycle.snapshot.nodes.get(placement.node), policies)
            ),
        )
        for placement in first
    )
    return _InFlight(promises, len(found))


def _cycle(
    decision: records.Decision,
    candidates: verdicts.Names,
    snapshot: snapshots.Snapshot,
    plugins: registry.Registry,
) -> cycles.Cycle:
    pod = _pod(decision, snapshot)
    if decision.verb == "bind":
        # kube-scheduler sends bind only the pod's names; what it is like stands in the log.
        pod = snapshot.pod(pod.uid) or pod
        candidates = frozenset((decision.node,)) if decision.node else candidates
    elif decision.verb == "preempt":
        candidates = frozenset(decision.victims)
    return cycles.cycle(pod, candidates, snapshot, score_max=plugins.score_max)


def _pod(decision: records.Decision, snapshot: snapshots.Snapshot) -> model.Pod:
    """The pod that was decided about. Raises Shortened."""
    if "pod" not in decision.shortened:
        return decision.pod
    known = snapshot.pod(decision.pod.uid)
    if known is not None and records.digest(known) == decision.digest:
        return known
    if decision.error or decision.verb == "bind":
        return decision.pod  # Not what decided.
    raise errors.Shortened(
        decision.id,
        "the pod as it was sent was too large for a record, and the log holds another version of it at"
        f" {decision.position}",
    )


def _trace(decision: records.Decision, cycle: cycles.Cycle, plugins: registry.Registry) -> verdicts.Trace:
    if not plugins.interested(cycle.pod) and decision.verb != "preempt":
        return _untouched(cycle)
    match decision.verb:
        case "prioritize" | "priority":
            return running.run_score(plugins, cycle)
        case "preempt":
            return _vetoed(cycle, decision.victims, plugins)
        case "bind":
            return running.run_filter(plugins, cycle)
        case _:
            return running.run(plugins, cycle)


def _untouched(cycle: cycles.Cycle) -> verdicts.Trace:
    """A pod that no plugin is interested in: answered without the state, so nothing was counted."""
    return verdicts.Trace(
        position=cycle.snapshot.position, pod=cycle.pod, candidates=cycle.candidates, interested=()
    )


def _vetoed(cycle: cycles.Cycle, victims: Victims, plugins: registry.Registry) -> verdicts.Trace:
    """preempt's objections in the form of refusals: one for each sentence."""
    grouped: dict[str, set[model.NodeName]] = {}
    for node, uids in victims.items():
        reason = preempting.objection(plugins, cycle, node, uids)
        if reason is not None:
            grouped.setdefault(reason, set()).add(node)
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
            f"the configuration was {decision.configuration} then and is {plugins.digest} now:"
            " reasons and scores are those of the present one"
        )
    if decision.error:
        return f"the verb answered with an error then: {decision.error}"
    if decision.verb not in (*ATTEMPTS, "bind", "preempt"):
        return ""
    if decision.outcome == "bound":
        # The place was the pod's own already: a repeated call is answered as the first one was.
        return "" if trace.kept else "the pod held that place already; it would not be given it anew"
    kept = min(len(trace.kept), 1) if decision.verb == "filter_onlyone" else len(trace.kept)
    reasons = {refusal.reason: len(refusal.nodes) for refusal in trace.refusals}
    if decision.kept != kept or decision.reasons != reasons:
        return (
            f"{decision.kept} of {decision.count} nodes were kept then, the log's state keeps {kept}:"
            " the store was away or behind when it was answered"
        )
    return ""
