"""A port that is taken is tried again for a while: mostly by a predecessor that is about to end."""

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from app.serving import errors

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds."""
_PAUSE = 0.1


def opened(listen: Callable[[], T], place: str) -> T:
    """What ``listen`` returns. Raises PortTaken if the port stays taken, and OSError for anything else."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if time.monotonic() >= deadline:
                raise errors.PortTaken(f"cannot listen on {place}: {error.strerror}") from error
        time.sleep(_PAUSE)
