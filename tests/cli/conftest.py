"""What all tests of commands share."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def interruptible() -> Iterator[None]:
    """Start processes that SIGINT ends, although a shell that runs tests in the background ignores it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)
