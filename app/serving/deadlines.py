"""How long a client may take over each part of a call.

A timeout for each read does not stop a client that sends one byte a second. So every part has one deadline,
fixed when it begins, whatever arrives meanwhile; the loop holds it (`accepting`), and no thread waits for it.
"""

import dataclasses
from typing import Final

RECORD: Final = 16 * 1024
"""What one TLS record holds: asking for more only makes Python allocate it in vain."""


@dataclasses.dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds for each part of a call, whatever the client sends meanwhile."""

    handshake: float = 3.5
    head: float = 3.5
    body: float = 5.0
    """kube-scheduler gives up on the whole call after 5 s, unless it is told otherwise."""
    answer: float = 5.0
    """For reading an answer, once it is there."""
    idle: int = 120
    """Longer than the 90 s after which Go closes an idle connection: who closes first can cut off a call."""
    age: float = 3600.0
    """After that a connection ends behind its next answer: who calls is found out in a handshake only, so a
    certificate that was revoked or has run out is good until then."""
    parting: float = 1.0
    """How long a client that is sent away with an answer has to read it."""
    crowded: float = 2.0
    """How long a call with a large body waits for its place."""
