"""Sends a response that is produced while it is sent: one thread for each stream.

The producer yields an empty piece at least every second, so that a client that has hung up is noticed. A
client that does not read is closed after the deadline of an answer, and nothing is buffered for it beyond its
socket: a producer that reads from the log only falls behind.
"""

import contextlib
import time
from collections.abc import Callable

import structlog

from app.serving.http import connections, fast_path

log = structlog.get_logger(__name__)


def send(
    conn: connections.Connection, begun: fast_path.StreamBegun, keep_running: Callable[[], bool]
) -> None:
    """Send a stream until it ends, the client hangs up, the connection is too old, or the process stops."""
    close = getattr(begun.pieces, "close", None)
    try:
        conn.sock.settimeout(conn.limits.answer)
        conn.sock.sendall(begun.head)
        for piece in begun.pieces:
            if piece:
                conn.sock.sendall(piece)
            # A client of a stream sends nothing more: readable means that it has hung up.
            if not keep_running() or time.monotonic() >= conn.ends or conn.wait_readable(0):
                break
    except (OSError, ValueError) as error:
        log.debug("the stream ended", reason=str(error))
    except Exception:
        log.exception("the stream failed")
    finally:
        if close is not None:
            with contextlib.suppress(OSError):
                close()
