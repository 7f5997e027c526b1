"""What every verb is given: the plugins, the state, the way to the cluster, and a memory of recent pods."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from app.domain import model, snapshots, verdicts
from app.framework import registry
from app.kube import binding
from app.store import decisions, logs
from app.store import errors as store_errors
from app.verbs import candidates, meetings


class State(Protocol):
    """The cluster as this process knows it (store.following.Follower)."""

    @property
    def snapshot(self) -> snapshots.Snapshot:
        """The latest snapshot applied here; may be behind the log."""
        ...

    @property
    def caught_up(self) -> bool:
        """The head of the log was reached at least once."""
        ...

    @property
    def lag_seconds(self) -> float:
        """How long ago the snapshot was last known to be the head of the log."""
        ...

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        """The snapshot at the head of the log; raises StoreAway."""
        ...

    def adopt(self, ahead: snapshots.Snapshot, appended: logs.Appended | None = None) -> None:
        """Take the projection of an append of our own that directly follows."""
        ...


@dataclass(slots=True, eq=False)
class Recent:
    """One pod as kube-scheduler lately sent it, and what was made of it."""

    spelled: bytes
    """The pod's JSON."""
    pod: model.Pod
    version: str = ""
    """The pod's resourceVersion; empty if it was not sent."""
    offered: candidates.Candidates | None = None
    told: candidates.Candidates | None = None
    """What filter kept of the offered ones."""
    trace: verdicts.Trace | None = None
    """The latest filter decision; valid at its own position only."""


class Recents:
    """The last pods that were asked about: filter's work is reused by prioritize and bind."""

    def __init__(self, kept: int = 512, holding: int = 16, size: int = 16 * 1024 * 1024) -> None:
        """``kept``: pods; ``holding``: of the latest ones, candidates and trace too, which are large;
        ``size``: bytes of the JSON of all pods, but for the latest one.
        """
        self._kept = kept
        self._holding = holding
        self._size = size
        self.taken = 0
        """Bytes of the JSON of all pods."""
        self._held: deque[Recent] = deque()
        self._by_uid: OrderedDict[model.Uid, Recent] = OrderedDict()
        self._by_spelling: dict[bytes, Recent] = {}
        self._lock = threading.Lock()

    def get(self, uid: model.Uid) -> Recent | None:
        """What is remembered of the pod."""
        return self._by_uid.get(uid)

    def spelled(self, raw: bytes) -> Recent | None:
        """What is remembered of a pod whose JSON was exactly this."""
        return self._by_spelling.get(raw)

    def put(self, recent: Recent) -> None:
        """Remember a pod; the oldest are forgotten when there are too many, or they are too large."""
        with self._lock:
            former = self._by_uid.pop(recent.pod.uid, None)
            if former is not None:
                self._forget(former)
            self.taken += len(recent.spelled)
            while self._by_uid and (len(self._by_uid) >= self._kept or self.taken > self._size):
                self._forget(self._by_uid.popitem(last=False)[1])
            self._by_uid[recent.pod.uid] = recent
            self._by_spelling[recent.spelled] = recent

    def _forget(self, former: Recent) -> None:
        """The pod is no longer found by its uid; let go of the rest."""
        self._by_spelling.pop(former.spelled, None)
        self.taken -= len(former.spelled)

    def hold(self, recent: Recent, offered: candidates.Candidates) -> None:
        """Remember what the pod was offered, and forget what one some calls ago was."""
        with self._lock:
            recent.offered, recent.told, recent.trace = offered, None, None
            self._held.append(recent)
            if len(self._held) > self._holding:
                former = self._held.popleft()
                if former not in self._held:
                    former.offered = former.told = former.trace = None

    def tell(self, pod: model.Pod, offered: candidates.Candidates, kept: candidates.Candidates) -> None:
        """Remember what filter kept of the offered nodes, if these are still remembered."""
        recent = self._by_uid.get(pod.uid)
        if recent is not None and recent.offered is offered:
            recent.told = kept


@dataclass(frozen=True, slots=True)
class Budgets:
    """How long a verb may take, in seconds: less than the scheduler's httpTimeout of 5."""

    state: float = 1.8
    """For catching up with the log; a pod under a hard policy gets its Error after that."""
    bind: float = 3.5


@dataclass(frozen=True, slots=True)
class Context:
    """Everything a verb works with; built once by bootstrap."""

    plugins: registry.Registry
    state: State
    log: logs.Log
    decisions: decisions.Decisions
    binder: binding.Binder
    now: Callable[[], str]
    """Wall clock as RFC 3339, for people."""
    monotonic: Callable[[], float]
    digest: str
    """Registry.digest, computed once."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Debug flags as set at the start: letter -> value."""
    identity: str = "topolog"
    budgets: Budgets = field(default_factory=Budgets)
    recents: Recents = field(default_factory=Recents)
    met: meetings.Meetings = field(default_factory=meetings.Meetings)
    sleep: Callable[[float], None] = time.sleep

    def present(self, timeout: float) -> snapshots.Snapshot:
        """The snapshot to decide on: the head of the log, once it is known to hold what the cluster holds.

        Raises StoreError, StoreAway also before every kind was listed: for the first time, or again after
        the store may have lost events.
        """
        snapshot = self.state.catch_up(timeout=timeout)
        if snapshot.unlisted:
            missing = ", ".join(sorted(snapshot.unlisted))
            raise store_errors.StoreAway(f"it does not hold the whole cluster yet: {missing} to be listed")
        return snapshot

    def followed(self, uid: model.Uid) -> snapshots.Snapshot | None:
        """The state as it is followed here, if lately a filter of this pod had the log's head; else None.

        It may lack what others wrote since then: for what promises nothing.
        """
        recent, snapshot = self.recents.get(uid), self.state.snapshot
        trace = recent.trace if recent is not None else None
        if trace is None:
            return None
        had = trace.position
        behind = had.incarnation != snapshot.position.incarnation or had.offset > snapshot.offset
        return None if behind or snapshot.unlisted else snapshot
