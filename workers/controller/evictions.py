"""Carries out EvictPods: evicts what plugins want evicted, pod by pod.

The evictions of a plugin are computed from the state of the log, so the next pod is evicted only by what was
computed from a state in which the former one terminates: otherwise another pod could be evicted for what was
freed already. An eviction that a PodDisruptionBudget or another plugin does not allow is tried again later,
and until then no other pod is evicted for the same subject. Where each pod helps by itself, only those stay
that a plugin protects, or that the Eviction API never evicts: these are reported once.

Events may have followed that state when the turn of a pod comes. The plugin therefore computes the eviction
once more from the present state (effects.Eviction.renewed), and one that is not wanted there has been
interrupted: the seconds for which it must be wanted start again. The call may have to wait for its turn, so
what has changed by then counts, too.
"""

import functools
import http
import math
import threading
from collections.abc import Callable
from typing import NamedTuple

from app import clocks, telemetry
from app.domain import model, snapshots
from app.framework import effects, registry
from app.kube import call_limits, errors
from app.kube.client import clients
from app.kube.writes import evictions
from workers.controller import plugin_calls

EVERY = 1.0
"""Seconds between two evictions for a plugin (Koordinator's revokePodInterval)."""
RETRY = 10.0
"""Seconds until an eviction that was refused or failed is tried again; the disruption controller of
Kubernetes takes less to count a pod that is gone."""
SEEN = 30.0
"""Seconds for which an evicted pod may take to be observed as terminating, before others are evicted."""
EVICTED = "TopologEvicted"
NOT_EVICTED = "TopologEvictionRefused"
UNSUPPORTED = "several PodDisruptionBudgets select the pod, and the Eviction API supports one"

Post = Callable[[effects.PostEvent, str], None]
"""Posts an Event in a leadership (event_poster.EventPoster.submit)."""


class _Wanted(NamedTuple):
    found: effects.EvictPods
    snapshot: snapshots.Snapshot
    """The state that it was computed from."""
    term: str
    since: dict[str, float]
    """Subject -> since when it has been wanted (monotonic); without those that are not wanted any more."""


class _Evicted(NamedTuple):
    """The latest pod that was evicted for a plugin."""

    uid: model.Uid
    at: float


class _Choice(NamedTuple):
    """What an eviction amounts to in one state."""

    eviction: effects.Eviction
    pod: model.Pod
    """The pod to evict next."""
    veto: str | None
    """Why a plugin objects to that."""


class Evictor:
    """Evicts pods; ``run_once`` is used by one thread."""

    def __init__(
        self,
        client: clients.Client,
        snapshot: Callable[[], snapshots.Snapshot],
        plugins: registry.Registry,
        post: Post,
        limit: call_limits.CallLimit,
        clock: clocks.Clock,
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._plugins = plugins
        self._post = post
        self._limit = limit
        self._clock = clock
        self._calls = plugin_calls.PluginCalls()
        self._lock = threading.Lock()
        self._wanted: dict[str, _Wanted] = {}
        """Plugin -> what it wants."""
        self._evicted: dict[str, _Evicted] = {}
        self._refused: dict[tuple[str, str], float] = {}
        """Plugin and subject -> when it may be tried again (monotonic); those of the past are removed."""
        self._reported: dict[str, frozenset[tuple[str, model.Uid]]] = {}
        """Plugin -> subject and pod, of those that were reported as pods that cannot be evicted."""

    def submit(self, found: effects.EvictPods, snapshot: snapshots.Snapshot, term: str) -> None:
        """Evict these pods, in place of those that the plugin wanted before. Thread-safe.

        ``snapshot``: the state that the effect was computed from.
        """
        now = self._clock.monotonic()
        with self._lock:
            former = self._wanted.get(found.plugin)
            known = former.since if former is not None and former.term == term else {}
            since = {one.subject: known.get(one.subject, now) for one in found.wanted}
            self._wanted[found.plugin] = _Wanted(found, snapshot, term, since)

    def forget(self) -> None:
        """Keep no state on standby. What is wanted is submitted in each leadership."""
        with self._lock:
            self._wanted.clear()

    def run_once(self) -> int:
        """Evict at most one pod for each plugin; how many were evicted."""
        now, snapshot = self._clock.monotonic(), self._snapshot()
        self._refused = {key: at for key, at in self._refused.items() if at > now}
        with self._lock:
            wanted = list(self._wanted.values())
        return sum(self._evict_one(one, snapshot, now) for one in wanted)

    def _evict_one(self, wanted: _Wanted, snapshot: snapshots.Snapshot, now: float) -> bool:
        plugin = wanted.found.plugin
        if not self._seen(wanted, now):
            return False
        since = wanted.since
        due = [one for one in wanted.found.wanted if now - since.get(one.subject, math.inf) >= one.after]
        self._report(due, wanted)
        for former in due:
            key = (plugin, former.subject)
            if key in self._refused or not former.pods:
                continue
            choice = self._choice(wanted, former, snapshot)
            if choice is None:
                continue
            outcome = self._carried_out(choice, former, wanted, snapshot)
            if outcome is not None:
                telemetry.metrics.EVICTIONS.labels(outcome).inc()
            if outcome != "evicted":
                self._refused[key] = now + RETRY
            return outcome == "evicted"
        return False

    def _report(self, due: list[effects.Eviction], wanted: _Wanted) -> None:
        """Report each pod that would go, and that the Eviction API never evicts."""
        former = self._reported.get(wanted.found.plugin, frozenset())
        found = {(one.subject, pod.uid): pod for one in due for pod in one.unsupported}
        for subject, uid in found.keys() - former:
            pod = found[subject, uid]
            self._post(effects.PostEvent(pod, NOT_EVICTED, f"{subject}: {UNSUPPORTED}"), wanted.term)
            telemetry.log.info("not evicted", pod=pod.key, subject=subject, reason=UNSUPPORTED)
        self._reported[wanted.found.plugin] = frozenset(found)

    def _choice(
        self, wanted: _Wanted, former: effects.Eviction, snapshot: snapshots.Snapshot
    ) -> _Choice | None:
        """What is evicted in this state, which is the present one; None if nothing is."""
        one = self._renewed(wanted, former, snapshot)
        left = [pod for pod in one.pods if _evictable(pod, snapshot)] if one is not None else []
        return _Choice(one, *self._chosen(left, one, snapshot)) if one is not None and left else None

    def _choice_in_turn(
        self, choice: _Choice, former: effects.Eviction, wanted: _Wanted, snapshot: snapshots.Snapshot
    ) -> _Choice:
        """The choice once the call may be sent. Raises NotAdmitted if the eviction was interrupted since."""
        present = self._snapshot()
        with self._lock:
            latest = self._wanted.get(wanted.found.plugin)
        if latest is None or latest.since.get(former.subject) != wanted.since[former.subject]:
            raise call_limits.NotAdmitted
        again = choice if present is snapshot else self._choice(wanted, former, present)
        if again is None or again.veto is not None:
            raise call_limits.NotAdmitted
        return again

    def _renewed(
        self, wanted: _Wanted, one: effects.Eviction, snapshot: snapshots.Snapshot
    ) -> effects.Eviction | None:
        """The eviction as of the present state; None if it is not wanted any more, or the plugin fails."""
        if one.renewed is None:
            return one
        found = self._calls.call(wanted.found.plugin, "renewed", functools.partial(one.renewed, snapshot))
        if found is None:
            with self._lock:
                # A newer request of the plugin, computed meanwhile from a later state, has its own.
                wanted.since.pop(one.subject, None)
        return found

    def _seen(self, wanted: _Wanted, now: float) -> bool:
        """Whether the plugin's state includes its latest eviction, so that another one may follow."""
        last = self._evicted.get(wanted.found.plugin)
        if last is None:
            return True
        pod = wanted.snapshot.pod(last.uid)
        going = pod is None or pod.terminating or pod.finished
        return now - last.at >= (EVERY if going else SEEN)

    def _carried_out(
        self, choice: _Choice, former: effects.Eviction, wanted: _Wanted, snapshot: snapshots.Snapshot
    ) -> str | None:
        """Evict the pod of the choice in that state, or of the state in which the call may be sent.

        The outcome for the metric; None if the leadership has ended, or nothing is evicted by then.
        """
        plugin = wanted.found.plugin
        one, pod, reason = choice
        if reason is not None:
            telemetry.log.info("not evicted", pod=pod.key, subject=one.subject, reason=reason)
            return "vetoed"
        try:
            with self._limit.sending(wanted.term):
                one, pod, _ = self._choice_in_turn(choice, former, wanted, snapshot)
                reason = evictions.evict(self._client, pod)
        except call_limits.NotAdmitted:
            return None
        except errors.Unreachable:
            self._evicted[plugin] = _Evicted(pod.uid, self._clock.monotonic())
            return "failed"
        except errors.ApiError as problem:
            if problem.status in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT):
                return "gone"
            telemetry.log.warning("cannot evict a pod", pod=pod.key, problem=str(problem))
            return "failed"
        if reason:
            self._post(effects.PostEvent(pod, NOT_EVICTED, f"{one.subject}: {reason}"), wanted.term)
            telemetry.log.info("not evicted", pod=pod.key, subject=one.subject, reason=reason)
            return "budget"
        self._evicted[plugin] = _Evicted(pod.uid, self._clock.monotonic())
        self._post(effects.PostEvent(pod, EVICTED, one.message), wanted.term)
        telemetry.log.info("evicted", pod=pod.key, node=pod.node, subject=one.subject, reason=one.message)
        return "evicted"

    def _chosen(
        self, left: list[model.Pod], one: effects.Eviction, snapshot: snapshots.Snapshot
    ) -> tuple[model.Pod, str | None]:
        """The first of the pods that may go; if none may, the first one and why a plugin objects."""
        first = left[0]
        reason = self._plugins.objection(snapshot, first, one.pods)
        if reason is None or one.together:
            return first, reason
        stay = self._plugins.protected(snapshot, left)
        free = next((pod for pod in left if pod.uid not in stay), None)
        return (first, reason) if free is None else (free, None)


def _evictable(pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
    """Whether the pod still runs on its node. The API server would delete a pending one at once."""
    found = snapshot.pod(pod.uid)
    return found is not None and bool(found.node) and found.node == pod.node and found.counted
