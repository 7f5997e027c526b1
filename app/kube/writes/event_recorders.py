"""Posts Kubernetes Events about pods and other objects, at a limited rate.

Equal messages about an object are one Event with a count, which is updated at most once per interval. A token
bucket limits all Events; those beyond it, and those that the API server does not accept, are dropped, unless
the caller posts them again later. Posting never raises.
"""

import hashlib
import http
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from app import clocks, telemetry
from app.domain import model
from app.framework import effects
from app.kube import call_limits, errors
from app.kube.client import clients

_MAX_MESSAGE = 1024
_MAX_REMEMBERED = 10_000
_INTERVAL: Final = 300.0
"""Seconds between two updates of the same Event."""

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Known:
    """An Event that was posted, or may have been: the reply to an attempt can be lost."""

    name: str
    count: int = 0
    """How often the Event occurred, except where it was dropped; 0 until the API server has replied."""
    at: float = -math.inf


class EventRecorder:
    """Posts Events; used by one thread."""

    def __init__(
        self,
        client: clients.Client,
        clock: clocks.Clock,
        *,
        now: Callable[[], str],
        limit: call_limits.CallLimit,
        burst: float = 25.0,
        rate: float = 2.0,
    ) -> None:
        """``now``: RFC 3339, whole seconds; ``burst`` and ``rate``: Events at once, and Events per second in
        the long run.
        """
        self._client = client
        self._clock = clock
        self._now = now
        self._limit = limit
        self._bucket = call_limits.Bucket(clock, burst=burst, rate=rate)
        self._known: OrderedDict[tuple[model.Uid, str, str], _Known] = OrderedDict()
        self.dropped = 0
        """Events beyond the rate, or not accepted by the API server."""
        self.problem = ""
        """Why the API server did not accept the latest Event; empty if it did."""

    def drop(self) -> None:
        """Count an Event that is not posted."""
        self.dropped += 1
        telemetry.metrics.EVENTS_DROPPED.inc()

    def moment(self) -> tuple[float, str]:
        """The present time: monotonic, and RFC 3339."""
        return self._clock.monotonic(), self._now()

    @property
    def ready(self) -> bool:
        """Whether the rate allows another Event now."""
        return self._bucket.wait() <= 0

    def post(
        self,
        about: model.Pod | effects.Involved,
        reason: str,
        message: str,
        *,
        warning: bool = True,
        term: str = "",
        again: bool = False,
        since: str = "",
    ) -> bool:
        """Post an Event about the object; ``reason`` is CamelCase, ``message`` a sentence for people.

        ``term``: the leadership in which it was decided; nothing is sent in another one. False only with
        ``again``, if the API server is too busy or is not reached: the caller posts the Event later. Any
        other Event that is not posted is dropped. ``since``: when it occurred (RFC 3339), by default now.
        """
        since = since or self._now()
        key = (about.uid, reason, message)
        known = self._known.get(key) or _Known(self._name(about, reason, message))
        now = self._clock.monotonic()
        if now - known.at < _INTERVAL:
            known.count += 1
            return True
        if not self._bucket.take():
            self.drop()
            return True
        self._known[key] = known
        self._known.move_to_end(key)
        while len(self._known) > _MAX_REMEMBERED:
            self._known.popitem(last=False)
        count = known.count + 1
        try:
            if not (known.count and self._update_count(about, known.name, count, term, since)):
                count = 1
                self._create(about, known.name, reason, message, warning, term, since)
            known.count, known.at = count, now
            self.problem = ""
        except call_limits.NotAdmitted:
            self.drop()
        except errors.KubeError as problem:
            self.problem = str(problem)
            if again and call_limits.busy(problem):
                self._bucket.put_back()
                return False
            self.drop()
        return True

    def _name(self, about: model.Pod | effects.Involved, reason: str, message: str) -> str:
        """The name of a new Event; it has the time, as no leadership has the counts of a former one."""
        content = f"{about.uid}\0{reason}\0{message}\0{self._now()}".encode()
        return f"{about.name[:200]}.{hashlib.sha256(content).hexdigest()[:16]}"

    def _update_count(
        self, about: model.Pod | effects.Involved, name: str, count: int, term: str, since: str
    ) -> bool:
        """Write the new count of an Event; false if the Event has expired."""
        body = _encode({"count": count, "lastTimestamp": since})
        try:
            with self._limit.sending(term):
                self._client.patch(f"/api/v1/namespaces/{about.namespace}/events/{name}", body)
        except errors.ApiError as problem:
            if problem.status != http.HTTPStatus.NOT_FOUND:
                raise
            return False
        return True

    def _create(
        self,
        about: model.Pod | effects.Involved,
        name: str,
        reason: str,
        message: str,
        warning: bool,
        term: str,
        since: str,
    ) -> None:
        """Create the Event, unless a former attempt did whose reply was lost."""
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": about.namespace},
            "involvedObject": {
                "apiVersion": about.api_version if isinstance(about, effects.Involved) else "v1",
                "kind": about.kind if isinstance(about, effects.Involved) else "Pod",
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "reason": reason,
            "message": message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 4]} ...",
            "type": "Warning" if warning else "Normal",
            "count": 1,
            "firstTimestamp": since,
            "lastTimestamp": since,
            "source": {"component": "topolog"},
            "reportingComponent": "topolog.io/controller",
            "reportingInstance": "topolog",
        }
        try:
            with self._limit.sending(term):
                self._client.post(f"/api/v1/namespaces/{about.namespace}/events", _encode(body))
        except errors.ApiError as problem:
            if problem.reason != "AlreadyExists":
                raise
