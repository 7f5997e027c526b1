"""Opens ports, with retries while a predecessor that is exiting still uses them."""

import errno
import os
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import structlog

from app.serving import errors

T = TypeVar("T")

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
RETRY_SECONDS = 5.0
"""Seconds."""
_PAUSE = 0.1
_BACKLOG = 2048
"""Connections that wait to be accepted, at most; the system may allow fewer."""

log = structlog.get_logger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, of ``::`` for IPv4 as well; call it before the workers are forked.

    Raises OSError.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    listener.setblocking(False)
    return listener


def open_port(listen: Callable[[], T], place: str) -> T:
    """Call ``listen`` until the port is free. Raises PortTaken if it stays in use, and other OSErrors."""
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            return listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if time.monotonic() >= deadline:
                raise errors.PortTaken(f"cannot listen on {place}: {os.strerror(error.errno)}") from error
        time.sleep(_PAUSE)


def accept_failed(error: OSError, *, pause: float) -> None:
    """Continue after a failure of ``accept``, after a pause if resources are missing. Raises other errors."""
    if error.errno in OUT_OF_RESOURCES:
        # The listener stays readable: without a pause the loop would spin on the error.
        log.error("cannot accept a connection", reason=error.strerror)
        time.sleep(pause)
    elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
        raise error
