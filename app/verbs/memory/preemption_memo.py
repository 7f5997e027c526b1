"""Remembers the refusals and the granted preemptions of recent calls, which the log does not have yet.

kube-scheduler calls preempt some milliseconds after filter, and for the next pod before it has written the
nomination of the first one.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeVar

from app.domain import model, node_sets, verdicts

T = TypeVar("T")
Lacking = Literal["pods", "nodes"]
"""What a call waits for: it may not be in the log yet, or never be."""
Victims = Mapping[model.NodeName, tuple[model.Uid, ...]]
"""Node -> the uids of the pods that are evicted if kube-scheduler chooses it."""


class Refusal(NamedTuple):
    """A filter call that kept no node."""

    offered: node_sets.Names
    position: model.Position
    """The state that was decided on."""
    at: float
    """Monotonic seconds."""


class Grant(NamedTuple):
    """A preempt call that kept nodes, of which kube-scheduler chooses one, or none."""

    uid: model.Uid
    """The pod that preempts."""
    victims: Victims
    at: float
    """Monotonic seconds."""


class Round(NamedTuple):
    """The latest grant of a pod, and how often pods were evicted for it before."""

    victims: Victims
    at: float
    """Monotonic seconds."""
    before: int


class PreemptionMemo:
    """The most recent ones, bounded in number; safe between threads."""

    def __init__(self, kept: int = 16, rounds: int = 1_024) -> None:
        """``kept``: refusals, and as many grants. ``rounds``: pods whose latest grant is remembered."""
        self._kept, self._rounds_kept = kept, rounds
        self._rounds: OrderedDict[model.Uid, Round] = OrderedDict()
        self._refused: OrderedDict[model.Uid, Refusal] = OrderedDict()
        self._granted: OrderedDict[model.Uid, Grant] = OrderedDict()
        self._lock = threading.Lock()
        self._in_vain: dict[Lacking, float] = {}

    def note(self, trace: verdicts.Trace, at: float) -> None:
        """Note the latest filter decision about a pod.

        By uid alone: kube-scheduler may send preempt a newer version of the pod.
        """
        uid = trace.pod.uid
        kept = len(trace.refused) < len(trace.candidates)
        if kept and uid not in self._refused:
            return
        with self._lock:
            if kept:
                self._refused.pop(uid, None)
            else:
                _put(self._refused, uid, Refusal(trace.candidates, trace.position, at), self._kept)

    def take_refusal(self, uid: model.Uid) -> Refusal | None:
        """The pod's latest filter decision, if it kept no node; each is returned once."""
        with self._lock:
            return self._refused.pop(uid, None)

    def grant(self, uid: model.Uid, victims: Victims, at: float, before: int = 0) -> None:
        """Note that preempt kept nodes for the pod; ``before``: how often pods were evicted for it."""
        with self._lock:
            _put(self._granted, uid, Grant(uid, victims, at), self._kept)
            _put(self._rounds, uid, Round(victims, at, before), self._rounds_kept)

    def latest(self, uid: model.Uid) -> Round | None:
        """The latest grant of the pod."""
        with self._lock:
            return self._rounds.get(uid)

    def grants(self) -> list[Grant]:
        """All that are remembered, the oldest first."""
        with self._lock:
            return list(self._granted.values())

    def in_vain(self, lacking: Lacking) -> float:
        """When a call had last waited in vain for such a record, in monotonic seconds."""
        return self._in_vain.get(lacking, -math.inf)

    def waited_in_vain(self, lacking: Lacking, at: float) -> None:
        """Note that a call has waited as long as it may."""
        self._in_vain[lacking] = at

    def forget(self, grant: Grant) -> None:
        """Drop a grant whose outcome the log has."""
        with self._lock:
            if self._granted.get(grant.uid) is grant:
                del self._granted[grant.uid]


def _put(remembered: OrderedDict[model.Uid, T], uid: model.Uid, one: T, most: int) -> None:
    remembered[uid] = one
    remembered.move_to_end(uid)
    if len(remembered) > most:
        remembered.popitem(last=False)
