"""Simulation: where a pod, several pods, a gang, or all that wait would be placed in a situation."""

from collections.abc import Mapping, Sequence
from typing import Any

from marshmallow import Schema

from app.api.introspection import blueprints, moments, pages, schemas, services
from app.api.v1 import explanations as explained
from app.api.v1 import preemptions as preempted
from app.api.v1.questions import bodies, offers
from app.domain import events, model, node_sets, snapshots
from app.framework import registry
from app.verbs.explain import tables
from app.verbs.questions import (
    candidate_choice,
    errors,
    manifests,
    question_schema,
    simulated_placements,
    situations,
)
from app.verbs.questions.groups import group_placement

routes = blueprints.create("simulate", "/apis/v1", "Hypothetical questions: nothing is changed.")


class Baseline(Schema):
    """The answer without overrides, under the configuration of the process."""

    fits = schemas.truth("As ``fits`` of the answer.")
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


class SimulatedGroup(Schema):
    """Pods that are placed together."""

    name = schemas.text("NAMESPACE/NAME.")
    waiting = schemas.number("Members without a node.")
    needed = schemas.number("Members that have to be placed together; 0 if each may be placed alone.")
    remarks = schemas.texts("What the plugin that places them remarks: the plan, or what the group lacks.")


class Simulated(Schema):
    """The answer about one pod (with the fields of explain), several (with ``placed``), or a group."""

    situation = schemas.nested(bodies.SituationShown, "The situation.")
    baseline = schemas.nested(Baseline, "The answer without overrides.", null=True)
    fits = schemas.truth(
        "Whether the pod fits; for several, whether all are placed; for a group, as many as it needs."
    )
    limits = schemas.texts("What the answer does not model.")
    notModelled = schemas.texts(bodies.NOT_MODELLED)
    complete = schemas.truth("False if the budget was spent before all pods, or all nodes, were judged.")
    explanation = schemas.nested(explained.Explained, "For one pod: as explain shows it, or null.", null=True)
    preemption = schemas.nested(
        preempted.Preemption, "With ``preemption``: the dry run in the situation, or null.", null=True
    )
    group = schemas.nested(SimulatedGroup, "For a gang or a group: what it needs, or null.", null=True)
    pods = schemas.number("Pods that were tried.")
    placedPods = schemas.number("How many of them were placed.")
    left = schemas.number("Pods that were not tried because the budget was spent.")
    placed = schemas.nested(Placed, "The first pods that were placed, in order; at most ``top``.", many=True)
    refused = schemas.nested(Refused, "The first pods that were refused; at most ``top``.", many=True)
    counts = schemas.nested(Count, "The counts that change; at most ``top``.", many=True)
    moreCounts = schemas.number("Counts that are not shown.")
    spentMs = schemas.number("Milliseconds of work.")


@blueprints.ask(routes, "/simulate", Simulated, question="Simulate", dumped=False)
def simulate(_: pages.Query) -> pages.Body:
    """Where a pod, several pods in order, a gang, or all that wait would be placed.

    One pod is decided about as filter and prioritize do. Several are placed one after the other, each on the
    state that the ones before left, by the rule of filter_onlyone; pods that wait come in the order of
    kube-scheduler's queue: priority, age, uid. Of a gang or a group, all members that are needed are placed,
    by the plan of the plugin that places them together, or none is.
    """
    question = bodies.read(question_schema.Simulate)
    # What an override costs does not depend on how much it changes.
    light = question.pod is not None and not (question.situation.overrides or question.preemption)
    with bodies.answering(heavy=not light):
        asked = (question.pod, question.pods, question.gang, question.group, question.pending)
        if sum(one is not None for one in asked) != 1:
            raise errors.Mistake("", "exactly one of pod, pods, gang, group and pending is required")
        if question.preemption and question.pod is None:
            raise errors.Mistake("preemption", "a dry run concerns one pod: use pod")
        supposed = bodies.hypothesis(question.situation)
        shown = bodies.moment(question.situation)
        budget = bodies.Budget(question.budget)
        supposed = budget.limited(supposed)
        if question.pod is not None:
            return {**_one(question, question.pod, supposed, shown, budget), "spentMs": budget.spent}
        return {**_several(question, supposed, shown, budget), "spentMs": budget.spent}


def _one(
    question: question_schema.Simulate,
    pod: str | dict[str, object],
    supposed: situations.Supposition,
    shown: moments.Moment,
    budget: bodies.Budget,
) -> pages.Body:
    plugins = services.current().registry
    (uid,), added = simulated_placements.introduced((pod,), shown.snapshot, "pod")
    if question.preemption and not isinstance(pod, str) and (unknown := manifests.unknown_priority(pod)):
        text = f"a dry run requires it: PriorityClass {unknown} is not recorded"
        raise errors.Mistake("pod.spec.priority", text)
    resolved = situations.resolve(shown.snapshot, supposed, first=added)
    asked = resolved.base.pod(uid)
    if asked is None:
        raise errors.Missing("the pod does not exist in the situation")
    supposed_pod = shown.snapshot.pod(uid) is None
    offer = offers.of_one(question.candidates, asked, resolved, supposed=supposed_pod)
    answer = simulated_placements.one(resolved, uid, offer.before, offer.names, plugins)
    explanation = tables.structure(answer.explanation, limit=question.top, chosen=answer.chosen)
    baseline = answer.baseline
    dry_run = None
    if question.preemption:
        pod_then = resolved.snapshot.pod(uid) or asked
        found = preempted.within(budget, pod_then, resolved.snapshot, resolved.plugins)
        dry_run = preempted.Preemption().dump(preempted.shown(found, question.top))
    return {
        "situation": bodies.shown(resolved),
        "baseline": {"fits": baseline.kept > 0, "kept": baseline.kept, "summary": baseline.summary},
        "fits": answer.explanation.fits,
        "limits": [
            *offer.limits,
            *simulated_placements.unscheduled((asked,), resolved.base),
            *simulated_placements.unadmitted((pod,), supposed.operations),
        ],
        "notModelled": offer.lacking,
        "complete": dry_run is None or dry_run["complete"],
        "explanation": explanation,
        "preemption": dry_run,
        "group": None,
        "pods": 1,
        "placedPods": int(answer.explanation.fits),
        "left": 0,
        "placed": [{"pod": asked.key, "node": answer.chosen}] if answer.chosen else [],
        "refused": [] if answer.explanation.fits else [{"pod": asked.key, "reason": explanation["summary"]}],
        "counts": [],
        "moreCounts": 0,
    }


def _several(
    question: question_schema.Simulate,
    supposed: situations.Supposition,
    shown: moments.Moment,
    budget: bodies.Budget,
) -> pages.Body:
    plugins = services.current().registry
    asked = _Asked(question, shown.snapshot, supposed.plugins)
    resolved = situations.resolve(shown.snapshot, supposed, first=asked.added)
    names, limit = candidate_choice.several(question.candidates, resolved.base)
    offered = resolved.offered(names) if names is not None else None
    pods = asked.pods(resolved.snapshot, resolved.plugins)
    lacking = candidate_choice.lacking(names, resolved.snapshot, pods)
    remarks = simulated_placements.unscheduled(pods, resolved.base)
    remarks += simulated_placements.unadmitted(asked.given, supposed.operations)
    answer, group = asked.place(resolved.snapshot, offered, resolved.plugins, budget.running)
    baseline = None
    if not supposed.nothing and budget.running() and asked.exist(resolved.base, plugins):
        start, group_then = asked.place(resolved.base, names, plugins, budget.running)
        if not start.left:
            baseline = _baseline(start, group_then)
    top = question.top
    refused = [one for one in answer.results if not one.node]
    return {
        "situation": bodies.shown(resolved),
        "baseline": _baseline(answer, group) if supposed.nothing and not answer.left else baseline,
        "fits": _fits(answer, group),
        "limits": [*candidate_choice.limits(limit, lacking), *remarks],
        "notModelled": lacking,
        "complete": not answer.left,
        "explanation": None,
        "preemption": None,
        "group": _group(group, resolved, offered) if group is not None else None,
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


class _Asked:
    """The pods of a question about several, in any situation."""

    def __init__(
        self, question: question_schema.Simulate, snapshot: snapshots.Snapshot, plugins: registry.Registry
    ) -> None:
        """Raises Mistake and Missing."""
        self.added: Sequence[events.AnyEvent] = ()
        """The events that add the pods which do not exist."""
        self.given: Sequence[str | Mapping[str, Any]] = question.pods or ()
        """The pods by name, or as manifests."""
        self._uids: Sequence[model.Uid] = ()
        self._group = question.group or ""
        self._pending = question.pending
        if question.pods is not None:
            self._uids, self.added = simulated_placements.introduced(question.pods, snapshot, "pods")
        elif question.gang is not None:
            self.given = (question.gang.template,)
            self._group, self.added = group_placement.introduced(question.gang, plugins, snapshot)

    def pods(self, snapshot: snapshots.Snapshot, plugins: registry.Registry) -> list[model.Pod]:
        """Those that the situation has."""
        if self._group:
            return list(group_placement.find(plugins, snapshot, self._group).waiting)
        return [pod for uid in self._of(snapshot) if (pod := snapshot.pod(uid)) is not None]

    def exist(self, snapshot: snapshots.Snapshot, plugins: registry.Registry) -> bool:
        """Whether there is what is asked about: a group may exist only in the situation."""
        return not self._group or any(plugin.group(snapshot, self._group) for plugin in plugins.groups)

    def place(
        self,
        snapshot: snapshots.Snapshot,
        candidates: node_sets.Names | None,
        plugins: registry.Registry,
        running: simulated_placements.Running,
    ) -> tuple[simulated_placements.Several, group_placement.Outcome | None]:
        """Where they are placed, and what became of the group. Raises Missing."""
        offered = frozenset(candidates) if candidates is not None else None
        if self._group:
            outcome = group_placement.place(plugins, snapshot, self._group, offered, running)
            return outcome.several, outcome
        return simulated_placements.several(snapshot, self._of(snapshot), offered, plugins, running), None

    def _of(self, snapshot: snapshots.Snapshot) -> Sequence[model.Uid]:
        return (
            simulated_placements.waiting(self._pending, snapshot) if self._pending is not None else self._uids
        )


def _group(
    outcome: group_placement.Outcome, resolved: situations.Resolved, offered: frozenset[model.NodeName] | None
) -> pages.Body:
    group = outcome.group
    names = resolved.snapshot.topology.everywhere if offered is None else offered
    remarks: Sequence[str] = ()
    if group.waiting:
        remarks = group_placement.remarks(
            resolved.plugins, resolved.snapshot, group.waiting[0], frozenset(names)
        )
    return {
        "name": group.name,
        "waiting": len(group.waiting),
        "needed": group.needed,
        "remarks": list(remarks),
    }


def _fits(answer: simulated_placements.Several, group: group_placement.Outcome | None) -> bool:
    """Whether all are placed; of a group, as many as it needs."""
    if group is not None:
        return group.fits
    return not answer.left and answer.placed == len(answer.results)


def _baseline(answer: simulated_placements.Several, group: group_placement.Outcome | None) -> pages.Body:
    placed, tried = answer.placed, len(answer.results)
    summary = f"{placed} of {tried} pods are placed"
    if group is not None and not tried:
        summary = group.summary
    return {"fits": _fits(answer, group), "kept": placed, "summary": summary}
