"""Finds pending pods that fit after events for which kube-scheduler has no event of its own.

These are the creation, change or deletion of a policy and the release of a placement. kube-scheduler
watches bound pods and nodes itself.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from app.domain import events, model, selectors, snapshots
from app.domain.fold import pod_index
from app.framework import effects
from app.plugins.workload_policy import kinds, limits, logic, policy_counts, policy_model

NAMED = 10
"""Policies named in a message."""


class _Capacity(NamedTuple):
    """Pods of which some may be placed."""

    pods: list[model.Pod]
    message: str


def freed_capacity(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    happened: Sequence[events.AnyEvent],
    *,
    rules: limits.PolicyRules,
    limit: int,
) -> effects.WakePods | None:
    """The pending pods that may be placed because of the events, at most ``limit`` of them."""
    changed: dict[model.NamespacedName, None] = {}
    released: dict[str, set[model.Uid]] = {}
    for event in happened:
        match event:
            case events.ObjectObserved() | events.ObjectGone() if event.kind == kinds.POLICIES.name:
                changed[event.identity] = None
            case events.PlacementReleased() | events.PodGone() if event.uid in before.placements:
                released.setdefault(event.namespace, set()).add(event.uid)
            case _:
                pass
    found = [_of_policy(before, after, key, rules) for key in changed]
    for namespace, uids in released.items():
        found += _of_releases(before, after, namespace, uids, rules)
    return _woken(after, found, rules, limit)


def waiting(snapshot: snapshots.Snapshot, namespace: str, name: str) -> list[model.Pod]:
    """The pending pods that name the policy, the most important first."""
    return sorted(naming(snapshot, namespace, name), key=lambda pod: pod.precedence)


def naming(snapshot: snapshots.Snapshot, namespace: str, name: str) -> Iterator[model.Pod]:
    """The pending pods that name the policy, each once, in any order."""
    for label in (logic.LABEL, logic.ALIAS):
        for pod in snapshot.siblings(namespace, label, name, waiting=True):
            # A pod that names the policy by both labels is found under each of them.
            twice = label == logic.ALIAS and pod.labels.get(logic.LABEL) == name
            if not twice and logic.named(pod) == name and logic.concerned(pod):
                yield pod


def limited(
    snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy, rules: limits.PolicyRules
) -> list[model.Pod]:
    """The pending pods that the policy limits, in any order; a pod may occur twice."""
    found = following(snapshot, policy)
    if rules.enforce == "selected" and policy.required and not policy.errors:
        found += selected(snapshot, policy)
    return found


def following(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> list[model.Pod]:
    """The pending pods that name the policy and are selected by it."""
    found = naming(snapshot, policy.namespace, policy.name)
    return [pod for pod in found if selectors.matches(policy.selector, pod.labels)]


def selected(snapshot: snapshots.Snapshot, policy: policy_model.WorkloadPolicy) -> Iterator[model.Pod]:
    """The pending pods of the policy's namespace that its selector selects, whether or not they name it."""
    held = snapshot.namespaces.get(policy.namespace, pod_index.NO_PODS)
    few, many = sorted((snapshot.waiting, held), key=len)
    for uid in few:
        pod = snapshot.pod(uid) if uid in many else None
        if pod is not None and selectors.matches(policy.selector, pod.labels):
            yield pod


def of_policy(
    snapshot: snapshots.Snapshot, key: model.NamespacedName, *, rules: limits.PolicyRules, limit: int
) -> effects.WakePods | None:
    """The pending pods for which a policy has capacity."""
    return _woken(snapshot, [_of_policy(snapshot, snapshot, key, rules)], rules, limit)


def _of_policy(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    key: model.NamespacedName,
    rules: limits.PolicyRules,
) -> _Capacity:
    """The pending pods for which a policy may have capacity, or that its deletion sets free."""
    former, policy = before.get(kinds.POLICIES, key), after.get(kinds.POLICIES, key)
    # A pod that does not name the policy gains capacity only if the policy limited it before.
    pods = [] if former is None else limited(before, former, rules)
    if policy is None or policy.errors:
        message = f"workload policy {key} {'was deleted' if policy is None else 'is invalid'}"
        if rules.missing_policy == "ignore":
            message += " and ignored"
            pods += waiting(after, *key.split("/"))
    else:
        pods += following(after, policy)
        now = logic.spelled(logic.quotas(after, policy)) if policy.required else "Preferred"
        message = f"workload policy {key} now has capacity ({now})"
    return _Capacity(pods, message)


def _of_releases(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    namespace: str,
    released: Collection[model.Uid],
    rules: limits.PolicyRules,
) -> Iterator[_Capacity]:
    """The released pods themselves are left out: their bind calls failed, and kube-scheduler retries them."""
    for policy in after.within(kinds.POLICIES, namespace).values():
        if policy.errors or not policy.required or not any(_freed(before, after, policy)):
            continue
        pending = [pod for pod in limited(after, policy, rules) if pod.uid not in released]
        quotas = logic.spelled(logic.quotas(after, policy))
        yield _Capacity(pending, f"workload policy {policy.key} has capacity again ({quotas})")


def _woken(
    snapshot: snapshots.Snapshot, found: Iterable[_Capacity], rules: limits.PolicyRules, limit: int
) -> effects.WakePods | None:
    """The pods that fit together, with the messages of the capacity that some of them fit in alone."""
    helping = [one for one in found if _fitting(snapshot, one.pods, rules)]
    pods = _fitting(snapshot, (pod for one in helping for pod in one.pods), rules)
    message = "; ".join(one.message for one in helping[:NAMED])
    message += f"; and {len(helping) - NAMED} more" if len(helping) > NAMED else ""
    return effects.WakePods(tuple(pods[:limit]), message) if pods else None


def _freed(
    before: snapshots.Snapshot, after: snapshots.Snapshot, policy: policy_model.WorkloadPolicy
) -> Iterator[bool]:
    for quota in logic.quotas(after, policy):
        yield quota.free > 0 and quota.count < policy_counts.count(before, policy, quota.domain)


def _fitting(
    snapshot: snapshots.Snapshot, pods: Iterable[model.Pod], rules: limits.PolicyRules
) -> list[model.Pod]:
    """The most important of the pods, as many as every quota that limits them admits."""
    left: dict[model.NamespacedName, int] = {}
    found = []
    pending = {pod.uid: pod for pod in pods if pod.uid in snapshot.waiting}
    for pod in sorted(pending.values(), key=lambda pod: pod.precedence):
        policies = limits.limiting(snapshot, pod, rules)
        if isinstance(policies, logic.Objection):
            continue
        hard = [policy for policy in policies if policy.required]
        for policy in hard:
            left.setdefault(policy.key, logic.free(snapshot, policy))
        if all(left[policy.key] for policy in hard):
            found.append(pod)
            for policy in hard:
                left[policy.key] -= 1
    return found
