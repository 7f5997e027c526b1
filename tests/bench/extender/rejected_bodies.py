"""The time to reject a body that is crafted to be expensive to decode."""

import contextlib
import time

from app.api.extender import strict_json
from tests.support.extender import hostile_bodies

SIZES = 4 * 1024**2, strict_json.MAX_BYTES
"""The largest body of a call with names, and the largest JSON that is decoded whole."""


def measure_refusals() -> float:
    """Milliseconds of CPU of the worst body at the slowest verb; the best of three."""
    return max(
        min(_seconds(read, body) for _ in range(3)) * 1000
        for size in SIZES
        for body in (hostile.make(size) for hostile in hostile_bodies.BODIES.values())
        for read in hostile_bodies.READS.values()
    )


def _seconds(read: hostile_bodies.Read, body: bytes) -> float:
    began = time.process_time()
    with contextlib.suppress(strict_json.BadRequest):
        read(body)
    return time.process_time() - began
