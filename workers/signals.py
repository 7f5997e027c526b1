"""Signals that end a process, carried to a thread.

A handler runs between any two instructions of the main thread, which may hold the lock that the handler
would ask for: to set an Event there can deadlock. So it writes one byte to a pipe and does nothing else.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Final

from app import telemetry

ENDING: Final = (signal.SIGTERM, signal.SIGINT)


def stopping(stop: Callable[[], None]) -> None:
    """From now on have ``stop`` called, in a thread of its own, once a signal asks the process to end."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def handle(*_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"\0")

    def wait() -> None:
        os.read(reader, 1)
        stop()

    telemetry.loops.Loop("signals", wait, wait=threading.Event().wait).start()
    for number in ENDING:
        signal.signal(number, handle)
