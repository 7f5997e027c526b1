"""A process at its limit of threads (``pids.max``, ``ulimit -u``)."""

import threading


def refuse(thread: threading.Thread) -> None:
    """Takes the place of ``Thread.start`` while the limit is reached."""
    raise RuntimeError("can't start new thread")
