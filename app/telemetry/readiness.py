"""The answer to /readyz, and its metric, the same for every process."""

import threading
from collections.abc import Callable, Mapping

from prometheus_client import metrics as kinds

from app.telemetry import loops, metrics

EVERY = 5.0
"""Seconds between two runs of the checks."""
_PATIENCE = 1.0
"""Seconds to wait for a run of the checks at the end of the process; they may wait longer for the store."""

Checks = Callable[[], Mapping[str, str | None]]
"""Returns the problem of each check, None if it passes. May wait for a store that hangs, until a timeout."""

READY = metrics.declared(
    kinds.Gauge(
        "topolog_ready",
        "1 while this process is ready, 0 while a check of its `/readyz` fails.",
        ("process",),
        registry=None,
    ),
    *metrics.ALL,
)


class Readiness:
    """Runs the checks of this process, also where nothing probes it, and shows the last result as a metric.

    A scrape does not run them: it would wait for a store that hangs. Before the first result, and after
    checks that raised an error, the process is not ready. Runs may overlap: a result that is older than the
    one that is shown is dropped.
    """

    def __init__(self, process: str, checks: Checks) -> None:
        """``process``: its name in the metrics."""
        self._process = process
        self._checks = checks
        self._lock = threading.Lock()
        self._begun = 0
        """Runs that were begun."""
        self._shown = 0
        """The number of the run whose result the metric has."""
        self._loop = loops.repeated("readiness", self._step, longest=EVERY)

    def start(self) -> None:
        """Start the thread: after a fork, never before."""
        READY.labels(self._process).set(0)
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._loop.stop(timeout=_PATIENCE)

    def measure(self) -> Mapping[str, str | None]:
        """Run the checks, and set the metric; returns the problem of each."""
        with self._lock:
            self._begun += 1
            number = self._begun
        ready = False
        try:
            found = self._checks()
            ready = _passed(found)
        finally:
            self._show(number, ready=ready)
        return found

    def _show(self, number: int, *, ready: bool) -> None:
        with self._lock:
            if number > self._shown:
                self._shown = number
                READY.labels(self._process).set(float(ready))

    def _step(self) -> float:
        self.measure()
        return EVERY


def report(checks: Mapping[str, str | None]) -> tuple[int, bytes]:
    """Status and body; ``checks``: name -> problem, or None if the check passes."""
    lines = [f"[{'-' if problem else '+'}] {name}: {problem or 'ok'}" for name, problem in checks.items()]
    ready = _passed(checks)
    text = "\n".join([*lines, "ready" if ready else "not ready", ""])
    return 200 if ready else 503, text.encode()


def _passed(checks: Mapping[str, str | None]) -> bool:
    return not any(checks.values())
