"""The events that the observation of an object implies: the inverse of `projections`.

Only fields that the model holds are compared, so the echo of a status that Topolog wrote itself is not an
event. What a complete list lacks is the concern of workers.recorder.batch_builder.
"""

from typing import TypeVar

from app.domain import declared_objects, events, model

T = TypeVar("T", bound=model.DeclaredObject)


def pod(before: model.Pod | None, after: model.Pod) -> tuple[events.AnyEvent, ...]:
    """Events implied by a newly observed pod; ``before`` is the known pod of the same uid."""
    return () if before == after else (events.PodSeen(pod=after),)


def node(before: model.Node | None, after: model.Node) -> tuple[events.AnyEvent, ...]:
    """Events implied by a newly observed node; another uid under its name ends the former one first."""
    if before == after:
        return ()
    if before is not None and before.uid != after.uid:
        gone = events.NodeGone(name=before.name, uid=before.uid, assumed=True)
        return gone, events.NodeSeen(node=after)
    return (events.NodeSeen(node=after),)


def declared(kind: declared_objects.Kind[T], before: T | None, after: T) -> tuple[events.AnyEvent, ...]:
    """Events implied by a newly observed object; another uid of its identity ends the former one first."""
    if before == after:
        return ()
    if before is not None and before.uid != after.uid:
        gone = kind.gone(before.namespace, before.name, before.uid, assumed=True)
        return gone, kind.observed(after)
    return (kind.observed(after),)
