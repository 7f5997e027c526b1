"""Bugs of gangs, and of preemption for them."""

from tests.support.simulation.bugs.planted_bugs import Bug

BUGS = (
    # Gangs.
    Bug(
        "a gang goes with fewer members than its minimum",
        "app.plugins.coscheduling.planner.plans:_Planning._enough",
        "return all(",
        "return True or all(",
    ),
    Bug(
        "a bind commits the seat of its member alone",
        "app.plugins.coscheduling.admission:reserve",
        "for at, pod in enumerate(found.plan.pods)\n        ),",
        "for at, pod in enumerate(found.plan.pods) if pod.uid == cycle.pod.uid\n        ),",
    ),
    Bug(
        "a seat is kept although its pod is not bound",
        "workers.controller.placements.orphaned_placements:_void",
        "if age >= kept else None",
        "if False else None",
    ),
    Bug(
        "a terminating member lets others of its gang go alone",
        "app.plugins.coscheduling.gangs:Gang.satisfied",
        "return bool(self.seats or self.ran)",
        "return bool(self.seats or self.ran or any(one.node for one in self.others))",
    ),
    Bug(
        "a member that was deleted and has ended lets others go alone",
        "app.plugins.coscheduling.gangs:Gang.ran",
        "if not pod.terminating",
        "if True",
    ),
    Bug(
        "a gang that has lost members needs its minimum again",
        "app.plugins.coscheduling.gangs:Gang.needed",
        "return 0 if self.satisfied else self.minimum",
        "return self.minimum",
    ),
    # Preemption for gangs.
    Bug(
        "a group that preempts takes any nodes",
        "app.plugins.coscheduling.planner.plans:_Planning.plan",
        "self._with_least_harm() or ",
        "",
    ),
    Bug(
        "a group that preempts overlooks budgets",
        "app.plugins.coscheduling.planner.plans:_Planning._with_least_harm",
        "limits = budgets.recorded(self._snapshot)",
        "limits = ()",
    ),
    Bug(
        "a group that preempts breaks up a gang",
        "app.plugins.coscheduling.planner.evictions:Evictions._occupancy",
        "stay = stay or not self._may_go(pod)",
        "stay = False",
    ),
    Bug(
        "a pod that preempts breaks up a gang",
        "app.plugins.coscheduling.seats.protection:veto",
        "if left and left + ran < gang.minimum <= len(members) + ran:",
        "if False:",
    ),
    Bug(
        "pods are evicted for a gang that has no capacity without them",
        "app.framework.pipeline:veto",
        "return refusals[0].reason if refusals else None",
        "return None",
    ),
    Bug(
        "a bind commits a gang as if less important pods were gone",
        "app.plugins.coscheduling.admission:_can_preempt",
        "cycle.offered and membership",
        "membership",
    ),
    Bug(
        "a group that is disrupted as a whole is put back pod by pod",
        "app.plugins.coscheduling.planner.evictions:Evictions._whole_group",
        "if group is not None and group.disrupted_whole else",
        "if False else",
    ),
    Bug(
        "a group that is disrupted as a whole has to stay",
        "app.plugins.coscheduling.planner.evictions:_expendable",
        " or gang.disrupted_whole",
        "",
    ),
    Bug(
        "a group that is disrupted as a whole is put back where a part of it fits",
        "app.plugins.coscheduling.planner.reprieves:Reprieves.outcome",
        "all(left[name].takes(one)",
        "any(left[name].takes(one)",
    ),
    Bug(
        "a node is kept whose victims run elsewhere, too",
        "app.verbs.preemption.offers:_Judging.of",
        'if any(snapshot.node_of(uid) not in ("", node) for uid in uids):',
        "if False:",
    ),
    Bug(
        "a node is kept whose victims are not recorded",
        "app.verbs.preemption.offers:_Judging.of",
        "if not self.going.issuperset(lacking):",
        "if False:",
    ),
    Bug(
        "pods of a node that is gone use up budgets",
        "app.plugins.coscheduling.planner.evictions:Evictions._has_less_important",
        "if name not in snapshot.nodes:",
        "if False:",
    ),
    Bug(
        "a plan with evictions is kept although a running pod has changed",
        "app.plugins.coscheduling.planner.kept_plans:_same_pods",
        "if kept.compared is None or kept.pods is snapshot.pods:",
        "if True:",
    ),
)
