"""The plan of a gang for which its members evict pods: kube-scheduler preempts for one after the other.

A group for which kube-scheduler preempts as a whole is planned by the cycle of its pod alone
(planner.evictions).
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from app.domain import model, snapshots
from app.domain.fit import victims
from app.plugins.coscheduling.planner import capacities, domains, nominations, plans

TOO_FEW = "too few of its members may evict pods"


def plan(question: plans.PlanRequest, *, again: bool) -> plans.GangPlan:
    """The plan with the least harm; none if more nodes need an eviction than members may evict pods.

    If all members have to share a domain, it is one with nominated members, as long as the gang fits there.
    ``again``: also the nominated members may evict. They have, and do so again only after a pause.
    """
    found = plans.GangPlan()
    for inside in (*_begun(question), ()):
        found = _inside(question, inside, again=again)
        if found.seats:
            break
    return found


def _inside(question: plans.PlanRequest, inside: domains.Path, *, again: bool) -> plans.GangPlan:
    snapshot, least = question.snapshot, min(pod.priority for pod in question.pods)
    found = plans.plan(replace(question, above=least, inside=inside))
    able = [pod for pod in found.pods if pod.preemption_policy != "Never"]
    left = sum(again or question.nominated.get(pod.uid) not in snapshot.nodes for pod in able)
    if len(_lacking(found, question.counted)) <= left:
        return found
    return plans.GangPlan(reason=f"gang {question.gangs[0].key}: {TOO_FEW}")


def _begun(question: plans.PlanRequest) -> list[domains.Path]:
    """The domains of nominated members that may not be left, those with most members first."""
    must, paths = question.demands.must, question.demands.tree.paths
    there = (paths.get(name, ())[:must] for name in question.nominated.values() if must)
    found = Counter(path for path in there if len(path) == must)
    return sorted(found, key=lambda path: (-found[path], path))


def _lacking(found: plans.GangPlan, counted: snapshots.Snapshot) -> list[model.NodeName]:
    """The nodes that have no capacity for a member of the plan."""
    free, lacking = capacities.Capacities(counted), dict[model.NodeName, None]()
    for pod in found.pods:
        node = found.seats[pod.uid]
        if node not in lacking and free.fits(pod, node):
            free.put(pod, node)
        else:
            lacking[node] = None
    return list(lacking)


def complete(found: plans.GangPlan, question: plans.PlanRequest, before: snapshots.Snapshot) -> bool:
    """Whether the members of a plan may evict what the state before has beside that of the request."""
    counted, left = nominations.counted(before, question.holding), question.snapshot.pods
    gone = ([pod for pod in before.on(node) if pod.uid not in left] for node in _lacking(found, counted))
    most = (max((pod.priority for pod in pods), default=victims.LOWEST) for pods in gone)
    needed = sorted(most, reverse=True)
    able = (pod.priority for pod in found.pods if pod.preemption_policy != "Never")
    each = itertools.zip_longest(needed, sorted(able, reverse=True), fillvalue=victims.LOWEST)
    return all(victim < member for victim, member in each)


class Arrangement(NamedTuple):
    """A plan for which members evict pods, and where else it may have a member."""

    plan: plans.GangPlan
    seated: Mapping[model.NodeName, Sequence[model.Pod]]
    """Node -> the members that the plan has there."""
    tree: domains.Tree
    alone: bool
    """Whether no other plugin, and no multiple, depends on which member is where."""

    def on(self, pod: model.Pod, node: model.NodeName) -> plans.GangPlan:
        """The plan with the pod on the node, which takes it; the plan itself if it has no such place."""
        plan, seats = self.plan, self.plan.seats
        own = seats.get(pod.uid, node)
        if own == node:
            return plan
        same = capacities.size if self.alone else capacities.alike
        for other in self.seated.get(node, ()):
            if same(other) == same(pod):
                return replace(plan, seats={**seats, pod.uid: node, other.uid: own})
        inside = domains.within(self.tree.paths.get(node, ()), plan.domain[: plan.must])
        free = self.alone and inside and node not in self.seated
        return replace(plan, seats={**seats, pod.uid: node}) if free else plan


def arrangement(question: plans.PlanRequest) -> Arrangement:
    """The plan for which all members may evict pods."""
    found, demands = plan(question, again=True), question.demands
    seated: dict[model.NodeName, list[model.Pod]] = {}
    for pod in found.pods:
        seated.setdefault(found.seats[pod.uid], []).append(pod)
    judged = any(question.peers.concerned(pod, question.snapshot) for pod in question.pods)
    return Arrangement(found, seated, demands.tree, not judged and not demands.multiples)


class SharedDomain(NamedTuple):
    """The domain that all members have to share, if some are nominated there already."""

    path: domains.Path
    """Empty if members preempt in any domain."""
    tree: domains.Tree

    def excludes(self, node: model.NodeName) -> bool:
        """Whether the gang would have pods evicted in two domains, and capacity in neither."""
        return bool(self.path) and not domains.within(self.tree.paths.get(node, ()), self.path)


def shared(question: plans.PlanRequest, found: plans.GangPlan) -> SharedDomain:
    """The domain for a plan."""
    demanded, tree = found.domain[: found.must], question.demands.tree
    return SharedDomain(demanded if demanded in _begun(question) else (), tree)
