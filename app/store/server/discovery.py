"""Finds the server to connect to, at every connect.

A store of one Kubernetes cluster is always on one server: the one of the URL, the master that the
sentinels agree on, or the node that has the slot of the hash tag. So every connection is a plain one
that finds its server before it connects. When a reply shows that this is no longer the right server, the
connection is closed, and its next use finds the server again. So does that of all other connections of the
client: a replica answers reads, and only an append learns that it is one.
"""

import itertools
import math
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import redis
from redis import crc, exceptions, utils

from app.store.server import retries, urls

_DEMOTED = "UNBLOCKED"
"""The reply to a waiting read when its server becomes a replica."""
_ASKING_SECONDS = 0.5
"""Seconds that one sentinel or node may take to reply, if the caller has them."""


class Connected(Protocol):
    """The used part of redis-py's connections, which are untyped."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    def send_command(self, *arguments: str) -> None: ...
    def read_response(self) -> object: ...
    def disconnect(self) -> None: ...


class Finder(Protocol):
    """Finds the server of the store."""

    def find(self, seconds: float) -> urls.Address:
        """The address to connect to now. Raises redis' ConnectionError if it is not found in the seconds."""
        ...

    def check(self, connection: Connected) -> None:
        """Raise redis' ConnectionError if the server that was connected to is not the right one."""
        ...


class Fixed:
    """One fixed server."""

    def __init__(self, address: urls.Address) -> None:
        self._address = address

    def find(self, _seconds: float) -> urls.Address:
        """Return the address of the URL; its name is resolved at each connecting."""
        return self._address

    def check(self, connection: Connected) -> None:
        """Any server is right."""


class Sentinels:
    """The master according to a majority of sentinels, by the one with the latest failover."""

    def __init__(self, target: urls.Target) -> None:
        self.master = target.master
        self.addresses = target.addresses
        self._order = list(target.addresses)
        self._asking = _Asking(target.sentinel_options or {}, target.tls)

    def find(self, seconds: float) -> urls.Address:
        """Ask sentinels until a majority of the configured ones has replied.

        Fewer could all be on the wrong side of a network partition, with the former master.
        """
        deadline = retries.RetryDeadline(seconds)
        known: list[tuple[int, urls.Address]] = []
        problems: list[str] = []
        needed = len(self.addresses) // 2 + 1
        for address in tuple(self._order):
            if deadline.over:
                break
            try:
                state = self.ask(address, _share(deadline))
                known.append((int(state["config-epoch"]), (state["ip"], int(state["port"]))))
            except (redis.RedisError, OSError, KeyError, ValueError) as error:
                problems.append(f"{address[0]}:{address[1]}: {error}")
                # One that does not reply is asked last from now on.
                self._order = [*(one for one in self._order if one != address), address]
            if len(known) == needed:
                return max(known, key=lambda one: one[0])[1]
        raise redis.ConnectionError(
            f"{len(known)} of {len(self.addresses)} sentinels report {self.master}, {needed} are needed:"
            f" {'; '.join(problems)}"
        )

    def ask(self, address: urls.Address, seconds: float = _ASKING_SECONDS) -> Mapping[str, str]:
        """The master according to one sentinel, within the seconds. Raises redis' errors, or OSError."""
        reply = self._asking.ask(address, seconds, "SENTINEL", "MASTER", self.master)
        words = [word.decode() if isinstance(word, bytes) else str(word) for word in reply]
        return dict(zip(words[::2], words[1::2], strict=True))

    def check(self, connection: Connected) -> None:
        """Check the role: after a failover a sentinel may be behind, or the server not promoted yet."""
        connection.send_command("ROLE")
        role = connection.read_response()
        if not isinstance(role, list) or role[0] not in (b"master", "master"):
            raise redis.ConnectionError(f"{connection.host}:{connection.port} is not the master")


class SlotOwner:
    """The node of a Redis Cluster that owns the slot of a hash tag."""

    def __init__(self, target: urls.Target, tag: str) -> None:
        self.slot = crc.key_slot(tag.encode())
        self._seeds = target.addresses
        self._known: tuple[urls.Address, ...] = ()
        self._turn = itertools.count()
        self._asking = _Asking(target.options, target.tls)

    def find(self, seconds: float) -> urls.Address:
        """Ask any node for the owner of the slot."""
        for first, last, address in self._slots(seconds):
            if first <= self.slot <= last:
                return address
        raise redis.ConnectionError(f"no node of the Redis Cluster has slot {self.slot}")

    def primaries(self) -> list[urls.Address]:
        """Every node that has slots."""
        return list(dict.fromkeys(address for _, _, address in self._slots(math.inf)))

    def check(self, connection: Connected) -> None:
        """A node without the slot replies to the first command with MOVED."""

    def _slots(self, seconds: float) -> Sequence[tuple[int, int, urls.Address]]:
        deadline = retries.RetryDeadline(seconds)
        nodes = list(dict.fromkeys((*self._known, *self._seeds)))
        # Another one each time: one that is behind must not mislead permanently.
        start = next(self._turn) % len(nodes)
        problems: list[str] = []
        for address in (*nodes[start:], *nodes[:start]):
            if deadline.over:
                break
            try:
                reply = self._asking.ask(address, _share(deadline), "CLUSTER", "SLOTS")
            except (redis.RedisError, OSError) as error:
                problems.append(f"{address[0]}:{address[1]}: {error}")
                continue
            slots = [(one[0], one[1], _named(one[2], address)) for one in reply]
            self._known = tuple(dict.fromkeys(owner for _, _, owner in slots))
            return slots
        raise redis.ConnectionError(f"no node of the Redis Cluster answers: {'; '.join(problems)}")


def _named(node: Sequence[Any], asked: urls.Address) -> urls.Address:
    """The address of a node; an empty one is that of the node that was asked."""
    host = node[0].decode() if isinstance(node[0], bytes) else node[0] or ""
    return (host if host not in ("", "?") else asked[0]), int(node[1])


def _share(deadline: retries.RetryDeadline) -> float:
    """Seconds for the next one that is asked."""
    # The other half is for those after it, and for connecting to the server that they name.
    return min(_ASKING_SECONDS, deadline.left / 2)


class _Asking:
    """Sends commands to sentinels and nodes, each over a new connection."""

    def __init__(self, options: Mapping[str, Any], tls: bool) -> None:
        self._make: type[redis.Connection] = redis.SSLConnection if tls else redis.Connection
        self._options = dict(options) | {"db": 0, "protocol": 2}

    def ask(self, address: urls.Address, seconds: float, *command: str) -> list[Any]:
        options = self._options | {"socket_timeout": seconds, "socket_connect_timeout": seconds}
        connection: Connected = self._make(host=address[0], port=address[1], **options)
        try:
            connection.send_command(*command)
            reply = connection.read_response()
        finally:
            connection.disconnect()
        if not isinstance(reply, list):
            raise redis.ResponseError(f"answered {' '.join(command)} with {reply!r}")
        return reply


class DiscoveringConnection(redis.Connection):
    """A connection that finds its server, and closes when the server is no longer the right one."""

    finder: ClassVar[Finder]
    socket_connect_timeout: float
    socket_timeout: float
    moves: ClassVar[int] = 0
    """How often a connection of this client learned that its server was no longer the right one."""
    _moves = 0
    """The same when this one was opened."""

    @property
    def outdated(self) -> bool:
        """Whether another connection has learned since this one was opened that the store has moved."""
        return self.is_connected and self._moves != type(self).moves

    def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        """Connect, unless connected to the right server as far as is known.

        ``socket_connect_timeout`` bounds each wait of connecting, together with the search before it.
        """
        if self.outdated:
            here: Connected = self
            here.disconnect()
        if self.is_connected:
            return
        limits = self.socket_timeout, self.socket_connect_timeout
        deadline = retries.RetryDeadline(self.socket_connect_timeout)
        self._moves = type(self).moves
        self.host, self.port = self.finder.find(deadline.left)
        self.socket_timeout = self.socket_connect_timeout = deadline.left
        try:
            super().connect_check_health(check_health, retry_socket_connect)
        finally:
            self.socket_timeout, self.socket_connect_timeout = limits
        # The open socket has the limit of connecting until here.
        self.update_current_socket_timeout(self.socket_timeout)

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Authenticate, and check that this is the right server."""
        super().on_connect_check_health(check_health)
        self.finder.check(self)

    def read_response(
        self,
        disable_decoding: bool = False,
        *,
        timeout: float | object = utils.SENTINEL,
        disconnect_on_error: bool = True,
        push_request: bool = False,
    ) -> object:
        """The reply. Raises redis' errors."""
        try:
            return super().read_response(
                disable_decoding,
                timeout=timeout,
                disconnect_on_error=disconnect_on_error,
                push_request=push_request,
            )
        except (exceptions.AskError, exceptions.ReadOnlyError) as error:
            # MOVED is an AskError in redis-py. The command was not executed.
            self._leave()
            raise redis.ConnectionError(f"the store is elsewhere now ({error})") from error
        except exceptions.ResponseError as error:
            if str(error).startswith(_DEMOTED):
                self._leave()
            raise

    def _leave(self) -> None:
        if not self.outdated:
            type(self).moves += 1
        here: Connected = self
        here.disconnect()


class DiscoveringTlsConnection(DiscoveringConnection, redis.SSLConnection):
    """The same over TLS."""

    @property
    def ends(self) -> float | None:
        """POSIX time at which the certificate ends that the server has shown; None if it was not verified.

        The connection must be open.
        """
        secure = self._get_socket()
        certificate = secure.getpeercert() if isinstance(secure, ssl.SSLSocket) else None
        return ssl.cert_time_to_seconds(str(certificate["notAfter"])) if certificate else None


def discovering(finder: Finder, *, tls: bool) -> type[redis.Connection]:
    """The connection class that uses the finder."""
    return type(
        "DiscoveringConnection",
        (DiscoveringTlsConnection if tls else DiscoveringConnection,),
        {"finder": finder},
    )


def leave(client: redis.Redis) -> None:
    """Let every connection of the client find its server again when it is next used."""
    kind = client.connection_pool.connection_class
    if issubclass(kind, DiscoveringConnection):
        kind.moves += 1


def finder_of(client: redis.Redis) -> Finder | None:
    """The finder of the client's connections; None on a unix socket."""
    return getattr(client.connection_pool.connection_class, "finder", None)
