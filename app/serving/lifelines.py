"""A worker ends with its master, at once: it would keep the ports that the next master has to open.

The master holds one end of a pipe and the workers wait at the other. The operating system closes the end of
a master that has ended, also one that was killed, on every system that has pipes. What a worker was doing is
resolved as after any crash.
"""

import os
import threading

from app import telemetry

ENDED = 1
"""Exit code of a worker that has lost its master."""


class Lifeline:
    """Made in the master; ``hold`` is called in each worker after its fork."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def hold(self) -> None:
        """End this process as soon as the master has ended."""
        os.close(self._writer)
        telemetry.loops.Loop("lifeline", self._wait, wait=threading.Event().wait).start()

    def _wait(self) -> None:
        while os.read(self._reader, 1):
            pass
        os._exit(ENDED)
