"""Carries out effects: each goes to the one part of the controller that writes its kind of object.

Effects come from the plugins (reconciliation), and from the controller itself. They belong to the
leadership in which they were submitted: after it has ended, none of them is carried out.
"""

from collections.abc import Callable

from app import telemetry
from app.domain import model, snapshots
from app.framework import effects
from workers.controller import event_poster, evictions, statuses, wakeups
from workers.controller.placements import joint_releases


class Executor:
    """The one way from an effect to the API server. Thread-safe."""

    def __init__(
        self,
        waker: wakeups.Waker,
        poster: event_poster.EventPoster,
        status_writer: statuses.StatusWriter,
        evictor: evictions.Evictor,
        look_up: Callable[[model.Uid, model.Position, str], bool],
        together: joint_releases.JointReleases,
        term: Callable[[], str | None],
    ) -> None:
        """``look_up`` looks up a placement at once, releases it on evidence, and returns whether that was not
        requested already; ``together`` releases planned ones, which need no evidence; ``term``: the epoch of
        the present leadership, None without one.
        """
        self._waker = waker
        self._poster = poster
        self._statuses = status_writer
        self._evictor = evictor
        self._look_up = look_up
        self._together = together
        self._term = term

    def submit(
        self, found: effects.Effect, snapshot: snapshots.Snapshot, *, position: model.Position | None = None
    ) -> None:
        """Carry out an effect computed from the snapshot; without a leadership, nothing happens.

        ``position``: that of the event that caused it, by default that of the snapshot.
        """
        term = self._term()
        if term is None:
            return
        match found:
            case effects.WakePods():
                self._waker.submit(found, position or snapshot.position, term)
            case effects.PostEvent():
                self._poster.submit(found, term)
            case effects.PatchStatus():
                self._statuses.submit(found, snapshot, term)
            case effects.EvictPods():
                self._evictor.submit(found, snapshot, term)
            case effects.ReleasePlacements():
                self._release(found, snapshot, term)

    def verify(self) -> None:
        """Compare the next status of every object with the API server's, even if it was written before."""
        self._statuses.verify()

    def _release(self, found: effects.ReleasePlacements, snapshot: snapshots.Snapshot, term: str) -> None:
        requested = found.renewed is not None and self._together.submit(found, term)
        if found.after:
            return
        if requested:
            telemetry.log.info("releasing placements together", pods=len(found.pods), reason=found.reason)
        for uid in found.pods:
            placed = snapshot.placements.get(uid)
            position = snapshot.placement_position(uid)
            if placed is None or position is None or (found.renewed is not None and placed.planned):
                continue
            if self._look_up(uid, position, found.reason):
                telemetry.log.info("looking up a placement", pod=placed.pod.key, reason=found.reason)
