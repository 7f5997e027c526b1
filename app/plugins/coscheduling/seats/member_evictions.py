"""The plan of a gang for which its members evict pods: kube-scheduler preempts for one after the other.

A group for which kube-scheduler preempts as a whole is planned by the cycle of its pod alone
(planner.evictions).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from app.domain import model
from app.plugins.coscheduling.planner import capacities, domains, plans

TOO_FEW = "too few of its members may evict pods"


def plan(question: plans.PlanRequest, *, again: bool) -> plans.GangPlan:
    """The plan with the least harm; none if more seats need an eviction than members may evict pods.

    ``again``: also those that are nominated. They have evicted, and may do so again only after a pause.
    """
    snapshot, least = question.snapshot, min(pod.priority for pod in question.pods)
    found = plans.plan(replace(question, above=least))
    free = capacities.Capacities(question.counted)
    needed = 0
    for pod in found.pods:
        if free.fits(pod, found.seats[pod.uid]):
            free.put(pod, found.seats[pod.uid])
        else:
            needed += 1
    able = [pod for pod in found.pods if pod.preemption_policy != "Never"]
    left = sum(again or question.nominated.get(pod.uid) not in snapshot.nodes for pod in able)
    return found if needed <= left else plans.GangPlan(reason=TOO_FEW)


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


def shared(
    question: plans.PlanRequest, found: plans.GangPlan, nominated: Iterable[model.NodeName]
) -> SharedDomain:
    """The domain for a plan, with the nominated nodes of other members."""
    demanded, tree = found.domain[: found.must], question.demands.tree
    inside = any(domains.within(tree.paths.get(name, ()), demanded) for name in nominated)
    return SharedDomain(demanded if inside else (), tree)
