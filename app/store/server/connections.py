"""Opens connections from a URL; retries are the caller's decision.

redis-py repeats commands by default after a lost reply, which executes a command twice that is not
idempotent: here a command is repeated only if the caller declares it safe. Every
connection finds its server again (discovery), so a failover ends in StoreAway and then in success.
"""

import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol, cast

import hiredis
import redis
from redis import backoff, exceptions, maint_notifications, retry

from app.settings import store_urls
from app.store import errors, keys
from app.store.server import discovery, urls

_LEAST_SECONDS = 0.01
Packed = Sequence[bytes]
Reply = object
"""bytes, int, None, or a list of replies."""

_AWAY = ("MISCONF", "NOREPLICAS", "BUSY", "UNBLOCKED")
"""Error codes of a server that refuses work for now."""
_AWAY_CLASSES = (
    exceptions.OutOfMemoryError,
    exceptions.MasterDownError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
)
"""The same, where redis-py has made a class of the code and cut it off."""


def connect(url: str, *, timeout: float = 1.0, names: keys.Keys | None = None) -> redis.Redis:
    """A client for the URL; ``timeout`` bounds connecting and each wait for a reply, in seconds.

    ``names`` are the keys to use, which select the node of a Redis Cluster. Raises
    StoreError if the URL is invalid or names a file that cannot be read; nothing is connected yet.
    """
    target = urls.parse(url)
    _require_files(target.options)
    options = dict(target.options) | {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": retry.Retry(backoff.NoBackoff(), 0),
        "health_check_interval": 0,
        # No CLIENT SETINFO and no maintenance notifications: the users lack both permissions.
        "driver_info": None,
        "maint_notifications_config": maint_notifications.MaintNotificationsConfig(enabled=False),
    }
    if target.kind == "unix":
        return _client(redis.UnixDomainSocketConnection, options)
    return _client(discovery.discovering(_finder(target, names), tls=target.tls), options)


def _require_files(options: Mapping[str, Any]) -> None:
    """Raise StoreError for a missing file: a connection that fails for it looks like a store that is away."""
    for name in store_urls.FILES:
        path = options.get(name)
        try:
            if path:
                pathlib.Path(path).open("rb").close()
        except OSError as problem:
            raise errors.StoreError(
                f"store.url names {path} in {name}, which cannot be read: {problem.strerror}; name a file"
                " that this process may read"
            ) from problem


def primaries(client: redis.Redis) -> Iterator[redis.Redis]:
    """A client for each server that needs the functions: every node with slots, else this one."""
    finder = discovery.finder_of(client)
    if not isinstance(finder, discovery.SlotOwner):
        yield client
        return
    pool = client.connection_pool
    for address in finder.primaries():
        kind = discovery.discovering(
            discovery.Fixed(address),
            tls=issubclass(pool.connection_class, discovery.DiscoveringTlsConnection),
        )
        with _client(kind, pool.connection_kwargs) as made:
            yield made


def _client(
    kind: type[redis.Connection] | type[redis.UnixDomainSocketConnection], options: Mapping[str, Any]
) -> redis.Redis:
    return redis.Redis.from_pool(redis.ConnectionPool(connection_class=kind, **options))


def _finder(target: urls.Target, names: keys.Keys | None) -> discovery.Finder:
    if target.kind == "sentinel":
        return discovery.Sentinels(target)
    if target.kind == "cluster":
        if names is None:
            raise errors.StoreError(
                "in a Redis Cluster every Kubernetes cluster has its node: name the cluster"
            )
        return discovery.SlotOwner(target, names.prefix)
    return discovery.Fixed(target.addresses[0])


@contextmanager
def translated() -> Iterator[None]:
    """Translate redis' errors into those of this package."""
    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise translate(error) from error


def translate(error: redis.RedisError | OSError) -> errors.StoreError:
    """The error of this package for an error of the client library."""
    text = str(error)
    if isinstance(error, redis.AuthenticationError):
        return errors.StoreError(f"the store refuses the credentials: {text}")
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | redis.ReadOnlyError | OSError):
        return errors.away(text)
    if isinstance(error, _AWAY_CLASSES) or text.startswith(_AWAY):
        return errors.StoreAway(f"the store refuses work for now: {text}")
    if isinstance(error, exceptions.NoPermissionError):
        return errors.Denied(f"the store's user may not do this (`topolog doctor users`): {text}")
    if text.startswith("WRONGTYPE"):
        return errors.StoreError(f"a key of the store is of another type, see `topolog doctor store`: {text}")
    if "equal or smaller than the target stream top item" in text:
        return errors.StoreError(
            "nothing can be appended, because another program wrote to the log:"
            " `topolog doctor store --repair-tail` shows and removes it"
        )
    if "Function not found" in text:
        return errors.SchemaMismatch("the store does not have the functions: run `topolog migrate up`")
    return errors.StoreError(f"the store failed: {text}")


def milliseconds(time: tuple[bytes | str | int, bytes | str | int]) -> int:
    """The reply of TIME, seconds and microseconds since 1970, in milliseconds."""
    return 1000 * int(time[0]) + int(time[1]) // 1000


def text(value: bytes | str) -> str:
    """A reply as text, whether or not the client decodes replies; bytes that are not text are escaped."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


class _Connection(Protocol):
    """The used part of redis-py's connections, which are untyped."""

    socket_timeout: float
    socket_connect_timeout: float

    def send_packed_command(self, command: Packed) -> None: ...
    def read_response(self, *, timeout: float | object = ...) -> Reply: ...
    def disconnect(self) -> None: ...


_pack: Callable[[tuple[str | bytes | int, ...]], bytes] = cast(Any, hiredis.pack_command)
"""Declared by hiredis for tuples of one item."""


class Wire:
    """One connection for one thread at a time, without the overhead of a pooled client per command."""

    def __init__(self, client: redis.Redis) -> None:
        self._pool = client.connection_pool
        self._timeout: float = self._pool.connection_kwargs["socket_timeout"]
        self.open = False
        """The last exchange went well: sending now will not have to connect first."""

    @cached_property
    def _connection(self) -> _Connection:
        # Created when first used: even an unconnected one costs milliseconds. Not by the pool's own
        # method, which counts each one against a limit permanently.
        made: _Connection = self._pool.connection_class(**self._pool.connection_kwargs)
        return made

    @staticmethod
    def pack(*arguments: str | bytes | int) -> Packed:
        """A command as the bytes to send, for sending more than once."""
        # Not by redis-py, which visits every argument in Python before it calls the same function.
        return (_pack(arguments),)

    def send(self, packed: Packed, *, timeout: float | None = None) -> None:
        """Send without waiting for the reply.

        ``timeout`` (seconds) bounds each wait of connecting, together with the search for the server.
        """
        connection = self._connection
        if not self.open:
            # A server may accept a connection and not reply to the authentication.
            limit = self._timeout if timeout is None else min(self._timeout, timeout)
            connection.socket_timeout = connection.socket_connect_timeout = limit
        try:
            connection.send_packed_command(packed)
        except (redis.RedisError, OSError) as error:
            raise self._given_up(error) from error

    def leave_former_server(self) -> None:
        """Close the connection if the store is known to have moved since it was opened.

        Only between sequences: later reads of one rely on what the same server has replied to the first.
        """
        if self.open and getattr(self._connection, "outdated", False):
            self.close()

    def receive(self, *, timeout: float | None = None) -> Reply:
        """The reply to the oldest command sent; ``timeout`` in seconds, the connection's own if None.

        After StoreAway the outcome of the command is unknown.
        """
        try:
            reply = self._connection.read_response(timeout=self._timeout if timeout is None else timeout)
            self.open = True
            return reply
        except redis.ResponseError as error:
            raise translate(error) from error
        except (redis.RedisError, OSError) as error:
            raise self._given_up(error) from error

    def ask(self, packed: Packed, *, timeout: float | None = None) -> Reply:
        """Send and wait."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self.send(packed, timeout=timeout)
        if deadline is not None:
            timeout = max(_LEAST_SECONDS, deadline - time.monotonic())
        return self.receive(timeout=timeout)

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        self.open = False
        if "_connection" in self.__dict__:
            self._connection.disconnect()

    def _given_up(self, error: redis.RedisError | OSError) -> errors.StoreError:
        # After a broken exchange, replies would no longer match their commands.
        self.close()
        return translate(error)
