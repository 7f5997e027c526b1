"""The subjects of an event: which versions it moves on, and which of them it ends.

A subject is what a guard can expect a version of: ``pod:UID``, ``node:NAME``,
those that a declared kind moves on (``policies:NAMESPACE``) and those that events.Event.subject lists.
"""

from app.domain import events, model


def touched(event: events.AnyEvent) -> tuple[str, ...]:
    """The subjects whose version the event moves on."""
    match event:
        case events.PodSeen():  # Nine of ten events.
            return (event.subject,)
        case events.ViewsRepaired():
            return event.subject, *event.moved, *event.ended
        case events.ObjectObserved() | events.ObjectGone():
            return event.subjects or (event.subject,)
        case events.PlacementsCommitted():
            placed = [f"pod:{placement.pod.uid}" for placement in event.placements]
            return (*placed, *event.claims)
        case events.ShadowSet() | events.ShadowGone():
            return event.subject, events.SHADOWS
        case _:
            return (event.subject,)


def ends(event: events.AnyEvent, subject: str) -> bool:
    """Whether the subject, which the event touches, no longer exists after the event."""
    match event:
        case events.PodSeen():  # Nine of ten events.
            return False
        case events.PodGone() | events.NodeGone() | events.ObjectGone() | events.ShadowGone():
            return subject == event.subject
        case events.ViewsRepaired():
            return subject in event.ended
        case _:
            return False


def pods_about(event: events.AnyEvent) -> tuple[model.Uid, ...]:
    """Uids of the pods that the event is about; none for an event about no pod."""
    return (event.pod.uid,) if isinstance(event, events.PodSeen) else pods_of(event)


def pods_of(event: events.AnyEvent) -> tuple[model.Uid, ...]:
    """Uids of the pods that the event ends, places or releases; none for any other event."""
    match event:
        case events.PodGone() | events.PlacementReleased():
            return (event.uid,)
        case events.PlacementsCommitted():
            return tuple([placement.pod.uid for placement in event.placements])
        case _:
            return ()
