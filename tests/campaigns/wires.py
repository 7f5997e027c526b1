"""What can happen to a call of the store: it is lost on the way there, or its answer on the way back.

Two places are patched, which every call passes but the transactions of checkpoints. Whoever watches
them may let others take steps before and after a call, which is how interleavings come about in one
thread.
"""

import contextlib
from collections.abc import Callable, Iterator
from enum import Enum, auto
from unittest import mock

import redis

from app.store import connecting, errors

Ask = Callable[[], connecting.Reply]


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

Watch = Callable[[connecting.Wire, Call, connecting.Packed, Ask], connecting.Reply]
Plain = Callable[[redis.Redis], bool]
"""Whether a plain command of this client gets no answer."""
_NAMES = tuple((f"topolog_{call.name.lower()}".encode(), call) for call in Call if call is not Call.OTHER)


def away(what: str) -> errors.StoreAway:
    return errors.StoreAway(f"simulated: {what}")


def kind(packed: connecting.Packed) -> Call:
    head = b"".join(packed)[:200] if len(packed) > 1 else packed[0][:200]
    return next((call for name, call in _NAMES if name in head), Call.OTHER)


def known(call: Call, packed: connecting.Packed) -> tuple[str, int, int] | None:
    """Incarnation, offset and milliseconds of the entry that the caller of a function goes on from."""
    if call not in (Call.APPEND, Call.READ):
        return None
    incarnation, offset, at_ms = arguments(packed)[:3]
    return (incarnation.decode(), int(offset), int(at_ms)) if at_ms else None


def oldest_kept(packed: connecting.Packed) -> int:
    """The oldest offset that a caller of trim wants to keep."""
    return int(arguments(packed)[1])


def arguments(packed: connecting.Packed) -> list[bytes]:
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
            mock.patch.object(connecting.Wire, "_connection", connection),
            mock.patch.object(connecting, "connect", connect),
        ):
            yield
    finally:
        connection.disconnect()


@contextlib.contextmanager
def watched(watch: Watch, plain: Plain = lambda _: False) -> Iterator[None]:
    """Let every call of every store of this process pass ``watch``, and plain commands ``plain``."""
    ask = connecting.Wire.ask
    execute: Callable[..., object] = redis.Redis.execute_command

    def asked(
        self: connecting.Wire, packed: connecting.Packed, *, timeout: float | None = None
    ) -> connecting.Reply:
        # The simulated time says how long one waits, the machine's must not: it may be busy.
        return watch(self, kind(packed), packed, lambda: ask(self, packed, timeout=None))

    def executed(self: redis.Redis, *arguments: object, **options: object) -> object:
        if plain(self):
            raise redis.ConnectionError("simulated: the store does not answer")
        return execute(self, *arguments, **options)

    with (
        mock.patch.object(connecting.Wire, "ask", asked),
        mock.patch.object(redis.Redis, "execute_command", executed),
    ):
        yield
