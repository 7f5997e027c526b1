"""Connections to the simulated API server: real request bytes in, reply bytes out.

Either end may close one, and the server may carry out a request without a reply. The peer decides about a
request; app.kube.client.fast_client itself sends, repeats and reads it.
"""

import io
from collections.abc import Callable

from app.kube import errors
from app.kube.client import fast_client
from app.simulation.apiserver import requests
from tests.support.kube import plain_access
from tests.support.simulation import virtual_time

ACCESS = plain_access.of("http://simulated")
Answer = tuple[int, bytes]


class Closed(Exception):
    """The server closes the connection without a reply."""


class Silent(Exception):
    """The server neither replies nor closes the connection."""


Peer = Callable[[requests.Request, float], Answer]
"""(request, seconds that the client waits) -> reply; raises Closed or Silent."""


class Connection:
    """One connection (fast_client.Socket) to a peer."""

    def __init__(self, peer: Peer, clock: virtual_time.Clock) -> None:
        self._peer = peer
        self._clock = clock
        self._timeout = 0.0
        self._received = b""
        self._closed = False

    def settimeout(self, value: float, /) -> None:
        self._timeout = value

    def setsockopt(self, level: int, name: int, value: bytes, /) -> None:
        pass

    def sendall(self, data: bytes, /) -> None:
        request = requests.read(io.BytesIO(data))
        assert request is not None
        try:
            status, body = self._peer(request, self._timeout)
        except Closed:
            self._closed = True
        except Silent:
            pass
        else:
            self._received = b"HTTP/1.1 %d Simulated\r\nContent-Length: %d\r\n\r\n%s" % (
                status,
                len(body),
                body,
            )

    def recv(self, size: int, /) -> bytes:
        if self._received:
            data, self._received = self._received[:size], self._received[size:]
            return data
        if self._closed:
            return b""
        self._clock.advance(self._timeout)
        raise TimeoutError("simulated: no answer")

    def close(self) -> None:
        self._closed = True


class FastClient(fast_client.FastClient):
    """Connections to a peer that are kept open."""

    def __init__(self, peer: Peer, clock: virtual_time.Clock, reach: Callable[[], None]) -> None:
        """``reach`` raises Unreachable while connections fail."""
        super().__init__(ACCESS)
        self._peer = peer
        self._clock = clock
        self._reach = reach

    def _connect(self, deadline: float) -> fast_client.Socket:
        self._reach()
        return Connection(self._peer, self._clock)


def refused() -> errors.Unreachable:
    """The error of a refused connection."""
    return errors.Unreachable("simulated: connection refused", refused=True)
