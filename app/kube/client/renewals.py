"""Renews credentials beside the requests that they are for, so that no request waits for an exec plugin."""

import threading
import time
from typing import Protocol

from app import telemetry
from app.pauses import Pauses

SHORTEST_PAUSE = 1.0
"""Seconds between two renewals."""
LONGEST_PAUSE = 30.0
"""Seconds to which the pause grows while the credentials are refused, or expired, soon after each renewal: a
plugin whose credentials are wrong is not run for each request. Those that last longer end the growth."""


class Renewable(Protocol):
    """Credentials that can be renewed."""

    def due(self) -> float | None:
        """Seconds until they are due to be renewed; None: once they are refused."""
        ...

    def renew(self) -> None:
        """Renew them. Raises nothing."""
        ...


class Renewer:
    """A thread that renews credentials when they are due, and after the API server has refused them."""

    def __init__(self, renewable: Renewable) -> None:
        self._renewable = renewable
        self._stopped, self._wanted = threading.Event(), threading.Event()

    def start(self) -> "Renewer":
        """Start the thread: after a fork, never before."""
        telemetry.loops.Loop("credentials", self._run, wait=self._stopped.wait).start()
        return self

    def refused(self) -> None:
        """Renew the credentials soon, because a request was answered with 401."""
        self._wanted.set()

    def stop(self) -> None:
        """Let the thread end, without waiting for a plugin that runs."""
        self._stopped.set()
        self._wanted.set()

    def _run(self) -> None:
        pauses = Pauses(SHORTEST_PAUSE, LONGEST_PAUSE)
        while not self._stopped.wait(pauses.take()):
            began = time.monotonic()
            self._wanted.wait(self._renewable.due())
            if time.monotonic() - began >= LONGEST_PAUSE:
                pauses.reset()
            if not self._stopped.is_set():
                self._renewable.renew()
            # What was refused meanwhile were the former credentials.
            self._wanted.clear()
