"""Answers about one pod: the node that the plan of its gang has for it, or why there is none.

The first bind of any member commits the whole plan. From then on the seats are placements like any other, and
no other pod takes their capacity.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import msgspec

from app.domain import model, node_sets, snapshots, verdicts
from app.framework import capabilities, cycles
from app.plugins.coscheduling import gangs, membership
from app.plugins.coscheduling.gangs import Gang
from app.plugins.coscheduling.membership import GangKey
from app.plugins.coscheduling.planner import evictions, nominations, plans
from app.plugins.coscheduling.seats import awaited, commitments, member_evictions

CLAIM = "seats:all"
"""Moved on by every commitment of a gang: of two that are planned on one state, one is planned again."""
RESERVED = "the capacity that is left on the node is reserved for members of a gang"


class GangRules(Protocol):
    """The arguments of the plugin (plugin.Coscheduling)."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Label keys of nodes, from the largest domains to the smallest."""
        ...


class GangDecision(NamedTuple):
    """What the gang of a pod decides about it."""

    gang: Gang
    together: tuple[Gang, ...]
    plan: plans.GangPlan
    node: model.NodeName = ""
    """Empty if the pod cannot go to any of the candidates."""
    reason: str = ""
    """Why the other candidates are refused."""


def seats(snapshot: snapshots.Snapshot) -> dict[model.NodeName, list[model.Uid]]:
    """Node -> members that have a seat there and are not bound yet."""
    found: dict[model.NodeName, list[model.Uid]] = {}
    for uid, placement in snapshot.placements.items():
        if placement.planned and gangs.NAME in placement.data:
            found.setdefault(placement.node, []).append(uid)
    return found


def concerned(pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
    """Whether the pod is a member of a gang, or capacity on some node is reserved for one."""
    return membership.of(pod) is not None or bool(seats(snapshot)) or _awaiting(pod, snapshot)


def _awaiting(pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
    """Whether gangs of the scheduler of the pod may await nodes."""
    return bool(awaited.preempting(snapshot, pod.scheduler))


def soft(pod: model.Pod, last_known: snapshots.Snapshot) -> bool:
    """Whether the pod did not concern the plugin in the last known state."""
    return bool(last_known.offset) and not last_known.unlisted and not concerned(pod, last_known)


class Planned(NamedTuple):
    """The plan of a gang in one state, which is the same for all its waiting members."""

    gang: Gang
    together: tuple[Gang, ...]
    plan: plans.GangPlan
    question: plans.PlanRequest
    objection: str
    """Why no member can be placed, whatever capacity there is; empty if one can."""

    @property
    def waits(self) -> bool:
        """Whether there may be a plan once there is more capacity, and is none before."""
        return bool(self.question.pods) and not (self.plan.seats or self.objection)


def pod_class(pod: model.Pod, snapshot: snapshots.Snapshot, rules: GangRules) -> tuple[object, ...]:
    """Each member has a node of its own in the plan; without a plan all members are refused alike.

    Other pods differ while there are seats. A plan that capacity alone does not allow is none beside the
    rules of other plugins, either.
    """
    key = membership.of(pod)
    if key is not None:
        if not membership.waits(snapshot, pod) or pod.nominated:
            return (pod.uid,)
        found = _planned(snapshot, key, pod, rules, cycles.ALONE)
        if found is not None:
            return (pod.uid,) if found.plan.seats else (key,)
    if not seats(snapshot) and not _awaiting(pod, snapshot):
        return ()
    return tuple(sorted(pod.requests.items())), repr(pod.constraints), pod.priority, pod.scheduler


def decide(cycle: cycles.Cycle, rules: GangRules) -> GangDecision | None:
    """The decision about the pod of the cycle; None if it is not a member of a gang."""
    key = membership.of(cycle.pod)
    if key is None:
        return None
    found = _planned(cycle.snapshot, key, cycle.pod, rules, cycle.peers)
    if found is None:
        return None
    gang, together, plan, question, objection = found
    if objection:
        return GangDecision(gang, together, plan, reason=objection)
    supposed = not plan.seats and _preempting(cycle, question.snapshot)
    if supposed:
        question = replace(question, above=cycle.pod.priority)
        plan = plans.plan(question)
    beside = None if plan.seats else _beside_evictions(cycle, key, rules)
    plan = beside or plan
    node = plan.seats.get(cycle.pod.uid, "")
    if node and node not in cycle.candidates and not supposed and beside is None:
        offered = _alternatives(cycle, question, plan)
        if offered:
            plan = plans.plan_on(question, plan, cycle.pod, offered)
            node = plan.seats.get(cycle.pod.uid, "")
    reason, before = plan.reason, cycle.before if beside is None else None
    if before is not None and not member_evictions.complete(plan, question, before.snapshot):
        return GangDecision(gang, together, plan, reason=f"gang {key}: {member_evictions.TOO_FEW}")
    if not reason and node:
        its = "its plan, for which less important pods have to go," if supposed else "its plan"
        reason = f"gang {key}: {its} has another node for the pod"
    return GangDecision(gang, together, plan, node, reason or f"gang {key}: left out of the plan")


def _planned(
    snapshot: snapshots.Snapshot, key: GangKey, pod: model.Pod, rules: GangRules, peers: cycles.Peers
) -> Planned | None:
    """The plan of the gang of the pod; None if it demands nothing."""
    if membership.waits(snapshot, pod):
        return planned(snapshot, key, rules, peers)
    # Without its nomination, like the other members: so they have one plan.
    return _decided(snapshot, key, (msgspec.structs.replace(pod, nominated=""),), rules, peers)


def planned(
    snapshot: snapshots.Snapshot, key: GangKey, rules: GangRules, peers: cycles.Peers
) -> Planned | None:
    """The plan of the gang over all nodes; None if it demands nothing, or nothing of it exists."""
    known = __name__, key, rules.layers, peers
    return snapshot.computed(known, lambda: _decided(snapshot, key, (), rules, peers))


def _decided(
    known: snapshots.Snapshot,
    key: GangKey,
    asked: Sequence[model.Pod],
    rules: GangRules,
    peers: cycles.Peers,
) -> Planned | None:
    gang = nominations.gang_of(known, key, asked)
    if gang is None:
        return None
    snapshot = nominations.as_waiting(known, gang.planned_with)
    if snapshot is not known:
        gang = gangs.limited(snapshot, key, asked) or gang
    together, objection = gangs.deciding(snapshot, gang, asked)
    first = (gang, *(one for one in together if one.key != gang.key))
    nominated = nominations.of_members(known, gang.planned_with)
    question = plans.PlanRequest(snapshot, first, rules.layers, peers, nominated=nominated)
    plan = plans.plan(question) if question.pods and not objection else plans.GangPlan(reason=objection)
    return Planned(gang, together, plan, question, objection)


def _beside_evictions(cycle: cycles.Cycle, key: GangKey, rules: GangRules) -> plans.GangPlan | None:
    """The plan for which the other members evict pods from any nodes; None if there is none, or no need."""
    before = cycle.before
    if before is None or not before.further or len(cycle.candidates) != 1:
        return None

    def made() -> member_evictions.Arrangement | None:
        found = _planned(before.snapshot, key, cycle.pod, rules, cycle.peers)
        return member_evictions.arrangement(found.question) if found is not None and found.waits else None

    known = _beside_evictions, key, cycle.pod.uid, rules.layers, cycle.peers
    found = before.snapshot.computed(known, made)
    return found.on(cycle.pod, *cycle.candidates) if found is not None and found.plan.seats else None


def _preempting(cycle: cycles.Cycle, snapshot: snapshots.Snapshot) -> bool:
    """Whether kube-scheduler may ask as if pods less important than the group of the pod were gone."""
    return _can_preempt(cycle) and evictions.Evictions(snapshot, cycle.pod.priority).possible()


def _alternatives(cycle: cycles.Cycle, question: plans.PlanRequest, plan: plans.GangPlan) -> node_sets.Names:
    """The candidates that the pod may be planned on in place of its node in the plan of all members.

    While kube-scheduler supposes that pods are gone, it would evict pods that have to stay for members that
    are answered nodes of several plans. If the candidates show that it does, there is no alternative. They
    may not show it where nominated members keep it from a plan for which no pod has to go: then the pod takes
    no seat of the plan on a node where a pod has to stay.
    """
    pod = cycle.pod
    if not _can_preempt(cycle):
        return cycle.candidates
    found = evictions.Evictions(question.snapshot, pod.priority)
    if found.shown(pod, cycle.candidates):
        return node_sets.NONE
    if not question.nominated:
        return cycle.candidates
    return cycle.candidates - plans.taken(question, plan, pod, found.guarded(cycle.candidates))


def _can_preempt(cycle: cycles.Cycle) -> bool:
    """Whether kube-scheduler asks, about a group for which it preempts as a whole."""
    pod = cycle.pod
    return cycle.offered and membership.preempts_whole(pod) and pod.preemption_policy != "Never"


def outdated(pod: model.Pod, placement: model.Placement) -> str | None:
    """Why the seat is not the pod's any more, or None: bound there, it would count for another gang."""
    key = gangs.committed_for(placement)
    if gangs.NAME not in placement.data or key == membership.of(pod):
        return None
    return f"the pod has left gang {key}"


def refusal(cycle: cycles.Cycle, rules: GangRules) -> verdicts.Refusal | None:
    """The candidates that are not the pod's node in the plan; for others those with reserved capacity."""
    key = membership.of(cycle.pod)
    if key is not None and cycle.reserved in cycle.candidates:
        others = cycle.candidates - {cycle.reserved}
        return verdicts.Refusal(f"gang {key}: its plan has another node for the pod", others)
    found = decide(cycle, rules)
    if found is None:
        return _beside_seats(cycle, rules)
    if _takes_awaited(cycle, found, rules):
        return verdicts.Refusal(RESERVED, cycle.candidates)
    return verdicts.Refusal(found.reason, cycle.candidates - {found.node})


def _beside_seats(cycle: cycles.Cycle, rules: GangRules) -> verdicts.Refusal | None:
    """The candidates where the pod would take the capacity of a seat, or of what a gang awaits."""
    snapshot = cycle.snapshot
    held = _awaited(cycle, rules, cycle.pod.priority)
    taken = {name: [snapshot.placements[uid].pod for uid in uids] for name, uids in seats(snapshot).items()}
    for name, members in held.members.items():
        taken.setdefault(name, []).extend(members)
    if not taken:
        return None
    beside = [one for one in cycles.nominated(cycle) if not held.snapshot.node_of(one.uid)]
    counted = nominations.counted(held.snapshot, beside)
    found = frozenset(
        name
        for name, members in taken.items()
        if name in cycle.candidates and awaited.crowded(cycle.pod, name, counted, members)
    )
    return verdicts.Refusal(RESERVED, found) if found else None


def _takes_awaited(cycle: cycles.Cycle, found: GangDecision, rules: GangRules) -> bool:
    """Whether the plan would take capacity that a more important gang awaits."""
    pods = found.plan.pods
    if not pods or not _awaiting(cycle.pod, cycle.snapshot):
        return False
    least = min(pod.priority for pod in pods)
    members, counted = _awaited(cycle, rules, least, frozenset(found.gang.planned_with))
    return any(
        awaited.crowded(pod, node, counted, members[node])
        for pod in pods
        if (node := found.plan.seats[pod.uid]) in members
    )


def _awaited(
    cycle: cycles.Cycle, rules: GangRules, priority: int, but: frozenset[GangKey] = frozenset()
) -> awaited.Held:
    """The nodes that gangs more important than this await."""

    def plan(snapshot: snapshots.Snapshot, key: GangKey) -> plans.GangPlan:
        found = planned(snapshot, key, rules, cycle.peers)
        if found is None or not found.waits:
            return plans.GangPlan() if found is None else found.plan
        return member_evictions.plan(found.question, again=False)

    return awaited.held(cycle.snapshot, plan, (rules.layers, cycle.peers), cycle.pod, priority, but)


def reserve(
    cycle: cycles.Cycle, node: model.NodeName, rules: GangRules
) -> capabilities.Plan | verdicts.Refusal:
    """The whole plan of the gang, with the pod on this node."""
    found = decide(cycle, rules)
    if found is None:
        # A gang that is committed meanwhile may have taken the capacity.
        return capabilities.Plan(subjects=(CLAIM,))
    if found.node != node:
        return verdicts.Refusal(found.reason, frozenset((node,)))
    names = [key.short for key in found.gang.together]
    marks = commitments.marks(names, len(found.plan.pods))
    lists = commitments.lists(names, len(found.plan.pods))
    of = {pod.uid: gang for gang in found.together for pod in gang.waiting}
    planned = Counter(str(of[pod.uid].key) for pod in found.plan.pods)
    definitions = [subject for gang in found.together for subject in gang.relies_on]
    relied_on = [
        f"pod:{pod.uid}" for gang in found.together for pod in _relied_on(gang, planned[str(gang.key)])
    ]
    return capabilities.Plan(
        assignments=tuple(
            capabilities.Assignment(
                cycle.pod if pod.uid == cycle.pod.uid else pod,
                found.plan.seats[pod.uid],
                data=commitments.kept(of[pod.uid], lists[at]),
                annotations=marks,
                patience=of[pod.uid].waiting_time,
            )
            for at, pod in enumerate(found.plan.pods)
        ),
        subjects=(*definitions, *relied_on),
        claims=(CLAIM,),
    )


def companions(snapshot: snapshots.Snapshot, pod: model.Pod) -> tuple[model.Pod, ...]:
    """The other members that have to be placed with a waiting one: those of the gangs that are planned with
    its own, up to the minimum of each, or to the largest multiple.
    """
    key = membership.of(pod)
    gang = gangs.limited(snapshot, key) if key is not None else None
    together, objection = gangs.deciding(snapshot, gang) if gang is not None else ((), "")
    if objection:
        return ()
    found: list[model.Pod] = []
    for one in together:
        others = [member for member in one.waiting if member.uid != pod.uid]
        multiple = max((rule.multiple for rule in one.given.gather), default=1)
        found += others[: max(one.needed - (one.key == key), multiple - 1, 0)]
    return tuple(found)


def _relied_on(gang: Gang, planned: int) -> tuple[model.Pod, ...]:
    """Members whose places permit that so few are planned; without them the gang needs more at once."""
    if planned >= gang.minimum:
        return ()
    match gang.given.match:
        case "only-waiting":
            return tuple(seat.pod for seat in gang.seats if not seat.bound)
        case "waiting-and-running":
            return tuple(seat.pod for seat in gang.seats)
        case _:
            # One is enough: that which is least likely to change, or honest plans would be made twice.
            bound_first = sorted(gang.seats, key=lambda seat: not seat.bound)
            return (*gang.ran, *(seat.pod for seat in bound_first))[:1]


def elsewhere(cycle: cycles.Cycle, node: model.NodeName, rules: GangRules) -> str | None:
    """Why the pod must not preempt on the node: other members do in a domain that all have to share."""
    key = membership.of(cycle.pod)
    if key is None or cycle.pod.node or not cycle.snapshot.nominated or membership.preempts_whole(cycle.pod):
        return None
    known = elsewhere, key, cycle.pod.uid, rules.layers, cycle.peers
    shared = cycle.snapshot.computed(known, lambda: _shared_domain(cycle, key, rules))
    if shared is None or not shared.excludes(node):
        return None
    if len(cycle.candidates) < cycles.OFFERED and all(map(shared.excludes, cycle.candidates)):
        return None  # The offer is complete: kube-scheduler has no node of that domain for the pod.
    return f"gang {key}: pods are evicted for its members in {'/'.join(shared.path)}"


def _shared_domain(
    cycle: cycles.Cycle, key: GangKey, rules: GangRules
) -> member_evictions.SharedDomain | None:
    found = _planned(cycle.snapshot, key, cycle.pod, rules, cycle.peers)
    if found is None or not (found.waits or found.plan.seats):
        return None
    plan = member_evictions.plan(found.question, again=True) if found.waits else found.plan
    return member_evictions.shared(found.question, plan)
