"""Views of gangs, in Koordinator's fields, and with their plan, seats, and what they lack."""

import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from app import plurals
from app.domain import model, snapshots
from app.framework import cycles, views
from app.plugins.coscheduling import (
    admission,
    gang_model,
    gangs,
    kinds,
    membership,
    node_classes,
    options,
    questions,
    samples,
)
from app.plugins.coscheduling.gangs import Gang
from app.plugins.coscheduling.membership import GangKey
from app.plugins.coscheduling.planner import domains, plans, shortages

Json = dict[str, Any]
DOMAINS, CONFLICTS = 20, 10
"""Domains in the view of a gang, and members with other options."""

TABLES = (
    views.Table(
        "gangs",
        "gangs",
        "gangs of pods; with NAME the plan of one",
        {
            "GANG": "key",
            "MINIMUM": "minRequiredNumber",
            "MEMBERS": "members",
            "PLACED": "placed",
            "DOMAIN": "domain",
            "STATE": "state",
            "MISSING": "missing",
        },
        namespace="name",
        named=True,
        identity="key",
    ),
)


def shown(rules: admission.GangRules) -> views.Shown:
    """All views."""

    def listed(path: str, summary: str) -> views.Endpoint:
        handle = partial(partial, _listed, rules)
        return views.Endpoint(path, summary, handle(cycles.ALONE), [samples.SUMMARY], beside=handle)

    def one(path: str, summary: str) -> views.Endpoint:
        handle = partial(partial, _one, rules)
        return views.Endpoint(path, summary, handle(cycles.ALONE), samples.GANG, beside=handle)

    return views.Shown(
        endpoints=(
            listed("gangs", "All gangs"),
            one("gangs/<namespace>/<name>", "One gang: its plan, domains and seats"),
            one("gangs/<family>/<namespace>/<name>", "The same of one family"),
            one("gang/<namespace>/<name>", "As gangs/NAMESPACE/NAME, at Koordinator's path"),
        ),
        remarks=partial(_remarks, rules),
        followed=(views.Followed("gang", "gangs", TABLES[0], numbers, changed_by=_named),),
        painted=(
            views.Painted("gang", node_classes.CLASSES, names, partial(node_classes.nodes, rules.layers)),
        ),
        concerns=(views.Concern("gang", _concerned),),
    )


def _concerned(_: snapshots.Snapshot, pod: model.Pod) -> Iterator[model.NamespacedName]:
    """The gang of the pod."""
    return _named(pod)


def _named(pod: model.Pod) -> Iterator[model.NamespacedName]:
    """The gang that has the pod among its members."""
    key = membership.of(pod)
    if key is not None:
        yield key.short


def keys(snapshot: snapshots.Snapshot) -> set[GangKey]:
    """All gangs: those of objects, and those that only pods name."""
    found = membership.all_keys(snapshot)
    for family, kind in kinds.OF_FAMILY.items():
        found.update(GangKey(family, one.namespace, one.name) for one in snapshot.all(kind).values())
    return found


def names(snapshot: snapshots.Snapshot) -> Iterator[model.NamespacedName]:
    """The gangs that have a member on a node, by name."""
    for name, found in itertools.groupby(
        sorted(keys(snapshot), key=lambda one: one.short), lambda one: one.short
    ):
        members = (pod for key in found for pod in membership.members(snapshot, key))
        if any(not pod.finished and snapshot.node_of(pod.uid) for pod in members):
            yield name


def _listed(
    rules: admission.GangRules, peers: cycles.Peers, snapshot: snapshots.Snapshot, _: Mapping[str, str]
) -> views.Listed:
    found = {key: gang for key in keys(snapshot) if (gang := gangs.find(snapshot, key)) is not None}
    return views.Listed(sorted(found), lambda key: _summary(rules, snapshot, found[key], peers))


def _one(
    rules: admission.GangRules,
    peers: cycles.Peers,
    snapshot: snapshots.Snapshot,
    parameters: Mapping[str, str],
) -> Json | None:
    wanted = parameters.get("family")
    families = [each for each in gang_model.FAMILIES if wanted in (None, each)]
    gang = questions.named(snapshot, f"{parameters['namespace']}/{parameters['name']}", families)
    if gang is None:
        return None
    question, plan = planned(rules, snapshot, gang, peers)
    return {
        **_summary(rules, snapshot, gang, peers),
        "plan": {
            "domain": list(plan.domain),
            "layers": list(plan.layers),
            "members": [{"pod": pod.key, "node": plan.seats[pod.uid]} for pod in plan.pods],
        },
        "domains": [
            {"path": list(one.path), "slots": one.slots, "existing": one.existing}
            for one in (shortages.listed(question, DOMAINS) if gang.waiting else ())
        ],
        "seats": [
            {
                "pod": seat.pod.key,
                "node": seat.node,
                "state": "bound" if seat.bound else "placed",
                "at": "" if seat.bound else _placed_at(snapshot, seat.pod),
            }
            for seat in gang.seats
        ],
    }


def planned(
    rules: admission.GangRules, snapshot: snapshots.Snapshot, gang: Gang, peers: cycles.Peers
) -> tuple[plans.PlanRequest, plans.GangPlan]:
    """The plan of a gang of the state over all nodes, as for a call of filter."""
    found = admission.planned(snapshot, gang.key, rules, peers)
    assert found is not None, gang.key
    return found.question, found.plan


def _summary(
    rules: admission.GangRules, snapshot: snapshots.Snapshot, gang: Gang, peers: cycles.Peers
) -> Json:
    question, plan = planned(rules, snapshot, gang, peers)
    bound = [seat.pod.key for seat in gang.seats if seat.bound]
    placed = [seat.pod.key for seat in gang.seats if not seat.bound]
    waiting = [pod.key for pod in gang.waiting]
    children = sorted([*bound, *placed, *waiting, *(pod.key for pod in gang.others)])
    return {
        "name": gang.key.short,
        "family": gang.key.family,
        "key": str(gang.key),
        "state": state(gang, plan),
        "waitTime": gang.waiting_time,
        "createTime": gang.created,
        "mode": gang.given.mode,
        "gangMatchPolicy": gang.given.match,
        "minRequiredNumber": gang.minimum,
        "totalChildrenNum": max(gang.given.total, gang.minimum),
        "gangGroup": [key.short for key in gang.together],
        "children": children,
        "pendingChildren": sorted(waiting),
        "waitingForBindChildren": sorted(placed),
        "boundChildren": sorted(bound),
        "onceResourceSatisfied": gang.satisfied,
        "gangFrom": gang.source,
        "hasGangInit": bool(gang.minimum),
        "definedBy": gang.defined_by,
        "members": len(children),
        "placed": len(gang.seats),
        "domain": "/".join(plan.domain) if gang.waiting else "",
        "conflicts": warnings(snapshot, gang),
        "errors": list(gang.errors),
        "reason": plan.reason,
        "missing": missing(gang, question, plan),
    }


def missing(gang: Gang, question: plans.PlanRequest, plan: plans.GangPlan) -> str:
    """What capacity a gang without a plan lacks, in numbers; empty if it is refused for another reason."""
    if not (plan.reason and gang.waiting and gang.minimum) or gang.errors or gang.present < gang.minimum:
        return ""
    if any(one.needed > len(one.waiting) for one in question.gangs):
        return ""
    found = shortages.shortage(question)
    return found.sentence if found.exists else ""


def warnings(snapshot: snapshots.Snapshot, gang: Gang) -> list[str]:
    """What of the options of the gang, or of its members, does not count."""
    left_out = domains.left_out(snapshot, gang.given.gather)
    text = "the network topology has no layer {}: it is preferred, and left out"
    return [*conflicts(gang), *map(text.format, left_out)]


def conflicts(gang: Gang) -> list[str]:
    """The first members with other options than the one that defines the gang.

    All options of all members are read; of a gang beyond the limit none is.
    """
    if gang.source != "GangFromPodAnnotation" or gang.present > gang_model.LARGEST:
        return []
    pods = (*(seat.pod for seat in gang.seats), *gang.waiting, *gang.others)
    found = [
        f"pod {pod.key} has other options"
        for pod in sorted(pods, key=membership.age)
        if options.minimum(pod.annotations, pod.labels) is not None
        and options.read(pod.annotations, pod.labels) != gang.given
    ]
    if len(found) > CONFLICTS:
        found[CONFLICTS:] = [f"and {len(found) - CONFLICTS} more"]
    return found


def state(gang: Gang, plan: plans.GangPlan) -> str:
    """The state of the gang as one word."""
    if gang.errors:
        return "invalid"
    if gang.waiting and not plan.seats:
        return "waiting"
    if gang.waiting:
        return "ready"
    if any(not seat.bound for seat in gang.seats):
        return "placed"
    return "running" if gang.seats else "empty"


def numbers(snapshot: snapshots.Snapshot, name: str) -> Mapping[str, int]:
    """The members of the gang, those with a node, those that wait, and how many it needs."""
    gang = questions.named(snapshot, name)
    if gang is None:
        return {}
    return {
        "minimum": gang.minimum,
        "members": gang.present + len(gang.others),
        "with a seat": len(gang.seats),
        "waiting": len(gang.waiting),
    }


def _placed_at(snapshot: snapshots.Snapshot, pod: model.Pod) -> str:
    placement = snapshot.placements.get(pod.uid)
    return placement.at if placement is not None else ""


def _remarks(rules: admission.GangRules, cycle: cycles.Cycle) -> Iterator[str]:
    """The gang of the pod, its plan, and what it lacks."""
    key = membership.of(cycle.pod)
    if key is None:
        return
    for other in membership.others(cycle.pod):
        yield f"gang {key}: the pod also names {other}, which does not count"
    seat, read = cycle.placement, cycle.snapshot.schema.read_of_pod
    if seat is not None and seat.planned and (left := admission.outdated(cycle.pod, seat)):
        yield f"gang {key}: {left}, for which it has a seat on node {cycle.reserved}"
    elif seat is not None and seat.planned and read(cycle.pod) != read(seat.pod):
        yield f"gang {key}: the pod has changed since it got its seat on node {cycle.reserved}"
    elif cycle.reserved:
        yield f"gang {key}: the pod has a seat on node {cycle.reserved}"
        return
    found = admission.decide(cycle, rules)
    if found is None:
        return
    gang, plan = found.gang, found.plan
    if gang.present:  # A gang beyond the limit is found without its members.
        yield (
            f"gang {key}: minimum {gang.minimum}, {len(gang.seats)} on nodes, {len(gang.waiting)} waiting;"
            f" defined by {gang.defined_by or 'nothing'}"
        )
    for warning in warnings(cycle.snapshot, gang):
        yield f"gang {key}: {warning}"
    if plan.seats:
        where = "/".join(plan.domain) or "the cluster"
        seats = [f"{pod.key} on {plan.seats[pod.uid]}" for pod in plan.pods]
        yield f"gang {key}: plan in {where}: {plurals.listed(seats, DOMAINS)}"
        return
    yield found.reason
    question = plans.PlanRequest(cycle.snapshot, found.together, rules.layers, cycle.peers)
    if text := missing(gang, question, plan):
        yield f"gang {key}: {text}"
