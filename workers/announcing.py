"""Room becomes known to the pods that wait for it: the plugins say which, this says it to them.

The follower's thread only notes what is to be said; a thread of its own says it, one pod at a time,
no faster than the API server likes it. A pod is told the latest news only; who is told twice within
a moment is told once.

A pod that kube-scheduler has not tried yet needs no waking: it is in the queue and will find the room. Should
it be refused all the same, it may have been so on what was true before: the news is kept until the refusal
is seen, which is the condition PodScheduled=False.
"""

import http
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from app import telemetry
from app.domain import events, model, snapshots
from app.framework import registry
from app.kube import backoffs, clients, conditions, errors, event_posting
from app.store import tailing

MOST = 10_000
"""Pods that may wait to be told; beyond that the oldest news are dropped."""
ATTEMPTS = 5


class _News(NamedTuple):
    pod: model.Pod
    message: str
    position: model.Position


class Announcer:
    """Tells pending pods of room. ``heard`` is for Follower.subscribe."""

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
        """``burst`` and ``rate``: pods told at once, and pods told per second in the long run."""
        self._client = client
        self._plugins = plugins
        self._snapshot = snapshot
        self._clock = clock
        self._now = now
        self._bucket = event_posting.Bucket(clock, burst=burst, rate=rate)
        self._news: OrderedDict[model.Uid, _News] = OrderedDict()
        self._noted: OrderedDict[model.Uid, model.Position] = OrderedDict()
        self._untried: OrderedDict[model.Uid, _News] = OrderedDict()
        """For pods that were not refused yet."""
        self._changed = threading.Condition()
        self.dropped = 0

    def heard(self, before: snapshots.Snapshot, after: snapshots.Snapshot, entry: tailing.Entry) -> None:
        """Note the room that an event of the log makes."""
        if self._untried:
            self._tried(entry.event)
        for plugin in self._plugins.controls:
            room = plugin.announce(before, after, entry.event)
            if room is not None:
                at = model.Position(after.position.incarnation, entry.offset)
                self.note(tuple(pod for pod in room.pods if pod.unscheduled), room.message, at)
                self._keep(_News(pod, room.message, at) for pod in room.pods if not pod.unscheduled)

    def _keep(self, news: Iterable[_News]) -> None:
        with self._changed:
            for one in news:
                self._untried.pop(one.pod.uid, None)
                self._untried[one.pod.uid] = one
            while len(self._untried) > MOST:
                self._untried.popitem(last=False)

    def _tried(self, event: events.AnyEvent) -> None:
        """Take up the news of a pod whose first attempt has ended."""
        match event:
            case events.PodSeen(pod=pod) if pod.unscheduled or not pod.pending:
                with self._changed:
                    news = self._untried.pop(pod.uid, None)
                if news is not None and pod.pending:
                    self.note((pod,), news.message, news.position)
            case events.PodGone(uid=uid):
                with self._changed:
                    self._untried.pop(uid, None)

    def note(self, pods: tuple[model.Pod, ...], message: str, position: model.Position) -> None:
        """Have the pods told soon; ``position`` is that of the event."""
        with self._changed:
            for pod in pods:
                self._news.pop(pod.uid, None)
                self._news[pod.uid] = _News(pod, message, position)
                self._noted.pop(pod.uid, None)
                self._noted[pod.uid] = position
            while len(self._noted) > MOST:
                self._noted.popitem(last=False)
            while len(self._news) > MOST:
                self._news.popitem(last=False)
                self.dropped += 1
            self._changed.notify()

    def noted(self, uid: model.Uid) -> model.Position | None:
        """The position of the latest event that the pod was to be told of."""
        return self._noted.get(uid)

    def turn(self, *, timeout: float) -> bool:
        """Tell the next pod; false if nobody was to be told within ``timeout`` seconds."""
        with self._changed:
            if not self._news:
                self._changed.wait(timeout)
            if not self._news:
                return False
            _, news = self._news.popitem(last=False)
        if news.pod.uid in self._snapshot().waiting and not self._clock.wait(self._bucket.wait()):
            self._bucket.take()
            telemetry.metrics.NUDGES.labels(self._tell(news)).inc()
        return True

    def wake(self) -> None:
        """Let ``turn`` return."""
        with self._changed:
            self._changed.notify_all()

    def _tell(self, news: _News) -> str:
        """Say it, several times if need be; the outcome in one word."""
        # The offset makes every announcement a change, and only a change wakes the pod.
        message = f"{news.message} (as of event {news.position.offset})"
        condition = conditions.Condition(conditions.ROOM, "RoomAnnounced", message, self._now())
        backoff = backoffs.Backoff(self._clock, initial=0.1, cap=5.0)
        for _ in range(ATTEMPTS):
            try:
                conditions.set_condition(self._client, news.pod, condition)
                return "told"
            except errors.ApiError as problem:
                if problem.status == http.HTTPStatus.NOT_FOUND or "metadata.uid" in problem.message:
                    return "gone"
                if problem.status in (http.HTTPStatus.FORBIDDEN, http.HTTPStatus.UNPROCESSABLE_ENTITY):
                    telemetry.log.warning(
                        "a pod cannot be told of room", pod=news.pod.key, error=str(problem)
                    )
                    return "refused"
                pause = backoff.pause(least=problem.retry_after)
            except errors.Unreachable:
                pause = backoff.pause()
            with self._changed:
                if news.pod.uid in self._news:
                    return "superseded"
            if self._clock.wait(pause):
                break
        return "failed"
