"""Waiting for a cluster to come to a state, and watching that it stays there.

A condition is any callable; what it returned last is shown when it fails, so let it return the
state itself where that says more than a truth value.
"""

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

import urllib3

from tests.e2e import clients, processes

T = TypeVar("T")


def eventually(
    condition: Callable[[], T],
    what: str,
    *,
    within: float = 10.0,
    every: float = 0.05,
    seen: Callable[[], object] | None = None,  # what to show on failure instead of the last value
) -> T:
    """Return the first true value of `condition`; fail, saying `what` was awaited, after `within`."""
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            shown = seen() if seen else value
            raise AssertionError(f"not within {within:g} s: {what}; last seen: {shown!r}")
        time.sleep(every)


def throughout(
    condition: Callable[[], object],
    what: str,
    *,
    during: float,
    every: float = 0.05,
) -> None:
    """Fail as soon as `condition` is false, at any look within the next `during` seconds."""
    started = time.monotonic()
    while (passed := time.monotonic() - started) < during:
        value = condition()
        assert value, f"no longer so after {passed:.1f} s: {what}; seen: {value!r}"
        time.sleep(every)


def ready(process: processes.Process, answers: Callable[[], object], *, within: float = 60) -> None:
    """Return once a process answers; fail with its last words if it ends before."""

    def looked() -> bool:
        assert process.running, f"{process.name} ended with {process.code}:\n{process.tail()}"
        with contextlib.suppress(urllib3.exceptions.HTTPError, clients.ApiError, OSError):
            return bool(answers())
        return False

    eventually(looked, f"{process.name} is ready", within=within, seen=process.tail)
