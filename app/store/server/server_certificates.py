"""The certificate that a store shows over TLS, and its replacement without a restart.

A server reads its certificate when it starts. CONFIG SET with the path that it has already makes it read the
files again, for connections that are opened later.
"""

import socket
import ssl
from dataclasses import dataclass
from typing import Final

import redis
from redis import backoff, exceptions, maint_notifications, retry

from app.store import errors
from app.store.server import connections, discovery, urls

_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Server:
    """Where the server is, and what it is verified by."""

    host: str
    port: int
    authorities: str
    """The trusted CAs in PEM."""


def shown(server: Server) -> bytes:
    """The certificate that the server shows, in DER, verified.

    Raises StoreError for one that is not of a trusted CA, and StoreAway for any other failure: a server
    without TLS gets it by a restart.
    """
    try:
        context = ssl.create_default_context(cadata=server.authorities)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        with (
            socket.create_connection((server.host, server.port), _SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=server.host) as wrapped,
        ):
            return wrapped.getpeercert(binary_form=True) or b""
    except ssl.SSLCertVerificationError as error:
        raise errors.StoreError(f"{server.host}:{server.port}: {error}") from error
    except OSError as error:
        raise errors.away(f"{server.host}:{server.port}: {error}") from error


def expiry(client: redis.Redis) -> float | None:
    """POSIX time at which the certificate ends that the server shows to new connections; None without TLS.

    A connection that is open has the certificate of its handshake. Raises StoreError.
    """
    pool = client.connection_pool
    if not issubclass(pool.connection_class, discovery.DiscoveringTlsConnection):
        return None
    connection = pool.connection_class(**pool.connection_kwargs)
    with connections.translated():
        try:
            connection.connect()
            ends: float | None = connection.ends
        finally:
            connection.disconnect()
    return ends


def read_again(server: Server, *, user: str, password: str, path: str) -> None:
    """Make the server read its certificate and key again. Raises StoreError."""
    client = redis.Redis(
        server.host,
        server.port,
        username=user,
        password=password,
        ssl=True,
        ssl_ca_data=server.authorities,
        **urls.VERIFICATION,
        socket_timeout=_SECONDS,
        socket_connect_timeout=_SECONDS,
        retry=retry.Retry(backoff.NoBackoff(), 0),
        # The user has no other permission.
        driver_info=None,
        maint_notifications_config=maint_notifications.MaintNotificationsConfig(enabled=False),
        protocol=2,
    )
    with client, connections.translated():
        try:
            client.config_set("tls-cert-file", path)
        except exceptions.ResponseError as error:
            raise errors.StoreError(f"CONFIG SET tls-cert-file: {error}") from error
