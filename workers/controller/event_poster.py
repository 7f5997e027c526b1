"""Posts the Kubernetes Events that were submitted: about pods, gangs, quotas and other objects."""

from collections import deque
from dataclasses import dataclass

from app import telemetry
from app.domain import model
from app.framework import effects
from app.kube.writes import event_recorders

_MAX_WAITING = 10_000
"""Events that may wait; beyond that the oldest are dropped."""
_MAX_ATTEMPTS = 12
"""As in client-go; each of them delays all other calls of the leadership (CallLimit)."""
_LATEST = 60.0
"""Seconds for which an Event may wait: later it describes a state that is past, and delays others."""


@dataclass(slots=True)
class _Waiting:
    found: effects.PostEvent
    term: str
    at: float
    """When it was submitted (monotonic)."""
    since: str
    """The same (RFC 3339)."""
    attempts: int = 0


class EventPoster:
    """Carries out PostEvent; ``run_once`` is used by one thread.

    An Event about a pod that is beyond the rate, or that the API server does not accept, is dropped: the
    decision records have it, and the next attempt brings another one. Nothing brings another one about a gang
    that waits, so an Event about any other object waits for the rate, and for an API server that is busy or
    away: the latest of each object and reason, for a minute and a limited number of attempts. Pods and other
    objects take turns.
    """

    def __init__(self, recorder: event_recorders.EventRecorder) -> None:
        self._recorder = recorder
        self._queue: deque[_Waiting] = deque(maxlen=_MAX_WAITING)
        self._waiting: dict[tuple[model.Uid, str], _Waiting] = {}
        self._pod_next = False
        """It is the turn of an Event about a pod."""
        self._failing = False

    def submit(self, found: effects.PostEvent, term: str) -> None:
        """Post the Event soon. Thread-safe."""
        if len(self._queue) == _MAX_WAITING:
            self._recorder.drop()
        self._queue.append(_Waiting(found, term, *self._recorder.moment()))

    def run_once(self) -> None:
        """Post the Events that wait; the first of several failures is logged."""
        pods: deque[_Waiting] = deque()
        while self._queue:
            one = self._queue.popleft()
            if isinstance(one.found.about, model.Pod):
                pods.append(one)
            else:
                self._waiting[one.found.about.uid, one.found.reason] = one
        self._drop_late()
        while (pods or self._waiting) and self._recorder.ready:
            if pods and (self._pod_next or not self._waiting):
                self._pod_next = False
                self._post(pods.popleft())
            elif not self._post_first_waiting():
                break
        while len(self._waiting) > _MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
            self._recorder.drop()
        for one in pods:
            self._post(one)

    def _drop_late(self) -> None:
        now, _ = self._recorder.moment()
        for key in [key for key, one in self._waiting.items() if now - one.at > _LATEST]:
            del self._waiting[key]
            self._recorder.drop()

    def _post_first_waiting(self) -> bool:
        self._pod_next = True
        key = next(iter(self._waiting))
        one = self._waiting.pop(key)
        one.attempts += 1
        posted = self._post(one, again=one.attempts < _MAX_ATTEMPTS)
        if not posted:
            # Behind the others: a failure may be that of its namespace alone.
            self._waiting[key] = one
        return posted

    def _post(self, one: _Waiting, *, again: bool = False) -> bool:
        """Post the Event; returns False if it has to be posted later (EventRecorder.post)."""
        found = one.found
        about, message = found.about, found.message
        posted = self._recorder.post(
            about, found.reason, message, warning=found.warning, term=one.term, again=again, since=one.since
        )
        problem = self._recorder.problem
        if problem and not self._failing:
            telemetry.log.warning("cannot post Events", about=about.key, error=problem)
        self._failing = bool(problem)
        return posted
