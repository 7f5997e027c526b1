"""filter and filter_onlyone: the offered nodes that the pod may be placed on.

Writes nothing: kube-scheduler also filters pods that it does not place, and never reports the outcome. A pod
that no plugin is interested in is answered without the store. While the store is away, a pod under soft rules
only keeps all its candidates, and every other pod gets an error (docs/design/principles.md, 4, 5, 16).
"""

from dataclasses import dataclass, replace
from functools import partial

from app import telemetry
from app.domain import model, snapshots, verdicts
from app.domain.fit import node_fit
from app.framework import capabilities, cycles, pipeline, registry
from app.store import errors as store_errors
from app.verbs import candidates, contexts, errors

FREED, PAUSE = 0.2, 0.01
"""Seconds that a call waits for the log at most, and between two reads: kube-scheduler waits meanwhile."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A trace, and for filter_onlyone the chosen node."""

    trace: verdicts.Trace
    snapshot: snapshots.Snapshot
    """The state that was decided on."""
    only: model.NodeName | None = None
    single: bool = False
    """Whether one node was requested: ``only`` is the answer, None if no node is kept."""


def run(
    context: contexts.Context, pod: model.Pod, offered: candidates.Candidates, *, verb: str = "filter"
) -> Answer:
    """Which candidates are kept, and why the others are refused.

    Raises StateAway if a hard rule applies and the state is not available in time, and PluginFailed if a
    filter fails, or a transformer while a hard rule applies.
    """
    plugins = context.plugins
    interested = plugins.interested(pod)
    if not interested:
        return passed(context, pod, offered, interested)
    try:
        snapshot = context.present(context.time_limits.state)
    except store_errors.StoreError as away:
        if hard(context, pod):
            raise errors.StateAway(
                f"topolog: {store_errors.obstacle(away)}; pods of {', '.join(interested)} wait for it"
            ) from away
        return passed(context, pod, offered, interested)
    snapshot = _once_freed(context, pod, offered, snapshot)
    decide = partial(_decided, plugins, pod, offered, snapshot)
    try:
        trace = context.memo.trace_for(pod, offered, snapshot.position, decide)
        context.preemptions.note(trace, context.monotonic())
        return Answer(trace, snapshot)
    except cycles.HookFailed as failed:
        telemetry.fault(verb, pod.key, failed)
        # Bind applies the same filters, and would refuse the pod once its volumes are prepared.
        if failed.hook == "filter" or hard(context, pod):
            raise errors.PluginFailed(f"topolog: {failed}; nothing was decided") from failed
        return passed(context, pod, offered, interested)


def _once_freed(
    context: contexts.Context, pod: model.Pod, offered: candidates.Candidates, snapshot: snapshots.Snapshot
) -> snapshots.Snapshot:
    """The state once it shows that the pods are gone that were evicted for the pod on its nominated node.

    kube-scheduler offers the node, so they are. If the pod is refused there, kube-scheduler finds no pod to
    evict, and clears the nomination that holds the node.
    """
    until = context.monotonic() + FREED
    while pod.nominated in offered.nodes and _occupied(pod, snapshot) and context.monotonic() < until:
        context.sleep(PAUSE)
        try:
            snapshot = context.present(max(PAUSE, until - context.monotonic()))
        except store_errors.StoreError:
            break  # The state was the head of the log when the call arrived.
    return snapshot


def _occupied(pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
    """Whether pods that are being evicted leave no capacity for the pod on its nominated node."""
    node = snapshot.nodes.get(pod.nominated)
    if node is None or not any(one.terminating and one.preempted for one in snapshot.on(node.name)):
        return False
    return bool(node_fit.crowded(pod, node, node_fit.occupancy(snapshot, node.name)))


def _decided(
    plugins: registry.Registry,
    pod: model.Pod,
    offered: candidates.Candidates,
    snapshot: snapshots.Snapshot,
) -> verdicts.Trace:
    cycle = cycles.cycle(pod, offered.nodes, snapshot, score_max=plugins.score_max, offered=True)
    return pipeline.run_filter(plugins, cycle)


def run_only_one(context: contexts.Context, pod: model.Pod, offered: candidates.Candidates) -> Answer:
    """As run, with the best of the kept nodes: by score, then rank, then a stable hash."""
    filtered = run(context, pod, offered, verb="filter_onlyone")
    snapshot = filtered.snapshot
    cycle = cycles.cycle(pod, filtered.trace.kept, snapshot, score_max=context.plugins.score_max)
    try:
        scored = score(context, "filter_onlyone", cycle)
        trace = replace(
            filtered.trace,
            ratings=scored.ratings,
            totals=scored.totals,
            transformed=pipeline.transformed(filtered.trace, scored),
        )
        return Answer(trace, snapshot, only=pipeline.best(context.plugins, cycle, trace), single=True)
    except cycles.HookFailed as failed:
        # Scores are preferences: without them, any kept node is as good as another.
        telemetry.fault("filter_onlyone", pod.key, failed)
        return Answer(filtered.trace, snapshot, only=min(filtered.trace.kept, default=None), single=True)


def score(context: contexts.Context, verb: str, cycle: cycles.Cycle) -> verdicts.Trace:
    """The scores of all plugins but those that fail: scores are preferences. Raises HookFailed."""
    failing: list[str] = []
    while True:
        try:
            return pipeline.run_score(context.plugins, cycle, without=failing)
        except cycles.HookFailed as failed:
            if failed.hook != "score":
                raise
            telemetry.fault(verb, cycle.pod.key, failed)
            failing.append(failed.plugin)


def hard(context: contexts.Context, pod: model.Pod) -> bool:
    """Whether some plugin must filter the pod and cannot without state that is not available."""
    return any(binds(context, plugin, pod) for plugin in context.plugins.filters)


def binds(context: contexts.Context, plugin: capabilities.Plugin, pod: model.Pod) -> bool:
    """Whether the plugin has to decide on the pod, and cannot without state that is not available."""
    softens, last_known = context.plugins.degrades.get(plugin.name), context.state.snapshot
    if softens is None or context.unreliable(last_known):
        # The log of another cluster may have rules of the same names, and lacks those of this one. A log that
        # was cut may lack any.
        return plugin.interested(pod)
    return plugin.interested(pod) and not softens.soft(pod, last_known)


def passed(
    context: contexts.Context,
    pod: model.Pod,
    offered: candidates.Candidates,
    interested: tuple[str, ...],
) -> Answer:
    """The answer that keeps all candidates, without asking any plugin."""
    last_known = context.state.snapshot
    trace = verdicts.Trace(
        position=last_known.position, pod=pod, candidates=offered.nodes, interested=interested
    )
    return Answer(trace, last_known)
