"""Wakes pending pods when capacity becomes available; plugins decide which pods.

The follower's thread only queues wake-ups; another thread writes them, one pod at a time, at a limited rate.
Only the latest wake-up per pod is kept; duplicates are coalesced.

A pod that kube-scheduler has not tried yet needs no waking: it is in the queue and will find the capacity. If
it is refused nevertheless, the refusal may be based on an older state: the wake-up is kept until the refusal
is observed as the condition PodScheduled=False.
"""

import http
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from app import telemetry
from app.domain import events, model, snapshots
from app.framework import registry
from app.kube import backoffs, errors
from app.kube.client import clients
from app.kube.writes import event_recorders, pod_conditions
from app.store.log import readers

MAX_PODS = 10_000
"""Pods that may wait for their wake-up; beyond that the oldest wake-ups are dropped."""
ATTEMPTS = 5


class _Wakeup(NamedTuple):
    pod: model.Pod
    message: str
    position: model.Position


class Waker:
    """Wakes pending pods. ``on_event`` is for Follower.subscribe, ``run_once`` for one thread."""

    def __init__(
        self,
        client: clients.Client,
        plugins: registry.Registry,
        snapshot: Callable[[], snapshots.Snapshot],
        clock: backoffs.Clock,
        *,
        now: Callable[[], str],
        burst: float = 100.0,
        rate: float = 50.0,
    ) -> None:
        """``burst`` and ``rate``: pods woken at once, and pods woken per second in the long run."""
        self._client = client
        self._plugins = plugins
        self._snapshot = snapshot
        self._clock = clock
        self._now = now
        self._bucket = event_recorders.Bucket(clock, burst=burst, rate=rate)
        self._queue: OrderedDict[model.Uid, _Wakeup] = OrderedDict()
        self._noted: OrderedDict[model.Uid, model.Position] = OrderedDict()
        self._untried: OrderedDict[model.Uid, _Wakeup] = OrderedDict()
        """Wake-ups of pods that were not refused yet."""
        self._changed = threading.Condition()
        self.dropped = 0
        """Wake-ups that were dropped because too many pods waited."""

    def on_event(self, before: snapshots.Snapshot, after: snapshots.Snapshot, entry: readers.Entry) -> None:
        """Queue the wake-ups for the capacity that an event of the log frees."""
        if self._untried:
            self._release_tried(entry.event)
        for plugin in self._plugins.wakes:
            freed = plugin.announce(before, after, entry.event)
            if freed is not None:
                at = model.Position(after.position.incarnation, entry.offset)
                self.note(tuple(pod for pod in freed.pods if pod.unscheduled), freed.message, at)
                self._keep(_Wakeup(pod, freed.message, at) for pod in freed.pods if not pod.unscheduled)

    def _keep(self, wakeups: Iterable[_Wakeup]) -> None:
        with self._changed:
            for one in wakeups:
                self._untried.pop(one.pod.uid, None)
                self._untried[one.pod.uid] = one
            while len(self._untried) > MAX_PODS:
                self._untried.popitem(last=False)

    def _release_tried(self, event: events.AnyEvent) -> None:
        """Queue the kept wake-up of a pod whose first attempt has ended."""
        match event:
            case events.PodSeen(pod=pod) if pod.unscheduled or not pod.pending:
                with self._changed:
                    kept = self._untried.pop(pod.uid, None)
                if kept is not None and pod.pending:
                    self.note((pod,), kept.message, kept.position)
            case events.PodGone(uid=uid):
                with self._changed:
                    self._untried.pop(uid, None)

    def note(self, pods: tuple[model.Pod, ...], message: str, position: model.Position) -> None:
        """Queue a wake-up for each pod; ``position`` is that of the event."""
        with self._changed:
            for pod in pods:
                self._queue.pop(pod.uid, None)
                self._queue[pod.uid] = _Wakeup(pod, message, position)
                self._noted.pop(pod.uid, None)
                self._noted[pod.uid] = position
            while len(self._noted) > MAX_PODS:
                self._noted.popitem(last=False)
            while len(self._queue) > MAX_PODS:
                self._queue.popitem(last=False)
                self.dropped += 1
            self._changed.notify()

    def noted(self, uid: model.Uid) -> model.Position | None:
        """The position of the latest event that the pod had a wake-up for."""
        return self._noted.get(uid)

    def run_once(self, *, timeout: float) -> bool:
        """Wake the next pod; false if no wake-up was queued within ``timeout`` seconds."""
        with self._changed:
            if not self._queue:
                self._changed.wait(timeout)
            if not self._queue:
                return False
            _, wakeup = self._queue.popitem(last=False)
        if wakeup.pod.uid in self._snapshot().waiting and not self._clock.wait(self._bucket.wait()):
            self._bucket.take()
            telemetry.metrics.WAKEUPS.labels(self._wake(wakeup)).inc()
        return True

    def interrupt(self) -> None:
        """Let ``run_once`` return."""
        with self._changed:
            self._changed.notify_all()

    def _wake(self, wakeup: _Wakeup) -> str:
        """Write the condition, with several attempts; returns the outcome for the metric."""
        # The offset makes every message a change, and only a change wakes the pod.
        message = f"{wakeup.message} (as of event {wakeup.position.offset})"
        condition = pod_conditions.Condition(
            pod_conditions.CAPACITY_AVAILABLE, "RoomAnnounced", message, self._now()
        )
        backoff = backoffs.Backoff(self._clock, initial=0.1, cap=5.0)
        for _ in range(ATTEMPTS):
            try:
                pod_conditions.set_condition(self._client, wakeup.pod, condition)
                return "woken"
            except errors.ApiError as problem:
                if problem.status == http.HTTPStatus.NOT_FOUND or "metadata.uid" in problem.message:
                    return "gone"
                if problem.status in (http.HTTPStatus.FORBIDDEN, http.HTTPStatus.UNPROCESSABLE_ENTITY):
                    telemetry.log.warning("cannot wake a pod", pod=wakeup.pod.key, error=str(problem))
                    return "refused"
                pause = backoff.pause(least=problem.retry_after)
            except errors.Unreachable:
                pause = backoff.pause()
            with self._changed:
                if wakeup.pod.uid in self._queue:
                    return "superseded"
            if self._clock.wait(pause):
                break
        return "failed"
