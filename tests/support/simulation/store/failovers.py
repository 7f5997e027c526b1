"""Failovers of the simulated store: a replica that lags behind is promoted, or a server restarts."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import redis

from app.domain import events
from app.kube.election import leases
from app.store.log import incarnations
from tests.support.simulation.store import lagging_replica, server_runs

if TYPE_CHECKING:
    from tests.support.simulation import histories

_LEASE = ("topolog", "recorder")


class Failovers:
    """The failovers of one simulation, drawn from its generator."""

    def __init__(self, simulation: "histories.Simulation", client: redis.Redis) -> None:
        """``client``: one whose connections have no faults."""
        self._of = simulation
        self._rng, self._log_step = simulation.rng, simulation.log_step
        self._watchdog, self._schedule = simulation.watchdog, simulation.schedule
        self.replica = lagging_replica.Replica(client)
        self.server = server_runs.Server(client, simulation.clock)

    def fail_over(self, *, now: bool = False, restarted: bool | None = None) -> None:
        """A replica that lags behind is promoted, or the primary restarts without its files.

        Unless ``now``, the replica may be brought up to date instead. ``restarted``: whether the new primary
        is visible as another server, which then has its files; None: drawn.
        """
        if not self.replica.begun or (not now and self._rng.random() < 0.5):
            self.replica.follow()
            return
        if restarted is None and self._rng.random() < 0.15 and self._noted():
            self.replica.empty()
        self._watchdog.compare()
        self.replica.promote()
        # It may be the former primary again, which has been a replica meanwhile.
        self.server.go_on(restarted=self._rng.random() < 0.7 if restarted is None else restarted)
        self._schedule.forget()
        doubted = self.server.doubted(self._of.names)
        lost = self._watchdog.failed_over(self._note(), doubted=doubted)
        self._log_step(f"the store fails over{'' if doubted else ' unseen'}: {lost or 'nothing'} is lost")

    @contextlib.contextmanager
    def losing_the_verification(self) -> Iterator[None]:
        """The next election is recorded without a reply; after the next read of the state the store falls
        back to what its replica holds, in the same run.
        """

        def lost(batch: list[events.AnyEvent]) -> bool:
            if not any(isinstance(event, events.RecorderElected) for event in batch):
                return False
            self._log_step("the election is recorded, and the store does not reply")
            self._schedule.reply_lost, self._schedule.reading = lambda _: False, fallen
            return True

        def fallen() -> None:
            if self._of.clock.now < self._schedule.outage:
                return
            self._schedule.reading = lambda: None
            self.fail_over(now=True, restarted=False)

        self._schedule.reply_lost = lost
        try:
            yield
        finally:
            self._schedule.reply_lost, self._schedule.reading = lambda _: False, lambda: None

    def _noted(self) -> bool:
        """Whether the recorder's note in the Lease names an entry of the current incarnation."""
        known = self._note()
        return known is not None and known.incarnation == self._watchdog.incarnation

    def _note(self) -> incarnations.Watermark | None:
        """The latest log position that the Lease names."""
        with contextlib.suppress(Exception):
            note = leases.note(self._of.cluster.objects.get("leases", _LEASE), "topolog.io/known")
            return incarnations.parse_watermark(note)
        return None
