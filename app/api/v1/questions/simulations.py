"""Simulation: where a pod, several pods, or all that wait would be placed in a situation."""

from collections.abc import Sequence

from marshmallow import Schema

from app.api.introspection import blueprints, moments, pages, schemas, services
from app.api.v1 import explanations as explained
from app.api.v1 import preemptions as preempted
from app.api.v1.questions import bodies, offers
from app.domain import events, model
from app.verbs.explain import preemptions, tables
from app.verbs.questions import asking, errors, offering, simulating, situations

routes = blueprints.create("simulate", "/apis/v1", "Hypothetical questions: nothing is changed.")


class Baseline(Schema):
    """The answer without overrides, under the configuration of the process."""

    fits = schemas.truth("Whether at least one node is kept; for several pods, whether all are placed.")
    kept = schemas.number("Nodes kept; for several pods, how many are placed.")
    summary = schemas.text("One sentence.")


class Placed(Schema):
    """A pod with its node."""

    pod = schemas.text("NAMESPACE/NAME.")
    node = schemas.text("The node.")


class Refused(Schema):
    """A pod that fits nowhere."""

    pod = schemas.text("NAMESPACE/NAME.")
    reason = schemas.text("One sentence.")


class Count(Schema):
    """A count that the placements change."""

    count = schemas.text("The count, POLICY|DOMAIN.")
    before = schemas.number("Before the placements.")
    after = schemas.number("After them.")


class Simulated(Schema):
    """The answer about one pod (with the fields of explain), or about several (with ``placed``)."""

    situation = schemas.nested(bodies.SituationShown, "The situation.")
    baseline = schemas.nested(Baseline, "The answer without overrides.", null=True)
    fits = schemas.truth("Whether the pod fits; for several, whether all are placed.")
    limits = schemas.texts("What the answer does not model.")
    notModelled = schemas.texts(bodies.NOT_MODELLED)
    complete = schemas.truth("False if the budget was spent before all pods were tried.")
    explanation = schemas.nested(explained.Explained, "For one pod: as explain shows it, or null.", null=True)
    preemption = schemas.nested(
        preempted.Preemption, "With ``preemption``: the dry run in the situation, or null.", null=True
    )
    pods = schemas.number("Pods that were tried.")
    placedPods = schemas.number("How many of them were placed.")
    left = schemas.number("Pods that were not tried because the budget was spent.")
    placed = schemas.nested(Placed, "The first pods that were placed, in order; at most ``top``.", many=True)
    refused = schemas.nested(Refused, "The first pods that were refused; at most ``top``.", many=True)
    counts = schemas.nested(Count, "The counts that change; at most ``top``.", many=True)
    moreCounts = schemas.number("Counts that are not shown.")
    spentMs = schemas.number("Milliseconds of work.")


@blueprints.ask(routes, "/simulate", Simulated, question="Simulate")
def simulate(_: pages.Query) -> pages.Body:
    """Where a pod, several pods in order, or all that wait would be placed.

    One pod is decided about as filter and prioritize do. Several are placed one after the other, each on the
    state that the ones before left, by the rule of filter_onlyone; pods that wait come in the order of
    kube-scheduler's queue: priority, age, uid.
    """
    question = bodies.read(asking.Simulate)
    with bodies.answering(heavy=question.pod is None):
        given = [question.pod is not None, question.pods is not None, question.pending is not None]
        if sum(given) != 1:
            raise errors.Mistake("", "exactly one of pod, pods and pending is required")
        if question.preemption and question.pod is None:
            raise errors.Mistake("preemption", "a dry run is that of one pod: use pod")
        supposed = bodies.hypothesis(question.situation)
        shown = bodies.moment(question.situation)
        budget = bodies.Budget(question.budget)
        if question.pod is not None:
            return {**_one(question, question.pod, supposed, shown), "spentMs": budget.spent}
        return {**_several(question, supposed, shown, budget), "spentMs": budget.spent}


def _one(
    question: asking.Simulate,
    pod: str | dict[str, object],
    supposed: situations.Hypothesis,
    shown: moments.Moment,
) -> pages.Body:
    plugins = services.current().registry
    (uid,), added = simulating.introduced((pod,), shown.snapshot, "pod")
    resolved = situations.resolve(shown.snapshot, supposed, first=added)
    asked = resolved.base.pod(uid)
    if asked is None:
        raise errors.Missing("the pod does not exist in the situation")
    offer = offers.of_one(question.candidates, asked, resolved)
    answer = simulating.one(resolved, uid, offer.before, offer.names, plugins)
    explanation = tables.structure(answer.explanation, limit=question.top)
    baseline = answer.baseline
    dry_run = None
    if question.preemption:
        pod_then = resolved.snapshot.pod(uid) or asked
        found = preemptions.dry_run(pod_then, resolved.snapshot, resolved.plugins)
        dry_run = preempted.shown(found, question.top)
    return {
        "situation": bodies.shown(resolved),
        "baseline": {"fits": baseline.kept > 0, "kept": baseline.kept, "summary": baseline.summary},
        "fits": answer.explanation.fits,
        "limits": offer.limits,
        "notModelled": offer.lacking,
        "complete": True,
        "explanation": explanation,
        "preemption": dry_run,
        "pods": 1,
        "placedPods": int(answer.explanation.fits),
        "left": 0,
        "placed": [{"pod": asked.key, "node": answer.chosen}] if answer.chosen else [],
        "refused": [] if answer.explanation.fits else [{"pod": asked.key, "reason": explanation["summary"]}],
        "counts": [],
        "moreCounts": 0,
    }


def _several(
    question: asking.Simulate,
    supposed: situations.Hypothesis,
    shown: moments.Moment,
    budget: bodies.Budget,
) -> pages.Body:
    plugins = services.current().registry
    uids: Sequence[model.Uid]
    added: Sequence[events.AnyEvent] = ()
    if question.pods is not None:
        uids, added = simulating.introduced(question.pods, shown.snapshot, "pods")
    resolved = situations.resolve(shown.snapshot, supposed, first=added)
    if question.pending is not None:
        uids = simulating.waiting(question.pending, resolved.snapshot)
    choice = question.candidates or offering.ROOMY
    if choice == offering.RECORDED:
        raise errors.Mistake("candidates", "recorded candidates are those of one pod: use roomy or all")
    names, limit = offering.of(choice, resolved.base)
    offered = resolved.offered(names) if names is not None else None
    known = (resolved.snapshot.pod(uid) for uid in uids)
    lacking = offering.lacking(names, resolved.snapshot, [pod for pod in known if pod is not None])
    answer = simulating.several(
        resolved.snapshot,
        uids,
        offered,
        resolved.plugins,
        budget.running,
    )
    baseline = None
    if not supposed.nothing and budget.running():
        before = simulating.waiting(question.pending, resolved.base) if question.pending is not None else uids
        all_of = frozenset(names) if names is not None else None
        start = simulating.several(
            resolved.base,
            before,
            all_of,
            plugins,
            budget.running,
        )
        if not start.left:
            baseline = _baseline(start)
    top = question.top
    refused = [one for one in answer.results if not one.node]
    return {
        "situation": bodies.shown(resolved),
        "baseline": _baseline(answer) if supposed.nothing and not answer.left else baseline,
        "fits": not refused and not answer.left,
        "limits": offering.limits(limit, lacking),
        "notModelled": lacking,
        "complete": not answer.left,
        "explanation": None,
        "preemption": None,
        "pods": len(answer.results),
        "placedPods": answer.placed,
        "left": answer.left,
        "placed": [{"pod": one.pod, "node": one.node} for one in answer.results if one.node][:top],
        "refused": [{"pod": one.pod, "reason": one.reason} for one in refused[:top]],
        "counts": [
            {"count": one.count, "before": one.before, "after": one.after} for one in answer.counts[:top]
        ],
        "moreCounts": max(0, len(answer.counts) - top),
    }


def _baseline(answer: simulating.Several) -> pages.Body:
    placed, tried = answer.placed, len(answer.results)
    return {
        "fits": placed == tried,
        "kept": placed,
        "summary": f"{placed} of {tried} pods are placed",
    }
