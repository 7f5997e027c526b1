"""A second, plain computation of which evictions violate PodDisruptionBudgets.

It covers what simulations contain: one namespace, selectors of labels, no eviction that is counted already.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from app.domain import model

Budget = dict[str, Any]
"""A PodDisruptionBudget as it is in the log."""


def violating(pods: Iterable[model.Pod], budgets: Mapping[str, Budget]) -> set[str]:
    """uids of those whose eviction violates a budget, if all are evicted in this order.

    The first budget that is exhausted ends the search for a pod, as in kube-scheduler.
    """
    left = {name: budgets[name].get("allowed", 0) for name in sorted(budgets)}
    found = set()
    for pod in pods:
        for name in left:
            wanted = budgets[name]["selector"]["labels"]
            if pod.labels and wanted.items() <= pod.labels.items():
                left[name] -= 1
                if left[name] < 0:
                    found.add(pod.uid)
                    break
    return found
