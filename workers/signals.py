"""Passes the signals that end a process on to a thread."""

import os
import signal
from collections.abc import Callable
from typing import Final

from app import interrupts, telemetry

ENDING: Final = (signal.SIGTERM, signal.SIGINT)


def stopping(stop: Callable[[], None]) -> None:
    """Call ``stop`` in a separate thread when a signal ends the process."""
    arrived = interrupts.pipe(*ENDING)

    def wait() -> None:
        os.read(arrived, 1)
        stop()

    telemetry.loops.Loop("signals", wait).start()
