"""Whether the log and the decision records take too much of the store's memory, and what follows from it."""

import time
from collections.abc import Callable

from app import settings, telemetry
from app.store import weighing

EVERY = 10.0
"""Seconds between two weighings: each takes the server milliseconds for a large log."""
_SOON = 0.1
"""Seconds between two looks at the memory at least."""
_STEPS = 8
"""Checkpoints of a log that is as large as it may be: so much of it goes at a time."""
_LEAST = 64
"""Part of the server's memory that is not worth a checkpoint of its own, nor taken from decision records."""


class Weigher:
    """The weight of one cluster's store against what it may be; used by one thread."""

    def __init__(
        self,
        scale: weighing.Scale,
        options: settings.Compaction,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scale = scale
        self._options = options
        self._monotonic = monotonic
        self._looked: float | None = None
        self._weighed: float | None = None
        self._covered: int | None = None
        """Bytes of the log up to the newest checkpoint; None if that is older than this process."""
        self.memory = weighing.Memory(0, 0)
        self.log = 0
        """Bytes of the log when it was last weighed."""
        self.pause = EVERY
        """Seconds after which to look again: at the present pace half of what is free is used by then."""
        self.pressed = False
        """So much of the server's memory is used that events and decisions must go."""

    @property
    def excessive(self) -> bool:
        """The log must get shorter, whatever ``compaction.keep`` says."""
        return self.pressed or self.log > self._options.keep_bytes

    def turn(self) -> None:
        """Look at the memory, and weigh what is due. Raises StoreAway."""
        before, since = self.memory.used, self._looked
        self._look()
        self._looked = now = self._monotonic()
        grown, jump = self.memory.used - before, self.memory.limit // _LEAST
        self.pause = EVERY
        if grown > 0 and self.memory.limit and since is not None:
            free = max(0, self.memory.limit - self.memory.used)
            self.pause = max(_SOON, (now - since) * free / grown / 2)
        if self._weighed is None or now - self._weighed >= EVERY or self.pressed or 0 < jump < grown:
            self._weighed = now
            self.weigh()
            self._cut(self._options.decision_bytes)

    def weigh(self) -> None:
        """Weigh the log, and look at the memory again. Raises StoreAway."""
        self.log = self._scale.log()
        telemetry.metrics.LOG_BYTES.set(self.log)
        self._look()

    def due(self, newest: int) -> bool:
        """Whether the log has grown enough for a checkpoint; ``newest``: bytes of the last one, or 0."""
        step = min(self._options.keep_bytes, self.memory.limit or self._options.keep_bytes) // _STEPS
        if self.pressed:
            step = self.memory.limit // _LEAST
        if self._covered is None:
            self._covered = self.log if newest else 0
        return self.log - self._covered >= max(step, newest, 1)

    def checkpointed(self) -> None:
        """A checkpoint was made at the head."""
        self._covered = self.log

    def trimmed(self, *, whole: bool) -> None:
        """The log was trimmed; ``whole``: up to the newest checkpoint. Raises StoreAway."""
        before = self.log
        self.weigh()
        self._covered = 0 if whole else max(0, (self._covered or 0) - max(0, before - self.log))

    def relieve(self) -> bool:
        """Remove a quarter of the decision records if memory is short; whether any went. Raises StoreAway."""
        taken = self._scale.decisions()
        return self.pressed and taken > self.memory.limit // _LEAST and self._cut(taken * 3 // 4)

    def _cut(self, most: int) -> bool:
        removed = self._scale.cut_decisions(most)
        telemetry.metrics.DECISIONS_BYTES.set(self._scale.decisions())
        if removed:
            telemetry.metrics.DECISIONS_TRIMMED.inc(removed)
            telemetry.log.info("trimmed decision records", removed=removed, bytes=most)
            self._look()
        return removed > 0

    def _look(self) -> None:
        self.memory = memory = self._scale.memory()
        telemetry.metrics.MEMORY_USED.set(memory.share)
        pressed = memory.share >= self._options.memory
        if pressed and not self.pressed:
            telemetry.log.warning(
                "the store's memory is short: more is trimmed than compaction.keep says", used=str(memory)
            )
        elif self.pressed and not pressed:
            telemetry.log.info("the store's memory is no longer short", used=str(memory))
        self.pressed = pressed
