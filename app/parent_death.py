"""Ends child processes with their parent, however that ends.

A parent that is killed cannot stop its children: the kernel sends them a signal instead (Linux only).
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

_SET_PARENT_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def terminates() -> Callable[[], None] | None:
    """A ``preexec_fn`` of ``subprocess.Popen``: SIGTERM reaches the child when its parent ends.

    To the kernel the parent is the thread that starts the child: it must live as long as the child may run.
    None where the system has no such signal.
    """
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def bind() -> None:
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
        # The parent may have ended before.
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return bind
