"""Lowers the priority of a process that shares a machine with the process that answers the verbs."""

import contextlib
import os
import sys
from typing import Final

NICENESS: Final = 10
"""Used where SCHED_IDLE is not available."""


def lower(niceness: int = NICENESS, *, idle: bool = True) -> None:
    """Raise the niceness of this process, and if ``idle``, run it only in otherwise idle CPU time.

    Niceness alone is not enough: Linux lets a process finish its time slice of a few milliseconds, which is
    longer than a call of a verb. Only SCHED_IDLE is preempted at once. Child processes inherit both.
    """
    os.nice(niceness)
    if idle and sys.platform == "linux":
        # A container may forbid it; then only the niceness applies.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
