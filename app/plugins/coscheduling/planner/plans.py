"""The plan of a gang: a node for each member that goes, or why the gang cannot be placed. Pure.

The plan follows from the state alone, by uids: never from the order of calls or of node names.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from app import plurals
from app.domain import model, node_sets, snapshots
from app.domain.fit import budgets, node_fit, quantities
from app.framework import cycles
from app.plugins.coscheduling.gangs import Gang
from app.plugins.coscheduling.planner import (
    arrangements,
    capacities,
    domains,
    evictions,
    kept_plans,
    least_harm,
    nearest_nodes,
    nominations,
    other_plugins,
    packing,
    reprieves,
)

_TARGETS = 4
"""Nodes that are tried for a pod whose planned node is not offered, and domains for one whose is."""
_TRIES = 1_000
"""How often members are tried on nodes, for one plan, to find an arrangement that other plugins admit."""


@dataclass(frozen=True, slots=True)
class GangPlan:
    """What happens to the waiting members of the gangs that are placed together."""

    seats: Mapping[model.Uid, model.NodeName] = field(default_factory=dict)
    """Member -> node; empty if there is no plan."""
    pods: tuple[model.Pod, ...] = ()
    """The members with a seat, in order."""
    domain: domains.Path = ()
    """The smallest domain that holds the plan; empty for the cluster."""
    layers: tuple[str, ...] = ()
    """Names of the layers, from the top."""
    must: int = 0
    """Depth of the domain that may not be left."""
    reason: str = ""
    """Why there is no plan."""
    fitting: int = 0
    """Members that could be placed, where there is no plan because they are too few."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The gangs to place, in a state."""

    snapshot: snapshots.Snapshot
    gangs: tuple[Gang, ...]
    """Those that are placed together; the first is the one that the reasons name."""
    usual: tuple[str, ...]
    """Label keys of the usual layers, from the top."""
    peers: cycles.Peers = field(compare=False)
    above: int | None = None
    """Pods of a lower priority count as gone where they may be evicted (evictions); None: no pod does."""
    inside: domains.Path = ()
    """The domain of the plan must contain this one, or be inside it."""
    nominated: Mapping[model.Uid, model.NodeName] = field(default_factory=dict)
    """Member -> its nominated node, where it has a seat before its equals."""

    @property
    def holding(self) -> tuple[model.Pod, ...]:
        """Nominated pods of others, which count as placed."""
        return nominations.of_others(self.snapshot, self.gangs)

    @property
    def counted(self) -> snapshots.Snapshot:
        """The state in which they are planned."""
        return nominations.counted(self.snapshot, self.holding)

    @property
    def demands(self) -> domains.Demands:
        """What they demand of the domains."""
        given = next((gang.given.gather for gang in self.ordered if gang.given.gather), ())
        keys = [gang.topology_key for gang in self.ordered if gang.topology_key]
        return domains.demands(self.snapshot, given, keys, self.usual)

    @property
    def pods(self) -> tuple[model.Pod, ...]:
        """The waiting members, in the order in which they fill nodes."""
        return tuple(pod for gang in self.ordered for pod in gang.waiting)

    @property
    def ordered(self) -> tuple[Gang, ...]:
        """The gangs by key: their plan is the same, whichever of them the pod of the call belongs to."""
        return tuple(sorted(self.gangs, key=lambda gang: gang.key))


def plan(question: PlanRequest) -> GangPlan:
    """The plan over all nodes, kept for all its gangs until something changes that it depends on."""
    snapshot, supposing = question.snapshot, question.above is not None
    names = tuple(gang.key for gang in question.ordered)
    key = __name__, question.peers, names, question.usual, question.above, question.inside
    latest, summed = snapshot.derived(key, kept_plans.Latest[GangPlan]), question.peers.by_sums(question.pods)
    basis = kept_plans.basis(
        snapshot, question.ordered, question.holding, question.nominated, supposing=supposing, summed=summed
    )
    return _named(question, latest.plan(snapshot, basis, lambda: _computed(question)))


def _computed(question: PlanRequest) -> tuple[GangPlan, evictions.Compared | None]:
    made = _Planning(question)
    return made.plan(), made.compared


def plan_on(question: PlanRequest, base: GangPlan, pod: model.Pod, offered: node_sets.Names) -> GangPlan:
    """The plan with the pod on one of the offered nodes, in the demanded domain of the former plan."""
    return _named(question, _Planning(question).plan_on(base, pod, offered))


def _named(question: PlanRequest, made: GangPlan) -> GangPlan:
    """The plan, whose reason names the gang of the call."""
    return replace(made, reason=f"gang {question.gangs[0].key}: {made.reason}") if made.reason else made


def taken(question: PlanRequest, base: GangPlan, pod: model.Pod, names: node_sets.Names) -> node_sets.Names:
    """Those of the nodes where the pod does not fit beside the members that have a seat of the plan."""
    if not names:
        return node_sets.NONE
    capacity = capacities.Capacities(question.counted)
    for one in base.pods:
        if base.seats[one.uid] in names:
            capacity.put(one, base.seats[one.uid])
    return frozenset(name for name in names if not capacity.fits(pod, name))


class _Planning:
    """The computation of one plan."""

    def __init__(self, question: PlanRequest) -> None:
        self._question = question
        self._snapshot, self._demands = question.counted, question.demands
        self._own = Counter(seat.node for gang in question.gangs for seat in gang.seats)
        self._existing = kept_plans.attracting(self._snapshot, question.gangs)
        self._pods = question.pods
        self._supposed = None
        self._held: Mapping[model.NodeName, node_fit.Occupancy] = {}
        if question.above is not None:
            self._supposed = evictions.Evictions(self._snapshot, question.above)
            self._held = self._supposed.occupancies()
        self._others = other_plugins.Others(
            question.peers, self._snapshot, self._pods, self._demands, self._capacity
        )
        self._tries, self._packing = arrangements.Tries(_TRIES), arrangements.Tries(arrangements.PLAN)
        self._most = 0
        """Members that could be placed in an attempt that placed too few."""

    @property
    def compared(self) -> evictions.Compared | None:
        """What the plan depends on of pods that may have to go; None where no pod may."""
        return self._supposed.compared() if self._supposed is not None else None

    def plan(self) -> GangPlan:
        problem = self._demands.problem or self._lacking()
        if problem:
            return self._none(problem)
        found = self._with_least_harm() or self._solved(self._pods, self._capacity(), self._existing)
        return found if found is not None else self._none(self._no_capacity())

    def _with_least_harm(self) -> GangPlan | None:
        """The plan for which the pods go whose loss is the least; None if no plan is found that way."""
        if self._supposed is None:
            return None
        limits = budgets.recorded(self._snapshot)
        known = reprieves.Reprieves(self._snapshot, self._supposed, limits)
        required = packing.required_of(self._minimums({}))
        for pods in (self._pods, tuple(pod for pod in self._pods if pod.uid in required)):
            problem, capacity = self._problem(pods, self._existing), self._capacity()
            made = packing.sums(problem, packing.slots(problem, capacity))
            chosen = least_harm.choose(problem, capacity, made, known, self._others)
            if chosen is not None:
                break
        else:
            return None
        # There may be a better place for the gang that does no more harm.
        for gone in (known.bearable(chosen.outcome.harm), chosen.outcome.victims):
            held = self._supposed.without(gone)
            same = pods is self._pods and held == self._held
            capacity = capacities.Capacities(self._snapshot, held)
            packed = self._solved(self._pods, capacity, self._existing, made=made if same else None)
            if packed is not None and len(packed.seats) >= len(chosen.seats):
                outcome = known.outcome(least_harm.by_node(packed.pods, packed.seats))
                if outcome.harm <= chosen.outcome.harm:
                    return packed
        return self._planned(packing.Packing(chosen.seats, chosen.domain))

    def plan_on(self, base: GangPlan, pod: model.Pod, offered: node_sets.Names) -> GangPlan:
        paths, must = self._demands.tree.paths, self._demands.must
        inside = {
            name: paths[name]
            for name in offered
            if name in paths and domains.within(paths[name], base.domain[:must])
        }
        if not inside:
            return self._none("its plan is in another domain, or on nodes that are not offered")
        rest = tuple(one for one in self._pods if one.uid != pod.uid)
        free = self._capacity()
        # Where the pod takes the place of another member, that one has to find another node.
        held = taken(self._question, base, pod, frozenset(base.seats.values()).intersection(inside))
        targets = nearest_nodes.one_of_each_domain(
            inside,
            base.domain,
            held,
            lambda name: free.fits(pod, name) and not self._others.refuse_there(pod, name),
        )
        for name in itertools.islice(targets, _TARGETS):
            capacity = self._capacity()
            capacity.put(pod, name)
            existing = dict(self._existing)
            existing[name] = existing.get(name, 0) + 1
            found = self._solved(rest, capacity, existing, {pod.uid: name})
            if found is not None:
                return found
        return self._none(self._others.why or "no offered node completes its plan")

    def _capacity(self) -> capacities.Capacities:
        return capacities.Capacities(self._snapshot, self._held)

    # -- one attempt ---------------------------------------------------------------------------

    def _solved(
        self,
        pods: Sequence[model.Pod],
        capacity: capacities.Capacities,
        existing: Mapping[model.NodeName, int],
        fixed: Mapping[model.Uid, model.NodeName] = MappingProxyType({}),
        made: packing.Sums | None = None,
    ) -> GangPlan | None:
        """The plan for the pods, with those that are fixed already; None if too few can be placed.

        ``made``: the sums of the slots in the capacity, if they are known.
        """
        problem = self._problem(pods, existing, fixed)
        if not pods:
            return self._planned(packing.Packing(dict(fixed), problem.inside), fixed)
        if made is None:
            made = packing.sums(problem, packing.slots(problem, capacity))
        found = self._packed(problem, capacity, made, fixed)
        # Other plugins may admit the gang to another of the domains that it may be in.
        must = self._demands.must
        for domain in packing.demanded(problem, made)[:_TARGETS] if must and not fixed else ():
            if found is not None or not self._others.elsewhere:
                break
            found = self._packed(replace(problem, inside=domain), capacity, made, fixed)
        if found is None and (self._others.limiting or len(problem.classes) > 1):
            found = self._tried(problem, capacity, made, fixed)
        return found

    def _tried(
        self,
        problem: packing.PackingProblem,
        capacity: capacities.Capacities,
        made: packing.Sums,
        fixed: Mapping[model.Uid, model.NodeName],
    ) -> GangPlan | None:
        """The plan for all pods, or else for those that are required, found by trial and error."""
        found = self._arranged(problem, capacity, made, fixed)
        required = packing.required_of(problem.minimums)
        needed = [pod for pod in problem.pods if pod.uid in required]
        if found is None and len(needed) < len(problem.pods):
            fewer = self._problem(needed, problem.existing, fixed)
            made = packing.sums(fewer, packing.slots(fewer, capacity))
            found = self._arranged(fewer, capacity, made, fixed)
        return found

    def _arranged(
        self,
        problem: packing.PackingProblem,
        capacity: capacities.Capacities,
        made: packing.Sums,
        fixed: Mapping[model.Uid, model.NodeName],
    ) -> GangPlan | None:
        search = arrangements.Search(capacities.by_size(problem.classes), self._others.beside(fixed))
        possible = (one for one in packing.demanded(problem, made) if not made.lacking(problem, one))
        for domain in itertools.islice(possible, _TARGETS):
            nodes = packing.nodes_of(problem, made, domain)
            for seats in search.arrangements(nodes, made.classes, capacity, self._tries):
                found = self._planned(packing.Packing({**fixed, **seats}, domain), fixed)
                if found is not None:
                    return found
        return None

    def _packed(
        self,
        problem: packing.PackingProblem,
        capacity: capacities.Capacities,
        made: packing.Sums,
        fixed: Mapping[model.Uid, model.NodeName],
    ) -> GangPlan | None:
        found = packing.pack(problem, capacity, made, self._packing)
        found = found or packing.pack_most(problem, capacity, made, self._packing)
        found = found or packing.Packing({}, problem.inside)
        return self._planned(packing.Packing({**fixed, **found.seats}, found.domain), fixed)

    def _problem(
        self,
        pods: Sequence[model.Pod],
        existing: Mapping[model.NodeName, int],
        fixed: Mapping[model.Uid, model.NodeName] = MappingProxyType({}),
    ) -> packing.PackingProblem:
        minimums = self._minimums(fixed)
        refused = self._others.refused(pods, packing.required_of(minimums))
        return packing.PackingProblem(
            pods=tuple(pods),
            classes=capacities.classes(pods, refused),
            demands=self._demands,
            existing=existing,
            own=self._own + Counter(fixed.values()),
            inside=next((self._demands.tree.paths[name] for name in fixed.values()), self._question.inside),
            minimums=minimums,
        )

    def _planned(
        self, found: packing.Packing, fixed: Mapping[model.Uid, model.NodeName] = MappingProxyType({})
    ) -> GangPlan | None:
        """The plan with these seats, as far as other plugins admit them; None if these are too few."""
        if not domains.in_multiples(self._demands, self._own, found.seats.values()):
            return None
        required = packing.required_of(self._minimums(fixed)).union(fixed)
        seats = self._others.admitted(found.seats, found.domain, required, self._own)
        if not seats or not self._enough(seats) or not seats.keys() >= fixed.keys():
            self._most = max(self._most, len(seats))
            return None
        if self._question.nominated:
            seats = nominations.preferred(seats, self._equal(fixed), self._question.nominated)
        return GangPlan(
            seats=seats,
            pods=tuple(pod for pod in self._pods if pod.uid in seats),
            domain=self._demands.tree.holding(found.domain, seats.values()),
            layers=self._demands.tree.layers,
            must=self._demands.must,
        )

    def _equal(self, fixed: Mapping[model.Uid, model.NodeName]) -> Iterable[list[model.Uid]]:
        """The members that may change seats."""
        found: dict[object, list[model.Uid]] = {}
        gang = {pod.uid: gang.key for gang in self._question.gangs for pod in gang.waiting}
        for one in capacities.classes(self._pods, self._others.refused(self._pods)):
            for pod in one.pods:
                if pod.uid not in fixed:
                    key = one.sample.uid, self._others.kind(pod), gang[pod.uid]
                    found.setdefault(key, []).append(pod.uid)
        return found.values()

    def _minimums(self, fixed: Mapping[model.Uid, model.NodeName]) -> list[tuple[list[model.Uid], int]]:
        found = []
        for gang in self._question.gangs:
            others = [pod.uid for pod in gang.waiting if pod.uid not in fixed]
            found.append((others, max(0, gang.needed - len(gang.waiting) + len(others))))
        return found

    def _enough(self, seats: Mapping[model.Uid, model.NodeName]) -> bool:
        """Whether every gang gets as many seats as it needs."""
        given = ((gang.needed, gang.waiting) for gang in self._question.gangs)
        return all(sum(pod.uid in seats for pod in waiting) >= needed for needed, waiting in given)

    # -- reasons -------------------------------------------------------------------------------

    def _lacking(self) -> str:
        """The resources of minResources that the cluster has too little of."""
        unsatisfied = [gang for gang in self._question.ordered if not gang.satisfied]
        needed = quantities.total(gang.resources for gang in unsatisfied)
        if not needed:
            return ""
        # Beside the requests of others: what terminating members hold is of the group.
        nodes, place = self._snapshot.nodes, self._snapshot.node_of
        ending = (pod for gang in unsatisfied for pod in gang.others if pod.terminating)
        own = [pod for pod in ending if place(pod.uid) in nodes]
        free, held = self._capacity().free(needed), quantities.total(pod.requests for pod in own)
        held["pods"] = len(own)
        short = [one for one, amount in needed.items() if free[one] + held.get(one, 0) < amount]
        return f"the cluster has too little free for minResources in {', '.join(short)}" if short else ""

    def _no_capacity(self) -> str:
        if self._others.why:
            return self._others.why
        needed = max(1, sum(gang.needed for gang in self._question.gangs))
        members = plurals.counted(needed, "member")
        must, layers = self._demands.must, self._demands.tree.layers
        if must:
            return f"no domain of {layers[must - 1]} has capacity for {members}{self._demands.by_multiples}"
        return f"no capacity for {members}{' together' if needed > 1 else ''}{self._demands.by_multiples}"

    def _none(self, reason: str) -> GangPlan:
        return GangPlan(
            reason=reason, fitting=self._most, layers=self._demands.tree.layers, must=self._demands.must
        )
