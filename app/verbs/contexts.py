"""The dependencies that all verbs share: plugins, state, log, API server, memo of pods, placement ages."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from app.domain import model, snapshots
from app.framework import registry
from app.kube.writes import binding
from app.store import errors as store_errors
from app.store.decisions import decision_log
from app.store.log import batches, logs
from app.verbs.memory import pod_memo, preemption_memo

_LEAST = 0.05
"""Seconds that each call to the store gets at least."""


class State(Protocol):
    """The cluster state that this process follows (app.store.state.followers.Follower)."""

    @property
    def snapshot(self) -> snapshots.Snapshot:
        """The latest snapshot of this process; may be behind the log."""
        ...

    @property
    def caught_up(self) -> bool:
        """Whether this process has reached the head of the log at least once."""
        ...

    @property
    def lag_seconds(self) -> float:
        """Seconds since the snapshot was last known to be the head of the log."""
        ...

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        """The snapshot at the head of the log; raises StoreAway."""
        ...

    def apply_own_append(self, ahead: snapshots.Snapshot, appended: batches.Appended | None = None) -> None:
        """Make the result of this process's own append, which directly follows, its snapshot."""
        ...


ForeignPlacement = tuple[model.Uid, model.Position]
"""A pod and the position of its placement: a pod that is placed again has another one."""


class PlacementAges:
    """When this process first saw each recent placement; safe between threads.

    Ages are measured by this process's monotonic clock, never by the wall clock of the process that placed
    the pod: a placement is at least as old as that.
    """

    def __init__(self, kept: int = 4096) -> None:
        self._kept = kept
        self._since: OrderedDict[ForeignPlacement, float] = OrderedDict()
        self._lock = threading.Lock()

    def since(self, placement: ForeignPlacement, now: float) -> float:
        """When the placement was first seen, in monotonic seconds: ``now`` for a new one."""
        with self._lock:
            if placement not in self._since and len(self._since) >= self._kept:
                self._since.popitem(last=False)
            return self._since.setdefault(placement, now)


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits of a verb in seconds: below kube-scheduler's httpTimeout of 5 s."""

    state: float = 1.8
    """For catching up with the log; after that a pod under a hard policy gets an Error."""
    bind: float = 3.5


@dataclass(frozen=True, slots=True)
class Context:
    """The dependencies of a verb; built once by extender_process."""

    plugins: registry.Registry
    state: State
    log: logs.Log
    decisions: decision_log.DecisionLog
    binder: binding.Binder
    now: Callable[[], str]
    """Wall clock as RFC 3339, for people."""
    monotonic: Callable[[], float]
    digest: str
    """Registry.digest, computed once."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Debug flags as set at the start: letter -> value."""
    identity: str = "topolog"
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    memo: pod_memo.PodMemo = field(default_factory=pod_memo.PodMemo)
    preemptions: preemption_memo.PreemptionMemo = field(default_factory=preemption_memo.PreemptionMemo)
    ages: PlacementAges = field(default_factory=PlacementAges)
    sleep: Callable[[float], None] = time.sleep
    held_refusals: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(32))
    """Permits to hold a refusal back in the thread of its call; the threads without one are for others."""

    def present(self, timeout: float) -> snapshots.Snapshot:
        """The snapshot to decide on: the head of the log, provided that it holds the whole cluster.

        Raises StoreError; StoreAway also while some kind is not listed yet, at the first start or after a
        loss of events, while the store may lack the end of its log, and while it is unknown whose log it is;
        OtherCluster if it is another cluster's.
        """
        self.log.check_compared()
        if self.log.in_doubt:
            timeout = self._check_end(timeout)
        snapshot = self.state.catch_up(timeout=timeout)
        # It may have switched to an incarnation that is not compared yet.
        self.log.check_compared()
        if snapshot.unlisted:
            missing = ", ".join(sorted(snapshot.unlisted))
            raise store_errors.StoreAway(f"the cluster is not fully recorded yet; still listing: {missing}")
        return snapshot

    def _check_end(self, timeout: float) -> float:
        """What is left of the timeout once the end of the log is no longer in doubt. Raises StoreError."""
        end = self.monotonic() + timeout
        # First: the log may have another incarnation, of which nothing is in doubt.
        self.state.catch_up(timeout=timeout)
        if self.log.in_doubt:
            now = self.monotonic()
            self.log.check_end(now, timeout=max(_LEAST, end - now))
        return max(_LEAST, end - self.monotonic())

    def unreliable(self, snapshot: snapshots.Snapshot) -> bool:
        """Whether the snapshot may be of another cluster's log, or lack events that the store lost."""
        return self.log.foreign is not None or self.log.lacking(snapshot.position)

    def last_known(self) -> snapshots.Snapshot | None:
        """The latest snapshot, for decisions without the store; None if it is not the whole cluster's."""
        snapshot = self.state.snapshot
        if not self.state.caught_up or not self.log.compared or self.unreliable(snapshot):
            return None  # This process has never seen the cluster, or not all of it.
        # While some kind is not listed, what concerns a pod may have changed since it was.
        return None if snapshot.unlisted else snapshot

    def needs_no_record(self, snapshot: snapshots.Snapshot, pod: model.Pod, node: model.NodeName) -> bool:
        """Whether no plugin is interested in the pod, and no counter would count it on the node."""
        if self.plugins.concerned(pod, snapshot):
            return False
        if node not in snapshot.nodes:
            # Nothing is known of the node: any counter that selects the pod may count it there.
            return not snapshot.schema.selects(pod, snapshot.objects)
        return not snapshot.contributions(pod, node)

    def followed(self, uid: model.Uid) -> snapshots.Snapshot | None:
        """This process's latest snapshot, if it includes the position of the pod's latest filter; else None.

        It may lack later events of others: use it only for answers that reserve nothing.
        """
        filtered, snapshot = self.memo.filtered_at(uid), self.state.snapshot
        if filtered is None or snapshot.unlisted or self.log.foreign is not None:
            return None
        behind = filtered.incarnation != snapshot.position.incarnation or filtered.offset > snapshot.offset
        return None if behind else snapshot
