"""Lets SIGTERM end a block of a command as Ctrl-C does."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def by_sigterm() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, so that no process, file or key outlasts the block that made it."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
