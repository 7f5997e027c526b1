"""The nodes that a gang awaits, for which pods are evicted.

kube-scheduler preempts for one member after the other, and holds the node of each by its nomination. When it
tries a member again and finds no pod to evict for it, it clears the nomination: so while the victims of the
last member terminate. What is created in place of the victims would then take the nodes of the others, and
free nodes that the gang needs beside them. So as long as one member is nominated, the nodes of the plan for
which less important pods have to go are reserved against such pods.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from app.domain import events, model, snapshots
from app.domain.fit import node_fit
from app.plugins.coscheduling import gangs, membership
from app.plugins.coscheduling.membership import GangKey
from app.plugins.coscheduling.planner import nominations


class Plan(Protocol):
    """The part of a plan that this needs (planner.plans.GangPlan)."""

    @property
    def seats(self) -> Mapping[model.Uid, model.NodeName]: ...
    @property
    def pods(self) -> tuple[model.Pod, ...]: ...


class Held(NamedTuple):
    """What gangs await."""

    members: Mapping[model.NodeName, tuple[model.Pod, ...]]
    """Node -> the members that the plan has there."""
    snapshot: snapshots.Snapshot
    """The state in which they are placed."""


class Awaiting(NamedTuple):
    """A gang that awaits the nodes of its plan."""

    key: GangKey
    plan: Plan

    @property
    def priority(self) -> int:
        """That of its least important member; only less important pods are kept from its nodes."""
        return min(pod.priority for pod in self.plan.pods)


def preempting(snapshot: snapshots.Snapshot, scheduler: str) -> Mapping[GangKey, tuple[model.Pod, ...]]:
    """The gangs with nominated members that wait for this scheduler -> those members.

    Without those for which kube-scheduler preempts as a whole: it nominates all members at once. Another
    scheduler has plans of its own, and its nominations may be left after it. So may be those for a node that
    is gone.
    """
    return snapshot.computed((preempting, scheduler), lambda: _preempting(snapshot, scheduler))


def _preempting(snapshot: snapshots.Snapshot, scheduler: str) -> Mapping[GangKey, tuple[model.Pod, ...]]:
    found: dict[GangKey, list[model.Pod]] = {}
    for uid in snapshot.nominated:
        pod = snapshot.pods.get(uid)
        if pod is None or uid not in snapshot.waiting or membership.preempts_whole(pod):
            continue
        if pod.scheduler != scheduler or pod.nominated not in snapshot.nodes:
            continue
        key = membership.of(pod)
        if key is not None:
            found.setdefault(key, []).append(pod)
    return {key: tuple(members) for key, members in found.items()}


def held(
    snapshot: snapshots.Snapshot,
    planned: Callable[[snapshots.Snapshot, GangKey], Plan],
    rules: Hashable,
    pod: model.Pod,
    priority: int,
    but: frozenset[GangKey] = frozenset(),
) -> Held:
    """What gangs await that are more important than this priority; ``but``: gangs that do not count.

    ``pod``: that of the call, whose scheduler they have, too.
    ``planned``: the plan of a gang in a state, without pods if it has none; ``rules``: equal if it is.
    """

    scheduler = pod.scheduler

    def made() -> Held:
        members: dict[model.NodeName, list[model.Pod]] = {}
        known = awaiting, scheduler, rules
        for gang in snapshot.computed(known, lambda: awaiting(snapshot, planned, scheduler)):
            if gang.key not in but and gang.priority > priority:
                for pod in gang.plan.pods:
                    members.setdefault(gang.plan.seats[pod.uid], []).append(pod)
        placed = [events.placed(pod, node) for node, pods in members.items() for pod in pods]
        return Held(
            {node: tuple(pods) for node, pods in members.items()}, nominations.changed(snapshot, placed)
        )

    if preempting(snapshot, scheduler).keys() <= but:
        return Held({}, snapshot)
    return snapshot.computed((held, rules, scheduler, priority, but), made)


def awaiting(
    snapshot: snapshots.Snapshot, planned: Callable[[snapshots.Snapshot, GangKey], Plan], scheduler: str
) -> tuple[Awaiting, ...]:
    """The gangs that would fit if less important pods were gone, with their plans."""
    waiting = preempting(snapshot, scheduler)
    found = []
    for key in waiting:
        gang = gangs.find(snapshot, key)
        together = {key, *(gang.planned_with if gang is not None else ())}
        members = [one for each in together for one in waiting.get(each, ())]
        found.append(Awaiting(key, planned(_once_evicted(snapshot, members), key)))
    return tuple(one for one in found if one.plan.pods)


def _once_evicted(snapshot: snapshots.Snapshot, members: Iterable[model.Pod]) -> snapshots.Snapshot:
    """The state once the pods that are evicted for the members are gone."""
    there = [pod for node in {one.nominated for one in members} for pod in snapshot.on(node)]
    return nominations.changed(
        snapshot, [events.gone(pod) for pod in there if pod.terminating and pod.preempted]
    )


def crowded(
    pod: model.Pod, name: model.NodeName, counted: snapshots.Snapshot, members: Sequence[model.Pod]
) -> bool:
    """Whether the node has too little for the pod beside these members, of what they request."""
    node = counted.nodes.get(name)
    if node is None:
        return False
    held = node_fit.occupancy(counted, name)
    # Most pods fit with all that they request, so that the members need not be read.
    if not node_fit.crowded(pod, node, held):
        return False
    return bool(node_fit.crowded(_competing(pod, members), node, held))


def _competing(pod: model.Pod, members: Sequence[model.Pod]) -> model.Pod:
    """The pod with those of its requests that members request, too: no other one takes a seat from them.

    kube-scheduler decides about the others. Of some, such as devices, it has capacity that no node lists.
    """
    theirs = {resource for one in members for resource, amount in one.requests.items() if amount}
    asked = {resource: amount for resource, amount in pod.requests.items() if resource in theirs}
    return msgspec.structs.replace(pod, requests=asked)
