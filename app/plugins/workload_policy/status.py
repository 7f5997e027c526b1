"""The status of policies: counts by domain, and whether the policy is enforced.

The same numbers and sentences as in the plugin's views, where ``kubectl get`` and ``kubectl wait`` find them.
"""

from collections.abc import Iterable, Iterator

from app.domain import events, model, snapshots
from app.framework import effects
from app.plugins.workload_policy import limits, logic, policy_warnings, waking

KIND = "workloadpolicies"
ENFORCED = "Enforced"
"""Type of the condition: whether pods are placed by the policy."""
VALID = {
    "Required": "the quotas limit where pods are placed",
    "Preferred": "nodes in domains below their quota are preferred",
}
MAX_DOMAINS = 100
"""Domains in a status; the views have all of them."""
_APART = (
    events.NodeSeen,
    events.NodeGone,
    events.PolicyGone,
    events.FlagSet,
    events.Relisted,
    events.Quarantined,
    events.RecorderElected,
    events.RelistRequested,
    events.EpochAdopted,
)
"""Events that change no status, or only by the nodes of a domain."""
_MAX_MESSAGE = 2_000
"""Characters of a condition's message; metav1.Condition allows 32,768."""


def reconcile(
    snapshot: snapshots.Snapshot, changes: effects.Changes, *, rules: limits.Rules, limit: int
) -> Iterator[effects.Effect]:
    """The status of each policy that the changes concern; after missed events, also the pods to wake."""
    for policy in _concerned(snapshot, changes):
        yield effects.PatchStatus(KIND, policy.key, status(snapshot, policy))
    if changes.missed:
        for policy in snapshot.policies.values():
            found = waking.of_policy(
                snapshot, snapshot, policy.namespace, policy.name, rules=rules, limit=limit
            )
            if found is not None:
                yield found


def status(snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy) -> dict[str, object]:
    """The status of one policy; an invalid one has only its errors, since its quotas may be unreadable."""
    if policy.errors:
        return {"conditions": [_condition(snapshot, policy)]}
    listed = logic.quotas(snapshot, policy)
    domains = [
        {"name": quota.domain, "desired": quota.desired, "placed": quota.count}
        for quota in listed[:MAX_DOMAINS]
    ]
    return {
        "desired": sum(quota.desired for quota in listed),
        "placed": sum(quota.count for quota in listed),
        "domains": domains,
        "moreDomains": len(listed) - len(domains),
        "conditions": [_condition(snapshot, policy)],
    }


def _condition(snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy) -> dict[str, object]:
    if policy.errors:
        return _enforced("False", "Invalid", "; ".join(policy.errors))
    warnings = policy_warnings.warnings(snapshot, policy)
    if warnings:
        return _enforced("True", "Warning", "; ".join(warnings))
    return _enforced("True", "Valid", VALID[policy.type])


def _enforced(status: str, reason: str, message: str) -> dict[str, object]:
    short = message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 4]} ..."
    return {"type": ENFORCED, "status": status, "reason": reason, "message": short}


def _concerned(snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterable[model.WorkloadPolicy]:
    """The policies whose status may have changed, each once."""
    if changes.before is None:
        return snapshot.policies.values()
    namespaces: set[str] = set()
    for event in changes.events:
        match event:
            case events.PodSeen():
                namespaces.add(event.pod.namespace)
            case events.PlacementsCommitted():
                namespaces.update(placement.pod.namespace for placement in event.placements)
            case events.PodGone() | events.PlacementReleased():
                namespaces.add(event.namespace)
            case events.PolicySeen():
                namespaces.add(event.policy.namespace)
            case _ if isinstance(event, _APART):
                pass
            case _:  # Counts may have been repaired, or events were lost.
                return snapshot.policies.values()
    found = {policy.key: policy for name in namespaces for policy in snapshot.policies_of(name)}
    found.update(_of_moved_nodes(changes.before, snapshot))
    return found.values()


def _of_moved_nodes(
    before: snapshots.Snapshot, snapshot: snapshots.Snapshot
) -> Iterator[tuple[str, model.WorkloadPolicy]]:
    """The policies over a label key whose domains have other nodes than before."""
    keys = {policy.topology_key for policy in snapshot.policies.values()}
    moved = {key for key in keys if snapshot.topology[key] is not before.topology[key]}
    for key, policy in snapshot.policies.items() if moved else ():
        if policy.topology_key in moved:
            yield key, policy
