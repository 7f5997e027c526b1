"""The record of one reply to kube-scheduler, and queries over records."""

import hashlib
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from app.domain import model, snapshots
from app.store.decisions import bitmaps

LATE_MS = 600_000
"""A decision is recorded after the event that it saw, but not so many milliseconds after the next one."""
MAX_SCANNED = 20_000
"""Records that one query scans: a fifth of a second of an extender's time."""


LONGEST_POD = 4 * 1024
"""Bytes of a pod that are kept with each attempt to place it; the log has the rest."""
LONGEST = 64 * 1024
"""Bytes of a record at most: candidates and victims of the largest clusters take a third of it."""
_LONGEST_TEXT = 512
_SENTENCES = 16
_OBJECTS = 16
"""Objects that a record names at most."""
_sorted = msgspec.json.Encoder(order="deterministic")


class Answered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a decision that are known when the reply is sent."""

    position: model.Position
    verb: str
    pod: model.Pod
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
    going: tuple[model.Uid, ...] = ()
    """The pods that preempt took for gone, because they were about to be evicted for another pod."""
    error: str = ""
    whole: bool = False
    """A filter or prioritize that was sent whole nodes instead of their names (nodeCacheCapable: false)."""


class Draft(Answered, frozen=True, kw_only=True):
    """A decision before its candidates are packed."""

    names: Collection[model.NodeName]
    """The candidates; a frozenset is packed once, however many decisions share it."""
    snapshot: snapshots.Snapshot | None = None
    """The snapshot decided on; without it the nodes are those that the follower keeps."""
    concerned: Callable[[snapshots.Snapshot, model.Pod], Iterable[str]] | None = None
    """Finds ``objects`` (Registry.objects), when the record is written."""

    def objects(self) -> tuple[str, ...]:
        """The objects that the decision concerns, the first ones if there are many."""
        if self.concerned is None or self.snapshot is None:
            return ()
        return tuple(islice(self.concerned(self.snapshot, self.pod), _OBJECTS))


class Decision(Answered, frozen=True, kw_only=True, omit_defaults=True):
    """One recorded decision."""

    id: str = ""
    """Assigned by the store."""
    candidates: bytes
    """See ``bitmaps``; over the names of the nodes at ``position``."""
    count: int
    """How many candidates there were."""
    shortened: tuple[str, ...] = ()
    """Parts that were too large and not recorded in full: pod, candidates, victims, reasons."""
    digest: str = ""
    """Digest of the pod as sent, if it was not recorded: the log may have the same pod."""
    objects: tuple[str, ...] = ()
    """The objects of plugins that it concerns, as KIND:NAME."""

    @classmethod
    def of(cls, draft: Draft, candidates: bytes, objects: tuple[str, ...]) -> "Decision":
        """The draft with its candidates packed, and its objects."""
        shared = {name: getattr(draft, name) for name in _SHARED}
        return cls(**shared, candidates=candidates, count=len(draft.names), objects=objects)

    def encoded(self) -> tuple[bytes, bool]:
        """The record as it is stored, bounded, and whether something is missing (``shortened``)."""
        raw = _encoder.encode(self)
        if len(raw) <= LONGEST_POD:
            return raw, False
        record = self
        if len(_encoder.encode(self.pod)) > LONGEST_POD:
            record = replace(self, pod=replace(self.pod, unscheduled=""))  # No decision depends on it.
            if len(_encoder.encode(record.pod)) > LONGEST_POD:
                record = replace(self, pod=_bare(self.pod), shortened=("pod",), digest=digest(self.pod))
            raw = _encoder.encode(record)
        if len(raw) > LONGEST:
            record = record._bounded()
            raw = _encoder.encode(record)
        return raw, bool(record.shortened)

    def _bounded(self) -> "Decision":
        """Without the parts that grow with the cluster; each sentence shortened."""
        reasons: dict[str, int] = {}
        for sentence, nodes in list(self.reasons.items())[:_SENTENCES]:
            short = sentence[:_LONGEST_TEXT]
            reasons[short] = reasons.get(short, 0) + nodes
        return replace(
            self,
            candidates=bitmaps.pack((), None),
            victims={},
            going=(),
            reasons=reasons,
            error=self.error[:_LONGEST_TEXT],
            shortened=(*self.shortened, "candidates", "victims", "reasons"),
        )


_SHARED = Answered.__struct_fields__


def digest(pod: model.Pod) -> str:
    """Equal for equal pods; their refusals are ignored, as no decision depends on them."""
    return hashlib.sha256(_sorted.encode(replace(pod, unscheduled=""))).hexdigest()[:16]


def _bare(pod: model.Pod) -> model.Pod:
    return replace(pod, labels={}, annotations={}, owners=(), requests={}, unscheduled="")


class Found(NamedTuple):
    """The matching records, newest first, and where the search ended."""

    records: list[Decision]
    behind: str | None
    """The id below which older records were not scanned; None if all were."""
    scanned: int
    """How many records were scanned."""


class DecisionQuery(NamedTuple):
    """A query for records; None matches any."""

    pod: str | None = None
    """``namespace/name``, or a uid."""
    namespace: str | None = None
    node: str | None = None
    """The chosen node, or a node with victims."""
    plugin: str | None = None
    """A plugin that refused or scored."""
    reason: str | None = None
    """A part of a sentence."""
    object: str | None = None
    """KIND:NAME."""
    outcome: str | None = None
    verb: str | None = None

    def prefilters(self) -> list[bytes]:
        """Bytes contained in every matching record: searching for them is a tenth of the work of decoding."""
        named = None if self.pod is None else self.pod.rpartition("/")[2]
        whole = (named, self.namespace, self.node, self.plugin, self.object, self.outcome, self.verb)
        return [_encoder.encode(text) for text in whole if text is not None]

    def fits(self, decision: Decision) -> bool:
        """Whether the record matches."""
        return (
            (self.pod is None or self.pod in (decision.pod.key, decision.pod.uid))
            and (self.namespace is None or self.namespace == decision.pod.namespace)
            and (self.node is None or self.node == decision.node or self.node in decision.victims)
            and (self.plugin is None or self.plugin in decision.plugins)
            and (self.reason is None or any(self.reason in sentence for sentence in decision.reasons))
            and (self.object is None or self.object in decision.objects)
            and (self.outcome is None or self.outcome == decision.outcome)
            and (self.verb is None or self.verb == decision.verb)
        )


_encoder = msgspec.json.Encoder()


def order(identity: str) -> tuple[int, int]:
    """The place of a record among the others, by its id: milliseconds of the store's clock, and a number."""
    milliseconds, _, number = identity.partition("-")
    return int(milliseconds), int(number)


def written_ms(identity: str) -> int:
    """When a record was written, by its id: milliseconds of the store's clock."""
    return order(identity)[0]
