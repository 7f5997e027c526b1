"""Placements that nobody confirmed or released: the API server is asked, and its answer is the evidence.

An extender that dies between its placement and the Binding leaves a placement behind. One that is
older than half a minute, by this process' own monotonic clock, is looked up. A bound pod is left to the
watch; no pod releases it, and so does an unbound one on which the Binding cannot be carried out any more:
it has another version than the Binding carries, or the Binding is older than any that the API server may
still be working on (ADR 0008).
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
        """Since when a placement is known, by pod and position: one made again is young."""
        self._asked: dict[tuple[model.Uid, model.Position], float] = {}
        """When it was looked up last."""

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
        self._asked = {key: self._asked.get(key, since) for key, since in self._since.items()}
        due = [key for key, asked in self._asked.items() if now - asked >= self._old]
        released = 0
        for key in due[:MOST]:
            evidence = self._evidence(standing[key], now - self._since[key])
            if evidence is not None and self._release(*key, *evidence):
                released += 1
                telemetry.log.info(
                    "released a placement",
                    pod=standing[key].pod.key,
                    node=standing[key].node,
                    evidence=evidence[1],
                )
            else:
                self._asked[key] = now  # asked again after as long
        return released

    def _evidence(self, placement: model.Placement, age: float) -> tuple[events.Cause, str] | None:
        """Why the placement is void; None if it is not, or that cannot be known yet."""
        promised = placement.pod
        try:
            found = self._binder.get_pod(promised.namespace, promised.name)
        except errors.KubeError as problem:
            telemetry.log.debug("a placement cannot be looked up", pod=promised.key, error=str(problem))
            return None
        if found is None or found.pod.uid != promised.uid:
            return "gone", "the API server has no such pod any more"
        if found.pod.node:
            return None
        if binding.outdates(placement.resource_version, found.version):
            return (
                "unbound",
                "the API server shows the pod unbound, in a later version than the Binding is for",
            )
        if age >= binding.UNFENCED:
            return "unbound", "the API server shows the pod unbound long after the promise"
        return None
