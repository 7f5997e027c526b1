"""Which server to speak to, looked up at every connecting.

A store of one Kubernetes cluster is always on one server: the one of the URL, the master that the
sentinels agree on, or the node that has the slot of the hash tag. So every connection is a plain one
that asks before it connects. When an answer says that this is no longer the right server, the
connection is given up, and the next use of it looks anew.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import redis
from redis import crc, exceptions, utils

from app.store import urls

_ASKING_SECONDS = 0.5
"""The longest that one sentinel or node may take to say where to go."""


class Connected(Protocol):
    """What is used of redis-py's connections, which carry no types."""

    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    def send_command(self, *arguments: str) -> None: ...
    def read_response(self) -> object: ...
    def disconnect(self) -> None: ...


class Finder(Protocol):
    """Knows where the store is."""

    def find(self) -> urls.Address:
        """Where to connect to now. Raises redis' ConnectionError if nobody knows."""
        ...

    def check(self, connection: Connected) -> None:
        """Raise redis' ConnectionError if the server that was connected to is not the right one."""
        ...


class Fixed:
    """One server, whatever it is."""

    def __init__(self, address: urls.Address) -> None:
        self._address = address

    def find(self) -> urls.Address:
        """Return the address of the URL; its name is resolved at each connecting."""
        return self._address

    def check(self, connection: Connected) -> None:
        """Nothing is known to compare with."""


class Sentinels:
    """The master by the word of sentinels: of most of them, and of whoever knows of the latest failover."""

    def __init__(self, target: urls.Target, timeout: float) -> None:
        self.master = target.master
        self.addresses = target.addresses
        self._order = list(target.addresses)
        self._asking = _Asking(target.sentinel_options or {}, target.tls, timeout)

    def find(self) -> urls.Address:
        """Ask sentinels until most of those that are configured have answered.

        Fewer could all be on the wrong side of a parted network, where the former master still is.
        """
        known: list[tuple[int, urls.Address]] = []
        troubles: list[str] = []
        needed = len(self.addresses) // 2 + 1
        for address in tuple(self._order):
            try:
                state = self.ask(address)
                known.append((int(state["config-epoch"]), (state["ip"], int(state["port"]))))
            except (redis.RedisError, OSError, KeyError, ValueError) as error:
                troubles.append(f"{address[0]}:{address[1]}: {error}")
                # Whoever does not answer is asked last from now on.
                self._order = [*(one for one in self._order if one != address), address]
            if len(known) == needed:
                return max(known, key=lambda one: one[0])[1]
        raise redis.ConnectionError(
            f"{len(known)} of {len(self.addresses)} sentinels know {self.master}, and {needed} have to:"
            f" {'; '.join(troubles)}"
        )

    def ask(self, address: urls.Address) -> Mapping[str, str]:
        """What one sentinel knows of the master. Raises redis' errors, or OSError."""
        reply = self._asking.ask(address, "SENTINEL", "MASTER", self.master)
        words = [word.decode() if isinstance(word, bytes) else str(word) for word in reply]
        return dict(zip(words[::2], words[1::2], strict=True))

    def check(self, connection: Connected) -> None:
        """After a failover a sentinel may be behind, or the server not yet told that it is the master."""
        connection.send_command("ROLE")
        role = connection.read_response()
        if not isinstance(role, list) or role[0] not in (b"master", "master"):
            raise redis.ConnectionError(f"{connection.host}:{connection.port} is not the master (any more)")


class Owner:
    """The node of a Redis Cluster that has the slot of a hash tag."""

    def __init__(self, target: urls.Target, tag: str, timeout: float) -> None:
        self.slot = crc.key_slot(tag.encode())
        self._seeds = target.addresses
        self._known: tuple[urls.Address, ...] = ()
        self._turn = itertools.count()
        self._asking = _Asking(target.options, target.tls, timeout)

    def find(self) -> urls.Address:
        """Ask any node who has the slot."""
        for first, last, address in self._slots():
            if first <= self.slot <= last:
                return address
        raise redis.ConnectionError(f"no node of the Redis Cluster has slot {self.slot}")

    def primaries(self) -> list[urls.Address]:
        """Every node that has slots."""
        return list(dict.fromkeys(address for _, _, address in self._slots()))

    def check(self, connection: Connected) -> None:
        """Whoever does not have the slot says so in answer to the first command."""

    def _slots(self) -> Sequence[tuple[int, int, urls.Address]]:
        nodes = list(dict.fromkeys((*self._known, *self._seeds)))
        # Another one each time: one that is behind must not mislead for ever.
        start = next(self._turn) % len(nodes)
        troubles: list[str] = []
        for address in (*nodes[start:], *nodes[:start]):
            try:
                reply = self._asking.ask(address, "CLUSTER", "SLOTS")
            except (redis.RedisError, OSError) as error:
                troubles.append(f"{address[0]}:{address[1]}: {error}")
                continue
            slots = [(one[0], one[1], _named(one[2], address)) for one in reply]
            self._known = tuple(dict.fromkeys(owner for _, _, owner in slots))
            return slots
        raise redis.ConnectionError(f"no node of the Redis Cluster answers: {'; '.join(troubles)}")


def _named(node: Sequence[Any], asked: urls.Address) -> urls.Address:
    """The address of a node; one that does not know its own is the one that was asked."""
    host = node[0].decode() if isinstance(node[0], bytes) else node[0] or ""
    return (host if host not in ("", "?") else asked[0]), int(node[1])


class _Asking:
    """Questions to those who know where the store is, each over a connection of its own."""

    def __init__(self, options: Mapping[str, Any], tls: bool, timeout: float) -> None:
        patience = min(timeout, _ASKING_SECONDS)
        self._make: type[redis.Connection] = redis.SSLConnection if tls else redis.Connection
        self._options = dict(options) | {
            "db": 0,
            "protocol": 2,
            "socket_timeout": patience,
            "socket_connect_timeout": patience,
        }

    def ask(self, address: urls.Address, *command: str) -> list[Any]:
        connection: Connected = self._make(host=address[0], port=address[1], **self._options)
        try:
            connection.send_command(*command)
            reply = connection.read_response()
        finally:
            connection.disconnect()
        if not isinstance(reply, list):
            raise redis.ResponseError(f"answered {' '.join(command)} with {reply!r}")
        return reply


class Led(redis.Connection):
    """A connection that asks where to go, and gives itself up when it is no longer right there."""

    finder: ClassVar[Finder]

    def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        """Connect, unless connected."""
        if not self.is_connected:
            self.host, self.port = self.finder.find()
        super().connect_check_health(check_health, retry_socket_connect)

    def on_connect_check_health(self, check_health: bool = True) -> None:
        """Authenticate, and see whether this is the right server."""
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
        """The answer. Raises redis' errors."""
        try:
            return super().read_response(
                disable_decoding,
                timeout=timeout,
                disconnect_on_error=disconnect_on_error,
                push_request=push_request,
            )
        except (exceptions.AskError, exceptions.ReadOnlyError) as error:
            # MOVED is an ASK to redis-py. The command was not carried out.
            here: Connected = self
            here.disconnect()
            raise redis.ConnectionError(f"the store is elsewhere now ({error})") from error


class LedTls(Led, redis.SSLConnection):
    """The same over TLS."""


def led(finder: Finder, *, tls: bool) -> type[redis.Connection]:
    """The connections that the finder leads."""
    return type("Led", (LedTls if tls else Led,), {"finder": finder})


def finder_of(client: redis.Redis) -> Finder | None:
    """Who leads the client's connections; None on a unix socket."""
    return getattr(client.connection_pool.connection_class, "finder", None)
