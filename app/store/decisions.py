"""What was decided, kept small: enough to compute the whole Trace again from the log.

Recording is off the answer's path: a draft goes into a bounded queue, a thread packs what has come
together and writes it in one go. A record that finds no room, or a store that is away, is counted
as dropped; no verb ever waits or fails for it.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from typing import NamedTuple

import msgspec
import redis

from app.domain import model, snapshots
from app.store import connecting, errors, following, keys, packing, recalling

_PAUSE_SECONDS = 0.05
"""The thread gathers this long: waking up for each decision would take the interpreter from the verbs."""
_BATCH = 64
_PACKINGS_KEPT = 8
_SCAN = 500
LOOKED_AT = 20_000
"""Records that one question looks through: a fifth of a second of an extender's time."""
_NAMES = 4_000_000
"""Names of candidates that may wait: a few hundred megabytes if no two decisions share any."""


class Draft(msgspec.Struct, frozen=True):
    """A decision as the verb knows it: nothing is packed yet."""

    position: model.Position
    verb: str
    pod: model.Pod
    names: Collection[model.NodeName]
    """The candidates; a frozenset is packed once, however many decisions share it."""
    configuration: str
    """Registry.digest."""
    kept: int
    outcome: str
    """kept, refused, bound, error ..."""
    at: str
    """RFC 3339."""
    milliseconds: float
    reasons: dict[str, int] = {}
    """Sentence -> nodes refused with it."""
    plugins: tuple[str, ...] = ()
    """The plugins that refused or scored."""
    node: model.NodeName = ""
    victims: dict[str, tuple[str, ...]] = {}
    """Node -> uids, for preempt."""
    error: str = ""
    snapshot: snapshots.Snapshot | None = None
    """The snapshot decided on; without it the follower is asked which nodes there were."""


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision on record."""

    id: str
    position: model.Position
    verb: str
    pod: model.Pod
    candidates: bytes
    """See packing; over the names of the nodes at ``position``."""
    count: int
    """How many candidates there were."""
    configuration: str
    kept: int
    outcome: str
    at: str
    milliseconds: float
    reasons: dict[str, int] = {}
    plugins: tuple[str, ...] = ()
    node: model.NodeName = ""
    victims: dict[str, tuple[str, ...]] = {}
    error: str = ""


class Found(NamedTuple):
    """The records that fit, newest first, and where the search ended."""

    records: list[Decision]
    behind: str | None
    """The id behind which older records were not looked at; None if there are none."""
    looked_at: int
    """How many records were gone through."""


class Wanted(NamedTuple):
    """Which records; None: any."""

    pod: str | None = None
    """``namespace/name``, or a uid."""
    node: str | None = None
    """The chosen one, or one with victims."""
    plugin: str | None = None
    """One that refused or scored."""
    reason: str | None = None
    """A part of a sentence."""
    outcome: str | None = None
    verb: str | None = None

    def needles(self) -> list[bytes]:
        """What stands in every record that fits: to look for it is a tenth of the work of decoding."""
        named = None if self.pod is None else self.pod.rpartition("/")[2]
        whole = (named, self.node, self.plugin, self.outcome, self.verb)
        return [_encoder.encode(text) for text in whole if text is not None]

    def fits(self, decision: Decision) -> bool:
        """Whether the record is one of those."""
        return (
            (self.pod is None or self.pod in (decision.pod.key, decision.pod.uid))
            and (self.node is None or self.node == decision.node or self.node in decision.victims)
            and (self.plugin is None or self.plugin in decision.plugins)
            and (self.reason is None or any(self.reason in sentence for sentence in decision.reasons))
            and (self.outcome is None or self.outcome == decision.outcome)
            and (self.verb is None or self.verb == decision.verb)
        )


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Decision)


class Decisions:
    """The decision records of one cluster."""

    def __init__(
        self,
        client: redis.Redis,
        names: keys.Keys,
        follower: following.Follower,
        *,
        kept: int = 100_000,
        queued: int = 8_192,
    ) -> None:
        """``kept``: about how many records the store holds, 0: none; ``queued``: how many may wait here."""
        self._client = client
        self._wire = connecting.Wire(client)
        self._key = names.decisions
        self._follower = follower
        self._kept = kept
        self._queued = queued
        self._drafts: deque[Draft] = deque()
        self._known = _Known()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """Decisions that were not recorded."""
        self.written = 0

    def start(self) -> None:
        """Begin to write in a thread of its own."""
        if self._thread is None and self._kept:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._write, name="decisions", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Write what waits, then end the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
            self._thread = None
        self._wire.close()

    def record(self, draft: Draft) -> None:
        """Put the decision on record soon; never waits, never raises."""
        if not self._kept:
            return
        waiting = len(self._drafts)
        if waiting >= self._queued or waiting * len(draft.names) > _NAMES:
            self.dropped += 1
        else:
            self._drafts.append(draft)

    @property
    def waiting(self) -> int:
        """Decisions in the queue."""
        return len(self._drafts)

    def latest(
        self,
        *,
        limit: int = 100,
        before: str | None = None,
        pod: str | None = None,
        node: str | None = None,
        plugin: str | None = None,
        reason: str | None = None,
        outcome: str | None = None,
        verb: str | None = None,
    ) -> list[Decision]:
        """The latest records that fit, newest first, however many must be looked through (see ``search``)."""
        wanted = Wanted(pod, node, plugin, reason, outcome, verb)
        return self.search(wanted, limit=limit, before=before, looked_at=None).records

    def search(
        self,
        wanted: "Wanted",
        *,
        limit: int = 100,
        before: str | None = None,
        looked_at: int | None = LOOKED_AT,
    ) -> Found:
        """At most so many of the latest records, among so many looked at; ``before``: the last one seen.

        There is no index by pod: keeping one would cost every verb. Raises StoreAway.
        """
        found: list[Decision] = []
        seen, needles = 0, wanted.needles()
        for entries in self._backwards(before):
            for identity, raw in entries:
                seen += 1
                if not all(needle in raw for needle in needles):
                    continue
                decision = _decoded(identity, raw)
                if wanted.fits(decision):
                    found.append(decision)
                    if len(found) == limit:
                        return Found(found, identity, seen)
            if looked_at is not None and seen >= looked_at:
                return Found(found, entries[-1][0] if entries else None, seen)
        return Found(found, None, seen)

    def since(self, identity: str, *, limit: int = 1000) -> list[Decision]:
        """The records behind the one with this id, oldest first. Raises StoreAway."""
        with connecting.translated():
            entries = self._client.xrange(self._key, min=f"({identity}", max="+", count=limit)
        return list(_read(entries))

    def get(self, identity: str) -> Decision | None:
        """The record, or None if there is none (any more)."""
        milliseconds, _, number = identity.partition("-")
        if not (_is_number(milliseconds) and _is_number(number)):
            return None
        with connecting.translated():
            entries = self._client.xrange(self._key, min=identity, max=identity, count=1)
        return next(_read(entries), None)

    def candidates(self, decision: Decision, snapshot: snapshots.Snapshot) -> frozenset[str]:
        """The names that were offered; ``snapshot`` is the one at the decision's position (Histories.at)."""
        if snapshot.position != decision.position:
            raise errors.StoreError(
                f"decision {decision.id} was taken at {decision.position}, not at {snapshot.position}"
            )
        return packing.unpack(decision.candidates, self._known.names(snapshot.nodes))

    def recent_candidates(self, decision: Decision) -> frozenset[str] | None:
        """As ``candidates``, by the nodes that the follower remembers; None if it has not got so far.

        Only for positions that the follower has passed event by event (Follower.subscribe).
        """
        nodes = self._follower.nodes_at(decision.position)
        return None if nodes is None else packing.unpack(decision.candidates, self._known.names(nodes))

    def _backwards(self, before: str | None) -> Iterator[list[tuple[str, bytes]]]:
        """Ids and records in pages, newest first."""
        newest = "+" if before is None else f"({before}"
        while True:
            with connecting.translated():
                entries = self._client.xrevrange(self._key, max=newest, min="-", count=_SCAN)
            found = list(_raw(entries))
            yield found
            if len(found) < _SCAN:
                return
            newest = f"({found[-1][0]}"

    # -- the thread ------------------------------------------------------------------------

    def _write(self) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            self._drain()
        self._drain()

    def _drain(self) -> None:
        while self._drafts:
            batch = [self._drafts.popleft() for _ in range(min(_BATCH, len(self._drafts)))]
            try:
                self._send([self._encoded(draft) for draft in batch])
                self.written += len(batch)
            except Exception:
                # A record that cannot be written must not keep the next ones from it.
                self.dropped += len(batch)

    def _encoded(self, draft: Draft) -> bytes:
        given = draft.snapshot
        nodes = self._follower.nodes_at(draft.position) if given is None else given.nodes
        decision = Decision(
            id="",
            position=draft.position,
            verb=draft.verb,
            pod=draft.pod,
            candidates=self._known.packed(draft.names, nodes),
            count=len(draft.names),
            configuration=draft.configuration,
            kept=draft.kept,
            outcome=draft.outcome,
            at=draft.at,
            milliseconds=draft.milliseconds,
            reasons=draft.reasons,
            plugins=draft.plugins,
            node=draft.node,
            victims=draft.victims,
            error=draft.error,
        )
        return _encoder.encode(decision)

    def _send(self, records: list[bytes]) -> None:
        adding = "XADD", self._key, "MAXLEN", "~", self._kept, "*", "d"
        packed = [piece for record in records for piece in self._wire.pack(*adding, record)]
        try:
            self._wire.send([b"".join(packed)])
            for _ in records:
                self._wire.receive()
        except errors.StoreError:
            # The answers that are still to come must not be taken for those of the next batch.
            self._wire.close()
            raise


class _Names(NamedTuple):
    """The names of some nodes, sorted, and where each of them stands."""

    nodes: recalling.Nodes
    """Kept, so that its id stays its own."""
    names: tuple[str, ...]
    places: Mapping[str, int]


class _Known:
    """The sorted node names of snapshots, and the packings of candidate sets, each made once."""

    def __init__(self) -> None:
        self._names: OrderedDict[int, _Names] = OrderedDict()
        self._packings: OrderedDict[tuple[int, int], tuple[object, object, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def names(self, nodes: recalling.Nodes) -> tuple[str, ...]:
        """The names of the nodes, sorted."""
        return self._sorted(nodes).names

    def _sorted(self, nodes: recalling.Nodes) -> _Names:
        with self._lock:
            found = self._names.get(id(nodes))
            if found is None:
                names = tuple(sorted(nodes))
                found = self._names[id(nodes)] = _Names(nodes, names, dict(zip(names, count(), strict=False)))
                if len(self._names) > _PACKINGS_KEPT:
                    self._names.popitem(last=False)
            return found

    def packed(self, candidates: Collection[str], nodes: recalling.Nodes | None) -> bytes:
        """The candidates in terms of the nodes, if those are at hand."""
        known = self._sorted(nodes) if nodes is not None else None
        key = id(candidates), id(known)
        found = self._packings.get(key)
        if found is None:
            names, places = (known.names, known.places) if known is not None else (None, None)
            packed = packing.pack(candidates, names, places)
            found = self._packings[key] = candidates, known, packed
            if len(self._packings) > _PACKINGS_KEPT:
                self._packings.popitem(last=False)
        return found[2]


def _is_number(text: str) -> bool:
    """Whether the text is half of a stream id: an unsigned number of 64 bits."""
    return text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) < 2**64


def _raw(entries: object) -> Iterator[tuple[str, bytes]]:
    if isinstance(entries, list):
        for identity, fields in entries:
            yield identity.decode(), fields[b"d"]


def _decoded(identity: str, raw: bytes) -> Decision:
    return msgspec.structs.replace(_decoder.decode(raw), id=identity)


def _read(entries: object) -> Iterator[Decision]:
    return (_decoded(identity, raw) for identity, raw in _raw(entries))
