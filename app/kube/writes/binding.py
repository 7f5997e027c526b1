"""Binds pods through the API server, and resolves Bindings with an unclear outcome.

The pod's uid is a precondition, so that a pod of the same name that was deleted and recreated is never bound
by mistake. So is its resourceVersion, if the caller has it: after any write to the pod a Binding with an
older version can no longer be carried out, however late it arrives (decision 8). The API server writes the
Binding's annotations to the pod together with the node (docs/design/extender-contract.md, 16): a pod that is
on the node without them was bound by another client. After a conflict or a lost answer the pod is read; the
outcome is Unknown only if the pod does not resolve it.
"""

import http
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from app.domain import model
from app.framework import manifests
from app.kube import errors
from app.kube.client import clients, fast_client
from app.kube.objects import decoding

UNDER_WAY = 8.5
"""Seconds beyond the time for a bind: what the API server and etcd may take for a Binding that was sent
(docs/decisions/0010)."""
UNFENCED = 75.0
"""Seconds after which even an unfenced Binding can no longer be carried out: the API server's default request
timeout (60 s) and a margin for the way there."""

_SHARES = (0.45, 0.3)
"""Shares of the timeout for the Binding and its repetition; the rest is for reading the pod."""

_SUCCESS = frozenset((200, 201))
_AMBIGUOUS = frozenset((409, 500, 502, 504))
"""Codes after which the pod must be read: each may hide a success, 409 as well
(docs/design/extender-contract.md, 18)."""
_DENIED = 'admission webhook "'
"""Begins the message of a request that a webhook denied, with any status: before anything was written."""

_encoded = msgspec.json.Encoder().encode


class _Described(manifests.ApiStruct):
    """An object's metadata, with all of its annotations."""

    metadata: manifests.Metadata


_described = msgspec.json.Decoder(_Described)


@dataclass(frozen=True, slots=True)
class Carried:
    """What a Binding carries beside the pod's identity and its node."""

    version: str = ""
    """The pod's resourceVersion as a precondition; empty for no precondition."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Set on the pod in the same write as the node; existing keys are overwritten."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """As the annotations, where the API server takes them over."""


NOTHING = Carried()


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod is bound to the requested node."""


@dataclass(frozen=True, slots=True)
class NotBound:
    """The pod is not bound to the requested node, and this request will not bind it."""

    reason: str


@dataclass(frozen=True, slots=True)
class BoundByOther:
    """The pod is bound to the requested node, without the annotations: by the Binding of another client."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The pod may be bound, or may still become bound, by this request."""

    reason: str


class Current(NamedTuple):
    """A pod as stored by the API server."""

    pod: model.Pod
    version: str
    """metadata.resourceVersion."""
    annotations: Mapping[str, str]
    """All annotations, also those that ``pod`` does not keep."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """As NotBound, because the pod has changed: the caller may retry with its new version."""

    reason: str
    current: Current
    """The pod now."""


Outcome = Bound | NotBound | Outdated | BoundByOther | Unknown


class Binder(Protocol):
    """Binds pods: all that verbs need of the cluster."""

    def bind(
        self,
        namespace: str,
        name: str,
        uid: model.Uid,
        node: model.NodeName,
        *,
        carried: Carried = NOTHING,
        timeout: float = 3.0,
    ) -> Outcome:
        """Bind the pod to the node within ``timeout`` seconds. Every failure is an Outcome, no exception."""
        ...

    def get_pod(self, namespace: str, name: str, *, timeout: float = 2.0) -> Current | None:
        """The pod of this name, by a consistent read; None if it does not exist. Raises KubeError."""
        ...


def carries(current: Current, annotations: Mapping[str, str]) -> bool:
    """Whether the pod has all of these annotations."""
    return all(current.annotations.get(key) == value for key, value in annotations.items())


def by_other(pod: model.Pod) -> str:
    """Why a pod on the requested node is not bound by us."""
    return f"pod {pod.key} was bound to node {pod.node} by another client, without what was decided for it"


def outdates(version: str, current: str) -> bool:
    """Whether a Binding with ``version`` can no longer be carried out, as the pod has ``current``."""
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
        carried: Carried = NOTHING,
        timeout: float = 3.0,
    ) -> Outcome:
        """See Binder."""
        wanted = _Wanted(namespace, name, uid, node, carried)
        # The server stops when the caller does, so that the Binding does not take effect much later.
        path = f"{wanted.path}/binding?timeout={max(1, int(timeout * 1000))}ms"
        body, deadline = wanted.body(), time.monotonic() + timeout
        lost: errors.Unreachable | None = None
        for share in _SHARES:
            # Other processes rely on it that no Binding is sent after the timeout.
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                # A Binding is idempotent: the API server refuses a repetition as already bound.
                reply = self._client.exchange("POST", path, body, timeout=min(timeout * share, left))
            except errors.Unreachable as problem:
                if problem.refused:
                    return NotBound(f"not bound: {problem}") if lost is None else Unknown(str(lost))
                lost = lost or problem
                continue
            return self._outcome(wanted, reply, lost, deadline)
        if lost is None:
            return NotBound("not bound: the timeout passed before the Binding was sent")
        return self._read_outcome(wanted, str(lost), deadline)

    def get_pod(self, namespace: str, name: str, *, timeout: float = 2.0) -> Current | None:
        """See Binder."""
        # Without a resourceVersion the API server reads from etcd, not from a cache.
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        reply = self._client.exchange("GET", path, timeout=timeout)
        if reply.status == http.HTTPStatus.OK:
            pod, version = decoding.pod_seen(reply.body)
            return Current(pod, version, _described.decode(reply.body).metadata.annotations or {})
        refused = clients.refusal(reply.status, reply.body)
        if refused.status == http.HTTPStatus.NOT_FOUND and refused.original:
            return None
        raise refused

    def _outcome(
        self, wanted: "_Wanted", reply: fast_client.Reply, lost: errors.Unreachable | None, deadline: float
    ) -> Outcome:
        """The outcome that the reply proves. ``lost``: why an earlier attempt got no reply, if so."""
        if reply.status in _SUCCESS and clients.success(reply.body):
            return Bound()
        refused = clients.refusal(reply.status, reply.body)
        # If it was sent more than once, the refusal concerns the last sending only.
        proof = refused.original and not reply.repeated and lost is None
        if proof and (refused.status not in _AMBIGUOUS or refused.message.startswith(_DENIED)):
            return NotBound(f"the API server refused the binding: {refused.status} {refused.message}")
        conflict = proof and refused.status == http.HTTPStatus.CONFLICT
        return self._read_outcome(wanted, str(lost or refused), deadline, conflict=conflict)

    def _read_outcome(
        self, wanted: "_Wanted", cause: str, deadline: float, *, conflict: bool = False
    ) -> Outcome:
        """The outcome that the pod shows, for a Binding without a definite reply.

        ``conflict``: the API server refused every sending with 409.
        """
        pod = f"pod {wanted.namespace}/{wanted.name}"
        try:
            left = max(0.1, deadline - time.monotonic())
            current = self.get_pod(wanted.namespace, wanted.name, timeout=left)
        except errors.KubeError as problem:
            return Unknown(f"{cause}; reading the pod failed too: {problem}")
        if current is None or current.pod.uid != wanted.uid:
            return NotBound(f"{pod} with uid {wanted.uid} is gone")
        if current.pod.node == wanted.node:
            ours = carries(current, wanted.carried.annotations)
            return Bound() if ours else BoundByOther(by_other(current.pod))
        if current.pod.node:
            return NotBound(f"{pod} is already bound to node {current.pod.node}")
        if outdates(wanted.carried.version, current.version):
            return Outdated(f"{pod} has changed while it was being bound: {cause}", current)
        if conflict and (current.pod.terminating or current.pod.gated):
            return NotBound(f"the API server refused the binding: {cause}")
        # A request without a reply may still take effect after this read. So may one that was answered 409
        # while etcd failed, and nothing of the pod explains any other conflict.
        return Unknown(f"{pod} is not bound yet: {cause}")


class _Wanted(NamedTuple):
    """The contents of one Binding."""

    namespace: str
    name: str
    uid: model.Uid
    node: model.NodeName
    carried: Carried

    @property
    def path(self) -> str:
        """The path of the pod."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def body(self) -> bytes:
        """The Binding as JSON."""
        carried = self.carried
        fence = b',"resourceVersion":%s' % _encoded(carried.version) if carried.version else b""
        annotations = b',"annotations":%s' % _encoded(carried.annotations) if carried.annotations else b""
        labels = b',"labels":%s' % _encoded(carried.labels) if carried.labels else b""
        named = (_encoded(self.name), _encoded(self.namespace), _encoded(self.uid))
        return (
            b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":%s,"namespace":%s,"uid":%s%s%s%s},'
            b'"target":{"apiVersion":"v1","kind":"Node","name":%s}}'
            % (*named, fence, annotations, labels, _encoded(self.node))
        )
