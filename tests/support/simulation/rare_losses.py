"""Losses of the store that random choice seldom produces: what is lost was read or written just before."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.support.simulation import processes
from tests.support.simulation.cluster import cluster_objects

if TYPE_CHECKING:
    from tests.support.simulation import histories

_PLAIN = ("late-1", "late-2", "late-3", "late-4")
"""Pods that no policy counts, so that they always fit."""


class RareLosses:
    """Adds losses to one simulation, drawn from its generator."""

    def __init__(self, simulation: "histories.Simulation") -> None:
        self._of = simulation
        self._ambush: Callable[[], None] | None = None
        """Called before the next placement is appended."""

    def before_placement(self) -> None:
        """A process is about to append a placement."""
        if self._ambush is not None:
            ambush, self._ambush = self._ambush, None
            ambush()

    def lose_a_tail(self) -> None:
        """The store loses entries that only one extender has read; another one makes the log as long again.

        The first one continues from what it has read: it reads more, or appends what it has just decided.
        """
        of = self._of
        of.fleet.record_through()
        if of.watchdog.fold.unlisted:
            return
        reader = of.rng.randrange(len(of.fleet.extenders))
        other = (reader + 1) % len(of.fleet.extenders)
        taken = {pod["metadata"]["name"] for pod in of.cluster.all("pods")}
        names = [name for name in _PLAIN if name not in taken]
        if len(names) < len(_PLAIN) - 1:
            return
        first, second, *more = [of.cluster.pod(name, {"app": "plain"}) for name in names]
        with of.meanwhile(of.deep):
            of.failovers.replica.follow()
            kept = of.watchdog.fold.offset
            of.scheduler.bound(reader, first, of.scheduler.any_node())
            if of.watchdog.fold.offset == kept:
                return
            if of.rng.random() < 0.5:
                self._ambush = lambda: self._grow_again(other, more)
            else:
                self._grow_again(other, more)
            of.scheduler.bound(reader, second, of.scheduler.any_node())
            self._ambush = None

    def _grow_again(self, which: int, pods: Sequence[cluster_objects.Json]) -> None:
        """An invisible failover, after which an extender appends as many entries as were lost."""
        of = self._of
        end = of.watchdog.fold.offset
        of.failovers.fail_over(now=True, restarted=False)
        for pod in pods:
            if of.watchdog.fold.offset < end:
                of.scheduler.bound(which, pod, of.scheduler.any_node())

    def lose_a_placement(self) -> None:
        """The store fails over between a placement and its Binding, and more pods are bound at once."""
        of = self._of
        with of.meanwhile():
            of.failovers.fail_over(now=True)
            if of.rng.random() < 0.5:
                of.fleet.hand_over()
            for _ in range(3):
                of.fleet.record_through()
            for _ in range(3):
                of.scheduler.bind()

    def fall_back(self) -> None:
        """A recorder verifies the log of another server without a reply, and that server gets older data.

        It was demoted, has copied its primary, and is promoted again: its run_id is the former one. The
        recorder has just read the server's state.
        """
        of = self._of
        of.fleet.record_through()
        leading = [one for one in of.fleet.idle() if one.leads]
        if of.watchdog.fold.unlisted or not leading:
            return
        taken = {pod["metadata"]["name"] for pod in of.cluster.all("pods")}
        pods = [of.cluster.pod(name, {"app": "plain"}) for name in _PLAIN if name not in taken]
        with of.meanwhile(of.deep):
            of.failovers.replica.follow()
            of.failovers.fail_over(now=True, restarted=True)
            with of.failovers.losing_the_verification(), of.fleet.at_work(leading[0]):
                leading[0].run_once()
                leads = leading[0].begin()
                of.log_step(f"{leading[0].name} {'leads' if leads else 'is on standby'}")
            for pod in pods:
                of.scheduler.bind_anywhere(pod)

    def lose_a_term(self) -> None:
        """A recorder is frozen, another one records and ends, the store loses that; the first one resumes."""
        of = self._of
        leading = [one for one in of.fleet.idle() if one.leads]
        if not leading:
            return
        frozen = leading[0]
        if of.rng.random() < 0.5:
            of.failovers.fail_over(now=True)
            of.fleet.record_through()
        for other in [one for one in of.fleet.idle() if one is not frozen]:
            of.fleet.recorders.remove(other)
            other.close()
        frozen.freeze(True)
        of.log_step(f"{frozen.name} is frozen for a term")
        of.fleet.start_recorder()
        of.clock.advance(processes.TERMS.lease + 2 * processes.TERMS.retry)
        of.fleet.record_through()
        of.failovers.replica.follow()
        of.activity.users()
        of.fleet.record_through()
        of.clock.advance(processes.TERMS.retry + 1.0)  # writes its note into the Lease
        for other in [one for one in of.fleet.idle() if one is not frozen]:
            of.fleet.recorders.remove(other)
            other.close()
        for which in range(len(of.fleet.extenders)):
            of.fleet.extenders[which] = None
        of.failovers.fail_over(now=True)
        frozen.freeze(False)
        of.clock.advance(processes.TERMS.lease + 2 * processes.TERMS.retry)
        if frozen not in of.fleet.recorders:
            return
        with of.fleet.at_work(frozen):
            frozen.run_once()
            frozen.begin()
