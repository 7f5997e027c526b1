"""From a URL to connections, with our own idea of retrying.

redis-py repeats commands by default after a lost answer, which counts twice what is not
idempotent: here nothing is repeated unless the caller can prove that it changes nothing. Every
connection finds its server anew (locating), so a failover ends in StoreAway and then in success.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

import redis
from redis import backoff, exceptions, maint_notifications, retry

from app.store import errors, keys, locating, urls

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
    """A client for the URL; ``timeout`` bounds connecting and each wait for an answer, in seconds.

    ``names`` says which cluster's keys it is for, which a Redis Cluster needs to know. Raises
    StoreError if the URL cannot be understood; nothing is connected yet.
    """
    target = urls.parse(url)
    options = dict(target.options) | {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": retry.Retry(backoff.NoBackoff(), 0),
        "health_check_interval": 0,
        # Neither introduces itself nor asks to be led by the server: users have no right to either.
        "driver_info": None,
        "maint_notifications_config": maint_notifications.MaintNotificationsConfig(enabled=False),
    }
    if target.kind == "unix":
        return _client(redis.UnixDomainSocketConnection, options)
    return _client(locating.led(_finder(target, names, timeout), tls=target.tls), options)


def primaries(client: redis.Redis) -> Iterator[redis.Redis]:
    """A client for each server that needs the functions: every node with slots, else this one."""
    finder = locating.finder_of(client)
    if not isinstance(finder, locating.Owner):
        yield client
        return
    pool = client.connection_pool
    for address in finder.primaries():
        kind = locating.led(locating.Fixed(address), tls=issubclass(pool.connection_class, locating.LedTls))
        with _client(kind, pool.connection_kwargs) as made:
            yield made


def _client(
    kind: type[redis.Connection] | type[redis.UnixDomainSocketConnection], options: Mapping[str, Any]
) -> redis.Redis:
    return redis.Redis.from_pool(redis.ConnectionPool(connection_class=kind, **options))


def _finder(target: urls.Target, names: keys.Keys | None, timeout: float) -> locating.Finder:
    if target.kind == "sentinel":
        return locating.Sentinels(target, timeout)
    if target.kind == "cluster":
        if names is None:
            raise errors.StoreError(
                "in a Redis Cluster every Kubernetes cluster has its node: name the cluster"
            )
        return locating.Owner(target, names.prefix, timeout)
    return locating.Fixed(target.addresses[0])


@contextmanager
def translated() -> Iterator[None]:
    """Redis' errors inside become ours."""
    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise translate(error) from error


def translate(error: redis.RedisError | OSError) -> errors.StoreError:
    """What an error of the client library means to us."""
    text = str(error)
    if isinstance(error, redis.AuthenticationError):
        return errors.StoreError(f"the store refuses our credentials: {text}")
    if isinstance(error, redis.ConnectionError | redis.TimeoutError | redis.ReadOnlyError | OSError):
        return errors.StoreAway(f"the store is away: {text}")
    if isinstance(error, _AWAY_CLASSES) or text.startswith(_AWAY):
        return errors.StoreAway(f"the store refuses work for now: {text}")
    if isinstance(error, exceptions.NoPermissionError):
        return errors.Denied(f"the store's user may not do this (`topolog doctor users`): {text}")
    if text.startswith("WRONGTYPE"):
        return errors.StoreError(f"a key of the store is of another type, see `topolog doctor store`: {text}")
    if "equal or smaller than the target stream top item" in text:
        return errors.StoreError(
            "nothing can be appended, because something else was written to the log:"
            " `topolog doctor store --repair-tail` shows and removes it"
        )
    if "Function not found" in text:
        return errors.SchemaMismatch("the store does not have our functions: run `topolog migrate up`")
    return errors.StoreError(f"the store failed: {text}")


def text(value: bytes | str) -> str:
    """A reply as text, whether or not the client decodes replies."""
    return value.decode() if isinstance(value, bytes) else value


class _Connection(Protocol):
    """What is used of redis-py's connections, which carry no types."""

    socket_timeout: float
    socket_connect_timeout: float

    def pack_command(self, *arguments: str | bytes | int) -> Packed: ...
    def send_packed_command(self, command: Packed) -> None: ...
    def read_response(self, *, timeout: float | object = ...) -> Reply: ...
    def disconnect(self) -> None: ...


class Wire:
    """One connection used by one thread at a time, without what a pooled client does around each command."""

    def __init__(self, client: redis.Redis) -> None:
        self._pool = client.connection_pool
        self._timeout: float = self._pool.connection_kwargs["socket_timeout"]
        self.open = False
        """The last exchange went well: sending now will not have to connect first."""

    @cached_property
    def _connection(self) -> _Connection:
        # Made when first used: even an unconnected one costs milliseconds. Not by the pool's own
        # method, which counts every one against a limit for ever.
        made: _Connection = self._pool.connection_class(**self._pool.connection_kwargs)
        return made

    def pack(self, *arguments: str | bytes | int) -> Packed:
        """A command as the bytes to send, for sending more than once."""
        return self._connection.pack_command(*arguments)

    def send(self, packed: Packed, *, timeout: float | None = None) -> None:
        """Send without waiting for the answer; ``timeout`` (seconds) bounds each wait of connecting."""
        connection = self._connection
        if not self.open:
            # A server that accepts a connection may be silent when it is authenticated to.
            most = self._timeout if timeout is None else min(self._timeout, timeout)
            connection.socket_timeout = connection.socket_connect_timeout = most
        try:
            connection.send_packed_command(packed)
        except (redis.RedisError, OSError) as error:
            raise self._given_up(error) from error

    def receive(self, *, timeout: float | None = None) -> Reply:
        """The answer to the oldest command sent; ``timeout`` in seconds, the connection's own if None.

        After StoreAway it is not known whether the command was carried out.
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
        """Give the connection up; the next use opens another."""
        self.open = False
        if "_connection" in self.__dict__:
            self._connection.disconnect()

    def _given_up(self, error: redis.RedisError | OSError) -> errors.StoreError:
        # After a broken exchange, answers would no longer belong to their questions.
        self.close()
        return translate(error)
