"""A line that repeats is written once, and then counted.

Warnings and errors only: of those with the same event text, an equal one is written once in a window, and
of different ones the first few. What was left out is one line at the end of the window, with ``repeated``.
"""

import os
import threading
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

WINDOW: Final = 60.0
"""Seconds in which equal lines are counted."""
MOST: Final = 20
"""Different lines of one event text that are written in a window."""
_LEVELS: Final = frozenset(("warning", "error", "critical"))

Write = Callable[[str, str, int], object]
"""Writes the line that counts: level, event text, number."""


@dataclass
class _Window:
    written: set[str] = field(default_factory=set)
    left_out: int = 0


class Repeats:
    """A processor of structlog that drops lines; may be called by any thread."""

    def __init__(self, write: Write, *, window: float = WINDOW, most: int = MOST) -> None:
        self._write = write
        self._length = window
        self._most = most
        self._begin()
        # Locks and threads of the parent are not those of the child.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str], _Window] = {}
        self._ends: dict[tuple[str, str], float] = {}
        self._wakes = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(
        self, logger: object, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """The line as it is; raises DropEvent if it is only counted."""
        if method not in _LEVELS or "repeated" in event:
            return event
        text = str(event.get("event", ""))
        told = repr(sorted((name, repr(value)) for name, value in event.items()))
        with self._lock:
            of = (method, text)
            window = self._windows.get(of)
            if window is None:
                window = self._windows[of] = _Window()
                self._ends[of] = time.monotonic() + self._length
                self._start()
            if told not in window.written and len(window.written) < self._most:
                window.written.add(told)
                return event
            window.left_out += 1
        raise structlog.DropEvent

    def flush(self, *, until: float = float("inf")) -> None:
        """Write the counts of the windows that end before a moment (monotonic seconds)."""
        with self._lock:
            over = [of for of, end in self._ends.items() if end <= until]
            counted = [(of, self._windows.pop(of).left_out) for of in over]
            for of in over:
                del self._ends[of]
        for (method, text), left_out in counted:
            if left_out:
                self._write(method, text, left_out)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log-repeats", daemon=True)
            self._thread.start()
        self._wakes.set()

    def _run(self) -> None:
        while True:
            self._wakes.wait()
            self._wakes.clear()
            while self._ends:
                with self._lock:
                    end = min(self._ends.values(), default=0.0)
                time.sleep(max(0.0, end - time.monotonic()))
                self.flush(until=time.monotonic())
