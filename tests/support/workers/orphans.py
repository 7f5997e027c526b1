"""Orphaned placements on a virtual clock: when their Bindings are fenced, and which are released."""

from collections.abc import Callable

from app.domain import events, model, projections, snapshots
from app.kube.client import clients
from app.kube.writes import binding, fencing
from tests.support import bind_times, declared
from tests.support.kube import fake_clock
from tests.support.workers import clusters
from workers.controller.placements import orphaned_placements


def committed(pod: model.Pod, version: str) -> events.PlacementsCommitted:
    """A placement on node n, whose Binding carries that version of the pod."""
    return events.PlacementsCommitted(placements=(model.Placement(pod, "n", resource_version=version),))


class Settling:
    """One placement that is settled, on a virtual clock."""

    def __init__(self, cluster: clusters.Cluster, pod: model.Pod, version: str = "") -> None:
        self.clock = fake_clock.VirtualClock()
        placed = committed(pod, version)
        self.snapshot = projections.project(snapshots.empty(schema=declared.SCHEMA), placed)
        self.released: list[tuple[str, str]] = []
        self.reasons: list[str] = []
        self.settler = orphaned_placements.OrphanedPlacements(
            binding.ApiBinder(cluster.client),
            Fencer(cluster.client, self),
            lambda: self.snapshot,
            self._release,
            self.clock,
            old=bind_times.OLD,
        )
        self.refused = 0
        """Releases that fail, as while the store is away."""
        self.before: Callable[[], object] = lambda: None
        """Done just before a fence is written."""

    def _release(self, uid: str, position: model.Position, cause: events.Cause, reason: str) -> bool:
        assert position == self.snapshot.placement_position(uid)
        if self.refused:
            self.refused -= 1
            return False
        self.released.append((uid, cause))
        self.reasons.append(reason)
        return True

    def plan(self, *seats: model.Placement) -> None:
        """Commit these, each in place of the placement that its pod has."""
        self.snapshot = projections.project(self.snapshot, events.PlacementsCommitted(placements=seats))

    def request(self, uid: str, reason: str = "a seat was lost") -> None:
        position = self.snapshot.placement_position(uid)
        assert position is not None
        self.settler.look_up(uid, position, reason)

    def after(self, *seconds: float) -> list[tuple[str, str]]:
        self.settler.run_once()
        for one in seconds:
            self.clock.now += one
            self.settler.run_once()
        return self.released


class Fencer(fencing.ApiFencer):
    """A fencer before whose write another actor may act."""

    def __init__(self, client: clients.Client, of: Settling) -> None:
        super().__init__(client, now=lambda: "2026-07-01T10:00:00Z")
        self._of = of

    def fence(self, pod: model.Pod, node: str, version: str) -> bool:
        self._of.before()
        return super().fence(pod, node, version)
