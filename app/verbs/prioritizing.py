"""prioritize: scores the offered nodes for the pod. Never fails: without state every node has 0."""

from app.domain import model
from app.framework import cycles
from app.store import errors as store_errors
from app.verbs import candidates, contexts, filtering


def run(context: contexts.Context, pod: model.Pod, offered: candidates.Candidates) -> filtering.Answer:
    """The scores of the candidates; those not in the totals have 0."""
    interested = context.plugins.interested(pod)
    if not interested:
        return filtering.passed(context, pod, offered, interested)
    try:
        # kube-scheduler too scores on the snapshot that it filtered on, and scores reserve nothing.
        snapshot = context.followed(pod.uid) or context.present(context.time_limits.state)
    except store_errors.StoreError:
        return filtering.passed(context, pod, offered, interested)
    cycle = cycles.cycle(pod, offered.nodes, snapshot, score_max=context.plugins.score_max)
    return filtering.Answer(filtering.score(context, "prioritize", cycle), snapshot)
