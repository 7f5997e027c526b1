"""One heavy question at a time: several would only delay each other and every other answer."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import flask

from app.api import errors
from app.store.state import gc_pause

WAITING = 2
"""Requests that may wait for the one at work: with it fewer than the threads that answer, so that those that
wait hold up no other question."""
PATIENCE = 2.0
"""Seconds that they wait."""
CHECK_SECONDS = 0.25
"""How often a request that waits checks whether its client is still connected."""
_HUNG_UP = "topolog.hung_up"
"""Key of the environment, as the server sets it: whether the client no longer waits for the response."""


class OneAtATime:
    """Admits one request at a time; the others wait for a short time, or are refused with 429.

    The work of a client that hangs up ends where it calls ``attended``, so that others do not wait for it.
    """

    def __init__(self, *, waiting: int = WAITING, patience: float = PATIENCE, pausing: bool = True) -> None:
        """``pausing``: no cycle collection during the work; false if it lasts as long as a client takes to
        read.
        """
        self._pausing = pausing
        self._waiting = waiting
        self._places = threading.BoundedSemaphore(waiting + 1)
        self._working = threading.Lock()
        self._patience = patience

    @contextlib.contextmanager
    def admitted(self) -> Iterator[None]:
        """Hold the place of the one at work. Raises Problem 429, or 499 if the client has left meanwhile."""
        if not self._places.acquire(blocking=False):
            raise _busy(f" and {self._waiting} wait" if self._waiting else "")
        try:
            self._wait_for_turn(attended())
            try:
                # The snapshots that it folds hold no cycles: scanning them takes longer than the fold.
                with gc_pause.paused() if self._pausing else contextlib.nullcontext():
                    yield
            finally:
                self._working.release()
        finally:
            self._places.release()

    def _wait_for_turn(self, check: Callable[[], None]) -> None:
        """Wait until no other is at work. The place of a client that hangs up meanwhile is free at once."""
        end = time.monotonic() + self._patience
        while not self._working.acquire(timeout=max(0.0, min(CHECK_SECONDS, end - time.monotonic()))):
            check()
            if time.monotonic() >= end:
                raise _busy("")
        try:
            check()
        except errors.Problem:
            self._working.release()
            raise


def attended() -> Callable[[], None]:
    """A function that raises Problem 499 once the client of the present request has hung up.

    Outside of a request, and with a server that does not see it, it does nothing.
    """
    environ = flask.request.environ if flask.has_request_context() else {}
    hung_up = environ.get(_HUNG_UP, bool)

    def check() -> None:
        if hung_up():
            raise errors.Problem(errors.HUNG_UP, "ClientGone", "the client has closed the connection")

    return check


def _busy(others: str) -> errors.Problem:
    message = f"another heavy question is being answered{others}: retry later"
    return errors.Problem(429, "TooManyRequests", message)
