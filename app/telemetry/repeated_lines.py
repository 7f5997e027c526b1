"""Suppresses repeated log lines and counts them.

Applies to warnings and errors. Of the lines with the same event text, equal lines are written once per
window, and only the first few different ones. The number of suppressed lines is written at the end of the
window, as ``repeated``, with the fields that all of them have in common.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

WINDOW: Final = 60.0
"""Length of a window in seconds."""
MAX_DISTINCT: Final = 20
"""Maximum number of different lines per event text and window."""
_LEVELS: Final = frozenset(("warning", "error", "critical"))
_NOT_SHOWN: Final = ("event", "exc_info", "stack_info")
_NO_VALUE: Final = object()

Write = Callable[[str, str, int, Mapping[str, Any]], object]
"""Writes the line with the count: level, event text, count, common fields."""


@dataclass
class _Window:
    written: set[str] = field(default_factory=set)
    suppressed: int = 0
    common: dict[str, Any] = field(default_factory=dict)
    """The fields that all suppressed lines have, beside the text."""

    def suppress(self, event: Mapping[str, Any]) -> None:
        """Count a line."""
        if self.suppressed:
            self.common = {
                name: value for name, value in self.common.items() if event.get(name, _NO_VALUE) == value
            }
        else:
            self.common = {name: value for name, value in event.items() if name not in _NOT_SHOWN}
        self.suppressed += 1


class RepeatFilter:
    """A structlog processor that drops repeated lines; thread-safe."""

    def __init__(self, write: Write, *, window: float = WINDOW, max_distinct: int = MAX_DISTINCT) -> None:
        self._write = write
        self._length = window
        self._max_distinct = max_distinct
        self._reset()
        # Locks and threads do not survive a fork.
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str], _Window] = {}
        self._ends: dict[tuple[str, str], float] = {}
        self._wakes = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(
        self, logger: object, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Return the line unchanged. Raises DropEvent if it is suppressed."""
        if method not in _LEVELS or "repeated" in event:
            return event
        if self._thread is None:
            self.flush(until=time.monotonic())
        text = str(event.get("event", ""))
        fingerprint = repr(sorted((name, repr(value)) for name, value in event.items()))
        with self._lock:
            key = (method, text)
            window = self._windows.get(key)
            if window is None:
                window = self._windows[key] = _Window()
                self._ends[key] = time.monotonic() + self._length
                self._wakes.set()
            if self._thread is None:
                self._start()
            if fingerprint not in window.written and len(window.written) < self._max_distinct:
                window.written.add(fingerprint)
                return event
            window.suppress(event)
        raise structlog.DropEvent

    def flush(self, *, until: float = float("inf")) -> None:
        """Write the counts of the windows that end by `until` (monotonic seconds)."""
        with self._lock:
            expired = [key for key, end in self._ends.items() if end <= until]
            counted = [(key, self._windows.pop(key)) for key in expired]
            for key in expired:
                del self._ends[key]
        for (method, text), window in counted:
            if window.suppressed:
                self._write(method, text, window.suppressed, window.common)

    def stop(self) -> None:
        """Write all counts and end the thread; the next line starts another one."""
        with self._lock:
            thread, self._thread = self._thread, None
        self._wakes.set()
        if thread is not None:
            thread.join()
        self.flush()

    def _start(self) -> None:
        """Start the thread. Where none can be started (``pids.max``), the next line tries again.

        Until then each line ends the windows that are over. Raises nothing: that no thread can be started is
        what many of these lines report.
        """
        thread = threading.Thread(target=self._run, name="log-repeats", daemon=True)
        with contextlib.suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._thread is not threading.current_thread():
                    return
                end = min(self._ends.values(), default=None)
            self._wakes.wait(None if end is None else max(0.0, end - time.monotonic()))
            self._wakes.clear()
            self.flush(until=time.monotonic())
