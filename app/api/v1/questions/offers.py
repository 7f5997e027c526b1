"""The recorded candidates of a pod: the nodes that kube-scheduler offered last, up to a moment."""

from typing import NamedTuple

from app.api.introspection import heavy, services
from app.api.v1 import decisions
from app.domain import events, model, node_sets
from app.domain.fit import fitting_nodes
from app.store.decisions import records
from app.verbs.explain import explanations
from app.verbs.questions import candidate_choice, errors, situations


class Offer(NamedTuple):
    """Candidates, and the sentences about where they come from."""

    before: node_sets.Names
    """Without the overrides."""
    names: node_sets.Names
    """In the situation."""
    limits: list[str]
    lacking: list[str]
    """The rules of kube-scheduler that roomy candidates do not follow for this pod."""
    roomy: bool = False


def of_one(
    choice: str | list[str], pod: model.Pod, resolved: situations.Resolved, *, supposed: bool
) -> Offer:
    """The candidates of one pod; a supposed one, which does not exist at the moment, has no decision.

    Raises Mistake and StoreError.
    """
    searched: list[str] = []
    if choice in ("", candidate_choice.RECORDED):
        recorded, unfinished = (None, False) if supposed else _recorded(pod, resolved)
        if recorded is not None:
            return recorded
        where = f" in the {records.MAX_SCANNED:,} records before the moment" if unfinished else ""
        if choice:
            text = f"no decision about pod {pod.key} is recorded{where}: use all or roomy"
            raise errors.Mistake("candidates", text)
        choice = candidate_choice.ALL
        searched = [f"no decision about the pod is recorded{where}"] if where else []
    names, limit = candidate_choice.of(choice, resolved.base)
    if names is None:
        asked = resolved.snapshot.pod(pod.uid) or pod
        before = fitting_nodes.FittingNodes(resolved.base).of(pod)
        same = resolved.snapshot is resolved.base
        after = before if same else fitting_nodes.FittingNodes(resolved.snapshot).of(asked)
        lacking = candidate_choice.lacking(names, resolved.snapshot, (asked,))
        return Offer(before, after, candidate_choice.limits(limit, lacking), lacking, roomy=True)
    return Offer(names, resolved.offered(names), [limit, *searched], [])


def _recorded(pod: model.Pod, resolved: situations.Resolved) -> tuple[Offer | None, bool]:
    """The candidates of the pod's latest attempt up to the moment, as far as they exist; and whether the
    search ended early.

    None without one: a former pod of that name may have been offered other nodes.
    """
    given, position = services.current(), resolved.base.position
    scan = decisions.Scan(records.DecisionQuery(pod=pod.uid), position)
    for decision in scan:
        usable = decision.verb in explanations.ATTEMPTS and "candidates" not in decision.shortened
        if usable and decision.position.incarnation == position.incarnation:
            snapshot = given.histories.of(decision.position, attended=heavy.attended())
            everywhere = resolved.base.topology.everywhere
            offered = given.decisions.candidates(decision, snapshot)
            names = node_sets.shared(offered & everywhere, everywhere)
            limits = [candidate_choice.from_record(decision.id)]
            if _may_admit(resolved):
                limits.append(candidate_choice.NOT_OFFERED)
            return Offer(names, resolved.offered(names), limits, []), False
    return None, scan.unfinished is not None


def _may_admit(resolved: situations.Resolved) -> bool:
    """Whether kube-scheduler may offer more nodes in the situation: a changed one, or one with fewer pods."""
    before = resolved.base.nodes
    return any(
        isinstance(one, events.PodGone)
        or (isinstance(one, events.NodeSeen) and one.node.name in before and not one.node.unschedulable)
        for one in resolved.happened
    )
