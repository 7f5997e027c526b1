"""Faults between a client and the simulated API server."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from app.simulation.apiserver import requests


class FaultKind(Enum):
    """The effect of a fault on a request."""

    FAIL = auto()
    """The server replies with an error status."""
    DROP = auto()
    """The request is lost: the connection is closed, or a proxy replies with a status."""
    LOSE = auto()
    """The reply is lost: the request takes effect, and the connection is closed or a proxy replies."""
    STALL = auto()
    """The server does nothing until the fault is released; a watch stays open and silent."""
    CUT = auto()
    """A watch sends one change, then the connection is closed."""
    RAW = auto()
    """The reply is the given bytes, status line included; then the connection is closed."""


@dataclass
class Fault:
    """A fault for the next ``times`` matching requests."""

    kind: FaultKind
    matches: Callable[[requests.Request], bool]
    times: int
    status: int = 500
    retry_after: int = 0
    proxy_status: int = 0
    """The status of a proxy's reply; 0: the connection is closed instead."""
    raw: bytes = b""
    released: threading.Event = field(default_factory=threading.Event)
    struck: int = 0
    """Number of requests that it affected."""


class Faults:
    """The faults of a server, oldest first. Thread-safe."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(
        self,
        kind: FaultKind,
        matches: Callable[[requests.Request], bool],
        *,
        times: int = 1,
        status: int = 500,
        retry_after: int = 0,
        proxy_status: int = 0,
        raw: bytes = b"",
    ) -> Fault:
        """Add a fault for the next ``times`` matching requests."""
        fault = Fault(
            kind, matches, times, status=status, retry_after=retry_after, proxy_status=proxy_status, raw=raw
        )
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Remove all faults and release stalled requests."""
        with self._lock:
            for fault in self._faults:
                fault.released.set()
            self._faults.clear()

    def take(self, request: requests.Request) -> Fault | None:
        """The fault that applies to this request, counted; None if no fault does."""
        with self._lock:
            for fault in self._faults:
                if fault.struck < fault.times and fault.matches(request):
                    fault.struck += 1
                    return fault
        return None


def watches(resource: str) -> Callable[[requests.Request], bool]:
    """Matches requests that watch the resource."""
    return lambda request: request.path.endswith(f"/{resource}") and request.watches


def lists(resource: str) -> Callable[[requests.Request], bool]:
    """Matches requests that list the resource."""
    return lambda request: (
        request.method == "GET" and request.path.endswith(f"/{resource}") and not request.watches
    )


def calls(method: str, ending: str) -> Callable[[requests.Request], bool]:
    """Matches requests by method and the end of the path."""
    return lambda request: request.method == method and request.path.endswith(ending)
