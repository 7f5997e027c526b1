"""What goes wrong between the processes of a simulation and their store, and who acts meanwhile."""

import contextlib
from collections.abc import Callable, Iterator

import redis

from app.domain import events
from app.store.log import codecs
from app.store.server import connections
from tests.support.simulation import cluster_objects, lossy_calls, oracle, virtual_time

_HOT = 400
"""Calls of the store at one moment that only a process without progress makes."""


class FaultSchedule:
    """Watches every call of every store of a simulation."""

    def __init__(self, clock: virtual_time.Clock, faults: cluster_objects.Faults, quiet: redis.Redis) -> None:
        """With the client ``quiet`` nothing ever goes wrong."""
        self.outage = 0.0
        """Until then the store does not answer."""
        self.between: Callable[[str], None] = lambda _: None
        """Called when a process waits for the store."""
        self.narrate: Callable[[str], None] = lambda _: None
        self.trimming: Callable[[], None] = lambda: None
        """Called before anything is trimmed."""
        self.trimmed: Callable[[int], None] = lambda _: None
        """Called afterwards, with the oldest offset that had to be kept."""
        self.appending: Callable[[list[events.AnyEvent]], None] = lambda _: None
        """Called before each append with its events: others may act on what that makes dangerous."""
        self.appended: Callable[[], None] = lambda: None
        """Called after each append that was carried out, before others act."""
        self.gone: Callable[[tuple[str, int, int]], bool] = lambda _: False
        """Whether a failover has lost this entry (its incarnation, offset and milliseconds)."""
        self._clock = clock
        self._faults = faults
        self._die = faults.die
        self._quiet = quiet
        self._sheltered = False
        self._lost: dict[connections.Wire, connections.Packed] = {}
        """Appends that were carried out and whose answer was lost."""
        self._moment, self._calls = 0.0, 0
        """The moment of the last call, and how many there were at it."""
        self._stores = 0
        """How many stores there were before this one."""

    @contextlib.contextmanager
    def sheltered(self) -> Iterator[None]:
        """Nothing goes wrong as long as this lasts."""
        before, self._sheltered = self._sheltered, True
        try:
            yield
        finally:
            self._sheltered = before

    def forget(self) -> None:
        """The store is another one: it need not know what was carried out."""
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
        if call in (lossy_calls.Call.READ, lossy_calls.Call.OTHER):
            if self._faults.strike(0.3):
                raise lossy_calls.away("a read was cut off")
            return self._noticed(call, packed, ask())
        self.between("before a call of the store")
        if call is lossy_calls.Call.APPEND:
            self.appending([codecs.decode(payload) for payload in lossy_calls.payloads(packed)])
        way = self._die.choice((*lossy_calls.WAYS, "lost", "lost")) if self._faults.strike() else ""
        if way == "before":
            self._fail("before the call")
        if call is lossy_calls.Call.TRIM:
            self.trimming()
        reply = self._noticed(call, packed, ask())
        if call is lossy_calls.Call.TRIM:
            self.trimmed(lossy_calls.oldest_kept(packed))
        if call is lossy_calls.Call.APPEND:
            self.appended()
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
        oracle.demand(self._calls < _HOT, "P10", "the store is asked again and again at one moment")

    def _noticed(
        self, call: lossy_calls.Call, packed: connections.Packed, reply: connections.Reply
    ) -> connections.Reply:
        """A caller that continues from a lost entry gets REWOUND, the very first time."""
        known = lossy_calls.known(call, packed)
        if known is not None and self.gone(known):
            reported = isinstance(reply, list) and reply[0] == b"REWOUND"
            oracle.demand(reported, "P4", f"{call.name} goes on from {known}, which is lost: {reply!r:.200}")
        return reply

    def _lose(
        self,
        wire: connections.Wire,
        call: lossy_calls.Call,
        packed: connections.Packed,
        reply: connections.Reply,
    ) -> None:
        self.narrate("the answer of the store is lost")
        if self._die.random() < 0.3:
            self.outage = self._clock.now + 4.0
        elif call is lossy_calls.Call.APPEND and isinstance(reply, list) and reply[0] in (b"OK", b"REPEATED"):
            self._lost[wire] = packed
        raise lossy_calls.away("the answer was lost")

    def _fail(self, when: str) -> None:
        """A crash, or only a call that was lost."""
        if self._die.random() < 0.5:
            self.narrate(f"crash {when}")
            raise lossy_calls.Crashed(when)
        if when.startswith("before"):
            raise lossy_calls.away("the call was lost")

    def _called(self, wire: connections.Wire, packed: connections.Packed, reply: connections.Reply) -> None:
        """An append that is repeated must not be carried out again."""
        before = self._lost.pop(wire, None)
        if before is packed:
            # A loss that was detected meanwhile concerns every process, whatever it has done before.
            repeated = isinstance(reply, list) and reply[0] in (b"REPEATED", b"REWOUND")
            oracle.demand(
                repeated, "P3", f"an append that was carried out is answered {reply!r} when repeated"
            )
