"""The pods of a quota, and what the quota of a pod admits."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from app.domain import model, snapshots
from app.domain.fit import quantities
from app.framework import views
from app.plugins.elastic_quota import admission, evictions, families, quota_counts, quota_model
from app.plugins.elastic_quota.sigs import namespace_quota, reclaimable_pods
from app.plugins.elastic_quota.trees import membership, overuse, quota_preemption, usage

Json = dict[str, Any]


def of_quota(
    _: evictions.EvictionRules, snapshot: snapshots.Snapshot, parameters: Mapping[str, str]
) -> views.Listed | None:
    """The pods that belong to the quota itself; None if it does not exist."""
    name, grown = parameters["name"], usage.forest(snapshot)
    if name not in grown.quotas and not (name in quota_model.BUILT_IN and grown.quotas):
        return None
    found = {
        (pod.namespace, pod.name, pod.uid): pod
        for pod in _every(snapshot)
        if not pod.finished and membership.of(pod, grown).name == name
    }
    return views.Listed(
        found, lambda key: member(snapshot, found[key], overuse.amounts(found[key], grown, name))
    )


def _every(snapshot: snapshots.Snapshot) -> Iterator[model.Pod]:
    yield from snapshot.pods.values()
    for uid, placement in snapshot.placements.items():
        if uid not in snapshot.pods:
            yield placement.pod


def member(snapshot: snapshots.Snapshot, pod: model.Pod, amounts: Mapping[str, int]) -> Json:
    """One pod of a quota; ``amounts``: its requests in counted units."""
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "isAssigned": bool(snapshot.node_of(pod.uid)),
        "preemptible": membership.preemptible(pod),
        "priority": pod.priority,
        "resource": quota_counts.written(dict(amounts)),
    }


def one(
    rules: evictions.EvictionRules, snapshot: snapshots.Snapshot, parameters: Mapping[str, str]
) -> Json | None:
    """The quota of a pod and each test of it; None if there is no such pod."""
    pod = snapshot.pod_named(parameters["namespace"], parameters["name"])
    if pod is None:
        return None
    grown = usage.forest(snapshot)
    belongs = membership.of(pod, grown)
    on_node = bool(snapshot.node_of(pod.uid))
    found = () if on_node else families.admissions(snapshot, pod, rules)
    own = namespace_quota.namespaces(snapshot.objects).quotas.get(pod.namespace)
    least_harm = quota_preemption.least_harm
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "quota": belongs.name if grown.quotas else "",
        "parents": list(grown.chains.get(belongs.name, ())[1:]),
        "warning": belongs.warning if grown.quotas else "",
        "namespaceQuota": "" if own is None else own.key,
        "isAssigned": on_node,
        "limited": families.limited(snapshot, pod, rules),
        "reason": families.reason(found),
        "tests": [_test(test) for one in found for test in one.tests],
        "eviction": least_harm({} if on_node else quota_preemption.evictions(snapshot, pod, rules)),
        "reclaim": least_harm({} if on_node else reclaimable_pods.evictions(snapshot, pod, rules)),
    }


def _test(test: admission.Test) -> Json:
    write = partial(quantities.written, test.resource)
    return {
        "quota": test.quota or "all quotas",
        "resource": test.resource,
        "against": "min" if test.firm else "limit",
        "used": write(quota_counts.amount(test.resource, test.used)),
        "request": write(quota_counts.amount(test.resource, test.request)),
        "limit": write(quota_counts.amount(test.resource, test.limit)),
        "fits": test.fits,
    }
