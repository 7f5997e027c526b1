"""The gangs of a simulation: jobs are restarted, and kube-scheduler tries members while one is placed."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.domain import model
from app.store import errors
from tests.support import bind_times
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import gang_law, guarantees
from tests.support.simulation.store import lossy_calls

if TYPE_CHECKING:
    from tests.support.simulation import histories

HEALED = 10.0
"""Seconds within which a gang that is partly placed gets the members for which there is capacity."""
ENDED = 0.5
"""Probability that the members of the last run have ended, and are not gone yet."""
_ROUNDS = 20


class GangRuns:
    """The gangs of one simulation, drawn from its generator."""

    def __init__(self, simulation: "histories.Simulation", record: Callable[[], None]) -> None:
        """``record``: a recorder observes every change."""
        self._of = simulation
        self._record = record

    def restart(self) -> None:
        """A gang is placed if it fits, its job is restarted, and members of the next run are bound."""
        of, gang = self._of, self._of.rng.choice(sorted(gang_law.GROUPS))
        with of.meanwhile(of.deep):
            self._record()
            self._bind(gang)
            of.activity.kubelets()
            self._record()
            of.activity.restart(gang)
            if of.rng.random() < ENDED:
                of.activity.kubelets()
            self._record()
            self._bind(gang)

    def heal(self, drain: Callable[[], None], control: Callable[[], object]) -> None:
        """kube-scheduler tries the waiting members until none is placed; then every gang is as it should be.

        ``drain``: a recorder observes every change, without faults. ``control``: the controller looks up old
        placements.
        """
        of = self._of
        began, allowed = of.clock.now, HEALED + self._unresolved()
        for _ in range(_ROUNDS):
            if not any(self._bind(gang) for gang in sorted(gang_law.GROUPS)):
                break
            control()
            drain()
        of.watchdog.read()
        problem = gang_law.unhealed(of.watchdog.fold, _limited)
        guarantees.demand(not problem, "P7", f"at rest: {problem}")
        took = of.clock.now - began
        guarantees.demand(took <= allowed, "P7", f"gangs are healed after {took:.0f} s")

    def _unresolved(self) -> float:
        """Seconds until the controller resolves the placements of binds that ended without an outcome."""
        extender = self._of.fleet.extenders[0]
        assert extender is not None
        extender.store.follower.catch_up()
        placements = extender.store.follower.snapshot.placements.values()
        return bind_times.OLD if any(not one.planned for one in placements) else 0.0

    def _bind(self, gang: str) -> bool:
        """The waiting members are bound where the extender keeps a node; whether one was."""
        of, tried = self._of, False
        extender = of.fleet.extenders[0]
        for pod in of.cluster.all("pods") if extender is not None else ():
            meta = pod["metadata"]
            if pod["spec"].get("nodeName") or meta["labels"].get(gang_law.LABEL) != gang:
                continue
            extender = of.fleet.extenders[0]
            if extender is not None:
                with contextlib.suppress(errors.StoreError, lossy_calls.Crashed):
                    extender.store.follower.catch_up()
                extender.offer(pod)
                for node in extender.kept(pod)[:1]:
                    tried = True
                    of.scheduler.bound(0, pod, node)
        return tried


def _limited(pod: model.Pod) -> bool:
    """Whether a policy or a quota may refuse the pod a node."""
    return not cluster_objects.LIMITING.isdisjoint(pod.labels)
