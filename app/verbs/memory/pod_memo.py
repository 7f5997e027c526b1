"""Remembers recent pods, their candidates and their filter decision: filter, prioritize and bind share them.

Every answer of the memo is the value that its ``compute`` would return: a decision is a pure function of its
inputs, and the memo compares all of them.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app.domain import model, verdicts
from app.verbs import candidates


class _Filtered(NamedTuple):
    """The latest filter call about a pod. Replaced as a whole: threads read it without a lock."""

    offered: candidates.Candidates
    kept: candidates.Candidates | None = None
    """The offered nodes that filter kept; None until it has answered with names."""
    trace: verdicts.Trace | None = None
    """The filter decision about the offered nodes."""


@dataclass(slots=True, eq=False)
class RecentPod:
    """One pod as kube-scheduler sent it last."""

    spelled: bytes
    """The pod's JSON."""
    pod: model.Pod
    version: str = ""
    """The pod's resourceVersion; empty if it was not sent."""
    filtered: _Filtered | None = None
    """Written by PodMemo only; None before the first filter call, and after the memo dropped it."""


class PodMemo:
    """The most recent pods, bounded in number and bytes; safe between threads."""

    def __init__(self, kept: int = 512, holding: int = 16, size: int = 16 * 1024 * 1024) -> None:
        """``kept``: pods; ``holding``: filter calls with their candidates and traces, which are large;
        ``size``: bytes of the JSON of all pods; the latest pod is kept whatever its size.
        """
        self._kept = kept
        self._holding = holding
        self._size = size
        self.taken = 0
        """Bytes of the JSON of all pods."""
        self._held: deque[RecentPod] = deque()
        self._by_uid: OrderedDict[model.Uid, RecentPod] = OrderedDict()
        self._by_spelling: dict[bytes, RecentPod] = {}
        self._lock = threading.Lock()

    # -- pods --------------------------------------------------------------------------------

    def get(self, uid: model.Uid) -> RecentPod | None:
        """The pod with this uid as it was sent last, if it is remembered."""
        return self._by_uid.get(uid)

    def spelled(self, raw: bytes) -> RecentPod | None:
        """The pod whose JSON is exactly ``raw``, if it is remembered."""
        return self._by_spelling.get(raw)

    def pod_for(self, raw: bytes, decode: Callable[[bytes], RecentPod]) -> RecentPod:
        """The pod whose JSON is exactly ``raw``; decoded and remembered if it is not remembered."""
        known = self.spelled(raw)
        if known is None:
            known = decode(raw)
            self.put(known)
        return known

    def put(self, recent: RecentPod) -> None:
        """Remember a pod; the oldest ones are dropped until the number and the bytes are within bounds."""
        with self._lock:
            former = self._by_uid.pop(recent.pod.uid, None)
            if former is not None:
                self._forget(former)
            self.taken += len(recent.spelled)
            while self._by_uid and (len(self._by_uid) >= self._kept or self.taken > self._size):
                self._forget(self._by_uid.popitem(last=False)[1])
            self._by_uid[recent.pod.uid] = recent
            self._by_spelling[recent.spelled] = recent

    def _forget(self, former: RecentPod) -> None:
        """Drop the rest of a pod that is no longer found by its uid."""
        self._by_spelling.pop(former.spelled, None)
        self.taken -= len(former.spelled)

    # -- filter calls ------------------------------------------------------------------------

    def candidates_for(
        self, recent: RecentPod, spelled: bytes, compute: Callable[[], candidates.Candidates]
    ) -> candidates.Candidates:
        """The candidates whose JSON is exactly ``spelled``.

        Those of the pod's latest filter call, offered or kept, are reused. All others are computed and become
        the latest call; the candidates and the trace of the oldest call are dropped.
        """
        filtered = recent.filtered
        if filtered is not None:
            for known in (filtered.offered, filtered.kept):
                if known is not None and known.spelled == spelled:
                    return known
        offered = compute()
        self.hold(recent, offered)
        return offered

    def hold(self, recent: RecentPod, offered: candidates.Candidates) -> None:
        """Begin a filter call: remember its candidates, and drop those of the oldest call."""
        with self._lock:
            recent.filtered = _Filtered(offered)
            self._held.append(recent)
            if len(self._held) > self._holding:
                former = self._held.popleft()
                if former not in self._held:
                    former.filtered = None

    def trace_for(
        self,
        pod: model.Pod,
        offered: candidates.Candidates,
        position: model.Position,
        compute: Callable[[], verdicts.Trace],
    ) -> verdicts.Trace:
        """The filter decision about the pod and these candidates at this position of the log.

        Reused only for the same pod, candidates and position; otherwise computed, and remembered if the pod's
        latest filter call is still about these candidates.
        """
        recent, filtered = self._call(pod, offered)
        if filtered is not None and filtered.trace is not None and filtered.trace.position == position:
            return filtered.trace
        trace = compute()
        if recent is not None and filtered is not None:
            self._replace(recent, filtered, filtered._replace(trace=trace))
        return trace

    def keep(self, pod: model.Pod, offered: candidates.Candidates, kept: candidates.Candidates) -> None:
        """Remember which of the offered nodes filter kept: prioritize is asked about these next."""
        recent, filtered = self._call(pod, offered)
        if recent is not None and filtered is not None:
            self._replace(recent, filtered, filtered._replace(kept=kept))

    def filtered_at(self, uid: model.Uid) -> model.Position | None:
        """The position of the pod's latest filter decision; None if it is not remembered."""
        recent = self._by_uid.get(uid)
        filtered = recent.filtered if recent is not None else None
        return filtered.trace.position if filtered is not None and filtered.trace is not None else None

    def _call(
        self, pod: model.Pod, offered: candidates.Candidates
    ) -> tuple[RecentPod | None, _Filtered | None]:
        """The filter call about exactly this pod and these candidates, if it is remembered."""
        recent = self._by_uid.get(pod.uid)
        if recent is None or recent.pod is not pod:
            return None, None
        filtered = recent.filtered
        return (recent, filtered) if filtered is not None and filtered.offered is offered else (recent, None)

    def _replace(self, recent: RecentPod, former: _Filtered, filtered: _Filtered) -> None:
        """Write what was computed from ``former``, unless another call replaced or dropped that meanwhile."""
        with self._lock:
            if recent.filtered is former:
                recent.filtered = filtered
