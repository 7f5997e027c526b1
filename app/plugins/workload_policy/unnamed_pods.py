"""Lists counted pods that do not name the policy: by default it counts them without limiting them."""

from collections.abc import Iterator
from heapq import nsmallest

from app.domain import model, pod_index, selectors, snapshots
from app.plugins.workload_policy import counting, logic, policy_model

SHOWN = 20
"""Pods that a view names at most."""


def view(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> dict[str, object]:
    """The number of counted pods that do not name the policy, and the first of them by name."""
    found = list(_counted(snapshot, policy))
    return {
        "notNamingCount": len(found),
        "notNaming": [
            {
                "pod": pod.name,
                "node": snapshot.node_of(pod.uid),
                "names": logic.named(pod),
                "owners": sorted({owner.kind for owner in pod.owners}),
            }
            for pod in nsmallest(SHOWN, found, key=lambda pod: (pod.name, pod.uid))
        ],
    }


def _counted(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[model.Pod]:
    for uid in snapshot.namespaces.get(policy.namespace, pod_index.NO_PODS):
        pod = snapshot.pod(uid)
        if pod is None or _names(policy, pod) or not selectors.matches(policy.selector, pod.labels):
            continue
        node = snapshot.nodes.get(snapshot.node_of(uid))
        if node is not None and counting.counted_by(policy, pod, node) is not None:
            yield pod


def _names(policy: policy_model.WorkloadPolicy, pod: model.Pod) -> bool:
    """Whether the pod names the policy; the label of a DaemonSet's pod is ignored (WP-11)."""
    return logic.concerned(pod) and logic.named(pod) == policy.name
