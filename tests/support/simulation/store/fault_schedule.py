"""Faults between the processes of a simulation and their store, and steps of others during a call."""

import contextlib
from collections.abc import Callable, Iterator

import redis

from app.domain import events
from app.store.log import codecs
from app.store.server import connections
from tests.support.simulation import virtual_time
from tests.support.simulation.cluster import api_client
from tests.support.simulation.oracle import guarantees
from tests.support.simulation.store import lossy_calls

_HOT = 400
"""Calls of the store at one moment of the clock that only a process without progress makes."""
_LONG = 4.0
"""Seconds in which every process ends its repetitions of a call."""


class FaultSchedule:
    """Intercepts every call of every store of a simulation."""

    def __init__(self, clock: virtual_time.Clock, faults: api_client.Faults, quiet: redis.Redis) -> None:
        """The client ``quiet`` has no faults."""
        self.outage = 0.0
        """The moment until which the store does not answer."""
        self.between: Callable[[str], None] = lambda _: None
        """Called when a process waits for the store."""
        self.log_step: Callable[[str], None] = lambda _: None
        self.trimming: Callable[[], None] = lambda: None
        """Called before a trim."""
        self.trimmed: Callable[[int], None] = lambda _: None
        """Called afterwards, with the oldest offset that had to be kept."""
        self.appending: Callable[[list[events.AnyEvent]], None] = lambda _: None
        """Called with the events before each append, so that others can act at that moment."""
        self.appended: Callable[[], None] = lambda: None
        """Called after each append that was carried out, before others act."""
        self.reply_lost: Callable[[list[events.AnyEvent]], bool] = lambda _: False
        """Whether the reply to an append of these events is lost, with those to its repetitions."""
        self.reading: Callable[[], None] = lambda: None
        """Called before each read."""
        self.gone: Callable[[tuple[str, int, int]], bool] = lambda _: False
        """Whether a failover has lost this entry (incarnation, offset, milliseconds)."""
        self._clock = clock
        self._faults = faults
        self._rng = faults.rng
        self._quiet = quiet
        self._sheltered = False
        self._lost: dict[connections.Wire, connections.Packed] = {}
        """Appends that were carried out and whose answer was lost."""
        self._moment, self._calls = 0.0, 0
        """The moment of the latest call, and the number of calls at that moment."""
        self._stores = 0
        """The number of former stores."""

    @contextlib.contextmanager
    def sheltered(self) -> Iterator[None]:
        """No faults inside the block."""
        before, self._sheltered = self._sheltered, True
        try:
            yield
        finally:
            self._sheltered = before

    def forget(self) -> None:
        """Another server is the store now: it may not have the appends that were carried out."""
        self._lost.clear()
        self._stores += 1

    def plain(self, client: object) -> bool:
        """Whether a plain command of this client gets no answer."""
        away = client is not self._quiet and not self._sheltered and self._clock.now < self.outage
        if away:
            self._clock.advance(0.3)
        return away

    def watch(
        self, wire: connections.Wire, call: lossy_calls.Call, packed: connections.Packed, ask: lossy_calls.Ask
    ) -> connections.Reply:
        """A call of a function."""
        self._count()
        if self._sheltered:
            return ask()
        if self._clock.now < self.outage:
            self._clock.advance(0.3)
            raise lossy_calls.away("the store does not answer")
        if call is lossy_calls.Call.READ:
            self.reading()
        if call in (lossy_calls.Call.READ, lossy_calls.Call.OTHER):
            if self._faults.strike(0.3):
                raise lossy_calls.away("a read was cut off")
            return self._noticed(call, packed, ask())
        self.between("before a call of the store")
        if call is lossy_calls.Call.APPEND:
            self.appending([codecs.decode(payload) for payload in lossy_calls.payloads(packed)])
        way = self._rng.choice((*lossy_calls.WAYS, "lost", "lost")) if self._faults.strike() else ""
        if way == "before":
            self._fail("before the call")
        if call is lossy_calls.Call.TRIM:
            self.trimming()
        reply = self._noticed(call, packed, ask())
        if call is lossy_calls.Call.TRIM:
            self.trimmed(lossy_calls.oldest_kept(packed))
        if call is lossy_calls.Call.APPEND:
            self.appended()
            if self.reply_lost([codecs.decode(payload) for payload in lossy_calls.payloads(packed)]):
                self.outage = self._clock.now + _LONG
                raise lossy_calls.away("the reply was lost")
        self._called(wire, packed, reply)
        store = self._stores
        self.between("after a call of the store")
        if way == "lost":
            self._lose(wire, call if store == self._stores else lossy_calls.Call.OTHER, packed, reply)
        if way == "after":
            self._fail("after the call")
        return reply

    def _count(self) -> None:
        if self._clock.now > self._moment:
            self._moment, self._calls = self._clock.now, 0
        self._calls += 1
        guarantees.demand(self._calls < _HOT, "P10", "the store is asked again and again at one moment")

    def _noticed(
        self, call: lossy_calls.Call, packed: connections.Packed, reply: connections.Reply
    ) -> connections.Reply:
        """A caller that continues from a lost entry gets REWOUND at the first call.

        TRIMMED, where the log that has grown again was trimmed behind it: it starts from a checkpoint.
        """
        known = lossy_calls.known(call, packed)
        if known is not None and self.gone(known):
            reported = isinstance(reply, list) and reply[0] in (b"REWOUND", b"TRIMMED")
            guarantees.demand(
                reported, "P4", f"{call.name} goes on from {known}, which is lost: {reply!r:.200}"
            )
        return reply

    def _lose(
        self,
        wire: connections.Wire,
        call: lossy_calls.Call,
        packed: connections.Packed,
        reply: connections.Reply,
    ) -> None:
        self.log_step("the answer of the store is lost")
        if self._rng.random() < 0.3:
            self.outage = self._clock.now + _LONG
        elif call is lossy_calls.Call.APPEND and isinstance(reply, list) and reply[0] in (b"OK", b"REPEATED"):
            self._lost[wire] = packed
        raise lossy_calls.away("the answer was lost")

    def _fail(self, when: str) -> None:
        """A crash, or a lost call."""
        if self._rng.random() < 0.5:
            self.log_step(f"crash {when}")
            raise lossy_calls.Crashed(when)
        if when.startswith("before"):
            raise lossy_calls.away("the call was lost")

    def _called(self, wire: connections.Wire, packed: connections.Packed, reply: connections.Reply) -> None:
        """An append that is repeated must not be carried out again."""
        before = self._lost.pop(wire, None)
        if before is packed:
            # A loss that was detected meanwhile is reported to every process.
            repeated = isinstance(reply, list) and reply[0] in (b"REPEATED", b"REWOUND")
            guarantees.demand(
                repeated, "P3", f"an append that was carried out is answered {reply!r} when repeated"
            )
