"""A monotonic clock that tests can replace, and the one spelling of times of day."""

import datetime
import threading
import time
from typing import Literal, Protocol


class Clock(Protocol):
    """Monotonic time, and waiting that can be interrupted."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait so many seconds; returns true, without waiting further, once the clock is stopped."""
        ...


class RealClock:
    """The machine's monotonic clock."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def monotonic(self) -> float:
        """See Clock."""
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        """See Clock."""
        return self._stopped.wait(seconds)

    def stop(self) -> None:
        """Interrupt the current wait and every later one."""
        self._stopped.set()


def rfc3339(since_1970: float, digits: Literal["seconds", "milliseconds", "microseconds"] = "seconds") -> str:
    """A time in UTC as the API server writes it, of seconds since 1970; it is cut to the digits."""
    moment = datetime.datetime.fromtimestamp(since_1970, datetime.UTC)
    return moment.isoformat(timespec=digits).replace("+00:00", "Z")
