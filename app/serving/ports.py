"""Opens ports, with retries while a predecessor that is exiting still uses them, and accepts connections."""

import errno
import os
import socket
import time
from typing import Any

import structlog

from app.serving import errors

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
RETRY_SECONDS = 5.0
"""Seconds."""
_PAUSE = 0.1
ACCEPT_PAUSE = 0.25
"""Seconds between attempts to accept a connection while resources are missing."""
_BACKLOG = 2048
"""Connections that wait to be accepted, at most; the system may allow fewer."""

log = structlog.get_logger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; call it before the workers are forked. Raises OSError.

    ``host`` is an address or a name; ``::`` accepts IPv4 as well. Empty: all interfaces of both families,
    or of IPv4 where the system has no IPv6.
    """
    both = socket.has_dualstack_ipv6()
    host = host or ("::" if both else "0.0.0.0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server(
        (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both and family == socket.AF_INET6
    )
    listener.setblocking(False)
    return listener


def open_port(setting: str, host: str, port: int) -> socket.socket:
    """Listen as soon as the port of this setting is free.

    Raises PortTaken if it stays in use, and BadOptions for an address that the machine does not have.
    """
    place = f"{setting} {host}:{port}"
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            return listen(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise errors.BadOptions(f"cannot listen on {place}: {error.strerror}") from error
            if time.monotonic() >= deadline:
                raise errors.PortTaken(f"cannot listen on {place}: {os.strerror(error.errno)}") from error
        time.sleep(_PAUSE)


def accept(listener: socket.socket) -> tuple[socket.socket, Any] | None:
    """Return a connection and the address of its client, or None if the loop has to select again.

    Without resources it returns after a pause. Raises OSError for a listener that cannot be used.
    """
    try:
        return listener.accept()
    except OSError as error:
        if error.errno in _OUT_OF_RESOURCES:
            # The listener stays readable: without a pause the loop would spin on the error.
            log.error("cannot accept a connection", reason=error.strerror)
            time.sleep(ACCEPT_PAUSE)
        elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
            raise
        return None
