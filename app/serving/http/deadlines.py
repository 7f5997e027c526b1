"""Deadlines for each part of a call.

A timeout per read does not stop a client that sends one byte per second. Each part therefore has one fixed
deadline from its start. The worker's event loop enforces it; no thread waits for it.
"""

import dataclasses
from typing import Final

RECORD: Final = 16 * 1024
"""Size of a TLS record in bytes: a larger read only makes Python allocate unused memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds for each part of a call."""

    handshake: float = 3.5
    head: float = 3.5
    """From the first byte of a head, and of a caller without any role from its handshake."""
    body: float = 5.0
    """kube-scheduler's default timeout of a whole call is 5 s."""
    answer: float = 5.0
    """Time that the client may take to read a response."""
    idle: int = 120
    """Longer than the 90 s after which Go closes an idle connection: closing first could cut off a call."""
    age: float = 3600.0
    """Age after which the next response closes a connection. Certificates are verified only in the handshake:
    a revoked or expired one remains valid on an open connection."""
    closing: float = 1.0
    """Time that a client has to read the last response."""
    queued: float = 2.0
    """Time that a call with a large body may wait for memory."""
    stopping: float = 2.0
    """Time that a stopping process keeps an idle connection, for a request that was sent already."""
