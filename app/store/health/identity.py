"""Compares the cluster whose log the store holds with the one that this process is connected to.

Two clusters of one name on one server would mix their facts. The recorder of the second records nothing; a
process that reads would decide by the objects of the first, and is not ready instead.
"""

import threading
from collections.abc import Callable

from app import telemetry
from app.store import errors
from app.store.log import logs

_EVERY = 10.0
_UNKNOWN = 1.0
"""Seconds between two comparisons, and between two attempts to learn the UID."""


class IdentityCheck:
    """Compares at start and every ten seconds: an empty store may be claimed by another cluster later."""

    def __init__(self, log: logs.Log, uid: Callable[[], str | None]) -> None:
        """``uid``: of the Kubernetes cluster; empty if this process may not read it, None to ask again."""
        self._log = log
        self._uid = uid
        self._stopped = threading.Event()
        self._loop = telemetry.loops.Loop("identity", self._run, wait=self._stopped.wait, longest=_EVERY)
        self.problem: str | None = None
        """That the store is another cluster's; None as far as is known."""

    def start(self) -> None:
        """Start the thread: after a fork, never before."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()
        self._loop.join(timeout=5.0)

    def measure(self) -> bool:
        """Compare once, and set ``problem``; false if the UID or the store could not be read."""
        uid = self._uid()
        if not uid:
            return uid is not None
        try:
            found = self._log.state().kubernetes
        except errors.StoreError:
            return False
        other = errors.OtherCluster(self._log.cluster, found, uid) if found not in ("", uid) else None
        self.problem = str(other) if other is not None else None
        return True

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY if self.measure() else _UNKNOWN):
            pass
