"""Waits for a condition to hold, or checks that it keeps holding.

A condition is any callable. On failure its last value is shown, so it should return the state itself where
that is more informative than a truth value.
"""

import contextlib
import os
import time
from collections.abc import Callable
from typing import TypeVar

import urllib3

from tests.support import child_processes
from tests.support.e2e import api_client

T = TypeVar("T")
PATIENCE = float(os.environ.get("E2E_PATIENCE") or 1)
"""What all limits are multiplied by: more than 1 on a machine that does much else."""


def eventually(
    condition: Callable[[], T],
    what: str,
    *,
    within: float = 30.0,
    every: float = 0.05,
    seen: Callable[[], object] | None = None,  # what to show on failure instead of the last value
) -> T:
    """Return the first true value of `condition`; fail with `what` after `within` seconds (see PATIENCE)."""
    within *= PATIENCE
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            shown = seen() if seen else value
            raise AssertionError(f"timed out after {within:g} s: {what}; last value: {shown!r}")
        time.sleep(every)


def throughout(
    condition: Callable[[], object],
    what: str,
    *,
    during: float,
    every: float = 0.05,
) -> None:
    """Check `condition` for `during` seconds; fail as soon as it is false."""
    started = time.monotonic()
    while (passed := time.monotonic() - started) < during:
        value = condition()
        assert value, f"false after {passed:.1f} s: {what}; value: {value!r}"
        time.sleep(every)


def ready(process: child_processes.Process, answers: Callable[[], object], *, within: float = 60) -> None:
    """Return once a process is ready; fail with the end of its log if it ends first."""

    def check() -> bool:
        assert process.running, f"{process.name} ended with {process.code}:\n{process.tail()}"
        with contextlib.suppress(urllib3.exceptions.HTTPError, api_client.ApiError, OSError):
            return bool(answers())
        return False

    eventually(check, f"{process.name} is ready", within=within, seen=process.tail)
