"""Kubernetes Events about pods: few, and each says something new.

The same words about the same pod are one Event whose count grows, and it grows at most once in a
while. Over all pods there is a bucket: what does not fit is not posted, for the decision records
have it anyway. Posting never raises.
"""

import hashlib
import http
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from app.domain import model
from app.kube import backoffs, clients, errors

_LONGEST = 1024
_REMEMBERED = 10_000

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Posted:
    name: str
    count: int
    """How often it was said, posted or not."""
    at: float


class Bucket:
    """So many at once, and so many a second in the long run."""

    def __init__(self, clock: backoffs.Clock, *, burst: float, rate: float) -> None:
        self._clock = clock
        self._burst = burst
        self._rate = rate
        self._level = burst
        self._at = clock.monotonic()

    def take(self) -> bool:
        """Whether there is one left."""
        if self.wait() > 0:
            return False
        self._level -= 1.0
        return True

    def wait(self) -> float:
        """Seconds until there is one."""
        now = self._clock.monotonic()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, (1.0 - self._level) / self._rate)


class Poster:
    """Posts Events; used by one thread."""

    def __init__(
        self,
        client: clients.Client,
        clock: backoffs.Clock,
        *,
        now: Callable[[], str],
        again: float = 300.0,
        burst: float = 25.0,
        rate: float = 2.0,
    ) -> None:
        """``now``: RFC 3339, whole seconds; ``again``: seconds until the same words count anew."""
        self._client = client
        self._clock = clock
        self._now = now
        self._again = again
        self._bucket = Bucket(clock, burst=burst, rate=rate)
        self._posted: OrderedDict[tuple[model.Uid, str, str], _Posted] = OrderedDict()
        self.dropped = 0
        """Events that found no room in the bucket, or that the API server would not take."""
        self.trouble = ""
        """Why the latest Event that was sent was not taken; empty if it was."""

    def post(self, pod: model.Pod, reason: str, message: str, *, warning: bool = True) -> None:
        """Say this about the pod; ``reason`` is CamelCase, ``message`` a sentence for people."""
        key = (pod.uid, reason, message)
        known = self._posted.get(key)
        now = self._clock.monotonic()
        if known is not None:
            known.count += 1
            if now - known.at < self._again:
                return
        if not self._bucket.take():
            self.dropped += 1
            return
        try:
            if known is None or not self._counted(pod, known):
                known = self._created(pod, reason, message, warning)
            known.at = now
            self._posted[key] = known
            self._posted.move_to_end(key)
            while len(self._posted) > _REMEMBERED:
                self._posted.popitem(last=False)
            self.trouble = ""
        except errors.KubeError as problem:
            self.dropped += 1
            self.trouble = str(problem)

    def _counted(self, pod: model.Pod, known: _Posted) -> bool:
        """Raise the count of an Event; false if it has expired meanwhile."""
        body = _encode({"count": known.count, "lastTimestamp": self._now()})
        try:
            self._client.patch(f"/api/v1/namespaces/{pod.namespace}/events/{known.name}", body)
        except errors.ApiError as problem:
            if problem.status != http.HTTPStatus.NOT_FOUND:
                raise
            return False
        return True

    def _created(self, pod: model.Pod, reason: str, message: str, warning: bool) -> _Posted:
        words = f"{pod.uid}\0{reason}\0{message}\0{self._now()}".encode()
        name = f"{pod.name[:200]}.{hashlib.sha256(words).hexdigest()[:16]}"
        at = self._now()
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "reason": reason,
            "message": message if len(message) <= _LONGEST else f"{message[: _LONGEST - 4]} ...",
            "type": "Warning" if warning else "Normal",
            "count": 1,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "source": {"component": "topolog"},
            "reportingComponent": "topolog.io/controller",
            "reportingInstance": "topolog",
        }
        try:
            self._client.post(f"/api/v1/namespaces/{pod.namespace}/events", _encode(body))
        except errors.ApiError as problem:
            if problem.reason != "AlreadyExists":
                raise
        return _Posted(name, 1, 0.0)
