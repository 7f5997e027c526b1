"""Limits calls to the API server: a token bucket, and a bucket with backoff for all calls of a leadership."""

import contextlib
import http
import threading
from collections.abc import Callable, Iterator

from app import clocks
from app.kube import backoffs, errors

_SLICE = 1.0
"""Seconds after which a waiting call checks again whether it is still wanted."""


class Bucket:
    """A token bucket: ``burst`` tokens at once, ``rate`` tokens a second."""

    def __init__(self, clock: clocks.Clock, *, burst: float, rate: float) -> None:
        self._clock = clock
        self._burst = burst
        self._rate = rate
        self._level = burst
        self._at = clock.monotonic()

    def take(self) -> bool:
        """Take a token; false if none is left."""
        if self.wait() > 0:
            return False
        self._level -= 1.0
        return True

    def put_back(self) -> None:
        """Return a token that was taken for nothing."""
        self._level += 1.0

    def wait(self) -> float:
        """Seconds until a token is available."""
        now = self._clock.monotonic()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, (1.0 - self._level) / self._rate)


class NotAdmitted(Exception):
    """A call was not sent: the leadership in which it was decided or the process has ended, or the call is no
    longer wanted now that it is its turn.
    """


class CallLimit:
    """Admits the calls of one leadership, at a limited rate and with a common backoff. Thread-safe.

    A call that the API server is too busy for (429, 5xx) or that does not reach it delays all later ones,
    so that several writers do not repeat their calls each by itself.
    """

    def __init__(
        self,
        clock: clocks.Clock,
        *,
        term: Callable[[], str | None],
        burst: float = 100.0,
        rate: float = 50.0,
    ) -> None:
        """``term``: the epoch of the present leadership, None without one; ``rate``: calls per second."""
        self._clock = clock
        self._term = term
        self._bucket = Bucket(clock, burst=burst, rate=rate)
        self._backoff = backoffs.Backoff(clock, initial=0.1, cap=10.0)
        self._until = 0.0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def sending(self, term: str) -> Iterator[None]:
        """Send one call in the block, when it is its turn. Raises NotAdmitted once ``term`` has ended.

        The KubeError that the block raises decides when the next call may be sent. A block that sends nothing
        raises NotAdmitted, and affects no other call.
        """
        self._admit(term)
        try:
            yield
        except NotAdmitted:
            with self._lock:
                self._bucket.put_back()
            raise
        except errors.KubeError as problem:
            if busy(problem):
                least = problem.retry_after if isinstance(problem, errors.ApiError) else 0.0
                with self._lock:
                    until = self._clock.monotonic() + self._backoff.pause(least=least)
                    self._until = max(self._until, until)
            raise
        with self._lock:
            self._backoff.reset()

    def _admit(self, term: str) -> None:
        while self._term() == term:
            with self._lock:
                pause = max(self._until - self._clock.monotonic(), self._bucket.wait())
                if pause <= 0 and self._bucket.take():
                    return
            if self._clock.wait(min(pause, _SLICE)):
                break
        raise NotAdmitted


def busy(problem: errors.KubeError) -> bool:
    """Whether the same call may succeed later: the API server is busy, failed, or was not reached."""
    if isinstance(problem, errors.ApiError):
        return problem.status in (http.HTTPStatus.TOO_MANY_REQUESTS, http.HTTPStatus.REQUEST_TIMEOUT) or (
            problem.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR
        )
    return isinstance(problem, errors.Unreachable)
