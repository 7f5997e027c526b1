"""The clients of the simulated API server: lists and watches end, fail, repeat themselves or get 410.

Replies to Bindings are lost, and Bindings take effect late. Every fault is drawn from one random generator.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType

from app.domain import snapshots
from app.kube import errors
from app.kube.client import clients, renewals
from app.simulation.apiserver import objects, requests, status_replies
from tests.support.simulation import virtual_time
from tests.support.simulation.cluster import api_connections, cluster_objects, sent_bindings

UNDER_WAY = 1.4
"""Seconds beyond its deadline for which a Binding may be in flight, where a store loses events."""
LATE = 60.0
"""The same in other histories: the longest time for which an API server processes a request."""
REFUSALS = (429, 503, 401, 403)
"""Statuses for the second sending of a Binding whose first one was carried out without a reply."""
FAULTS = (
    "closed",
    "closed",
    "dropped",
    "failed",
    "denied",
    "proxied",
    "redirected",
    "never",
    "late",
    "late",
    "late",
    "late",
    "lost",
)
"""Outcomes of a Binding: carried out or not, or later, with a reply of the server, of a proxy, or none."""
_HOT = 200


class Faults:
    """The probability of faults, from one random generator; ``quiet`` ends them."""

    def __init__(self, rng: random.Random, share: float) -> None:
        self.rng = rng
        self.share = share

    def quiet(self) -> None:
        self.share = 0.0

    def strike(self, weight: float = 1.0) -> bool:
        return self.share > 0 and self.rng.random() < self.share * weight


class Client(clients.Client):
    """The API client of one process."""

    def __init__(
        self,
        cluster: cluster_objects.Cluster,
        clock: virtual_time.Clock,
        faults: Faults,
        between: Callable[[str], None] = lambda _: None,
        *,
        under_way: float = UNDER_WAY,
        rival: Callable[[sent_bindings.Sent], None] = lambda _: None,
    ) -> None:
        """``between(what)`` is called before and after each Binding, so that others can act. ``rival`` is
        called with each Binding in flight: others may change its pod, or bind it to another node.

        ``under_way``: seconds beyond its deadline for which a Binding may be in flight.
        """
        # Only the fast client is set up, on simulated connections; all other methods are replaced.
        self._cluster = cluster
        self._clock = clock
        self._faults = faults
        self._between = between
        self._rival = rival
        self._access = api_connections.ACCESS
        self._fast = api_connections.FastClient(self._met, clock, self._connected)
        self._renewer = renewals.Renewer(self._access)  # Its thread is not started.
        self._under_way = under_way
        self._refusal = 0
        """The status with which the next Binding is refused."""
        self._parted = False
        """The next Binding gets no reply and is never carried out."""
        self.delayed = False
        """The next Binding gets no reply and arrives late."""
        self.outlasting = False
        """The same, later than the controller's look-up; its repetition is lost."""
        self._attempts = 0
        self.latest = math.inf
        """The deadline of the bind call: its Binding must not be in flight later."""
        self.read: Callable[[], tuple[snapshots.Snapshot, ...]] = lambda: ()
        """What its process had read when the bind call began, and has read now."""

    def get(
        self, path: str, parameters: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> bytes:
        self._reach()
        if self._faults.strike(0.5):
            raise errors.Unreachable("simulated: the list was cut off")
        status, body = self._cluster.send(requests.Request("GET", path, dict(parameters or {}), {}, b""))
        if status >= 400:
            raise clients.refusal(status, body)
        return body

    def post(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        return self._written(requests.Request("POST", path, {}, {}, body), timeout or 0.0)

    def put(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        return self._written(requests.Request("PUT", path, {}, {}, body), timeout or 0.0)

    def patch(
        self, path: str, body: bytes, *, content: str = clients.MERGE, timeout: float | None = None
    ) -> bytes:
        request = requests.Request("PATCH", path, {}, {"content-type": content}, body)
        self._between("before a patch")
        if self._faults.strike():
            # In flight for long: what was read before it may be outdated when it arrives.
            late = self._faults.rng.uniform(timeout or 0.0, (timeout or 0.0) + self._under_way)
            self._clock.later(late, lambda: self._arrived(request))
            self._clock.advance(timeout or 0.0)
            raise errors.Unreachable("simulated: no answer")
        try:
            return self._written(request, timeout or 0.0)
        finally:
            self._between("after a patch")

    def _written(self, request: requests.Request, timeout: float) -> bytes:
        """Carry out and reply; or the request is lost, or its reply."""
        self._reach()
        lost = self._faults.strike()
        if lost and self._faults.rng.random() < 0.5:
            self._clock.advance(self._faults.rng.uniform(0.0, timeout))
            raise errors.Unreachable("simulated: no answer")
        status, body = self._cluster.send(request)
        if lost:
            self._clock.advance(self._faults.rng.uniform(0.0, timeout))
            raise errors.Unreachable("simulated: the answer was lost")
        if status >= 400:
            raise clients.refusal(status, body)
        return body

    def _reach(self) -> None:
        if self._clock.now < self._cluster.away_until:
            raise errors.Unreachable("simulated: the API server is away", refused=True)

    def stream(self, path: str, parameters: Mapping[str, str], *, silence: float) -> "Watch":
        self._reach()
        served = self._cluster.objects.resource(path.rsplit("/", 1)[-1], path)
        assert served is not None, path
        resource = served.name
        self._attempts += 1
        if self._attempts > _HOT:
            raise AssertionError("P10: a watch is asked for again and again, and nothing comes of it")
        if self._faults.strike(0.5):
            raise errors.Unreachable("simulated: no connection", refused=True)
        if self._faults.strike(0.3):
            self._cluster.objects.compact(resource)
        lines = self._cluster.objects.since(resource, int(parameters["resourceVersion"]), tick=0.0)
        try:
            first = next(lines)
        except status_replies.StatusError as refused:
            raise clients.refusal(refused.status, refused.body) from refused
        self._attempts = 0
        return Watch(lines, first, self._faults)

    def _connected(self) -> None:
        """Raises Unreachable if the connection fails."""
        self._reach()
        if self._faults.strike():
            raise api_connections.refused()

    def _met(self, request: requests.Request, timeout: float) -> api_connections.Answer:
        """The reply to a request on a connection; ``timeout`` is how long its sender waits."""
        if self._clock.now < self._cluster.away_until:
            raise api_connections.Closed
        if request.method == "POST":
            return self._bind(request, timeout)
        if self._faults.strike():
            raise api_connections.Silent
        return self._cluster.send(request)

    def _bind(self, request: requests.Request, timeout: float) -> api_connections.Answer:
        began = self._clock.now
        over = began + timeout - self.latest
        if over > 1e-6:
            raise AssertionError(f"P6: a Binding may be under way {over:.3f} s after its time")
        sent = sent_bindings.sent(request, began + timeout + self._under_way, self.read())
        self._cluster.sends(sent)
        try:
            self._between("before a Binding")
            self._rival(sent)
            if self._clock.now > sent.until:
                raise api_connections.Silent
            return self._carried_out(request, timeout, sent)
        finally:
            self._cluster.sent.remove(sent)
            self._between("after a Binding")

    def _carried_out(
        self, request: requests.Request, timeout: float, sent: sent_bindings.Sent
    ) -> api_connections.Answer:
        if self._parted:
            self._parted = False
            raise api_connections.Silent
        if self._refusal:
            status, self._refusal = self._refusal, 0
            return refusal(status)
        rng = self._faults.rng
        if self.outlasting:
            self.outlasting, self._parted = False, True
            self._arrives_in(rng.uniform(LATE / 3, self._under_way), request, sent)
            raise api_connections.Silent
        if self.delayed:
            fault, self.delayed = "late", False
        elif self._faults.strike(3.0):
            fault = rng.choice(FAULTS)
        else:
            return self._cluster.send(request)
        match fault:
            case "closed":
                # The repetition on another connection is refused for an unrelated reason.
                self._refusal = rng.choice((0, 0, *REFUSALS))
                self._cluster.send(request)
                raise api_connections.Closed
            case "dropped":
                raise api_connections.Closed
            case "denied":
                return refusal(403)
            case "failed":
                return refusal(500)
            case "proxied":
                self._cluster.send(request)
                return 503, b"<html>no healthy upstream</html>"
            case "redirected":
                return 307, b"<html>elsewhere</html>"
            case "late":
                # Usually the network is the cause, so the repetition is lost, too.
                self._parted = rng.random() < 0.7
                beyond = rng.choice((UNDER_WAY, self._under_way))
                self._arrives_in(rng.uniform(timeout, timeout + beyond), request, sent)
            case "lost":
                self._cluster.send(request)
        raise api_connections.Silent

    def close(self) -> None:
        pass

    def _arrives_in(self, seconds: float, request: requests.Request, sent: sent_bindings.Sent) -> None:
        self._cluster.sends(sent)
        self._clock.later(seconds, lambda: self._arrived(request, sent))

    def _arrived(self, request: requests.Request, sent: sent_bindings.Sent | None = None) -> None:
        if sent is not None:
            self._cluster.sent.remove(sent)
        self._cluster.send(request)


def refusal(status: int) -> api_connections.Answer:
    """A refusal by the API server itself."""
    return status, status_replies.StatusError(status, "Simulated", "a fault was drawn").body


class Watch(clients.Stream):
    """A watch that yields one line at a time, and a bookmark when there is none."""

    def __init__(
        self,
        lines: Iterator[tuple[list[objects.WatchLine], int]],
        first: tuple[list[objects.WatchLine], int],
        faults: Faults,
    ) -> None:
        self._lines = lines
        self._ready = list(first[0])
        self._upto = first[1]
        self._faults = faults
        self._last: objects.WatchLine | None = None

    def __iter__(self) -> Iterator[bytes]:
        while True:
            if self._faults.strike(0.4):
                raise errors.Unreachable("simulated: the watch broke off")
            if self._last is not None and self._faults.strike():
                yield self._last.text
            if not self._ready:
                try:
                    self._ready, self._upto = next(self._lines)
                except StopIteration:
                    return
                except status_replies.StatusError as refused:
                    yield b'{"type":"ERROR","object":%s}\n' % refused.body
                    return
            if self._ready:
                self._last = self._ready.pop(0)
                yield self._last.text
            else:
                yield self._bookmark()

    def _bookmark(self) -> bytes:
        return (
            b'{"type":"BOOKMARK","object":{"kind":"Any","apiVersion":"v1",'
            b'"metadata":{"resourceVersion":"%d"}}}\n' % self._upto
        )

    def close(self) -> None:
        self._ready.clear()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
