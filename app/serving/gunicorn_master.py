"""A gunicorn master with a fixed set of workers: it reloads nothing, and replaces only those that end.

Settings are read once per process, and workers find changed certificates themselves, so there is nothing to
reload. With another number of workers, or with former ones beside new ones, it would be undecided which one
serves the introspection API.
"""

import signal

import structlog
from gunicorn import arbiter

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
