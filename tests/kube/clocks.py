"""Time that passes only where somebody waits."""

from collections.abc import Callable


class VirtualClock:
    """Waiting costs nothing and is remembered; `meanwhile` may do something at each waiting."""

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
