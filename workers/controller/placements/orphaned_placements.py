"""Releases orphaned placements after checking with the API server.

An extender that dies between its placement and the Binding leaves a placement behind, as does a Binding
whose reply is lost. A placement that is older than a bind may take, by this process's monotonic clock, is
looked up. A bound pod is left to the watch. The placement is released if the pod is gone, or if it is
unbound and the Binding can no longer be carried out: the pod has another version than the Binding carries,
or the Binding is older than any that the API server may still be working on. If the pod still has the
version that the Binding carries, this process fences the Binding by a write to the pod, and reads the pod
again (decisions 8 and 20). A planned placement, which has no Binding, is kept longer (decision 23).
"""

import threading
from collections.abc import Callable

from app import clocks, telemetry
from app.domain import events, model, snapshots
from app.kube import errors
from app.kube.writes import binding, fencing

PLANNED = 300.0
"""Seconds for which a planned placement is kept for its pod's own bind: after about five minutes
kube-scheduler tries every pod again. It has no Binding, so its release is safe at any time."""
MAX_LOOKUPS = 40
"""Placements looked up in one run: those with a Binding first, then planned ones that are requested, and of
each those that were looked up longest ago, so that the turn of each comes."""

Evidence = tuple[events.Cause, str]
"""Why a placement is void: the cause of its release, and a sentence."""


class OrphanedPlacements:
    """Looks up old placements, fences their Bindings and releases them; used by one thread."""

    def __init__(
        self,
        binder: binding.Binder,
        fencer: fencing.Fencer,
        snapshot: Callable[[], snapshots.Snapshot],
        release: Callable[[model.Uid, model.Position, events.Cause, str], bool],
        clock: clocks.Clock,
        *,
        old: float,
    ) -> None:
        """``release(uid, position, cause, reason)`` releases the placement that was made at that position,
        and returns whether it is gone.

        ``old``: seconds after which a placement is looked up and its Binding fenced: the time for a bind, and
        binding.UNDER_WAY. So a bind within its time is not disturbed; a later one is placed again and
        repeated.
        """
        self._binder = binder
        self._fencer = fencer
        self._snapshot = snapshot
        self._release = release
        self._clock = clock
        self._old = old
        self._since: dict[tuple[model.Uid, model.Position], float] = {}
        """When this process first saw a placement, by pod and position: one that was made again is new."""
        self._checked: dict[tuple[model.Uid, model.Position], float] = {}
        """When it was last looked up, or first seen."""
        self._lock = threading.Lock()
        self._requested: dict[tuple[model.Uid, model.Position], str] = {}
        """Placements to look up in the next run, whatever their age, and why; until that has succeeded."""

    def look_up(self, uid: model.Uid, position: model.Position, reason: str) -> bool:
        """Look up the placement made at that position in the next run, however young it is. Thread-safe.

        ``reason``: why a planned one is released. False if that was requested already, and is not done yet.
        """
        key = uid, position
        with self._lock:
            if key in self._requested:
                return False
            self._requested[key] = reason
            return True

    def run_once(self) -> int:
        """Look up what is due; the number of placements released."""
        with self._lock:
            requested = dict(self._requested)
        now, snapshot = self._clock.monotonic(), self._snapshot()  # Not older than those of the requests.
        incarnation = snapshot.position.incarnation
        current = {
            (uid, model.Position(incarnation, placement.offset)): placement
            for uid, placement in snapshot.placements.items()
        }
        self._since = {key: self._since.get(key, now) for key in current}
        self._checked = {key: self._checked.get(key, since) for key, since in self._since.items()}
        due = [
            key for key, checked in self._checked.items() if key in requested or now - checked >= self._old
        ]
        due.sort(
            key=lambda key: (
                current[key].planned and key not in requested,
                current[key].planned,
                self._checked[key],
                current[key].offset,
                key[0],
            )
        )
        released, left = 0, requested.keys() & current.keys()
        for key in due[:MAX_LOOKUPS]:
            self._checked[key] = now  # looked up again after as long
            try:
                evidence = self._evidence(current[key], now - self._since[key], requested.get(key, ""))
            except errors.KubeError as problem:
                telemetry.log.debug(
                    "cannot look up the pod of a placement", pod=current[key].pod.key, error=str(problem)
                )
                continue
            if evidence is not None and not self._release(*key, *evidence):
                continue
            left.discard(key)
            if evidence is not None:
                released += 1
                telemetry.log.info(
                    "released an orphaned placement",
                    pod=current[key].pod.key,
                    node=current[key].node,
                    evidence=evidence[1],
                )
        with self._lock:
            # Those are left that were too many for this run, or whose look-up or release failed.
            for key in requested.keys() - left:
                del self._requested[key]
        return released

    def _evidence(self, placement: model.Placement, age: float, requested: str) -> Evidence | None:
        """Why the placement is void; None if it is not, or if that is not certain yet. Raises KubeError."""
        found = self._read(placement)
        if found is not None and _fenceable(placement, found, age):
            self._fence(placement)
            # Whatever the outcome of the write, only the pod is evidence: it may have been bound before.
            found = self._read(placement)
        return _void(placement, found, age, requested)

    def _read(self, placement: model.Placement) -> binding.Current | None:
        """The pod of the placement now; None if it is gone. Raises KubeError."""
        pod = placement.pod
        found = self._binder.get_pod(pod.namespace, pod.name)
        return found if found is not None and found.pod.uid == pod.uid else None

    def _fence(self, placement: model.Placement) -> None:
        """Make the placement's Binding impossible. Raises KubeError if the outcome is unknown."""
        try:
            written = self._fencer.fence(placement.pod, placement.node, placement.resource_version)
        except errors.KubeError as problem:
            telemetry.metrics.FENCES.labels("failed").inc()
            if isinstance(problem, errors.ApiError):
                telemetry.log.warning("cannot fence a Binding", pod=placement.pod.key, error=str(problem))
            raise
        telemetry.metrics.FENCES.labels("fenced" if written else "changed").inc()


def _fenceable(placement: model.Placement, found: binding.Current, age: float) -> bool:
    """Whether the Binding is still possible, and a write to the pod would make it impossible."""
    unbound = not found.pod.node
    return unbound and found.version == placement.resource_version and age < binding.UNFENCED


def _void(
    placement: model.Placement, found: binding.Current | None, age: float, requested: str
) -> Evidence | None:
    """Why the placement is void, by the state of its pod; None if it is not.

    ``requested``: why the release of a planned one is requested; empty if it is not.
    """
    if found is None:
        return "gone", "the API server no longer has the pod"
    if found.pod.node:
        return None
    if placement.planned and found.pod.terminating:
        return "unbound", requested or "the pod was planned and is being deleted"
    if placement.planned:
        kept = placement.patience or PLANNED if not requested else 0.0
        reason = requested or "the pod was planned and not bound in time"
        return ("unbound", reason) if age >= kept else None
    if binding.outdates(placement.resource_version, found.version):
        return (
            "unbound",
            "the API server shows the pod unbound, in a later version than the Binding is for",
        )
    if age >= binding.UNFENCED:
        return "unbound", "the API server shows the pod unbound long after the placement"
    return None
