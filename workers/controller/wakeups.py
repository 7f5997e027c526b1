"""Carries out WakePods: wakes pending pods when capacity becomes available.

Wake-ups are only queued; one thread writes them, one pod at a time, at a limited rate.
Only the latest wake-up per pod is kept; duplicates are coalesced. One that the API server is too busy for, or
that does not reach it, is queued again for as long as the pod waits and the leadership lasts; the common
limit of all calls has the backoff. One that conflicts (409) is, too, with a backoff of its own: the conflict
is that of one pod, and must delay no other call.

A pod that kube-scheduler has not tried yet needs no waking: it is in the queue and will find the capacity. If
it is refused nevertheless, the refusal may be based on an older state: the wake-up is kept until the refusal
is observed as the condition PodScheduled=False.
"""

import http
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from app import clocks, telemetry
from app.domain import events, model, snapshots
from app.framework import effects
from app.kube import backoffs, call_limits, errors
from app.kube.client import clients
from app.kube.writes import pod_conditions

MAX_PODS = 10_000
"""Pods that may wait for their wake-up; beyond that the oldest wake-ups are dropped."""


class _Wakeup(NamedTuple):
    pod: model.Pod
    message: str
    position: model.Position
    term: str
    due: float = 0.0
    """Monotonic: it is written no earlier."""
    backoff: backoffs.Backoff | None = None
    """Of the attempts, once one of them has conflicted."""


class Waker:
    """Wakes pending pods; ``run_once`` is used by one thread, ``on_event`` by the follower's."""

    def __init__(
        self,
        client: clients.Client,
        snapshot: Callable[[], snapshots.Snapshot],
        limit: call_limits.CallLimit,
        clock: clocks.Clock,
        *,
        now: Callable[[], str],
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._limit = limit
        self._clock = clock
        self._now = now
        self._queue: OrderedDict[model.Uid, _Wakeup] = OrderedDict()
        self._noted: OrderedDict[model.Uid, model.Position] = OrderedDict()
        self._untried: OrderedDict[model.Uid, _Wakeup] = OrderedDict()
        """Wake-ups of pods that were not refused yet."""
        self._changed = threading.Condition()
        self.dropped = 0
        """Wake-ups that were dropped because too many pods waited."""

    def submit(self, found: effects.WakePods, position: model.Position, term: str) -> None:
        """Queue a wake-up for each pod; ``position`` is that of the event that freed the capacity."""
        wakeups = [_Wakeup(pod, found.message, position, term) for pod in found.pods]
        self._note(one for one in wakeups if found.refused or one.pod.unscheduled)
        self._keep(one for one in wakeups if not (found.refused or one.pod.unscheduled))

    def on_event(self, event: events.AnyEvent) -> None:
        """Queue the kept wake-up of a pod whose first attempt has ended."""
        if self._untried:
            self._release_tried(event)

    def _keep(self, wakeups: Iterable[_Wakeup]) -> None:
        with self._changed:
            for one in wakeups:
                self._untried.pop(one.pod.uid, None)
                self._untried[one.pod.uid] = one
            while len(self._untried) > MAX_PODS:
                self._untried.popitem(last=False)

    def _release_tried(self, event: events.AnyEvent) -> None:
        match event:
            case events.PodSeen(pod=pod) if pod.unscheduled or not pod.pending:
                with self._changed:
                    kept = self._untried.pop(pod.uid, None)
                if kept is not None and pod.pending:
                    self._note((kept._replace(pod=pod),))
            case events.PodGone(uid=uid):
                with self._changed:
                    self._untried.pop(uid, None)

    def _note(self, wakeups: Iterable[_Wakeup]) -> None:
        with self._changed:
            for one in wakeups:
                uid = one.pod.uid
                self._queue.pop(uid, None)
                self._queue[uid] = one
                self._noted.pop(uid, None)
                self._noted[uid] = one.position
            while len(self._noted) > MAX_PODS:
                self._noted.popitem(last=False)
            while len(self._queue) > MAX_PODS:
                uid, _ = self._queue.popitem(last=False)
                self._noted.pop(uid, None)
                self.dropped += 1
            self._changed.notify()

    def noted(self, uid: model.Uid) -> model.Position | None:
        """The position of the latest event that the pod had a wake-up for; None also if that was dropped."""
        return self._noted.get(uid)

    def run_once(self, *, timeout: float) -> bool:
        """Try to wake the next pod; false if no wake-up was due within ``timeout`` seconds."""
        with self._changed:
            due = self._due()
            if due is None:
                self._changed.wait(timeout)
                due = self._due()
            if due is None:
                return False
            wakeup = self._queue.pop(due)
        if wakeup.pod.uid in self._snapshot().waiting:
            telemetry.metrics.WAKEUPS.labels(self._attempt(wakeup)).inc()
        return True

    def _due(self) -> model.Uid | None:
        now = self._clock.monotonic()
        return next((uid for uid, one in self._queue.items() if one.due <= now), None)

    def interrupt(self) -> None:
        """Let ``run_once`` return."""
        with self._changed:
            self._changed.notify_all()

    def _attempt(self, wakeup: _Wakeup) -> str:
        """Wake a pod, now or later; returns the outcome for the metric."""
        outcome, uid = self._wake(wakeup), wakeup.pod.uid
        if outcome not in ("failed", "conflict", "ended"):
            return outcome
        with self._changed:
            if uid in self._queue:
                return "superseded"
            if outcome == "failed":
                self._queue[uid] = wakeup
            elif outcome == "conflict":
                self._queue[uid] = self._postponed(wakeup)
            else:  # The next leadership has to find out by itself whether the pod must be woken.
                self._noted.pop(uid, None)
        return outcome

    def _postponed(self, wakeup: _Wakeup) -> _Wakeup:
        backoff = wakeup.backoff or backoffs.Backoff(self._clock)
        return wakeup._replace(due=self._clock.monotonic() + backoff.pause(), backoff=backoff)

    def _wake(self, wakeup: _Wakeup) -> str:
        """Write the condition once; ``failed`` or ``conflict`` if the same call may succeed later."""
        # The offset makes every message a change, and only a change wakes the pod.
        message = f"{wakeup.message} (as of event {wakeup.position.offset})"
        condition = pod_conditions.Condition(
            pod_conditions.CAPACITY_AVAILABLE, "CapacityFreed", message, self._now()
        )
        try:
            with self._limit.sending(wakeup.term):
                pod_conditions.set_condition(self._client, wakeup.pod, condition)
        except call_limits.NotAdmitted:
            return "ended"
        except errors.KubeError as problem:
            status = problem.status if isinstance(problem, errors.ApiError) else None
            if status == http.HTTPStatus.NOT_FOUND or "metadata.uid" in str(problem):
                return "gone"
            if status == http.HTTPStatus.CONFLICT:
                return "conflict"
            if call_limits.busy(problem):
                return "failed"
            telemetry.log.warning("cannot wake a pod", pod=wakeup.pod.key, error=str(problem))
            return "refused"
        return "woken"
