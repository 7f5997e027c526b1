"""A clock whose time passes only while a test waits."""

from collections.abc import Callable


class VirtualClock:
    """Waiting returns at once and is recorded; `meanwhile(number of waits)` is called at each wait."""

    def __init__(self, meanwhile: Callable[[int], None] | None = None) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self.stopped = False
        self._meanwhile = meanwhile

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        if self._meanwhile is not None:
            self._meanwhile(len(self.waits))
        return self.stopped
