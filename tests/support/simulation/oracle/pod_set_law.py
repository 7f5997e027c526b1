"""The law of plans, checked on a log: a pod set is placed whole, and a pod's decision is kept."""

from collections.abc import Sequence

from app.domain import events, model
from tests.support.decisions import pod_sets
from tests.support.simulation.cluster import sent_bindings
from tests.support.simulation.oracle import binding_law, gang_law, plain_fold


class Decided:
    """The annotations that the Binding of a pod's version may carry: several if one was refused."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str], list[dict[str, str]]] = {}

    def note(self, event: events.AnyEvent) -> None:
        """Note the annotations that the event decided."""
        for one in event.placements if isinstance(event, events.PlacementsCommitted) else ():
            if not one.planned:
                self._written.setdefault((one.pod.uid, one.resource_version), []).append(one.annotations)

    def problem(
        self,
        uid: str,
        version: str,
        annotations: dict[str, str],
        *,
        unrecorded: Sequence[dict[str, str]] = (),
    ) -> str:
        """How a Binding differs from the decision; empty if it does not.

        ``unrecorded``: what it may carry if the log does not name its version.
        """
        decided = self._written.get((uid, version), unrecorded)
        return "" if annotations in decided else f"{uid}: {decided} was decided, {annotations} is written"


def unrecorded(written: sent_bindings.Written) -> tuple[dict[str, str], ...]:
    """The annotations that a Binding may carry without a record of its version, which binding_law judges.

    None for a pod of a set, which is always recorded. A placement in force then was made for an earlier
    version: nothing else was decided since.
    """
    pod = written.pod
    if pod_sets.POD_SET in pod.labels:
        return ()
    held = written.read[-1].placements.get(pod.uid)
    return (held.annotations if held is not None else {},)


def problem(event: events.AnyEvent, fold: plain_fold.Fold) -> str:
    """How the event, which follows the fold, breaks the law; empty if it does not."""
    if not isinstance(event, events.PlacementsCommitted):
        return ""
    first, *others = event.placements
    if gang_law.gang(first.pod):
        return ""
    if pod_sets.POD_SET not in first.pod.labels:
        return f"{first.pod.uid} is of no pod set, and others are placed with it" if others else ""
    if first.planned or not all(one.planned for one in others):
        return f"{first.pod.uid} and {len(others)} others: all but the first are planned"
    if any(one.node != one.pod.labels[pod_sets.SEAT] for one in event.placements):
        return f"{first.pod.uid}, or a pod beside it, is placed on another node than its seat"
    before, _ = fold.placements.get(first.pod.uid, (None, ""))
    if before is not None and binding_law.read(before) == binding_law.read(first.pod):
        was = fold.written[first.pod.uid]
        return "" if was == first.annotations and not others else f"{was} became {first.annotations}"
    known = [fold.pods.get(one.pod.uid) for one in others]
    if any(pod is None or not _waits(pod, fold) for pod in known):
        return f"{first.pod.uid} is placed with one of {[one.pod.uid for one in others]} that did not wait"
    decided = first.data["PodSets"]["decided"]["with"]
    return "" if decided == len(others) else f"{first.pod.uid}: {len(others)} of {decided} others are placed"


def _waits(pod: model.Pod, fold: plain_fold.Fold) -> bool:
    held = pod.node or pod.terminating or pod.gated or pod.phase in ("Succeeded", "Failed")
    return not held and pod.uid not in fold.placements
