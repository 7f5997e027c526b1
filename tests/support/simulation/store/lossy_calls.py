"""Faults of a call of the store: the request is lost, or its reply.

Two functions are patched, through which all calls pass except the transactions of checkpoints. A test that
intercepts them can run steps of other processes before and after a call: interleavings in one thread.
"""

import contextlib
from collections.abc import Callable, Iterator
from enum import Enum, auto
from unittest import mock

import redis

from app.store import errors
from app.store.server import connections

Ask = Callable[[], connections.Reply]


class Call(Enum):
    """The function of the store that is called."""

    APPEND = auto()
    READ = auto()
    REWIND = auto()
    DOUBT = auto()
    TRIM = auto()
    OTHER = auto()


class Crashed(BaseException):
    """The process that made the call has been killed; its code must not catch this."""


WAYS = ("before", "after", "lost")
"""A crash before the call takes effect, a crash after it, and a lost reply."""

Watch = Callable[[connections.Wire, Call, connections.Packed, Ask], connections.Reply]
Plain = Callable[[redis.Redis], bool]
"""Whether a plain command of this client gets no answer."""
_NAMES = tuple((f"topolog_{call.name.lower()}".encode(), call) for call in Call if call is not Call.OTHER)


def away(what: str) -> errors.StoreAway:
    return errors.StoreAway(f"simulated: {what}")


def kind(packed: connections.Packed) -> Call:
    head = b"".join(packed)[:200] if len(packed) > 1 else packed[0][:200]
    return next((call for name, call in _NAMES if name in head), Call.OTHER)


def known(call: Call, packed: connections.Packed) -> tuple[str, int, int] | None:
    """Incarnation, offset and milliseconds of the entry that the caller of a function continues from."""
    if call not in (Call.APPEND, Call.READ):
        return None
    incarnation, offset, at_ms = arguments(packed)[:3]
    return (incarnation.decode(), int(offset), int(at_ms)) if at_ms else None


def oldest_kept(packed: connections.Packed) -> int:
    """The oldest offset that a trim keeps."""
    return int(arguments(packed)[1])


def payloads(packed: connections.Packed) -> list[bytes]:
    """The encoded events of an append."""
    given = arguments(packed)
    return given[13 : 13 + int(given[7])]


def arguments(packed: connections.Packed) -> list[bytes]:
    """The arguments of a function, without its keys."""
    words = b"".join(packed).split(b"\r\n")[2::2]
    return words[3 + int(words[2]) :]


@contextlib.contextmanager
def shared(client: redis.Redis) -> Iterator[None]:
    """Let all stores of this process use the connection of one client: one thread needs no more."""
    pool = client.connection_pool
    connection = pool.connection_class(**pool.connection_kwargs)

    def connect(*_: object, **__: object) -> redis.Redis:
        return redis.Redis(connection_pool=pool)

    try:
        with (
            mock.patch.object(connections.Wire, "_connection", connection),
            mock.patch.object(connections, "connect", connect),
        ):
            yield
    finally:
        connection.disconnect()


@contextlib.contextmanager
def watched(watch: Watch, plain: Plain = lambda _: False) -> Iterator[None]:
    """Pass all calls of the stores of this process through ``watch``, plain commands through ``plain``."""
    ask = connections.Wire.ask
    execute: Callable[..., object] = redis.Redis.execute_command

    def asked(
        self: connections.Wire, packed: connections.Packed, *, timeout: float | None = None
    ) -> connections.Reply:
        # Only simulated time limits the wait, because the machine may be busy.
        return watch(self, kind(packed), packed, lambda: ask(self, packed, timeout=None))

    def executed(self: redis.Redis, *arguments: object, **options: object) -> object:
        if plain(self):
            raise redis.ConnectionError("simulated: the store does not answer")
        return execute(self, *arguments, **options)

    with (
        mock.patch.object(connections.Wire, "ask", asked),
        mock.patch.object(redis.Redis, "execute_command", executed),
    ):
        yield
