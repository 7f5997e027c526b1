"""Lets a signal end a block of a command: SIGTERM as Ctrl-C does, and the alarm of a time limit."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class OutOfTime(BaseException):
    """The time of a block has passed; no Exception, so that nothing in the block handles it."""


@contextlib.contextmanager
def by_sigterm() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, so that no process, file or key outlasts the block that made it."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block after so many seconds, whatever it waits for; for the main thread only.

    A function of C that repeats interrupted system calls, such as the resolver of names, returns first.
    """
    handler = signal.signal(signal.SIGALRM, _out_of_time)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _out_of_time(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTime
