"""What can happen to a call of the store: it is lost on the way there, or its answer on the way back.

Two places are patched, which every call passes but the transactions of checkpoints. A test that watches
them may let others take steps before and after a call, which is how interleavings come about in one
thread.
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
    """What is asked of the store."""

    APPEND = auto()
    READ = auto()
    REWIND = auto()
    DOUBT = auto()
    TRIM = auto()
    OTHER = auto()


class Crashed(BaseException):
    """The process that made the call is no more; nothing in it may catch this."""


WAYS = ("before", "after", "lost")
"""A crash before the call takes effect, one after it, and an answer that is lost."""

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
    """Incarnation, offset and milliseconds of the entry that the caller of a function goes on from."""
    if call not in (Call.APPEND, Call.READ):
        return None
    incarnation, offset, at_ms = arguments(packed)[:3]
    return (incarnation.decode(), int(offset), int(at_ms)) if at_ms else None


def oldest_kept(packed: connections.Packed) -> int:
    """The oldest offset that a caller of trim wants to keep."""
    return int(arguments(packed)[1])


def payloads(packed: connections.Packed) -> list[bytes]:
    """The events that a caller of append wants to append."""
    given = arguments(packed)
    return given[13 : 13 + int(given[7])]


def arguments(packed: connections.Packed) -> list[bytes]:
    """What a function is given beside its keys."""
    words = b"".join(packed).split(b"\r\n")[2::2]
    return words[3 + int(words[2]) :]


@contextlib.contextmanager
def shared(client: redis.Redis) -> Iterator[None]:
    """Let all stores of this process ask over the connections of one client: one thread needs no more."""
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
    """Let every call of every store of this process pass ``watch``, and plain commands ``plain``."""
    ask = connections.Wire.ask
    execute: Callable[..., object] = redis.Redis.execute_command

    def asked(
        self: connections.Wire, packed: connections.Packed, *, timeout: float | None = None
    ) -> connections.Reply:
        # Simulated time limits the wait; the machine's must not, because it may be busy.
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
