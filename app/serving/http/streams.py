"""Sends a response that is produced while it is sent: one thread for each stream.

The producer yields an empty piece at least every second, so that a client that has hung up is noticed.
Nothing is buffered for a client beyond its socket: a producer that reads from the log only falls behind. A
client that makes the server wait for longer than the deadline of an answer within WINDOW bytes is closed: it
would keep what few streams may have, such as the one place of an export.
"""

import contextlib
import threading
import time
from collections.abc import Callable

import structlog

from app.serving.http import connections, deadlines, fast_path

WINDOW = 256 * 1024
"""Bytes that a client has the deadline of an answer to read: with 5 s, 52 kB per second."""

log = structlog.get_logger(__name__)


class _Late(Exception):
    """The client reads too slowly."""


class _Pace:
    """Sends pieces, and measures how long the client makes it wait."""

    def __init__(self, conn: connections.Connection) -> None:
        self._conn = conn
        self._begin()

    def _begin(self) -> None:
        self._sent, self._left = 0, self._conn.limits.answer

    def send(self, piece: bytes) -> None:
        """Send a piece. Raises _Late and OSError."""
        view = memoryview(piece)
        while view:
            started = time.monotonic()
            self._conn.sock.settimeout(self._left)
            try:
                sent = self._conn.sock.send(view[: deadlines.RECORD])
            except TimeoutError as error:
                raise _Late from error
            self._sent += sent
            self._left -= time.monotonic() - started
            if self._sent >= WINDOW:
                self._begin()
            elif self._left <= 0:
                raise _Late
            view = view[sent:]


def start(
    conn: connections.Connection,
    begun: fast_path.StreamBegun,
    run: Callable[[connections.Connection, fast_path.StreamBegun], None],
) -> bool:
    """Run a stream in a thread of its own; return whether the thread could be started."""
    conn.state = connections.State.STREAMING
    try:
        threading.Thread(target=run, args=(conn, begun), name="stream", daemon=True).start()
    except RuntimeError as error:
        conn.state = connections.State.WORKING
        _close(begun)
        log.warning("a stream was refused", client=conn.client[0], problem=str(error))
        return False
    return True


def send(
    conn: connections.Connection, begun: fast_path.StreamBegun, keep_running: Callable[[], bool]
) -> bool:
    """Send a stream until it ends, the client hangs up, the connection is too old, or the process stops.

    Returns whether the client kept pace.
    """
    pace = _Pace(conn)
    try:
        pace.send(begun.head)
        for piece in begun.pieces:
            pace.send(piece)
            # A client of a stream sends nothing more: readable means that it has hung up.
            if not keep_running() or time.monotonic() >= conn.ends or conn.wait_readable(0):
                break
    except _Late:
        log.info("a stream was ended: its client reads too slowly", client=conn.client[0])
        return False
    except (OSError, ValueError) as error:
        log.debug("the stream ended", reason=str(error))
    except Exception:
        log.exception("the stream failed")
    finally:
        _close(begun)
    return True


def _close(begun: fast_path.StreamBegun) -> None:
    """Let the producer of a stream end."""
    closing = getattr(begun.pieces, "close", None)
    if closing is not None:
        with contextlib.suppress(OSError):
            closing()
