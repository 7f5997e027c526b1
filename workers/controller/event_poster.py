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


@dataclass(slots=True)
class _Waiting:
    found: effects.PostEvent
    term: str
    attempts: int = 0


class EventPoster:
    """Carries out PostEvent; ``run_once`` is used by one thread.

    An Event about a pod that is beyond the rate, or that the API server does not accept, is dropped: the
    decision records have it, and the next attempt brings another one. Nothing brings another one about a gang
    that waits, so an Event about any other object waits for the rate, and for an API server that is busy or
    away: the latest of each object and reason, for a limited number of attempts.
    """

    def __init__(self, recorder: event_recorders.EventRecorder) -> None:
        self._recorder = recorder
        self._queue: deque[tuple[effects.PostEvent, str]] = deque(maxlen=_MAX_WAITING)
        self._waiting: dict[tuple[model.Uid, str], _Waiting] = {}
        self._failing = False

    def submit(self, found: effects.PostEvent, term: str) -> None:
        """Post the Event soon. Thread-safe."""
        self._queue.append((found, term))

    def run_once(self) -> None:
        """Post the Events that wait; the first of several failures is logged."""
        pods: list[tuple[effects.PostEvent, str]] = []
        while self._queue:
            found, term = self._queue.popleft()
            if isinstance(found.about, model.Pod):
                pods.append((found, term))
            else:
                self._waiting[found.about.uid, found.reason] = _Waiting(found, term)
        while self._waiting and self._recorder.ready:
            key = next(iter(self._waiting))
            waiting = self._waiting.pop(key)
            waiting.attempts += 1
            again = waiting.attempts < _MAX_ATTEMPTS
            if not self._post(waiting.found, waiting.term, again=again):
                # Behind the others: a failure may be that of its namespace alone.
                self._waiting[key] = waiting
                break
        while len(self._waiting) > _MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
            self._recorder.dropped += 1
        for found, term in pods:
            self._post(found, term)

    def _post(self, found: effects.PostEvent, term: str, *, again: bool = False) -> bool:
        """Post the Event; returns False if it has to be posted later (EventRecorder.post)."""
        about, message = found.about, found.message
        posted = self._recorder.post(
            about, found.reason, message, warning=found.warning, term=term, again=again
        )
        problem = self._recorder.problem
        if problem and not self._failing:
            telemetry.log.warning("cannot post Events", about=about.key, error=problem)
        self._failing = bool(problem)
        return posted
