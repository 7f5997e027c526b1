"""Events about pods: refused on all nodes, and placement released.

Refusals are read from the decision records, so that an extender never waits for the API server to accept
an Event. Each record is read once; the message carries the counts (``host: 3/3``), and the EventRecorder
limits the rate.
"""

from collections.abc import Callable
from typing import Protocol

from app.domain import events, snapshots
from app.framework import effects
from app.store.decisions import records

REFUSED = "TopologRefused"
RELEASED = "TopologReleased"
_PAGE = 200


class Records(Protocol):
    """Source of decision records (app.store.decisions.decision_log.DecisionLog)."""

    def latest(self, *, limit: int = 100) -> list[records.Decision]:
        """The latest records, newest first. Raises StoreAway."""
        ...


class PodEventPublisher:
    """Submits Events; ``run_once`` is used by one thread, ``on_event`` by the follower's."""

    def __init__(
        self,
        records: Records,
        snapshot: Callable[[], snapshots.Snapshot],
        submit: Callable[[effects.Effect, snapshots.Snapshot], None],
    ) -> None:
        """``submit`` carries out an effect (executors.Executor.submit)."""
        self._records = records
        self._snapshot = snapshot
        self._submit = submit
        self._last: str | None = None
        """Id of the latest record that was read."""

    def on_event(self, before: snapshots.Snapshot, event: events.AnyEvent, after: snapshots.Snapshot) -> None:
        """Post an Event about a released placement."""
        if isinstance(event, events.PlacementReleased):
            pod = before.pod(event.uid)
            if pod is not None:
                message = f"no longer placed on node {event.node}: {event.reason}"
                self._submit(effects.PostEvent(pod, RELEASED, message), after)

    def run_once(self) -> None:
        """Post Events about new refusals. Raises StoreAway."""
        for decision in reversed(self._new_records()):
            if decision.outcome == "refused" and decision.verb.startswith("filter") and not decision.kept:
                found = effects.PostEvent(decision.pod, REFUSED, sentence(decision))
                self._submit(found, self._snapshot())

    def _new_records(self) -> list[records.Decision]:
        """Records since the last run, newest first; none at the first run, since they are old."""
        found = self._records.latest(limit=_PAGE if self._last is not None else 1)
        known, self._last = self._last, found[0].id if found else self._last or ""
        if known is None:
            return []
        return [decision for decision in found if _order(decision.id) > _order(known)]


def sentence(decision: records.Decision) -> str:
    """``refused on all 6 nodes that were offered: workload policy ns/p: no capacity (host: 3/3)``."""
    reasons = sorted(decision.reasons.items(), key=lambda one: (-one[1], one[0]))
    spelled = "; ".join(f"{reason} ({count})" if len(reasons) > 1 else reason for reason, count in reasons)
    nodes = "the only node that was" if decision.count == 1 else f"all {decision.count} nodes that were"
    return f"refused on {nodes} offered: {spelled}"


def _order(identity: str) -> tuple[int, int]:
    milliseconds, _, number = identity.partition("-")
    return int(milliseconds or 0), int(number or 0)
