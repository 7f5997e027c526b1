"""Lets a signal end a block of a command, as Ctrl-C does or at a time limit, or make a pipe readable."""

import contextlib
import os
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


def pipe(*numbers: signal.Signals) -> int:
    """A file descriptor that is readable once one of these signals has arrived; for the main thread only.

    A handler runs between any two instructions of the main thread, which may hold the lock that the handler
    needs: setting an Event there can deadlock. So the handler only writes one byte.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def handle(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"\0")

    for number in numbers:
        signal.signal(number, handle)
    return reader


def _out_of_time(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTime
