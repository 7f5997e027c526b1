"""The recorded candidates of a pod: the nodes that kube-scheduler offered last, up to a moment."""

from typing import NamedTuple

from app.api.introspection import heavy, services
from app.api.v1 import decisions
from app.domain import model, node_sets
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


def of_one(choice: str | list[str], pod: model.Pod, resolved: situations.Resolved) -> Offer:
    """The candidates of one pod. Raises Mistake and StoreError."""
    if choice in ("", candidate_choice.RECORDED):
        recorded = _recorded(pod, resolved)
        if recorded is not None:
            return recorded
        if choice:
            text = f"no decision about pod {pod.key} is recorded: use all or roomy"
            raise errors.Mistake("candidates", text)
        choice = candidate_choice.ALL
    names, limit = candidate_choice.of(choice, resolved.base)
    if names is None:
        asked = resolved.snapshot.pod(pod.uid) or pod
        before = fitting_nodes.FittingNodes(resolved.base).of(pod)
        same = resolved.snapshot is resolved.base
        after = before if same else fitting_nodes.FittingNodes(resolved.snapshot).of(asked)
        lacking = candidate_choice.lacking(names, resolved.snapshot, (asked,))
        return Offer(before, after, candidate_choice.limits(limit, lacking), lacking, roomy=True)
    return Offer(names, resolved.offered(names), [limit], [])


def _recorded(pod: model.Pod, resolved: situations.Resolved) -> Offer | None:
    """The candidates of the pod's latest attempt up to the moment; None without one."""
    given, position = services.current(), resolved.base.position
    for decision in decisions.Scan(records.DecisionQuery(pod=pod.key)):
        usable = decision.verb in explanations.ATTEMPTS and "candidates" not in decision.shortened
        same = decision.position.incarnation == position.incarnation
        if usable and same and decision.position.offset <= position.offset:
            snapshot = given.histories.of(decision.position, attended=heavy.attended())
            names = given.decisions.candidates(decision, snapshot)
            return Offer(names, resolved.offered(names), [candidate_choice.from_record(decision.id)], [])
    return None
