"""The cluster of a simulation: the objects of the simulated API server, without HTTP and without threads.

A client of it is scripted: lists and watches end, fail, repeat themselves or get 410, answers to
Bindings are lost, and Bindings take effect late. All of it is drawn from one die.
"""

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

from app.kube import errors
from app.kube.client import clients
from app.plugins.workload_policy import samples
from app.simulation import populations
from app.simulation.apiserver import apiservers, objects, requests, routing, status_replies
from tests.support import declared
from tests.support.simulation import api_connections, plain_quotas, sent_bindings, virtual_time

Json = dict[str, Any]

NAMESPACE, POLICY, KEY = "shop", "spread", "role"
WEB = {"app": "web", "workload-policy/kosmos.io": POLICY}
COUNTED = {"app": "web"}
"""Labels of a pod that the policy counts and that does not name it."""
OVERLAPPING = "overlapping"
"""Another policy over the same pods, in histories under ``enforce: selected``."""
NAMES = tuple(f"web-{number}" for number in range(7))
NODES = {"h1": "host", "h2": "host", "m1": "member", "m2": "member"}
RESOURCES = ("nodes", "workloadpolicies", "poddisruptionbudgets", "elasticquotas", "pods")
"""The kinds that a recorder reads in any order."""
QUIET = tuple(kind.name for kind in declared.SCHEMA.kinds if kind.name not in RESOURCES)
"""The others: they are listed when a recorder begins, and change seldom or never."""
EVERY = (*QUIET, *RESOURCES)
"""All kinds, pods last."""
UNDER_WAY = 1.4
"""Seconds beyond its time for which a Binding may be under way, where a store loses events."""
LATE = 60.0
"""The same elsewhere: as long as an API server works on a request at most."""
REFUSALS = (429, 503, 401, 403)
"""With which a Binding is refused whose first sending was carried out without an answer."""
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
"""What becomes of a Binding: carried out, or not, or later, and answered by the server, by a proxy or not."""
_HOT = 200


class Cluster:
    """What the API server holds, and everything that people and kubelets do to it."""

    def __init__(self) -> None:
        self.objects = objects.Objects(apiservers.resources(declared.SCHEMA))
        self.server = routing.Router(self.objects, tokens=(), bookmarks=60.0)
        self.bound: dict[str, set[str]] = {}
        """uid -> every node that the pod was ever bound to."""
        self.bindings = 0
        self.away_until = 0.0
        """No process reaches the API server before that moment."""
        self.foreign: set[str] = set()
        """uids of pods that others bound, such as those of a DaemonSet under another scheduler."""
        self.sent: list[sent_bindings.Sent] = []
        """Bindings that may yet be carried out."""
        self.written: list[tuple[str, str, Json]] = []
        """uid, version and annotations of the recorded Bindings that were carried out lately."""
        self._uids = 0

    def uid(self) -> str:
        self._uids += 1
        return f"00000000-0000-4000-8000-{self._uids:012d}"

    def node(self, name: str, **labels: str) -> None:
        made = populations.node(name, labels)
        made["metadata"]["uid"] = self.uid()
        self.objects.create("nodes", made)

    def policy(self, quotas: Mapping[str, int], name: str = POLICY) -> None:
        spec = self.spec(quotas)
        made = samples.policy(NAMESPACE, name, spec)
        made["metadata"]["uid"] = self.uid()
        self.objects.create("workloadpolicies", made)

    def group(self, name: str, minimum: int) -> None:
        """A PodGroup of the sigs."""
        metadata = {"namespace": NAMESPACE, "name": name, "uid": self.uid()}
        self.objects.create("sigspodgroups", {"metadata": metadata, "spec": {"minMember": minimum}})

    def quota(self, name: str, parent: str, least: int, most: int) -> None:
        """An ElasticQuota; amounts in cores."""
        prefix = "quota.scheduling.koordinator.sh/"
        labels = {f"{prefix}parent": parent} if parent else {f"{prefix}is-parent": "true"}
        metadata = {"namespace": NAMESPACE, "name": name, "uid": self.uid(), "labels": labels}
        self.objects.create("elasticquotas", {"metadata": metadata, "spec": self.amounts(least, most)})

    @staticmethod
    def amounts(least: int, most: int) -> Json:
        return {"min": {"cpu": least}, "max": {"cpu": most}}

    @staticmethod
    def spec(quotas: Mapping[str, int]) -> Json:
        return {
            "topologyKey": KEY,
            "labelSelector": {"matchLabels": {"app": "web"}},
            "allocationPolicy": [{"name": name, "replicas": most} for name, most in quotas.items()],
            "allocationType": "Required",
            "allocationMethod": "Fill",
        }

    def pod(self, name: str, labels: Mapping[str, str] | None = None, *, node: str = "") -> Json:
        """A pod that waits; with a ``node`` others have bound it there."""
        labels = dict(WEB if labels is None else labels)
        # A core for each pod of an elastic quota, whose limits are small numbers of cores.
        cpu = "1" if plain_quotas.LABEL in labels else "100m"
        made = populations.pod(NAMESPACE, name, labels, cpu=cpu)
        uid = made["metadata"]["uid"] = self.uid()
        if node:
            made["spec"]["nodeName"] = node
            self.foreign.add(uid)
            self.bound[uid] = {node}
        self.objects.create("pods", made)
        return self.objects.get("pods", (NAMESPACE, name))

    def edit(self, resource: str, key: objects.Key, edit: Callable[[Json], None]) -> None:
        def change(found: Json) -> Json:
            edit(found)
            return found

        self.objects.change(resource, key, change)

    def all(self, resource: str) -> list[Json]:
        """In an order that does not depend on history."""
        return sorted(self.objects.all(resource), key=lambda made: str(made["metadata"]["name"]))

    def send(self, request: requests.Request) -> routing.Answer:
        """What the server makes of a request; bindings are noted."""
        answer = self.server.answer(request)
        if request.path.endswith("/binding") and answer[0] < 400:
            self.bindings += 1
            name = request.path.split("/")[-2]
            pod = self.objects.get("pods", (request.path.split("/")[-4], name))
            self.bound.setdefault(pod["metadata"]["uid"], set()).add(pod["spec"]["nodeName"])
            asked = json.loads(request.body)["metadata"]
            version, annotations = asked.get("resourceVersion", ""), asked.get("annotations", {})
            if version or annotations:
                self.written.append((asked["uid"], version, annotations))
        return answer

    def feasible(self, uid: str, node: str, now: float) -> bool:
        """Whether a Binding of the pod to the node is under way that can still be carried out."""
        pod = next((pod for pod in self.objects.all("pods") if pod["metadata"]["uid"] == uid), None)
        if pod is None or pod["spec"].get("nodeName"):
            return False
        current = str(pod["metadata"]["resourceVersion"])
        return any(one.feasible(uid, node, current, now) for one in self.sent)

    def usage(self, *, foreign: bool = True) -> dict[str, int]:
        """An independent recount: domain -> pods of the policy there, ``foreign`` ones too or not."""
        roles = {made["metadata"]["name"]: made["metadata"]["labels"].get(KEY) for made in self.all("nodes")}
        used: dict[str, int] = {}
        for pod in self.all("pods"):
            meta, status = pod["metadata"], pod.get("status", {})
            role = roles.get(pod["spec"].get("nodeName", ""))
            if role is None or meta["labels"].get("app") != "web" or meta["namespace"] != NAMESPACE:
                continue
            if "deletionTimestamp" in meta or status.get("phase") in ("Succeeded", "Failed"):
                continue
            if foreign or meta["uid"] not in self.foreign:
                used[role] = used.get(role, 0) + 1
        return used


class Faults:
    """How often what goes wrong, out of one die; ``quiet`` ends all of it."""

    def __init__(self, die: random.Random, share: float) -> None:
        self.die = die
        self.share = share

    def quiet(self) -> None:
        self.share = 0.0

    def strike(self, weight: float = 1.0) -> bool:
        return self.share > 0 and self.die.random() < self.share * weight


class Client(clients.Client):
    """One process' way to the API server."""

    def __init__(
        self,
        cluster: Cluster,
        clock: virtual_time.Clock,
        faults: Faults,
        between: Callable[[str], None] = lambda _: None,
        *,
        under_way: float = UNDER_WAY,
        rival: Callable[[sent_bindings.Sent], None] = lambda _: None,
    ) -> None:
        """``between(what)`` is called before and after each Binding: others may act then. ``rival`` is called
        with each Binding that is under way: others may change its pod, or want it on another node.

        ``under_way``: seconds beyond its time for which a Binding may be under way.
        """
        # Of the real client only the short way is set up, on simulated connections; all others are replaced.
        self._cluster = cluster
        self._clock = clock
        self._faults = faults
        self._between = between
        self._rival = rival
        self._access = api_connections.ACCESS
        self._fast = api_connections.FastClient(self._met, clock, self._connected)
        self._under_way = under_way
        self._refusal = 0
        """The status with which the next Binding is refused."""
        self._parted = False
        """The next Binding gets no answer and is never carried out."""
        self.delayed = False
        """The next Binding gets no answer and arrives late."""
        self.outlasting = False
        """The same, later than the controller looks for it; its repetition is lost."""
        self._attempts = 0
        self.latest = math.inf
        """The moment until which the call under way may send its Binding: others count on that."""

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
            # Under way for long; what was read before it may not be so any more when it arrives.
            late = self._faults.die.uniform(timeout or 0.0, (timeout or 0.0) + self._under_way)
            self._clock.later(late, lambda: self._arrived(request))
            self._clock.advance(timeout or 0.0)
            raise errors.Unreachable("simulated: no answer")
        try:
            return self._written(request, timeout or 0.0)
        finally:
            self._between("after a patch")

    def _written(self, request: requests.Request, timeout: float) -> bytes:
        """Done and answered; or lost on the way there, or its answer on the way back."""
        self._reach()
        lost = self._faults.strike()
        if lost and self._faults.die.random() < 0.5:
            self._clock.advance(self._faults.die.uniform(0.0, timeout))
            raise errors.Unreachable("simulated: no answer")
        status, body = self._cluster.send(request)
        if lost:
            self._clock.advance(self._faults.die.uniform(0.0, timeout))
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
        """Raises Unreachable if no connection comes about."""
        self._reach()
        if self._faults.strike():
            raise api_connections.refused()

    def _met(self, request: requests.Request, timeout: float) -> api_connections.Answer:
        """What comes of a request on a connection, which its sender waits for so long."""
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
        sent = sent_bindings.sent(request, began + timeout + self._under_way)
        self._cluster.sent.append(sent)
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
        die = self._faults.die
        if self.outlasting:
            self.outlasting, self._parted = False, True
            self._arrives_in(die.uniform(LATE / 3, self._under_way), request, sent)
            raise api_connections.Silent
        if self.delayed:
            fault, self.delayed = "late", False
        elif self._faults.strike(3.0):
            fault = die.choice(FAULTS)
        else:
            return self._cluster.send(request)
        match fault:
            case "closed":
                # The repetition on another connection is refused for a reason that has nothing to do with it.
                self._refusal = die.choice((0, 0, *REFUSALS))
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
                # Mostly it is the network: the repetition does not get through either.
                self._parted = die.random() < 0.7
                beyond = die.choice((UNDER_WAY, self._under_way))
                self._arrives_in(die.uniform(timeout, timeout + beyond), request, sent)
            case "lost":
                self._cluster.send(request)
        raise api_connections.Silent

    def close(self) -> None:
        pass

    def _arrives_in(self, seconds: float, request: requests.Request, sent: sent_bindings.Sent) -> None:
        self._cluster.sent.append(sent)
        self._clock.later(seconds, lambda: self._arrived(request, sent))

    def _arrived(self, request: requests.Request, sent: sent_bindings.Sent | None = None) -> None:
        if sent is not None:
            self._cluster.sent.remove(sent)
        self._cluster.send(request)


def refusal(status: int) -> api_connections.Answer:
    """A refusal by the API server itself."""
    return status, status_replies.StatusError(status, "Simulated", "a fault was drawn").body


class Watch(clients.Stream):
    """A watch that hands out one line at a time, and a bookmark when there is none."""

    def __init__(
        self,
        lines: Iterator[tuple[list[objects.Line], int]],
        first: tuple[list[objects.Line], int],
        faults: Faults,
    ) -> None:
        self._lines = lines
        self._ready = list(first[0])
        self._upto = first[1]
        self._faults = faults
        self._last: objects.Line | None = None

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
