"""Room that kube-scheduler has no event for: a policy came, changed or went, or a promise was taken back.

Whatever happens to bound pods and to nodes kube-scheduler sees itself.
"""

from collections.abc import Iterable, Iterator

from app.domain import events, model, selecting, snapshots
from app.framework import capabilities
from app.plugins.workload_policy import limiting, logic


def room(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    event: events.AnyEvent,
    *,
    rules: limiting.Rules,
    most: int,
) -> capabilities.Room | None:
    """The pending pods that the event concerns, no more than may be placed now."""
    match event:
        case events.PolicySeen(policy=policy):
            return _of_policy(before, after, policy.namespace, policy.name, rules=rules, most=most)
        case events.PolicyGone(namespace=namespace, name=name):
            return _of_policy(before, after, namespace, name, rules=rules, most=most)
        case events.PlacementReleased() | events.PodGone() if event.uid in before.placements:
            return _of_release(before, after, event, rules=rules, most=most)
        case _:
            return None


def waiting(snapshot: snapshots.Snapshot, namespace: str, name: str) -> list[model.Pod]:
    """The pending pods that ask for the policy, the most important first."""
    found = asking(snapshot, namespace, name)
    return sorted(found, key=_importance)


def asking(snapshot: snapshots.Snapshot, namespace: str, name: str) -> Iterator[model.Pod]:
    """The pending pods that ask for the policy, each once, in any order."""
    for label in (logic.LABEL, logic.ALIAS):
        for pod in snapshot.siblings(namespace, label, name):
            # A pod that names it by both labels is met under each.
            twice = label == logic.ALIAS and pod.labels.get(logic.LABEL) == name
            if (
                not twice
                and pod.uid in snapshot.waiting
                and logic.named(pod) == name
                and logic.concerned(pod)
            ):
                yield pod


def limited(
    snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy, rules: limiting.Rules
) -> list[model.Pod]:
    """The pending pods that the policy limits, in any order; some perhaps twice."""
    found = following(snapshot, policy)
    if rules.enforce == "selected" and policy.required and not policy.errors:
        found += selected(snapshot, policy)
    return found


def following(snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy) -> list[model.Pod]:
    """The pending pods that ask for the policy and are selected by it."""
    naming = asking(snapshot, policy.namespace, policy.name)
    return [pod for pod in naming if selecting.matches(policy.selector, pod.labels)]


def selected(snapshot: snapshots.Snapshot, policy: model.WorkloadPolicy) -> Iterator[model.Pod]:
    """The pending pods of the policy's namespace that its selector selects, whether or not they name it."""
    held = snapshot.namespaces.get(policy.namespace, snapshots.NO_PODS)
    few, many = sorted((snapshot.waiting, held), key=len)
    for uid in few:
        pod = snapshot.pod(uid) if uid in many else None
        if pod is not None and selecting.matches(policy.selector, pod.labels):
            yield pod


def _of_policy(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    namespace: str,
    name: str,
    *,
    rules: limiting.Rules,
    most: int,
) -> capabilities.Room | None:
    key = f"{namespace}/{name}"
    former, policy = before.policies.get(key), after.policies.get(key)
    # Capacity for a pod that does not name the policy appears only where the policy limited it before.
    pods = [] if former is None else limited(before, former, rules)
    if policy is None or policy.errors:
        says = f"workload policy {key} {'is gone' if policy is None else 'is invalid'}"
        if rules.missing_policy == "ignore":
            says += " and ignored"
            pods += waiting(after, namespace, name)
    else:
        pods += following(after, policy)
        now = logic.spelled(logic.quotas(after, policy)) if policy.required else "it only prefers"
        says = f"workload policy {key} as it is now has room ({now})"
    return _room(_fitting(after, pods, rules), says, most)


def _of_release(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    event: events.PlacementReleased | events.PodGone,
    *,
    rules: limiting.Rules,
    most: int,
) -> capabilities.Room | None:
    """The released pod itself is left out: whoever asked for its binding was told, and asks again."""
    pods: dict[model.Uid, model.Pod] = {}
    says: list[str] = []
    for policy in after.policies_of(event.namespace):
        if policy.errors or not policy.required or not any(_freed(before, after, policy)):
            continue
        waits = [pod for pod in limited(after, policy, rules) if pod.uid != event.uid]
        if _fitting(after, waits, rules):
            pods.update((pod.uid, pod) for pod in waits)
            says.append(
                f"workload policy {policy.key} has room again ({logic.spelled(logic.quotas(after, policy))})"
            )
    return _room(_fitting(after, pods.values(), rules), "; ".join(says), most)


def _freed(
    before: snapshots.Snapshot, after: snapshots.Snapshot, policy: model.WorkloadPolicy
) -> Iterator[bool]:
    for quota in logic.quotas(after, policy):
        yield quota.free > 0 and quota.count < before.count(policy, quota.domain)


def _fitting(
    snapshot: snapshots.Snapshot, pods: Iterable[model.Pod], rules: limiting.Rules
) -> list[model.Pod]:
    """Of the pods, the most important first, as many as every quota that limits them has places for."""
    left: dict[model.NamespacedName, int] = {}
    found = []
    waits = {pod.uid: pod for pod in pods if pod.uid in snapshot.waiting}
    for pod in sorted(waits.values(), key=_importance):
        policies = limiting.limiting(snapshot, pod, rules)
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


def _importance(pod: model.Pod) -> tuple[int, str, model.Uid]:
    return -pod.priority, pod.created, pod.uid


def _room(pods: list[model.Pod], message: str, most: int) -> capabilities.Room | None:
    chosen = tuple(pods[:most])
    return capabilities.Room(chosen, message) if chosen else None
