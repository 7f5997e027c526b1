"""What can happen to a call of the store: it is lost on the way there, or its answer on the way back.

One place is patched, the one that every call passes. Whoever watches it may let others take steps
before and after a call, which is how interleavings come about in one thread.
"""

import contextlib
from collections.abc import Callable, Iterator
from enum import Enum, auto
from unittest import mock

from app.store import connecting, errors

Ask = Callable[[], connecting.Reply]


class Call(Enum):
    """What is asked of the store."""

    APPEND = auto()
    CLAIM = auto()
    READ = auto()
    OTHER = auto()


class Crashed(BaseException):
    """The process that made the call is no more; nothing in it may catch this."""


WAYS = ("before", "after", "lost")
"""A crash before the call takes effect, one after it, and an answer that is lost."""

Watch = Callable[[connecting.Wire, Call, connecting.Packed, Ask], connecting.Reply]
_NAMES = ((b"topolog_append", Call.APPEND), (b"topolog_claim", Call.CLAIM), (b"topolog_read", Call.READ))


def away(what: str) -> errors.StoreAway:
    return errors.StoreAway(f"simulated: {what}")


def kind(packed: connecting.Packed) -> Call:
    head = b"".join(packed)[:200] if len(packed) > 1 else packed[0][:200]
    return next((call for name, call in _NAMES if name in head), Call.OTHER)


@contextlib.contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Let every call of every store of this process pass ``watch``."""
    ask = connecting.Wire.ask

    def asked(
        self: connecting.Wire, packed: connecting.Packed, *, timeout: float | None = None
    ) -> connecting.Reply:
        # The simulated time says how long one waits, the machine's must not: it may be busy.
        return watch(self, kind(packed), packed, lambda: ask(self, packed, timeout=None))

    with mock.patch.object(connecting.Wire, "ask", asked):
        yield
