"""Passes the signals that end a process on to a thread.

A handler runs between any two instructions of the main thread, which may hold the lock that the handler
needs: setting an Event there can deadlock. So the handler only writes one byte to a pipe.
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
    """Call ``stop`` in a separate thread when a signal ends the process."""
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
