"""filter and filter_onlyone: which of the offered nodes may the pod go to.

Writes nothing: kube-scheduler asks hypothetically and never says what came of it. A pod that no
plugin is interested in is answered without the store; with the store away, a pod that only soft
rules apply to passes, every other gets an error (architecture 4, 5, 16).
"""

from dataclasses import dataclass

from app.domain import model, snapshots, verdicts
from app.framework import cycles, running
from app.store import errors as store_errors
from app.verbs import candidates, contexts, errors


@dataclass(frozen=True, slots=True)
class Answer:
    """A trace, and the one chosen node where only one was asked for."""

    trace: verdicts.Trace
    snapshot: snapshots.Snapshot
    """What was decided on."""
    only: model.NodeName | None = None
    single: bool = False
    """Only one node was asked for: ``only`` is the answer, None if no node is kept."""


def run(context: contexts.Context, pod: model.Pod, offered: candidates.Candidates) -> Answer:
    """Which candidates are kept and why the others are refused.

    Raises StateAway if a hard rule applies and the state cannot be had in time.
    """
    plugins = context.plugins
    interested = plugins.interested(pod)
    if not interested:
        return passed(context, pod, offered, interested)
    try:
        snapshot = context.present(context.budgets.state)
    except store_errors.StoreError as away:
        if hard(context, pod):
            raise errors.StateAway(
                f"topolog: the store is away ({away}); pods of {', '.join(interested)} wait until it is back"
            ) from away
        return passed(context, pod, offered, interested)
    recent = context.recents.get(pod.uid)
    # Read once: calls about other pods let it be forgotten at any moment.
    known = recent.trace if recent is not None and recent.offered is offered and recent.pod is pod else None
    if known is not None and known.position == snapshot.position and known.candidates is offered.nodes:
        return Answer(known, snapshot)
    cycle = cycles.cycle(pod, offered.nodes, snapshot, score_max=plugins.score_max)
    trace = running.run_filter(plugins, cycle)
    if recent is not None and recent.offered is offered:
        recent.trace = trace
    return Answer(trace, snapshot)


def run_only_one(context: contexts.Context, pod: model.Pod, offered: candidates.Candidates) -> Answer:
    """As run, but of the kept nodes only the best one: score, then rank, then a stable hash."""
    filtered = run(context, pod, offered)
    snapshot = filtered.snapshot
    cycle = cycles.cycle(pod, filtered.trace.kept, snapshot, score_max=context.plugins.score_max)
    scored = running.run_score(context.plugins, cycle)
    trace = verdicts.Trace(
        position=filtered.trace.position,
        pod=pod,
        candidates=offered.nodes,
        interested=filtered.trace.interested,
        refusals=filtered.trace.refusals,
        ratings=scored.ratings,
        totals=scored.totals,
        assumed=filtered.trace.assumed,
    )
    return Answer(trace, snapshot, only=running.best(context.plugins, cycle, trace), single=True)


def hard(context: contexts.Context, pod: model.Pod) -> bool:
    """Whether some plugin would have to refuse nodes to the pod on state that is not to be had."""
    last_known, softens = context.state.snapshot, context.plugins.softens
    return any(
        plugin.interested(pod) and not (plugin.name in softens and softens[plugin.name].soft(pod, last_known))
        for plugin in context.plugins.filters
    )


def passed(
    context: contexts.Context,
    pod: model.Pod,
    offered: candidates.Candidates,
    interested: tuple[str, ...],
) -> Answer:
    """The answer to a pod that keeps all its candidates, unasked."""
    last_known = context.state.snapshot
    trace = verdicts.Trace(
        position=last_known.position, pod=pod, candidates=offered.nodes, interested=interested
    )
    return Answer(trace, last_known)
