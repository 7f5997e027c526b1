"""Opens ports, with retries while a predecessor that is exiting still uses them."""

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from app.serving import errors

T = TypeVar("T")

RETRY_SECONDS = 5.0
"""Seconds."""
_PAUSE = 0.1


def open_port(listen: Callable[[], T], place: str) -> T:
    """Call ``listen`` until the port is free. Raises PortTaken if it stays in use, and other OSErrors."""
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            return listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if time.monotonic() >= deadline:
                raise errors.PortTaken(f"cannot listen on {place}: {error.strerror}") from error
        time.sleep(_PAUSE)
