"""Promises that nobody kept or took back: the API server is asked, and its word is the evidence.

An extender that dies between its promise and the Binding leaves a placement behind. One that is
older than half a minute, by this process' own monotonic clock, is looked up: an unbound pod, or none,
releases it; a bound one is left to the watch. No placement is ever released by the clock alone.
"""

from collections.abc import Callable

from app import telemetry
from app.domain import events, model, snapshots
from app.kube import backoffs, binding, errors

OLD = 30.0
"""Seconds after which a placement is looked up; far more than any Binding may take."""
MOST = 100
"""Placements looked up in one round."""


class Settler:
    """Looks after old placements; used by one thread."""

    def __init__(
        self,
        binder: binding.Binder,
        snapshot: Callable[[], snapshots.Snapshot],
        release: Callable[[model.Uid, model.Position, events.Cause, str], bool],
        clock: backoffs.Clock,
        *,
        old: float = OLD,
    ) -> None:
        """``release(uid, promise, cause, reason)`` takes the promise made at that position back in the log,
        and says whether it is gone.
        """
        self._binder = binder
        self._snapshot = snapshot
        self._release = release
        self._clock = clock
        self._old = old
        self._since: dict[tuple[model.Uid, model.Position], float] = {}
        """Pod and position of the promise: one made anew, be it of the same node, is young."""

    def turn(self) -> int:
        """Look once; the number of promises taken back."""
        now = self._clock.monotonic()
        snapshot = self._snapshot()
        incarnation = snapshot.position.incarnation
        standing = {
            (uid, model.Position(incarnation, placement.offset)): placement
            for uid, placement in snapshot.placements.items()
        }
        self._since = {key: self._since.get(key, now) for key in standing}
        due = [key for key, since in self._since.items() if now - since >= self._old]
        released = 0
        for key in due[:MOST]:
            evidence = self._evidence(standing[key].pod)
            if evidence is not None and self._release(*key, *evidence):
                released += 1
                telemetry.log.info(
                    "released a placement",
                    pod=standing[key].pod.key,
                    node=standing[key].node,
                    evidence=evidence[1],
                )
            else:
                self._since[key] = now  # asked again after as long
        return released

    def _evidence(self, promised: model.Pod) -> tuple[events.Cause, str] | None:
        """Why the promise is void; None if it is not, or nobody can tell."""
        try:
            found = self._binder.get_pod(promised.namespace, promised.name)
        except errors.KubeError as problem:
            telemetry.log.debug("a placement cannot be looked up", pod=promised.key, error=str(problem))
            return None
        if found is None or found.uid != promised.uid:
            return "gone", "the API server has no such pod any more"
        if found.node:
            return None
        return "unbound", "the API server shows the pod unbound long after the promise"
