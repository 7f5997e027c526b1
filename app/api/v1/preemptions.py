"""Shows what preemption would do for a pod at any moment: a dry run that evicts no pod."""

import functools

from marshmallow import Schema, fields

from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, schemas, services
from app.api.v1.questions import bodies
from app.domain import model, snapshots
from app.domain.fit import victims
from app.framework import registry
from app.verbs.explain import preemptions
from app.verbs.questions import question_schema

routes = blueprints.create("preemption", "/apis/v1", "Which pods would be evicted for a pod, and where.")


class Eligible(Schema):
    """Whether the pod may preempt others."""

    is_ = fields.Boolean(required=True, data_key="is", metadata={"description": "Whether it may."})
    reason = schemas.text("Why it may not; empty if it may.")


class Victim(Schema):
    """A pod that would be evicted."""

    namespace = schemas.text("Namespace.")
    name = schemas.text("Name.")
    uid = schemas.text("UID.")
    priority = schemas.number("Priority.")
    started = schemas.text("When it started (RFC 3339); empty if it has not.")
    violating = schemas.truth("Whether its eviction violates a PodDisruptionBudget.")
    coDependent = schemas.truth("Whether a plugin adds it: for another victim, or for a quota.")


class PreemptedNode(Schema):
    """A node that does not admit the pod as it is."""

    node = schemas.text("The node.")
    reasons = schemas.texts("Why the pod does not fit there as it is, in kube-scheduler's words.")
    candidates = schemas.number("Less important pods there; 0 if the dry run does not get that far.")
    victims = schemas.nested(Victim, "The pods that would be evicted, most important first.", many=True)
    violations = schemas.number("Victims whose eviction violates a PodDisruptionBudget.")
    dropped = schemas.text("Why no pod would be evicted there; empty for a candidate node.")


class Preemption(Schema):
    """The result of a dry run."""

    pod = schemas.nested(schemas.PodReference, "The pod.")
    priority = schemas.number("Its priority.")
    position = schemas.text("The log position that it was computed at.")
    eligible = schemas.nested(Eligible, "Whether the pod may preempt others.")
    needed = schemas.truth("Whether no node admits the pod as it is; otherwise no pod is evicted.")
    fits = schemas.number("Nodes that admit the pod as they are.")
    examples = schemas.texts("The first of them by name.")
    chosen = schemas.optional("The node whose victims would be evicted, or null.")
    decidedBy = schemas.text("The criterion that decided between the candidate nodes; empty without one.")
    nodes = schemas.nested(PreemptedNode, "The other nodes: candidates first, then by name.", many=True)
    more = schemas.number("Nodes that are not in nodes.")
    notModelled = schemas.texts("Rules of kube-scheduler that are not applied and may change the result.")
    complete = schemas.truth("False if the budget was spent before all nodes were judged.")
    unjudged = schemas.number("Nodes that were not judged: neither in fits nor in nodes, and never chosen.")


@blueprints.get(routes, "/pods/<namespace>/<name>/preemption", Preemption, query=queries.DryRun)
def preemption(query: pages.Query, namespace: str, name: str) -> pages.Body:
    """What preemption would do for the pod: victims per node, and the node that would be chosen."""
    snapshot = moments.take(query.get("at") or moments.NOW).snapshot
    pod = snapshot.pod_named(namespace, name)
    if pod is None:
        raise errors.missing("pod", f"{namespace}/{name}")
    allowed = bodies.Budget(question_schema.BUDGET_SECONDS)
    return shown(within(allowed, pod, snapshot, services.current().registry), int(query["limit"]))


SELECTING = 0.6
"""The part of the budget in which victims are selected; the plugins are asked about them in the rest."""


def within(
    budget: bodies.Budget, pod: model.Pod, snapshot: snapshots.Snapshot, plugins: registry.Registry
) -> preemptions.Preemption:
    """The dry run of as many nodes as the budget allows."""
    selecting = functools.partial(budget.running, SELECTING)
    return preemptions.dry_run(pod, snapshot, plugins, selecting=selecting, running=budget.running)


def shown(found: preemptions.Preemption, limit: int) -> pages.Body:
    """The result of a dry run, with so many nodes."""
    pod = found.pod
    return {
        "pod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "priority": pod.priority,
        "position": str(found.position),
        "eligible": {"is_": not found.ineligible, "reason": found.ineligible},
        "needed": found.needed,
        "fits": len(found.fitting),
        "examples": found.fitting[:EXAMPLES],
        "chosen": found.choice.node if found.choice is not None else None,
        "decidedBy": found.choice.decided_by if found.choice is not None else "",
        "nodes": [_node(one) for one in found.outcomes[:limit]],
        "more": max(0, len(found.outcomes) - limit),
        "notModelled": found.unmodelled,
        "complete": not found.unjudged,
        "unjudged": found.unjudged,
    }


EXAMPLES = 5
"""Node names shown of those that admit the pod."""


def _node(one: preemptions.NodeOutcome) -> pages.Body:
    eviction = one.eviction or victims.Eviction(())
    return {
        "node": one.node,
        "reasons": one.reasons,
        "candidates": one.candidates,
        "victims": [_victim(one, eviction, victim) for victim in eviction.victims],
        "violations": eviction.violations,
        "dropped": one.dropped,
    }


def _victim(one: preemptions.NodeOutcome, eviction: victims.Eviction, victim: model.Pod) -> pages.Body:
    return {
        "namespace": victim.namespace,
        "name": victim.name,
        "uid": victim.uid,
        "priority": victim.priority,
        "started": victim.started,
        "violating": victim.uid in eviction.violating,
        "coDependent": victim.uid in one.added,
    }
