"""Admits a pod by the quota of its namespace: max, and what all namespaces use against the sum of mins.

The rules are those of capacity_scheduling.go (PreFilter), with one exception: a resource that max does not
name is not limited by it, and one that no quota names is not limited at all. There, what is missing is zero.
Pods that are nominated and at least as important count as placed in every filter (framework/pipeline.py).
"""

from collections.abc import Iterator, Mapping

from app.domain import model, snapshots
from app.plugins.elastic_quota import admission, quota_counts
from app.plugins.elastic_quota.sigs import namespace_counts, namespace_quota
from app.plugins.elastic_quota.sigs.namespace_quota import NamespaceQuota


def limited(snapshot: snapshots.Snapshot, pod: model.Pod, rules: admission.QuotaRules) -> bool:
    """Whether the quota of its namespace may refuse the pod in this state."""
    if not snapshot.all(namespace_quota.KIND):
        return False
    quota = namespace_quota.namespaces(snapshot.objects).quotas.get(pod.namespace)
    return quota is not None and (not quota.errors or rules.invalid_quota == "reject")


def tests(
    snapshot: snapshots.Snapshot, pod: model.Pod, rules: admission.QuotaRules
) -> admission.Admission | None:
    """The tests of the pod, which must not be on a node in the snapshot; None if no quota limits it."""
    if not limited(snapshot, pod, rules):
        return None
    quota = namespace_quota.namespaces(snapshot.objects).quotas[pod.namespace]
    if quota.errors:
        what = "; ".join(quota.errors[:3])
        return admission.Admission(quota.key, f"{admission.subject(quota.key)} invalid: {what}")
    limiting = {*quota.max, *namespace_quota.namespaces(snapshot.objects).total}
    asked = {resource: amount for resource, amount in pod.requests.items() if resource in limiting}
    if uncountable := quota_counts.uncountable(asked):
        return admission.too_large(quota.key, uncountable)
    return admission.Admission(quota.key, tests=tuple(_tests(snapshot, pod, quota, rules)))


def _tests(
    snapshot: snapshots.Snapshot, pod: model.Pod, quota: NamespaceQuota, rules: admission.QuotaRules
) -> Iterator[admission.Test]:
    asked = namespace_counts.requests(pod)
    least = namespace_quota.namespaces(snapshot.objects).total
    for resource in sorted({*asked, *quota.max} if rules.strict_resources else asked):
        request = asked.get(resource, 0)
        if resource in quota.max:
            yield _test(snapshot, quota.namespace, quota.key, resource, request, quota.max[resource])
    nominated = _nominated(snapshot, pod) if snapshot.nominated else {}
    for resource in sorted({*asked, *least} if rules.strict_resources else asked):
        request = asked.get(resource, 0)
        if resource in least:
            test = _test(
                snapshot, namespace_counts.ALL, admission.TOGETHER, resource, request, least[resource]
            )
            yield test._replace(used=test.used + nominated.get(resource, 0))


def _test(
    snapshot: snapshots.Snapshot, namespace: str, name: str, resource: str, request: int, limit: int
) -> admission.Test:
    return admission.Test(
        quota=name,
        resource=resource,
        key=namespace_counts.key(namespace, resource),
        used=namespace_counts.used(snapshot, namespace, resource),
        request=request,
        limit=quota_counts.ceiling(resource, limit),
    )


def _nominated(snapshot: snapshots.Snapshot, pod: model.Pod) -> dict[str, int]:
    """Resource -> what less important pods request for which kube-scheduler has evicted others, in namespaces
    that use no more than their min: what they are guaranteed is not lent again meanwhile.
    """
    less: dict[str, dict[str, int]] = {}
    assumed: dict[str, dict[str, int]] = {}
    for uid in snapshot.nominated:
        one = snapshot.pods.get(uid)
        if one is None or one.namespace == pod.namespace:
            continue
        if snapshot.node_of(uid):
            _add(assumed.setdefault(one.namespace, {}), one)
        elif one.priority < pod.priority:
            _add(less.setdefault(one.namespace, {}), one)
    found: dict[str, int] = {}
    quotas = namespace_quota.namespaces(snapshot.objects).quotas
    for namespace, amounts in less.items():
        quota = quotas.get(namespace)
        if quota is not None and not _over_min(snapshot, quota, assumed.get(namespace, {})):
            for resource, amount in amounts.items():
                found[resource] = found.get(resource, 0) + amount
    return found


def _over_min(snapshot: snapshots.Snapshot, quota: NamespaceQuota, assumed: Mapping[str, int]) -> bool:
    """Whether the pods of the namespace use more than its min. ``assumed``: what those of them request that
    count as placed where they are nominated, without which it is judged.
    """
    return any(
        namespace_counts.used(snapshot, quota.namespace, resource) - assumed.get(resource, 0)
        > quota_counts.ceiling(resource, quota.min.get(resource, 0))
        for resource in {*quota.min, *quota.max}
    )


def _add(amounts: dict[str, int], pod: model.Pod) -> None:
    for resource, amount in namespace_counts.requests(pod).items():
        amounts[resource] = amounts.get(resource, 0) + amount
