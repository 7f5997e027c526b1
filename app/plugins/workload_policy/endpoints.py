"""Views of the policies: for each domain the desired, placed and in-flight number of pods."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from heapq import nsmallest
from typing import Annotated

import msgspec

from app.domain import model, schema, selectors, snapshots
from app.domain.fold import pod_index
from app.framework import cycles, views
from app.plugins.workload_policy import kinds, limits, logic, policy_counts, policy_model, status, wakeups

SHOWN = 20
"""Pods that a view names at most."""
NAMED = 3
"""Policies that a line of the summary names at most."""
UNLISTED = 1000
"""Unlisted domains that a view shows at most: there may be as many domains as nodes."""


def policies(snapshot: snapshots.Snapshot, _: Mapping[str, str]) -> views.Listed:
    """The policies, one summary each."""
    held = snapshot.all(kinds.POLICIES)
    return views.Listed(held, lambda key: _summary(snapshot, held[key]))


def policy(snapshot: snapshots.Snapshot, parameters: Mapping[str, str]) -> dict[str, object] | None:
    """One policy with its domains and warnings; None if it does not exist."""
    found = _found(snapshot, parameters)
    if found is None:
        return None
    return {
        **_summary(snapshot, found),
        "uid": found.uid,
        "created": found.created,
        "strictDomains": found.strict_domains,
        "labelSelector": _selector(found.selector),
        "domains": _domains(snapshot, found),
        "unlisted": _unlisted(snapshot, found),
        **_unnamed(snapshot, found),
        "warnings": status.warnings(snapshot, found),
    }


def quotas(snapshot: snapshots.Snapshot, parameters: Mapping[str, str]) -> views.Listed | None:
    """The domains of one policy; None if it does not exist."""
    found = _found(snapshot, parameters)
    if found is None:
        return None
    listed, in_flight = logic.quotas(snapshot, found), _in_flight(snapshot, found)
    return views.Listed(range(len(listed)), lambda at: _domain(snapshot, found, listed[at], in_flight))


def measured(snapshot: snapshots.Snapshot) -> list[views.Measured]:
    """The listed domains of all policies."""
    keys = (
        views.Measured(policy.namespace, policy.name, allocation.name)
        for policy in snapshot.all(kinds.POLICIES).values()
        for allocation in policy.allocations
    )
    return list(dict.fromkeys(keys))  # An invalid policy may list a domain twice.


def measure(snapshot: snapshots.Snapshot, key: views.Measured) -> views.Measure:
    """The pods that the policy counts in the domain, and its quota there."""
    policy = snapshot.all(kinds.POLICIES)[f"{key.namespace}/{key.name}"]
    quota = next(one for one in logic.quotas(snapshot, policy) if one.domain == key.domain)
    return views.Measure(quota.count, quota.desired)


def _found(snapshot: snapshots.Snapshot, parameters: Mapping[str, str]) -> policy_model.WorkloadPolicy | None:
    return snapshot.get(kinds.POLICIES, f"{parameters['namespace']}/{parameters['name']}")


def _summary(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> dict[str, object]:
    listed = logic.quotas(snapshot, policy)
    return {
        "namespace": policy.namespace,
        "name": policy.name,
        "valid": not policy.errors,
        "errors": list(policy.errors),
        "topologyKey": policy.topology_key,
        "allocationType": policy.type,
        "allocationMethod": policy.method,
        "desired": sum(quota.desired for quota in listed),
        "count": sum(quota.count for quota in listed),
        "waiting": sum(1 for _ in wakeups.naming(snapshot, policy.namespace, policy.name)),
    }


def _domains(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> list[dict[str, object]]:
    in_flight = _in_flight(snapshot, policy)
    return [_domain(snapshot, policy, quota, in_flight) for quota in logic.quotas(snapshot, policy)]


def _domain(
    snapshot: snapshots.Snapshot,
    policy: policy_model.WorkloadPolicy,
    quota: logic.PolicyQuota,
    in_flight: Counter[schema.CountKey],
) -> dict[str, object]:
    flying = in_flight[policy_counts.key(policy, quota.domain)]
    return {
        "domain": quota.domain,
        "desired": quota.desired,
        "placed": quota.count - flying,
        "inFlight": flying,
        "free": quota.free,
        "percent": 0 if policy.errors else quota.percent(policy.method),
        "nodes": len(snapshot.topology[policy.topology_key][quota.domain]),
    }


def _in_flight(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Counter[schema.CountKey]:
    """Count key -> number of pods that are placed and not yet observed as bound."""
    found: Counter[schema.CountKey] = Counter()
    for uid, placement in snapshot.placements.items():
        pod, node = snapshot.pod(uid), snapshot.nodes.get(placement.node)
        if pod is not None and node is not None and pod.namespace == policy.namespace:
            raised = policy_counts.counted_by(policy, pod, node)
            if raised is not None:
                found[raised] += 1
    return found


def _unlisted(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> list[dict[str, object]]:
    """Domains with counted pods that the policy does not list."""
    listed = {allocation.name for allocation in policy.allocations}
    found = (value for value in snapshot.topology[policy.topology_key] if value not in listed)
    counted = (value for value in found if policy_counts.count(snapshot, policy, value))
    return [
        {"domain": value, "count": policy_counts.count(snapshot, policy, value)}
        for value in nsmallest(UNLISTED, counted)
    ]


def _unnamed(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> dict[str, object]:
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
        if node is not None and policy_counts.counted_by(policy, pod, node) is not None:
            yield pod


def _names(policy: policy_model.WorkloadPolicy, pod: model.Pod) -> bool:
    """Whether the pod names the policy; the label of a DaemonSet's pod is ignored (WP-11)."""
    return logic.concerned(pod) and logic.named(pod) == policy.name


def _selector(selector: model.Selector) -> dict[str, object]:
    return {
        "matchLabels": dict(selector.labels),
        "matchExpressions": [
            {"key": one.key, "operator": one.operator, "values": list(one.values)}
            for one in selector.expressions
        ],
    }


_SUMMARY: dict[str, object] = {
    "namespace": "workload-test",
    "name": "workload-policy-test",
    "valid": True,
    "errors": [],
    "topologyKey": "workload-test",
    "allocationType": "Required",
    "allocationMethod": "Fill",
    "desired": 4,
    "count": 3,
    "waiting": 2,
}
_QUOTAS: list[dict[str, object]] = [
    {"domain": "member", "desired": 1, "placed": 1, "inFlight": 0, "free": 0, "percent": 0, "nodes": 2},
    {"domain": "host", "desired": 3, "placed": 1, "inFlight": 1, "free": 1, "percent": 66, "nodes": 4},
]

_ENDPOINTS = (
    views.Endpoint("policies", "All workload policies", policies, [_SUMMARY]),
    views.Endpoint(
        "policies/<namespace>/<name>",
        "One policy: desired, placed, in-flight and free places per domain; errors and warnings",
        policy,
        {
            **_SUMMARY,
            "uid": "6f0c",
            "created": "2026-01-01T00:00:00Z",
            "strictDomains": False,
            "labelSelector": {"matchLabels": {"app": "clusterlink-floater-mix"}, "matchExpressions": []},
            "domains": _QUOTAS,
            "unlisted": [],
            "notNamingCount": 1,
            "notNaming": [{"pod": "floater-1", "node": "host-2", "names": None, "owners": ["ReplicaSet"]}],
            "warnings": [],
        },
    ),
    views.Endpoint("policies/<namespace>/<name>/quotas", "The quotas of one policy", quotas, _QUOTAS),
)

TABLES = (
    views.Table(
        "policies",
        "policies",
        "workload policies; with NAMESPACE/NAME the domains of one",
        {
            "POLICY": "namespace+name",
            "VALID": "valid",
            "TYPE": "allocationType",
            "METHOD": "allocationMethod",
            "KEY": "topologyKey",
            "PLACED": "count",
            "DESIRED": "desired",
            "WAITING": "waiting",
            "ERRORS": "errors",
        },
        namespace="namespace",
        named=True,
    ),
)


class PolicyOfPod(msgspec.Struct, frozen=True):
    """A WorkloadPolicy that selects the pod."""

    policy: Annotated[str, msgspec.Meta(description="NAMESPACE/NAME.")]
    valid: Annotated[bool, msgspec.Meta(description="Whether the policy is valid.")]
    count: Annotated[
        str | None, msgspec.Meta(description="The count that the pod increments, POLICY|DOMAIN, or null.")
    ]


def of_pod(snapshot: snapshots.Snapshot, pod: model.Pod) -> list[PolicyOfPod]:
    """The policies that select the pod, by name."""
    node = snapshot.nodes.get(snapshot.node_of(pod.uid))
    selected = [
        policy
        for policy in snapshot.within(kinds.POLICIES, pod.namespace).values()
        if selectors.matches(policy.selector, pod.labels)
    ]
    return [
        PolicyOfPod(
            policy.key,
            not policy.errors,
            policy_counts.counted_by(policy, pod, node) if node is not None else None,
        )
        for policy in sorted(selected, key=lambda policy: policy.key)
    ]


_Listed = tuple[policy_model.WorkloadPolicy, Mapping[str, int]]
"""A policy and its domains -> replicas."""


def domain_counts(
    snapshot: snapshots.Snapshot, of: str
) -> Mapping[str, Callable[[str], Iterator[views.DomainCount]]]:
    """For each topology key, the counts in a domain of its valid policies, or of the one named ``of``."""
    if of:
        policy = snapshot.get(kinds.POLICIES, of)
        if policy is None or policy.errors:
            return {}
        return {policy.topology_key: partial(_counts, snapshot, (_listed(policy),))}

    def compute() -> dict[str, list[_Listed]]:
        over: dict[str, list[_Listed]] = {}
        for _, policy in sorted(snapshot.all(kinds.POLICIES).items()):
            held = over.setdefault(policy.topology_key, [])
            if not policy.errors:
                held.append(_listed(policy))
        return over

    over = snapshot.objects.derived(kinds.POLICIES, domain_counts, compute)
    return {key: partial(_counts, snapshot, held) for key, held in over.items()}


def _listed(policy: policy_model.WorkloadPolicy) -> _Listed:
    return policy, {one.name: one.replicas for one in policy.allocations}


def _counts(
    snapshot: snapshots.Snapshot, policies: Iterable[_Listed], value: str
) -> Iterator[views.DomainCount]:
    for policy, replicas in policies:
        placed, desired = policy_counts.count(snapshot, policy, value), replicas.get(value)
        if placed or desired is not None:
            yield views.DomainCount(policy.key, placed, desired, policy_counts.key(policy, value))


def shown(rules: limits.PolicyRules) -> views.Shown:
    """All views."""
    return views.Shown(
        endpoints=_ENDPOINTS,
        pod_fields=(views.PodField("policies", "The policies that select it.", PolicyOfPod, of_pod),),
        domain_counts=domain_counts,
        remarks=partial(_remarks, rules),
        summary=_lines,
        concerns=(views.Concern("policy", partial(_concerned, rules)),),
    )


def _concerned(rules: limits.PolicyRules, snapshot: snapshots.Snapshot, pod: model.Pod) -> Iterator[str]:
    """The policy that the pod names, and those that limit it because they select it."""
    named = f"{pod.namespace}/{logic.named(pod)}" if logic.concerned(pod) else ""
    if named:
        yield named
    for policy in limits.required(snapshot, pod, rules):
        if policy.key != named:
            yield policy.key


def _lines(snapshot: snapshots.Snapshot) -> Iterator[views.StatusLine]:
    """The policies: how many pods they place, and which are invalid or exceeded."""
    held = snapshot.all(kinds.POLICIES)
    if not held:
        return
    valid = [logic.quotas(snapshot, policy) for policy in held.values() if not policy.errors]
    placed = sum(quota.count for listed in valid for quota in listed)
    desired = sum(quota.desired for listed in valid for quota in listed)
    invalid = [key for key in held if held[key].errors]
    over = [
        key
        for key in held
        if not held[key].errors
        and any(quota.count > quota.desired for quota in logic.quotas(snapshot, held[key]))
    ]
    wrong = [*_named("invalid", invalid), *_named("above a quota", over)]
    yield views.StatusLine("policies", f"{len(held)}, {placed} of {desired} pods placed", "; ".join(wrong))


def _named(what: str, keys: list[str]) -> Iterator[str]:
    """How many of the objects, and the first of them."""
    if keys:
        yield f"{len(keys)} {what}: {', '.join(nsmallest(NAMED, keys))}" + (", ..." if keys[NAMED:] else "")


def _remarks(rules: limits.PolicyRules, cycle: cycles.Cycle) -> Iterator[str]:
    """The warnings of the policies that limit or prefer nodes for the pod."""
    snapshot = cycle.snapshot
    named = logic.followed(snapshot, cycle.pod) if logic.concerned(cycle.pod) else None
    policies = [named] if isinstance(named, policy_model.WorkloadPolicy) else []
    policies += [policy for policy in limits.required(snapshot, cycle.pod, rules) if policy not in policies]
    for policy in policies:
        for warning in status.warnings(snapshot, policy):
            yield f"workload policy {policy.key}: {warning}"
