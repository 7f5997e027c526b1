"""Ends a worker as soon as its master exits, so that the next master can open its ports.

The master holds the write end of a pipe and each worker blocks on the read end. The operating system closes
the write end when the master exits, even if it was killed. Calls in flight are resolved as after a crash.
"""

import os

from app import telemetry

ENDED = 1
"""Exit code of a worker whose master has exited."""


class ParentWatch:
    """Created in the master; ``watch`` is called in each worker after the fork."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def watch(self) -> None:
        """Exit this process as soon as the master has exited."""
        os.close(self._writer)
        telemetry.loops.Loop("parent-watch", self._wait).start()

    def _wait(self) -> None:
        while os.read(self._reader, 1):
            pass
        os._exit(ENDED)
