"""The status of policies: counts by domain, whether the policy is in force, and whether its pods are placed.

The same numbers and sentences as in the plugin's views, where ``kubectl get`` and ``kubectl wait`` find them.
"""

from bisect import insort
from collections.abc import Iterable, Iterator

from app.domain import events, model, selectors, snapshots
from app.framework import effects
from app.plugins.workload_policy import kinds, limits, logic, policy_model, wakeups

KIND = kinds.POLICIES.name
ACCEPTED = "Accepted"
"""Type of the condition: whether the specification is valid, and so pods are placed by it."""
SATISFIED = "Satisfied"
"""Type of the condition: whether no pod waits, and no domain holds more pods than are desired there."""
VALID = {
    "Required": "the quotas limit where pods are placed",
    "Preferred": "nodes in domains below their quota are preferred",
}
MAX_DOMAINS = 100
"""Domains in a status; the views have all of them."""
REVISION = "pod-template-hash"
"""Pod label that identifies the ReplicaSet of a Deployment."""
_APART = (events.NodeSeen, events.NodeGone, events.ObjectGone, *events.OPERATIONAL)
"""Events that change no status, or only by the nodes of a domain."""
_MAX_MESSAGE = 2_000
"""Characters of a condition's message; metav1.Condition allows 32,768."""


def reconcile(
    snapshot: snapshots.Snapshot, changes: effects.Changes, *, rules: limits.PolicyRules, limit: int
) -> Iterator[effects.Effect]:
    """The status of each policy that the changes concern; after missed events, also the pods to wake."""
    for policy in _concerned(snapshot, changes):
        yield effects.PatchStatus(KIND, policy.key, status(snapshot, policy))
    if changes.missed:
        for key in snapshot.all(kinds.POLICIES):
            found = wakeups.of_policy(snapshot, key, rules=rules, limit=limit)
            if found is not None:
                yield found


def status(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> dict[str, object]:
    """The status of one policy; an invalid one has only its errors, since its quotas may be unreadable."""
    if policy.errors:
        return {"conditions": _invalid(policy)}
    listed = logic.quotas(snapshot, policy)
    domains = [
        {"name": quota.domain, "desired": quota.desired, "placed": quota.count}
        for quota in listed[:MAX_DOMAINS]
    ]
    waits = sum(1 for _ in wakeups.naming(snapshot, policy.namespace, policy.name))
    return {
        "desired": sum(quota.desired for quota in listed),
        "placed": sum(quota.count for quota in listed),
        "waiting": waits,
        "domains": domains,
        "moreDomains": len(listed) - len(domains),
        "conditions": [_accepted(snapshot, policy), _satisfied(snapshot, policy, waits)],
    }


def _invalid(policy: policy_model.WorkloadPolicy) -> list[dict[str, object]]:
    return [
        _condition(ACCEPTED, "False", "InvalidSpec", policy.errors),
        _condition(SATISFIED, "Unknown", "InvalidSpec", ["the specification is invalid"]),
    ]


def _accepted(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> dict[str, object]:
    """A domain without nodes leaves the others in force: nodes may be added later."""
    missing, labels = [*_missing(snapshot, policy)], [*_labels(snapshot, policy)]
    if missing:
        return _condition(ACCEPTED, "True", "NoSuchDomain", [*missing, *labels])
    return _condition(ACCEPTED, "True", "Valid", [VALID[policy.type], *labels])


def _satisfied(
    snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, waits: int
) -> dict[str, object]:
    over = [*_overrun(snapshot, policy)]
    waiting = [
        *([f"{waits} {'pod waits' if waits == 1 else 'pods wait'}"] if waits else []),
        *_selection(snapshot, policy),
        *_rolling_update(snapshot, policy),
    ]
    if over:
        return _condition(SATISFIED, "False", "Overrun", [*over, *waiting])
    if waiting:
        return _condition(SATISFIED, "False", "Waiting", waiting)
    return _condition(SATISFIED, "True", "AllPlaced", ["no pod that names the policy waits"])


def _condition(kind: str, status: str, reason: str, sentences: Iterable[str]) -> dict[str, object]:
    message = "; ".join(sentences)
    short = message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 4]} ..."
    return {"type": kind, "status": status, "reason": reason, "message": short}


def _concerned(
    snapshot: snapshots.Snapshot, changes: effects.Changes
) -> Iterable[policy_model.WorkloadPolicy]:
    """The policies whose status may have changed, each once."""
    if changes.before is None:
        return snapshot.all(kinds.POLICIES).values()
    namespaces: set[str] = set()
    for event in changes.events:
        match event:
            case events.PodSeen():
                namespaces.add(event.pod.namespace)
            case events.PlacementsCommitted():
                namespaces.update(placement.pod.namespace for placement in event.placements)
            case events.PodGone() | events.PlacementReleased():
                namespaces.add(event.namespace)
            case events.ObjectObserved():
                if event.kind == KIND:
                    namespaces.add(event.identity.partition("/")[0])
            case _ if isinstance(event, _APART):
                pass
            case _:  # Counts may have been repaired, or events were lost.
                return snapshot.all(kinds.POLICIES).values()
    found: dict[str, policy_model.WorkloadPolicy] = {}
    for name in namespaces:
        found.update(snapshot.within(kinds.POLICIES, name))
    found.update(_of_moved_nodes(changes.before, snapshot))
    return found.values()


def _of_moved_nodes(
    before: snapshots.Snapshot, snapshot: snapshots.Snapshot
) -> Iterator[tuple[str, policy_model.WorkloadPolicy]]:
    """The policies over a label key whose domains have other nodes than before."""
    keys = {policy.topology_key for policy in snapshot.all(kinds.POLICIES).values()}
    moved = {key for key in keys if snapshot.topology[key] is not before.topology[key]}
    for key, policy in snapshot.all(kinds.POLICIES).items() if moved else ():
        if policy.topology_key in moved:
            yield key, policy


# -- warnings ------------------------------------------------------------------------------


class _Named:
    """The number of pods and the first of their names; bounded, however many pods are added."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[model.NamespacedName] = []

    def add(self, pod: model.Pod) -> None:
        self.count += 1
        insort(self._first, pod.key)
        del self._first[logic.MAX_NAMED :]

    def __str__(self) -> str:
        more = self.count - len(self._first)
        return ", ".join(self._first) + (f" and {more} more" if more else "")


def warnings(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> list[str]:
    """The warnings in a stable order; an invalid policy has errors instead."""
    if policy.errors:
        return []
    return [
        *_missing(snapshot, policy),
        *_overrun(snapshot, policy),
        *_labels(snapshot, policy),
        *_selection(snapshot, policy),
        *_rolling_update(snapshot, policy),
    ]


def _missing(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[str]:
    column = snapshot.topology[policy.topology_key]
    for quota in logic.quotas(snapshot, policy):
        if quota.desired and not column[quota.domain]:
            yield f"no node has the label {policy.topology_key}={quota.domain}"


def _overrun(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[str]:
    for quota in logic.quotas(snapshot, policy):
        if quota.count > quota.desired:
            yield (
                f"{quota.domain} holds {quota.count} pods, {quota.desired} are desired:"
                " no pod is evicted, the number falls as pods end"
            )


def _labels(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[str]:
    """Pods with the alias: it works, but Kosmos itself reads only the canonical label (WP-18)."""
    only = 0
    other = _Named()
    for pod in snapshot.siblings(policy.namespace, logic.ALIAS, policy.name):
        label = pod.labels.get(logic.LABEL)
        if label is None:
            only += 1
        elif label != policy.name:
            other.add(pod)
    if only:
        yield f"{only} pods name the policy only by the alias {logic.ALIAS}; use {logic.LABEL}"
    if other.count:
        yield (
            f"{other.count} pods name this policy by {logic.ALIAS} and another by {logic.LABEL}, which wins:"
            f" {other}"
        )


def _selection(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[str]:
    missed = _Named()
    for pod in wakeups.naming(snapshot, policy.namespace, policy.name):
        if not selectors.matches(policy.selector, pod.labels):
            missed.add(pod)
    if missed.count:
        yield f"{missed.count} pending pods do not match the labelSelector: {missed}"


def _rolling_update(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[str]:
    """A rolling update that is blocked because old and new pods share the quotas (WP-21)."""
    if not policy.required or any(quota.free for quota in logic.quotas(snapshot, policy)):
        return
    waiting = wakeups.naming(snapshot, policy.namespace, policy.name)
    new = {pod.labels[REVISION] for pod in waiting if REVISION in pod.labels}
    old = {
        pod.labels[REVISION]
        for label in (logic.LABEL, logic.ALIAS)
        for pod in snapshot.siblings(policy.namespace, label, policy.name)
        if REVISION in pod.labels and pod.counted and snapshot.node_of(pod.uid)
    }
    if new - old and old - new:
        yield (
            f"pods of {REVISION} {logic.shortened(sorted(new - old))} wait for places held by"
            f" {logic.shortened(sorted(old - new))}: a rolling update with maxUnavailable 0"
            " cannot proceed; set maxUnavailable to 1, or raise a quota during the update"
        )
