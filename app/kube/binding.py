"""Binding a pod through the API server, and finding out what came of it.

The uid is a precondition, so a pod that was deleted and created again is never bound by mistake. The
pod's resourceVersion, where the caller knows it, is the other one: any write to the pod makes a Binding
that carries an older version impossible, however late it arrives (ADR 0008). A conflict or a lost answer is
resolved by reading the pod; only what cannot be resolved is Unknown.
"""

import http
import time
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from app.domain import model
from app.kube import clients, connecting, decoding, errors

UNFENCED = 75.0
"""Seconds after which a Binding cannot be carried out any more although nothing fences it: the API server's
default request timeout (60 s) and a margin for what was under way to it."""

_SHARES = (0.45, 0.3)
"""Shares of the time for the Binding and its repetition; the rest is for reading the pod."""

_DONE = frozenset((200, 201))
_UNSURE = frozenset((409, 500, 502, 504))
"""Answers after which only the pod shows what happened; 500 and 504 may hide a write that took effect."""

_string = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod is known to be bound to the node that was asked for."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The pod is known not to be bound to that node, and will not be by this request."""

    reason: str


@dataclass(frozen=True, slots=True)
class Outdated:
    """As Refused, because the pod has changed since ``version``: it can be asked for again with this one."""

    reason: str
    version: str
    """The pod's resourceVersion now."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It cannot be known yet whether the pod is or will be bound."""

    reason: str


Outcome = Bound | Refused | Outdated | Unknown


class Current(NamedTuple):
    """A pod as the API server holds it at this moment."""

    pod: model.Pod
    version: str
    """metadata.resourceVersion."""


class Binder(Protocol):
    """Binds pods; verbs need no more of the cluster than this."""

    def bind(
        self,
        namespace: str,
        name: str,
        uid: model.Uid,
        node: model.NodeName,
        *,
        version: str = "",
        timeout: float = 3.0,
    ) -> Outcome:
        """Bind the pod to the node within ``timeout`` seconds; never raises for what the API server does.

        ``version``: the pod's resourceVersion, as a precondition; none if it is empty.
        """
        ...

    def get_pod(self, namespace: str, name: str, *, timeout: float = 2.0) -> Current | None:
        """The pod of this name, by a consistent read; None if there is none. Raises KubeError."""
        ...


def outdates(version: str, current: str) -> bool:
    """Whether a Binding that carries ``version`` can never be carried out on a pod that has ``current``."""
    return bool(version and current) and version != current


class ApiBinder:
    """Binder over a client."""

    def __init__(self, client: clients.Client) -> None:
        self._client = client

    def bind(
        self,
        namespace: str,
        name: str,
        uid: model.Uid,
        node: model.NodeName,
        *,
        version: str = "",
        timeout: float = 3.0,
    ) -> Outcome:
        """See Binder."""
        asked = _Asked(namespace, name, uid, node, version)
        # The server gives up when the caller does, so that nothing of it takes effect much later.
        path = f"{asked.path}/binding?timeout={max(1, int(timeout * 1000))}ms"
        body, deadline = asked.body(), time.monotonic() + timeout
        lost: errors.Unreachable | None = None
        for share in _SHARES:
            # Others count on it that none is sent, nor waited for, beyond the time.
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                # A repeated Binding is refused as already bound, so it may be repeated.
                reply = self._client.exchange("POST", path, body, timeout=min(timeout * share, left))
            except errors.Unreachable as problem:
                if problem.refused:
                    return Refused(f"not bound: {problem}") if lost is None else Unknown(str(lost))
                lost = lost or problem
                continue
            return self._judged(asked, reply, lost, deadline)
        if lost is None:
            return Refused("not bound: there was no time left for it")
        return self._resolved(asked, str(lost), deadline)

    def get_pod(self, namespace: str, name: str, *, timeout: float = 2.0) -> Current | None:
        """See Binder."""
        # Without a resourceVersion, so that the answer is from etcd and not from a cache.
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        reply = self._client.exchange("GET", path, timeout=timeout)
        if reply.status == http.HTTPStatus.OK:
            return Current(*decoding.pod_seen(reply.body))
        refused = clients.refusal(reply.status, reply.body)
        if refused.status == http.HTTPStatus.NOT_FOUND and refused.original:
            return None
        raise refused

    def _judged(
        self, asked: "_Asked", reply: connecting.Reply, lost: errors.Unreachable | None, deadline: float
    ) -> Outcome:
        """What the answer proves. ``lost``: an earlier attempt got none."""
        if reply.status in _DONE and clients.success(reply.body):
            return Bound()
        refused = clients.refusal(reply.status, reply.body)
        # If it was sent more than once, this is about the last time: the first may have been carried out.
        proof = refused.original and not reply.repeated and lost is None
        if proof and refused.status not in _UNSURE:
            return Refused(f"the API server refused the binding: {refused.status} {refused.message}")
        conflict = proof and refused.status == http.HTTPStatus.CONFLICT
        return self._resolved(asked, str(lost or refused), deadline, conflict=conflict)

    def _resolved(self, asked: "_Asked", cause: str, deadline: float, *, conflict: bool = False) -> Outcome:
        """What the pod itself shows of a Binding that was not plainly accepted or refused.

        ``conflict``: all that was sent was refused, as it did not fit the pod.
        """
        pod = f"pod {asked.namespace}/{asked.name}"
        try:
            left = max(0.1, deadline - time.monotonic())
            current = self.get_pod(asked.namespace, asked.name, timeout=left)
        except errors.KubeError as problem:
            return Unknown(f"{cause}; reading the pod failed too: {problem}")
        if current is None or current.pod.uid != asked.uid:
            return Refused(f"{pod} with uid {asked.uid} is gone")
        if current.pod.node == asked.node:
            return Bound()
        if current.pod.node:
            return Refused(f"{pod} is already bound to node {current.pod.node}")
        if outdates(asked.version, current.version):
            return Outdated(f"{pod} has changed while it was being bound: {cause}", current.version)
        if conflict:
            return Refused(f"the API server refused the binding: {cause}")
        # A request without an answer may still take effect after this reading.
        return Unknown(f"{pod} is not bound yet: {cause}")


class _Asked(NamedTuple):
    """What one Binding asks for."""

    namespace: str
    name: str
    uid: model.Uid
    node: model.NodeName
    version: str

    @property
    def path(self) -> str:
        """The pod's."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def body(self) -> bytes:
        """The Binding as JSON."""
        fence = b',"resourceVersion":%s' % _string(self.version) if self.version else b""
        return (
            b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":%s,"namespace":%s,"uid":%s%s},'
            b'"target":{"apiVersion":"v1","kind":"Node","name":%s}}'
            % (_string(self.name), _string(self.namespace), _string(self.uid), fence, _string(self.node))
        )
