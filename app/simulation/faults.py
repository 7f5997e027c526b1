"""What goes wrong between a client and an API server, on demand."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from app.simulation import requests


class Kind(Enum):
    """What happens to a request."""

    FAIL = auto()
    """It is answered with an error status."""
    DROP = auto()
    """The connection is closed before anything is done; or a proxy answers with a status."""
    LOSE = auto()
    """It takes effect, and the connection is closed without an answer; or a proxy answers with a status."""
    STALL = auto()
    """Nothing happens until the stall is released; a watch stays open and silent."""
    CUT = auto()
    """A watch is opened, sends one change, and the connection breaks."""
    RAW = auto()
    """It is answered with given bytes, status line and all, and the connection is closed."""


@dataclass
class Fault:
    """One kind of trouble for the requests that match, a number of times."""

    kind: Kind
    matches: Callable[[requests.Request], bool]
    times: int
    status: int = 500
    retry_after: int = 0
    answered: int = 0
    """The status of a proxy that answers instead; 0: the connection is closed."""
    raw: bytes = b""
    released: threading.Event = field(default_factory=threading.Event)
    struck: int = 0
    """How many requests it has met."""


class Faults:
    """The faults of a server, oldest first."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(
        self,
        kind: Kind,
        matches: Callable[[requests.Request], bool],
        *,
        times: int = 1,
        status: int = 500,
        retry_after: int = 0,
        answered: int = 0,
        raw: bytes = b"",
    ) -> Fault:
        """Let the next ``times`` matching requests go wrong."""
        fault = Fault(
            kind, matches, times, status=status, retry_after=retry_after, answered=answered, raw=raw
        )
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """End all trouble, and release what is stalled."""
        with self._lock:
            for fault in self._faults:
                fault.released.set()
            self._faults.clear()

    def meet(self, request: requests.Request) -> Fault | None:
        """The fault that this request runs into."""
        with self._lock:
            for fault in self._faults:
                if fault.struck < fault.times and fault.matches(request):
                    fault.struck += 1
                    return fault
        return None


def watches(resource: str) -> Callable[[requests.Request], bool]:
    """Requests that watch the resource."""
    return lambda request: request.path.endswith(f"/{resource}") and request.watches


def lists(resource: str) -> Callable[[requests.Request], bool]:
    """Requests that list the resource."""
    return lambda request: (
        request.method == "GET" and request.path.endswith(f"/{resource}") and not request.watches
    )


def calls(method: str, ending: str) -> Callable[[requests.Request], bool]:
    """Requests by method and the end of their path."""
    return lambda request: request.method == method and request.path.endswith(ending)
