"""PodDisruptionBudgets (policy/v1): how many pods may be evicted without violating them."""

from collections.abc import Iterable, Sequence

from app.domain import model, selectors, snapshots


class DisruptionBudget(model.DeclaredObject, frozen=True):
    """A PodDisruptionBudget as last observed at the API server."""

    selector: model.Selector | None = None
    """A missing or empty one selects no pod."""
    allowed: int = 0
    """status.disruptionsAllowed."""
    disrupted: tuple[str, ...] = ()
    """status.disruptedPods: names of pods whose eviction the budget has already counted."""
    error: str = ""
    """Why a part of the budget is not kept; empty if all is. Such a budget selects no pod."""

    def selects(self, pod: model.Pod) -> bool:
        """Whether an eviction of the pod uses up the budget. A pod without labels is never selected."""
        selector = self.selector
        if selector is None or not (selector.labels or selector.expressions) or not pod.labels:
            return False
        return (
            pod.namespace == self.namespace
            and pod.name not in self.disrupted
            and selectors.matches(selector, pod.labels)
        )


def recorded(snapshot: snapshots.Snapshot) -> tuple[DisruptionBudget, ...]:
    """The budgets of the state, by name; empty if no plugin declares the kind."""
    found = (
        one
        for kind in snapshot.schema.kinds
        if issubclass(kind.type, DisruptionBudget)
        for one in snapshot.all(kind).values()
    )
    return tuple(sorted(found, key=lambda budget: budget.key))


def violating(pods: Iterable[model.Pod], budgets: Sequence[DisruptionBudget]) -> frozenset[model.Uid]:
    """The pods whose eviction violates a budget, if all are evicted in this order.

    A pod may use up several budgets; the first that is exhausted ends the search, so that the budgets behind
    it are not used up (FilterVictimsWithPDBViolation, pkg/scheduler/framework/preemption/util.go).
    """
    left = [budget.allowed for budget in budgets]
    found = set()
    for pod in pods:
        for at, budget in enumerate(budgets):
            if budget.selects(pod):
                left[at] -= 1
                if left[at] < 0:
                    found.add(pod.uid)
                    break
    return frozenset(found)
