"""The law of plans, checked on a log: a convoy is placed whole, and what was decided for a pod stays."""

from app.domain import events, model
from tests.support.decisions import convoys
from tests.support.simulation import plain_fold


class ConvoyLaw:
    """Checks each event before it is applied to the fold."""

    def __init__(self) -> None:
        self.decided: dict[tuple[str, str], dict[str, str]] = {}
        """(uid, resourceVersion of a placement) -> the annotations that its Binding may carry."""
        self._tickets: dict[str, str] = {}
        """uid -> the ticket of the pod's placement."""

    def check(self, event: events.AnyEvent, fold: plain_fold.Fold) -> str:
        """How the event breaks the law; empty if it does not."""
        match event:
            case events.PlacementReleased(uid=uid) | events.PodGone(uid=uid):
                self._tickets.pop(uid, None)
            case events.PlacementsCommitted(placements=placements):
                problem = self._committed(placements, fold)
                for one in placements:
                    self._tickets[one.pod.uid] = one.annotations.get(convoys.TICKET, "")
                    if not one.planned:
                        self.decided[one.pod.uid, one.resource_version] = dict(one.annotations)
                return problem
            case _:
                pass
        return ""

    def _committed(self, placements: tuple[model.Placement, ...], fold: plain_fold.Fold) -> str:
        first, *others = placements
        name = first.pod.labels.get(convoys.CONVOY)
        if name is None:
            return f"{first.pod.uid} is of no convoy and has company" if others else ""
        if first.planned or not all(one.planned for one in others):
            return f"{first.pod.uid} and {len(others)} others: all but the first are planned"
        if any(one.node != one.pod.labels[convoys.SEAT] for one in placements):
            return f"{first.pod.uid} or a pod beside it is placed on another node than its seat"
        ticket = first.annotations.get(convoys.TICKET, "")
        if first.pod.uid in fold.placements:
            known = self._tickets[first.pod.uid]
            return "" if known == ticket and not others else f"{first.pod.uid}: {known} became {ticket}"
        waiting = {
            pod.uid
            for pod in fold.pods.values()
            if (pod.namespace, pod.labels.get(convoys.CONVOY)) == (first.pod.namespace, name)
            and not (pod.node or pod.terminating or pod.gated or pod.phase in ("Succeeded", "Failed"))
            and pod.uid not in fold.placements
        }
        placed = {one.pod.uid for one in placements}
        if placed != waiting | {first.pod.uid}:
            return f"the convoy {name} is placed in part: {sorted(placed)}, waiting were {sorted(waiting)}"
        return ""
