"""The events that the observation of an object implies: the inverse of projecting.

Only fields that the model holds are compared, so the echo of a status that Topolog wrote itself is no event.
What a complete list lacks is the concern of workers.recorder.batch_builder.
"""

from app.domain import events, model


def pod(before: model.Pod | None, after: model.Pod) -> tuple[events.AnyEvent, ...]:
    """Events implied by a newly observed pod; ``before`` is the known pod of the same uid."""
    return () if before == after else (events.PodSeen(pod=after),)


def node(before: model.Node | None, after: model.Node) -> tuple[events.AnyEvent, ...]:
    """Events implied by a newly observed node; another uid under its name ends the former one first."""
    if before == after:
        return ()
    if before is not None and before.uid != after.uid:
        return _node_gone(before, assumed=True), events.NodeSeen(node=after)
    return (events.NodeSeen(node=after),)


def policy(before: model.WorkloadPolicy | None, after: model.WorkloadPolicy) -> tuple[events.AnyEvent, ...]:
    """Events implied by a newly observed policy; another uid under its name ends the former one first."""
    if before == after:
        return ()
    if before is not None and before.uid != after.uid:
        return _policy_gone(before, assumed=True), events.PolicySeen(policy=after)
    return (events.PolicySeen(policy=after),)


def _node_gone(node: model.Node, *, assumed: bool) -> events.NodeGone:
    return events.NodeGone(name=node.name, uid=node.uid, assumed=assumed)


def _policy_gone(policy: model.WorkloadPolicy, *, assumed: bool) -> events.PolicyGone:
    return events.PolicyGone(namespace=policy.namespace, name=policy.name, uid=policy.uid, assumed=assumed)
