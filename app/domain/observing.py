"""(before, after) -> events: what must have happened between two states of the cluster.

The inverse of projecting: ``project_all(a, observe(a, b))`` has the facts of ``b``. Only fields
that the model holds are compared, so the echo of a status that we wrote ourselves is no event:
``observe(b, b) == []``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from app.domain import events, model, snapshots

T = TypeVar("T")


def pod(before: model.Pod | None, after: model.Pod) -> tuple[events.AnyEvent, ...]:
    """What the watch's sight of a pod adds to what is known of the same uid."""
    return () if before == after else (events.PodSeen(pod=after),)


def node(before: model.Node | None, after: model.Node) -> tuple[events.AnyEvent, ...]:
    """What the sight of a node adds; another uid under the same name ends the former node first."""
    if before == after:
        return ()
    if before is not None and before.uid != after.uid:
        return _node_gone(before, assumed=True), events.NodeSeen(node=after)
    return (events.NodeSeen(node=after),)


def policy(before: model.WorkloadPolicy | None, after: model.WorkloadPolicy) -> tuple[events.AnyEvent, ...]:
    """What the sight of a policy adds; another uid under the same name ends the former policy first."""
    if before == after:
        return ()
    if before is not None and before.uid != after.uid:
        return _policy_gone(before, assumed=True), events.PolicySeen(policy=after)
    return (events.PolicySeen(policy=after),)


def pods_listed(before: snapshots.Snapshot, listed: Iterable[model.Pod]) -> Iterator[events.AnyEvent]:
    """What a complete list of pods says: first who is missing, so that a reused name passes on cleanly.

    A pod that was placed but never seen is not missing: the list may be older than the pod.
    """
    current = {pod.uid: pod for pod in listed}
    for uid, gone in _missing(before.pods, current):
        yield events.PodGone(uid=uid, namespace=gone.namespace, name=gone.name, assumed=True)
    for uid, seen in current.items():
        yield from pod(before.pods.get(uid), seen)


def nodes_listed(before: snapshots.Snapshot, listed: Iterable[model.Node]) -> Iterator[events.AnyEvent]:
    """What a complete list of nodes says."""
    current = {node.name: node for node in listed}
    yield from (_node_gone(node, assumed=True) for name, node in _missing(before.nodes, current))
    for name, seen in current.items():
        yield from node(before.nodes.get(name), seen)


def policies_listed(
    before: snapshots.Snapshot, listed: Iterable[model.WorkloadPolicy]
) -> Iterator[events.AnyEvent]:
    """What a complete list of policies says."""
    current = {policy.key: policy for policy in listed}
    yield from (_policy_gone(policy, assumed=True) for key, policy in _missing(before.policies, current))
    for key, seen in current.items():
        yield from policy(before.policies.get(key), seen)


def observe(before: snapshots.Snapshot, after: snapshots.Snapshot) -> list[events.AnyEvent]:
    """The events that lead from the facts of one snapshot to those of another."""
    return [
        *nodes_listed(before, after.nodes.values()),
        *policies_listed(before, after.policies.values()),
        *pods_listed(before, after.pods.values()),
    ]


def _missing(before: Mapping[str, T], current: Mapping[str, T]) -> Iterator[tuple[str, T]]:
    return (
        (key, value) for key, value in sorted(before.items(), key=lambda item: item[0]) if key not in current
    )


def _node_gone(node: model.Node, *, assumed: bool) -> events.NodeGone:
    return events.NodeGone(name=node.name, uid=node.uid, assumed=assumed)


def _policy_gone(policy: model.WorkloadPolicy, *, assumed: bool) -> events.PolicyGone:
    return events.PolicyGone(namespace=policy.namespace, name=policy.name, uid=policy.uid, assumed=assumed)
