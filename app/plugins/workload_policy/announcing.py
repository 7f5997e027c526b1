"""Room that kube-scheduler has no event for: a policy came, changed or went, or a promise was taken back.

Whatever happens to bound pods and to nodes kube-scheduler sees itself.
"""

from collections.abc import Iterator

from app.domain import events, model, selecting, snapshots
from app.framework import capabilities
from app.plugins.workload_policy import logic


def room(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    event: events.AnyEvent,
    *,
    ignoring: bool,
    most: int,
) -> capabilities.Room | None:
    """The pending pods that the event concerns, no more than may be placed now."""
    match event:
        case events.PolicySeen(policy=policy):
            return _of_policy(after, policy.namespace, policy.name, ignoring=ignoring, most=most)
        case events.PolicyGone(namespace=namespace, name=name):
            return _of_policy(after, namespace, name, ignoring=ignoring, most=most)
        case events.PlacementReleased() | events.PodGone() if event.uid in before.placements:
            return _of_release(before, after, event, most=most)
        case _:
            return None


def waiting(snapshot: snapshots.Snapshot, namespace: str, name: str) -> list[model.Pod]:
    """The pending pods that ask for the policy, the most important first."""
    found = asking(snapshot, namespace, name)
    return sorted(found, key=lambda pod: (-pod.priority, pod.created, pod.uid))


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


def _of_policy(
    after: snapshots.Snapshot, namespace: str, name: str, *, ignoring: bool, most: int
) -> capabilities.Room | None:
    policy = after.policies.get(f"{namespace}/{name}")
    pods = waiting(after, namespace, name)
    if policy is None or policy.errors:
        what = "is gone" if policy is None else "is invalid"
        return (
            _room(pods, f"workload policy {namespace}/{name} {what} and ignored", most) if ignoring else None
        )
    pods = [pod for pod in pods if selecting.matches(policy.selector, pod.labels)]
    quotas = logic.quotas(after, policy)
    says = f"workload policy {policy.key} as it is now has room"
    if not policy.required:
        return _room(pods, f"{says} (it only prefers)", most)
    return _room(pods, f"{says} ({logic.spelled(quotas)})", min(most, sum(q.free for q in quotas)))


def _of_release(
    before: snapshots.Snapshot,
    after: snapshots.Snapshot,
    event: events.PlacementReleased | events.PodGone,
    *,
    most: int,
) -> capabilities.Room | None:
    """The released pod itself is left out: whoever asked for its binding was told, and asks again."""
    pods: dict[model.Uid, model.Pod] = {}
    says: list[str] = []
    for policy in after.policies_of(event.namespace):
        if policy.errors or not policy.required or not any(_freed(before, after, policy)):
            continue
        quotas = logic.quotas(after, policy)
        waits = [
            pod
            for pod in waiting(after, policy.namespace, policy.name)
            if pod.uid != event.uid and selecting.matches(policy.selector, pod.labels)
        ]
        if waits:
            chosen = waits[: sum(quota.free for quota in quotas)]
            pods.update((pod.uid, pod) for pod in chosen)
            says.append(f"workload policy {policy.key} has room again ({logic.spelled(quotas)})")
    return _room(list(pods.values()), "; ".join(says), most)


def _freed(
    before: snapshots.Snapshot, after: snapshots.Snapshot, policy: model.WorkloadPolicy
) -> Iterator[bool]:
    for quota in logic.quotas(after, policy):
        yield quota.free > 0 and quota.count < before.count(policy, quota.domain)


def _room(pods: list[model.Pod], message: str, most: int) -> capabilities.Room | None:
    chosen = tuple(pods[:most])
    return capabilities.Room(chosen, message) if chosen else None
