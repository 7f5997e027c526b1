"""Logs in to a server by a URL, and does nothing else: whether it accepts a user's password."""

import urllib.parse
from typing import Any, Final

import redis
from redis import backoff, maint_notifications, retry

from app.store.server import connections, urls

_SECONDS: Final = 5.0


def try_login(url: str, authorities: str = "") -> None:
    """Log in as the user of a URL to one server, and close the connection.

    ``authorities`` are the trusted CAs in PEM, for ``rediss``; without any, those of the machine. Options of
    the URL are not used. Raises StoreAway if the server cannot be reached, and StoreError if it refuses the
    user.
    """
    parts = urllib.parse.urlsplit(url)
    given: dict[str, Any] = {
        "host": parts.hostname or "",
        "port": parts.port or 6379,
        "username": urllib.parse.unquote(parts.username or ""),
        "password": urllib.parse.unquote(parts.password or ""),
        "socket_timeout": _SECONDS,
        "socket_connect_timeout": _SECONDS,
        "retry": retry.Retry(backoff.NoBackoff(), 0),
        # Not every user has a permission beside that to log in.
        "driver_info": None,
        "maint_notifications_config": maint_notifications.MaintNotificationsConfig(enabled=False),
        "protocol": 2,
    }
    tls = parts.scheme == "rediss"
    kind: Any = redis.SSLConnection if tls else redis.Connection
    made = kind(**given, **({"ssl_ca_data": authorities or None, **urls.VERIFICATION} if tls else {}))
    with connections.translated():
        try:
            made.connect()
        finally:
            made.disconnect()
