"""Emits one log line, the metrics and a record of each decision, from which it can be computed again.

None of it delays or fails the answer: the record is queued, and nothing here waits.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from app import telemetry
from app.domain import model, snapshots, verdicts
from app.store.decisions import records
from app.verbs import (
    binding,
    candidates,
    contexts,
    debug_flags,
    errors,
    filtering,
    nominations,
    placer,
)
from app.verbs.preemption import offers


class Decided(msgspec.Struct, frozen=True):
    """The outcome of one call."""

    pod: model.Pod
    outcome: str
    """kept, refused, scored, bound or error."""
    names: Collection[model.NodeName] = ()
    kept: int = 0
    snapshot: snapshots.Snapshot | None = None
    reasons: Mapping[str, int] = {}
    """Reason -> number of nodes refused for it."""
    refusals: Mapping[str, int] = {}
    """Plugin -> number of nodes that it refused."""
    plugins: tuple[str, ...] = ()
    node: model.NodeName = ""
    error: str = ""
    victims: Mapping[model.NodeName, tuple[model.Uid, ...]] = {}
    going: tuple[model.Uid, ...] = ()
    """The pods that preempt took for gone."""
    trace: verdicts.Trace | None = None
    """For the debug flags."""
    whole: bool = False
    """Whole nodes were sent, and not their names."""


def filtered(answer: filtering.Answer, offered: candidates.Candidates) -> Decided:
    """The report of an answered filter or filter_onlyone."""
    trace = answer.trace
    kept = len(offered.nodes) - len(trace.refused)
    if answer.single:
        kept = min(kept, 1)
    return Decided(
        pod=trace.pod,
        outcome="kept" if kept else "refused",
        names=offered.nodes,
        kept=kept,
        snapshot=answer.snapshot,
        reasons={refusal.reason: len(refusal.nodes) for refusal in trace.refusals},
        refusals=_by_plugin(trace.refusals),
        plugins=tuple(dict.fromkeys(refusal.plugin for refusal in trace.refusals)),
        node=answer.only or "",
        trace=trace,
        whole=offered.whole,
    )


def scored(answer: filtering.Answer, offered: candidates.Candidates) -> Decided:
    """The report of an answered prioritize."""
    return Decided(
        pod=answer.trace.pod,
        outcome="scored",
        names=offered.nodes,
        kept=len(offered.nodes),
        snapshot=answer.snapshot,
        plugins=tuple(rating.plugin for rating in answer.trace.ratings),
        trace=answer.trace,
        whole=offered.whole,
    )


def failed(pod: model.Pod, offered: candidates.Candidates, error: str) -> Decided:
    """The report of a filter that was answered with an error."""
    return Decided(pod=pod, outcome="error", names=offered.nodes, error=error, whole=offered.whole)


def bound(done: binding.BindResult) -> Decided:
    """The report of a bind after which the pod is known to be bound."""
    return Decided(
        pod=done.pod, outcome="bound", names=(done.node,), kept=1, snapshot=done.snapshot, node=done.node
    )


def unbound(request: placer.BindRequest, context: contexts.Context, error: errors.VerbError) -> Decided:
    """The report of a bind that was refused, or whose outcome is unknown."""
    if isinstance(error, errors.Refused) and error.trace is not None:
        refusals = error.trace.refusals
        return Decided(
            pod=error.trace.pod,
            outcome="refused",
            names=(request.node,),
            snapshot=error.snapshot,
            reasons={refusal.reason: len(refusal.nodes) for refusal in refusals},
            refusals=_by_plugin(refusals),
            plugins=tuple(dict.fromkeys(refusal.plugin for refusal in refusals)),
            node=request.node,
            trace=error.trace,
        )
    snapshot = context.state.snapshot
    pod = snapshot.pod(request.uid) or model.Pod(
        uid=request.uid, namespace=request.namespace, name=request.name
    )
    return Decided(
        pod=pod,
        outcome="error",
        names=(request.node,),
        snapshot=snapshot,
        node=request.node,
        error=str(error),
    )


def preempted(
    pod: model.Pod, answer: offers.PreemptAnswer, victims: Mapping[model.NodeName, tuple[model.Uid, ...]]
) -> Decided:
    """The report of an answered preempt."""
    reasons: dict[str, int] = {}
    for reason in answer.dropped.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    return Decided(
        pod=pod,
        outcome="kept" if answer.kept else "refused",
        names=tuple(victims),
        kept=len(answer.kept),
        snapshot=answer.snapshot,
        reasons=reasons,
        victims=victims,
        going=answer.going,
    )


def _by_plugin(refusals: Iterable[verdicts.Refusal]) -> dict[str, int]:
    """Plugin -> number of nodes that it refused, for all its reasons."""
    counted: dict[str, int] = {}
    for refusal in refusals:
        counted[refusal.plugin] = counted.get(refusal.plugin, 0) + len(refusal.nodes)
    return counted


def report(context: contexts.Context, verb: str, decided: Decided, seconds: float) -> None:
    """Write the log line, observe the metrics, and queue the record."""
    snapshot = decided.snapshot or context.state.snapshot
    telemetry.verb(
        verb,
        decided.pod.key,
        outcome=decided.outcome,
        seconds=seconds,
        candidates=len(decided.names),
        kept=decided.kept,
        reasons=decided.reasons,
        refusals=decided.refusals,
        position=str(snapshot.position),
        node=decided.node,
        error=decided.error,
    )
    if decided.outcome == "refused" and verb in ("filter", "filter_onlyone"):
        _count_lost_preemption(context, decided, snapshot)
    if context.log.foreign is not None:
        return  # The records are another cluster's, too.
    at = context.now()
    if decided.trace is not None and (snapshot.flags or context.flags):
        lines = debug_flags.lines(decided.trace, snapshot, context.plugins, started=context.flags, now=at)
        for event, fields in lines:
            telemetry.log.info(event, verb=verb, **fields)
    context.decisions.record(
        records.Draft(
            position=snapshot.position,
            verb=verb,
            pod=decided.pod,
            names=decided.names,
            configuration=context.digest,
            kept=decided.kept,
            outcome=decided.outcome,
            at=at,
            milliseconds=round(1000 * seconds, 3),
            reasons=dict(decided.reasons),
            plugins=decided.plugins,
            node=decided.node,
            victims=dict(decided.victims),
            going=decided.going,
            error=decided.error,
            whole=decided.whole,
            snapshot=snapshot,
            concerned=context.plugins.objects,
        )
    )


def _count_lost_preemption(context: contexts.Context, refused: Decided, snapshot: snapshots.Snapshot) -> None:
    """kube-scheduler first asks about the nominated node alone, and then about all nodes."""
    pod = refused.pod
    alone = bool(pod.nominated) and set(refused.names) == {pod.nominated}
    if alone and not nominations.victims(context, pod, snapshot):
        telemetry.metrics.PREEMPTIONS_LOST.inc()
