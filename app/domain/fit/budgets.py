"""PodDisruptionBudgets (policy/v1): how many pods may be evicted without violating them."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from app.domain import model, selectors, snapshots


class DisruptionBudget(model.DeclaredObject, frozen=True):
    """A PodDisruptionBudget as last observed at the API server."""

    selector: model.Selector | None = None
    """A missing one selects no pod. An empty one selects none in kube-scheduler, all in the Eviction API."""
    allowed: int = 0
    """status.disruptionsAllowed."""
    disrupted: tuple[str, ...] = ()
    """status.disruptedPods: names of pods whose eviction the budget has already counted."""
    error: str = ""
    """Why a part of the budget is not kept; empty if all is. Such a budget selects no pod."""

    def selects(self, pod: model.Pod) -> bool:
        """Whether an eviction of the pod uses up the budget, to kube-scheduler.

        A pod without labels is never selected.
        """
        selector = self.selector
        if selector is None or not (selector.labels or selector.expressions) or not pod.labels:
            return False
        return (
            pod.namespace == self.namespace
            and pod.name not in self.disrupted
            and selectors.matches(selector, pod.labels)
        )

    def guards(self, pod: model.Pod) -> bool:
        """Whether the Eviction API uses up the budget for the pod."""
        selector = self.selector
        return (
            selector is not None
            and pod.namespace == self.namespace
            and selectors.matches(selector, pod.labels)
        )


ByNamespace = Mapping[str, tuple[DisruptionBudget, ...]]
"""Namespace -> its budgets, by name; a namespace without budgets is left out."""
NONE: ByNamespace = MappingProxyType({})


def by_namespace(budgets: Iterable[DisruptionBudget]) -> ByNamespace:
    """The budgets, which may come in any order."""
    found: dict[str, list[DisruptionBudget]] = {}
    for budget in sorted(budgets, key=lambda budget: budget.key):
        found.setdefault(budget.namespace, []).append(budget)
    return {namespace: tuple(those) for namespace, those in found.items()}


def recorded(snapshot: snapshots.Snapshot) -> ByNamespace:
    """The budgets of the state; empty if no plugin declares the kind."""
    return snapshot.derived(
        __name__,
        lambda: by_namespace(
            one
            for kind in snapshot.schema.kinds
            if issubclass(kind.type, DisruptionBudget)
            for one in snapshot.all(kind).values()
        ),
    )


def violating(pods: Iterable[model.Pod], budgets: ByNamespace) -> frozenset[model.Uid]:
    """The pods whose eviction violates a budget, if all are evicted in this order.

    A pod may use up several budgets; the first that is exhausted ends the search, so that the budgets behind
    it are not used up (FilterVictimsWithPDBViolation, pkg/scheduler/framework/preemption/util.go, Kubernetes
    1.37). The time depends on the pods and the budgets of their namespaces alone.
    """
    left: dict[model.NamespacedName, int] = {}
    found = set()
    for pod in pods:
        for budget in budgets.get(pod.namespace, ()):
            if budget.selects(pod):
                key = budget.key
                left[key] = left.get(key, budget.allowed) - 1
                if left[key] < 0:
                    found.add(pod.uid)
                    break
    return frozenset(found)


def counted_apart(pods: Iterable[model.Pod], budgets: ByNamespace) -> bool:
    """Whether kube-scheduler may count violations otherwise, if all are evicted in this order: one pod has
    several budgets of which one is exhausted.

    Before Kubernetes 1.37 the others are used up as well (filterPodsWithPDBViolation), and since then those
    before the exhausted one in the order of a cache, which is arbitrary. Here it is the order of the names.
    """
    left: dict[model.NamespacedName, int] = {}
    for pod in pods:
        known = budgets.get(pod.namespace, ())
        own = [budget for budget in known if budget.selects(pod)] if len(known) > 1 else []
        for budget in own:
            left[budget.key] = left.get(budget.key, budget.allowed) - 1
        if len(own) > 1 and any(left[budget.key] < 0 for budget in own):
            return True
    return False


def refused(pods: Iterable[model.Pod], budgets: ByNamespace) -> frozenset[model.Uid]:
    """The pods that the Eviction API does not evict, if all are requested in this order.

    Their budget is used up, or they have several, which the API does not support
    (pkg/registry/core/pod/storage/eviction.go). The preemption of kube-scheduler deletes the latter. Of a pod
    that is not ready the API may evict more, by what is not recorded: unhealthyPodEvictionPolicy, and the
    numbers of healthy pods.
    """
    left: dict[model.NamespacedName, int] = {}
    found = set()
    for pod in pods:
        match _guarding(pod, budgets):
            case []:
                continue
            case [budget]:
                left[budget.key] = left.get(budget.key, budget.allowed) - 1
                if left[budget.key] >= 0:
                    continue
        found.add(pod.uid)
    return frozenset(found)


def several(pod: model.Pod, budgets: ByNamespace) -> bool:
    """Whether the Eviction API never evicts the pod, because it has several budgets."""
    return len(_guarding(pod, budgets)) > 1


def _guarding(pod: model.Pod, budgets: ByNamespace) -> list[DisruptionBudget]:
    """The budgets that the Eviction API checks for the pod: none unless it runs (canIgnorePDB)."""
    if not pod.counted or pod.phase == "Pending":
        return []
    return [budget for budget in budgets.get(pod.namespace, ()) if budget.guards(pod)]
