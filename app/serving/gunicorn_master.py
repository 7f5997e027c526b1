"""A gunicorn master with a fixed set of workers: it reloads nothing, and replaces only those that end.

Settings are read once per process, and workers find changed certificates themselves, so there is nothing to
reload. With another number of workers, or with former ones beside new ones, it would be undecided which one
serves the introspection API.
"""

import random
import signal
import sys
import time
from typing import Any, Final

import structlog
from gunicorn import arbiter

SHORTEST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 3.0
"""Seconds until an introspection process that cannot start is replaced. The pause is random, so that replicas
do not read the store together."""
REPLACED: Final = 1
"""Exit code of a process that is replaced. With gunicorn's own for one that cannot start, the master ends."""

log = structlog.get_logger(__name__)


class Master(arbiter.Arbiter):
    """The master of `servers.Application`."""

    def handle_hup(self) -> None:
        """End as at SIGTERM: a terminal was closed."""
        self.handle_term()

    def handle_ttin(self) -> None:
        """Log that one more worker is not started."""
        self._ignore(signal.SIGTTIN)

    def handle_ttou(self) -> None:
        """Log that no worker is stopped."""
        self._ignore(signal.SIGTTOU)

    def handle_usr2(self) -> None:
        """Log that no second master is started."""
        self._ignore(signal.SIGUSR2)

    def _ignore(self, number: signal.Signals) -> None:
        log.warning("signal ignored", signal=number.name)

    def spawn_worker(self) -> int:
        """Start a worker. Returns its pid in the master, and raises SystemExit in the worker at its end.

        An introspection process that cannot start ends alone, after a pause: the verbs do not depend on it.
        """
        application: Any = self.app
        try:
            return super().spawn_worker()
        except SystemExit as end:
            if end.code != self.WORKER_BOOT_ERROR or not application.serves_introspection:
                raise
        # Nothing is left to end in order.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        pause = random.uniform(SHORTEST_PAUSE, LONGEST_PAUSE)
        log.error("the introspection process cannot start; another one is started", pause=round(pause, 3))
        time.sleep(pause)
        sys.exit(REPLACED)
