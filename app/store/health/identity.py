"""Compares the cluster whose log the store holds with the one that this process is connected to.

Two clusters of one name on one server would mix their facts, and each would act on the pods of the other.
The result is kept at the log (Log.foreign): appends are refused there, and whatever decides by the log or
acts on the cluster checks it first.
"""

import threading
from collections.abc import Callable

from app import telemetry
from app.store import errors
from app.store.log import logs

_EVERY = 10.0
_SOON = 1.0
"""Seconds between two comparisons, and while the UID or the owner of the log is unknown."""
_REFUSALS = 30
"""Refusals of the UID, in turn, after which it is requested at the longer interval: an API server that starts
refuses until it has read the roles."""
_PATIENCE = 1.0
"""Seconds that the start of a process waits for the first attempt to compare."""


class IdentityCheck:
    """Compares at start, in each incarnation, and every ten seconds: an empty store may be claimed later."""

    def __init__(self, log: logs.Log, uid: Callable[[], str | None]) -> None:
        """``uid``: of the Kubernetes cluster; empty if this process may not read it, None if unknown."""
        self._log = log
        self._uid = uid
        self._refusals = 0
        self._due, self._tried = threading.Event(), threading.Event()
        self._loop = telemetry.loops.Loop("identity", self._run, longest=_EVERY)

    @property
    def problem(self) -> str | None:
        """That the store is another cluster's, or that the two were not compared yet; None without either.

        Only the first comparison needs the API server: what runs stays in service without it.
        """
        try:
            self._log.check_compared()
        except errors.StoreError as found:
            return str(found)
        return None

    def start(self) -> None:
        """Start the thread, after a fork, never before; return after the first attempt, or a second."""
        self._log.compared_in, self._log.on_switch = "", self._due.set
        self._loop.start()
        self._tried.wait(_PATIENCE)

    def stop(self) -> None:
        """Stop the thread."""
        self._loop.end()
        self._due.set()
        self._loop.join(timeout=5.0)

    def measure(self) -> bool:
        """Compare once; false if that is due again soon.

        It is if the UID or the store could not be read, or if no recorder has claimed the log.
        What was found before remains while something cannot be read.
        """
        uid = self._uid()
        if uid is None:
            return False
        if not uid:
            self._log.compared_in = None
            self._refusals += 1
            return self._refusals > _REFUSALS
        self._refusals = 0
        try:
            state = self._log.state()
        except errors.StoreError:
            return False
        found = state.kubernetes
        self._log.foreign = (found, uid) if found not in ("", uid) else None
        if state.incarnation != self._log.incarnation:
            return False  # It is compared again once it is followed.
        self._log.compared_in = state.incarnation
        return bool(found)

    def _run(self) -> None:
        while not self._loop.stopped:
            self._due.clear()
            pause = _EVERY if self.measure() else _SOON
            self._tried.set()
            self._due.wait(pause)
