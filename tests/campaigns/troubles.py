"""What goes wrong between the processes of a simulation and their store, and who acts meanwhile."""

import contextlib
from collections.abc import Callable, Iterator

import redis

from app.store import connecting
from tests.campaigns import clocks, clusters, promises, wires


class Troubles:
    """Watches every call of every store of a simulation."""

    def __init__(self, clock: clocks.Clock, faults: clusters.Faults, quiet: redis.Redis) -> None:
        """With the client ``quiet`` nothing ever goes wrong."""
        self.outage = 0.0
        """Until then the store does not answer."""
        self.between: Callable[[str], None] = lambda _: None
        """Told when a process waits for the store."""
        self.tell: Callable[[str], None] = lambda _: None
        self.trimming: Callable[[], None] = lambda: None
        """Told before anything is trimmed."""
        self.trimmed: Callable[[int], None] = lambda _: None
        """Told afterwards, with the oldest offset that was to be kept."""
        self.appended: Callable[[], None] = lambda: None
        """Told of each append that was carried out, before anybody else acts."""
        self.gone: Callable[[tuple[str, int, int]], bool] = lambda _: False
        """Whether a failover has lost this entry (its incarnation, offset and milliseconds)."""
        self._clock = clock
        self._faults = faults
        self._die = faults.die
        self._quiet = quiet
        self._sheltered = False
        self._lost: dict[connecting.Wire, connecting.Packed] = {}
        """Appends that were carried out and whose answer was lost."""
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
        self, wire: connecting.Wire, call: wires.Call, packed: connecting.Packed, ask: wires.Ask
    ) -> connecting.Reply:
        """A call of a function."""
        if self._sheltered:
            return ask()
        if self._clock.now < self.outage:
            self._clock.advance(0.3)
            raise wires.away("the store does not answer")
        if call in (wires.Call.READ, wires.Call.OTHER):
            if self._faults.strike(0.3):
                raise wires.away("a read was cut off")
            return self._noticed(call, packed, ask())
        self.between("before a call of the store")
        way = self._die.choice((*wires.WAYS, "lost", "lost")) if self._faults.strike() else ""
        if way == "before":
            self._fail("before the call")
        if call is wires.Call.TRIM:
            self.trimming()
        reply = self._noticed(call, packed, ask())
        if call is wires.Call.TRIM:
            self.trimmed(wires.oldest_kept(packed))
        if call is wires.Call.APPEND:
            self.appended()
        self._called(wire, packed, reply)
        store = self._stores
        self.between("after a call of the store")
        if way == "lost":
            self._lose(wire, call if store == self._stores else wires.Call.OTHER, packed, reply)
        if way == "after":
            self._fail("after the call")
        return reply

    def _noticed(
        self, call: wires.Call, packed: connecting.Packed, reply: connecting.Reply
    ) -> connecting.Reply:
        """Who goes on from an entry that was lost is told so, the very first time."""
        known = wires.known(call, packed)
        if known is not None and self.gone(known):
            told = isinstance(reply, list) and reply[0] == b"REWOUND"
            promises.demand(told, "P4", f"{call.name} goes on from {known}, which is lost: {reply!r:.200}")
        return reply

    def _lose(
        self, wire: connecting.Wire, call: wires.Call, packed: connecting.Packed, reply: connecting.Reply
    ) -> None:
        self.tell("the answer of the store is lost")
        if self._die.random() < 0.3:
            self.outage = self._clock.now + 4.0
        elif call is wires.Call.APPEND and isinstance(reply, list) and reply[0] in (b"OK", b"REPEATED"):
            self._lost[wire] = packed
        raise wires.away("the answer was lost")

    def _fail(self, when: str) -> None:
        """A crash, or only a call that was lost."""
        if self._die.random() < 0.5:
            self.tell(f"crash {when}")
            raise wires.Crashed(when)
        if when.startswith("before"):
            raise wires.away("the call was lost")

    def _called(self, wire: connecting.Wire, packed: connecting.Packed, reply: connecting.Reply) -> None:
        """An append that is repeated must not be carried out again."""
        before = self._lost.pop(wire, None)
        if before is packed:
            # A loss that was noticed meanwhile concerns everybody, whatever he has done before.
            repeated = isinstance(reply, list) and reply[0] in (b"REPEATED", b"REWOUND")
            promises.demand(
                repeated, "P3", f"an append that was carried out is answered {reply!r} when repeated"
            )
