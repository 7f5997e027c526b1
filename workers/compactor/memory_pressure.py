"""Measures the memory that the log and the decision records take, and limits it."""

import time
from collections.abc import Callable

from app import settings, telemetry
from app.store.server import memory_use

EVERY = 10.0
"""Seconds between two measurements of the log, which take the server milliseconds if the log is large."""
_MIN_PAUSE = 0.1
"""Minimum seconds between two measurements of the memory."""
_STEPS = 8
"""Checkpoints in a log of the maximum size; trimming removes the entries between two of them at a time."""
_MIN_SHARE = 64
"""A 64th of the server's memory is the least that justifies a checkpoint or trimming decision records."""


class MemoryPressure:
    """The memory of one cluster's store against its limits; used by one thread."""

    def __init__(
        self,
        scale: memory_use.MemoryUse,
        options: settings.Compaction,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scale = scale
        self._options = options
        self._monotonic = monotonic
        self._measured: float | None = None
        self._log_measured: float | None = None
        self._covered: int | None = None
        """Bytes of the log up to the newest checkpoint; None if that is older than this process."""
        self.memory = memory_use.Memory(0, 0)
        self.log = 0
        """Bytes of the log at its last measurement."""
        self.pause = EVERY
        """Seconds until the next measurement: at the present rate half of the free memory is used by then."""
        self.pressed = False
        """Memory use is above compaction.memory: events and decision records must be trimmed."""

    @property
    def excessive(self) -> bool:
        """The log must be trimmed below ``compaction.keep``."""
        return self.pressed or self.log > self._options.keep_bytes

    def run_once(self) -> None:
        """Measure the memory, and the log if that is due. Raises StoreAway."""
        before, since = self.memory.used, self._measured
        self._measure()
        self._measured = now = self._monotonic()
        grown, jump = self.memory.used - before, self.memory.limit // _MIN_SHARE
        self.pause = EVERY
        if grown > 0 and self.memory.limit and since is not None:
            free = max(0, self.memory.limit - self.memory.used)
            self.pause = max(_MIN_PAUSE, (now - since) * free / grown / 2)
        if (
            self._log_measured is None
            or now - self._log_measured >= EVERY
            or self.pressed
            or 0 < jump < grown
        ):
            self._log_measured = now
            self.measure_log()
            self._cut(self._options.decision_bytes)

    def measure_log(self) -> None:
        """Measure the log, and the memory again. Raises StoreAway."""
        self.log = self._scale.log()
        telemetry.metrics.LOG_BYTES.set(self.log)
        self._measure()

    def due(self, newest: int) -> bool:
        """Whether the log has grown enough for a checkpoint; ``newest``: bytes of the newest one, or 0."""
        step = min(self._options.keep_bytes, self.memory.limit or self._options.keep_bytes) // _STEPS
        if self.pressed:
            step = self.memory.limit // _MIN_SHARE
        if self._covered is None:
            self._covered = self.log if newest else 0
        return self.log - self._covered >= max(step, newest, 1)

    def checkpointed(self) -> None:
        """A checkpoint was taken at the head."""
        self._covered = self.log

    def trimmed(self, *, whole: bool) -> None:
        """The log was trimmed; ``whole``: up to the newest checkpoint. Raises StoreAway."""
        before = self.log
        self.measure_log()
        self._covered = 0 if whole else max(0, (self._covered or 0) - max(0, before - self.log))

    def relieve(self) -> bool:
        """Trim a quarter of the decision records if memory is short; true if any went. Raises StoreAway."""
        taken = self._scale.decisions()
        return self.pressed and taken > self.memory.limit // _MIN_SHARE and self._cut(taken * 3 // 4)

    def _cut(self, limit: int) -> bool:
        removed = self._scale.cut_decisions(limit)
        telemetry.metrics.DECISIONS_BYTES.set(self._scale.decisions())
        if removed:
            telemetry.metrics.DECISIONS_TRIMMED.inc(removed)
            telemetry.log.info("trimmed decision records", removed=removed, bytes=limit)
            self._measure()
        return removed > 0

    def _measure(self) -> None:
        self.memory = memory = self._scale.memory()
        telemetry.metrics.MEMORY_USED.set(memory.used)
        telemetry.metrics.MEMORY_LIMIT.set(memory.limit)
        pressed = memory.share >= self._options.memory
        if pressed and not self.pressed:
            telemetry.log.warning(
                "the store is short of memory; trimming below compaction.keep", used=str(memory)
            )
        elif self.pressed and not pressed:
            telemetry.log.info("the store has enough memory again", used=str(memory))
        self.pressed = pressed
