"""Renews credentials beside the requests that they are for, so that no request waits for an exec plugin."""

import threading
from typing import Protocol

from app import telemetry

PAUSE_SECONDS = 30.0
"""Between two renewals: a plugin whose credentials are wrong is not run for each request that is refused."""


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
        while not self._stopped.wait(PAUSE_SECONDS):
            self._wanted.wait(self._renewable.due())
            if not self._stopped.is_set():
                self._renewable.renew()
            # What was refused meanwhile were the former credentials.
            self._wanted.clear()
