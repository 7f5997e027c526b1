"""Nominates the pods for which others are evicted, so that no less important pod takes their room.

kube-scheduler removes the nomination of a pod that it tries in vain, also while the evicted pods terminate,
because they are no victims of its own. So it is written again, until the pod has a node, or has had time to
be tried once more after they are gone.
"""

from dataclasses import dataclass

from app import telemetry
from app.domain import model, snapshots
from app.framework import effects
from app.kube import backoffs, call_limits, errors
from app.kube.client import clients
from app.kube.writes import nominations

AGAIN = 1.0
"""Seconds between two writes for one pod; the state shows the former one by then."""
HELD = 15.0
"""Seconds after the evicted pods are gone: kube-scheduler's longest backoff (10 s), and a cycle."""


@dataclass(slots=True)
class _Held:
    room: effects.Room
    term: str
    victims: set[model.Uid]
    gone: float | None = None
    """Since when all of them are gone (monotonic)."""
    written: float | None = None


class Nominations:
    """The nominations of a leadership; used by one thread."""

    def __init__(self, client: clients.Client, limit: call_limits.CallLimit, clock: backoffs.Clock) -> None:
        self._client = client
        self._limit = limit
        self._clock = clock
        self._held: dict[model.Uid, _Held] = {}

    def evicted(self, victim: model.Pod, room: effects.Room, term: str) -> None:
        """A pod was evicted, or may have been, to make this room."""
        held = self._held.get(room.pod.uid)
        if held is None or (held.room.node, held.term) != (room.node, term):
            held = self._held[room.pod.uid] = _Held(room, term, set())
        held.victims.add(victim.uid)
        held.gone = None

    def run_once(self, snapshot: snapshots.Snapshot) -> None:
        """Write what is missing in the state, and end what is over."""
        now = self._clock.monotonic()
        for uid, held in list(self._held.items()):
            if not self._wanted(held, snapshot, now) or not self._written(held, snapshot, now):
                del self._held[uid]

    def _wanted(self, held: _Held, snapshot: snapshots.Snapshot, now: float) -> bool:
        pod = snapshot.pod(held.room.pod.uid)
        if pod is None or not pod.pending or snapshot.node_of(pod.uid):
            return False
        there = (snapshot.pod(uid) for uid in held.victims)
        if any(one is not None and not one.finished for one in there):
            held.gone = None
            return True
        held.gone = now if held.gone is None else held.gone
        return now - held.gone < HELD

    def _written(self, held: _Held, snapshot: snapshots.Snapshot, now: float) -> bool:
        """Nominate the pod if it is not; whether that may be repeated."""
        pod, node = snapshot.pods.get(held.room.pod.uid), held.room.node
        if pod is None or pod.nominated not in ("", node):
            return False  # kube-scheduler has found another node.
        if pod.nominated or (held.written is not None and now - held.written < AGAIN):
            return True
        held.written = now
        try:
            with self._limit.sending(held.term):
                nominations.nominate(self._client, pod, node)
        except call_limits.NotAdmitted:
            return False
        except errors.KubeError as problem:
            telemetry.log.info("not nominated", pod=pod.key, node=node, problem=str(problem))
            return call_limits.busy(problem)
        telemetry.log.info("nominated", pod=pod.key, node=node)
        return True
