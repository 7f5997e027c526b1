"""Kubernetes Events on pods: refused everywhere, and placement released.

Refusals are read from the decision records, so the extender that refused never waits for the API
server. Each record is looked at once; the words carry the numbers (``host: 3/3``), and the poster
sees to it that there are few.
"""

from collections import deque
from typing import Protocol

from app import telemetry
from app.domain import events, model, snapshots
from app.kube import event_posting
from app.store import records, tailing

REFUSED = "TopologRefused"
RELEASED = "TopologReleased"
_PAGE = 200
_RELEASED = 10_000
"""Released placements that may wait to be told; of more the oldest are not told."""


class Records(Protocol):
    """Where decisions are read (store.decisions.Decisions)."""

    def latest(self, *, limit: int = 100) -> list[records.Decision]:
        """The latest ones, newest first. Raises StoreAway."""
        ...


class Teller:
    """Turns what happened into Events; used by one thread, but for ``heard``."""

    def __init__(self, records: Records, poster: event_posting.Poster) -> None:
        self._records = records
        self._poster = poster
        self._last: str | None = None
        """Id of the latest record that was looked at."""
        self._released: deque[tuple[model.Pod, str]] = deque(maxlen=_RELEASED)
        self._in_trouble = False

    def heard(self, before: snapshots.Snapshot, after: snapshots.Snapshot, entry: tailing.Entry) -> None:
        """Note a released placement. For Follower.subscribe."""
        event = entry.event
        if isinstance(event, events.PlacementReleased):
            pod = before.pod(event.uid)
            if pod is not None:
                self._released.append((pod, f"no longer placed on node {event.node}: {event.reason}"))

    def turn(self) -> None:
        """Post what is new. Raises StoreAway."""
        while self._released:
            pod, message = self._released.popleft()
            self._post(pod, RELEASED, message)
        for decision in reversed(self._news()):
            if decision.outcome == "refused" and decision.verb.startswith("filter") and not decision.kept:
                self._post(decision.pod, REFUSED, sentence(decision))

    def _post(self, pod: model.Pod, reason: str, message: str) -> None:
        """Post it, and log once that events get lost, until one does not."""
        self._poster.post(pod, reason, message)
        trouble = self._poster.trouble
        if trouble and not self._in_trouble:
            telemetry.log.warning("events about pods are not taken", pod=pod.key, error=trouble)
        self._in_trouble = bool(trouble)

    def _news(self) -> list[records.Decision]:
        """Records since the last turn, the latest first; at the first turn none, for they are old."""
        found = self._records.latest(limit=_PAGE if self._last is not None else 1)
        known, self._last = self._last, found[0].id if found else self._last or ""
        if known is None:
            return []
        return [decision for decision in found if _order(decision.id) > _order(known)]


def sentence(decision: records.Decision) -> str:
    """``refused on all 6 nodes that were offered: workload policy ns/p: no room (host: 3/3)``."""
    reasons = sorted(decision.reasons.items(), key=lambda one: (-one[1], one[0]))
    spelled = "; ".join(f"{reason} ({count})" if len(reasons) > 1 else reason for reason, count in reasons)
    nodes = "the only node that was" if decision.count == 1 else f"all {decision.count} nodes that were"
    return f"refused on {nodes} offered: {spelled}"


def _order(identity: str) -> tuple[int, int]:
    milliseconds, _, number = identity.partition("-")
    return int(milliseconds or 0), int(number or 0)
