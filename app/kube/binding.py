"""Asking the API server to bind a pod, once and for all.

The uid is the precondition, so a pod that was deleted and made anew is never bound by mistake. A
conflict or a lost answer is resolved by reading the pod; only what cannot be resolved is Unknown.
"""

import http
import time
from dataclasses import dataclass
from typing import Protocol

import msgspec

from app.domain import model
from app.kube import clients, decoding, errors

_SHARES = (0.45, 0.3)
"""Shares of the time for the Binding and its repetition; the rest is for reading the pod."""

_UNSURE = frozenset((409, 500, 502, 504))
"""Answers after which only the pod itself tells; 500 and 504 may hide a write that took effect."""

_string = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod is known to be bound to the node that was asked for."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The pod is known not to be bound to that node, and will not be by this request."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can tell yet whether the pod is bound."""

    reason: str


Outcome = Bound | Refused | Unknown


class Binder(Protocol):
    """Binds pods; verbs need no more of the cluster than this."""

    def bind(
        self, namespace: str, name: str, uid: model.Uid, node: model.NodeName, *, timeout: float = 3.0
    ) -> Outcome:
        """Bind the pod to the node within ``timeout`` seconds; never raises for what the API server does."""
        ...

    def get_pod(self, namespace: str, name: str, *, timeout: float = 2.0) -> model.Pod | None:
        """The pod of this name now; None if there is none. Raises KubeError if nobody can tell."""
        ...


class ApiBinder:
    """Binder over a client."""

    def __init__(self, client: clients.Client) -> None:
        self._client = client

    def bind(
        self, namespace: str, name: str, uid: model.Uid, node: model.NodeName, *, timeout: float = 3.0
    ) -> Outcome:
        """See Binder."""
        deadline = time.monotonic() + timeout
        body = (
            b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":%s,"namespace":%s,"uid":%s},'
            b'"target":{"apiVersion":"v1","kind":"Node","name":%s}}'
            % (_string(name), _string(namespace), _string(uid), _string(node))
        )
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        reply = cause = None
        for share in _SHARES:
            # Others count on it that none is sent, nor waited for, beyond the time.
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                # A repeated Binding is refused as already bound, so it may be repeated.
                reply = self._client.exchange("POST", path, body, timeout=min(timeout * share, left))
                break
            except errors.Unreachable as lost:
                if lost.refused:
                    return Refused(f"not bound: {lost}") if cause is None else Unknown(cause)
                cause = str(lost)
        if reply is None and cause is None:
            return Refused("not bound: there was no time left for it")
        if reply is not None and reply.status < http.HTTPStatus.BAD_REQUEST:
            return Bound()
        refused = clients.refusal(reply.status, reply.body) if reply is not None else None
        said = str(refused or cause)
        if cause is not None:
            refused = None  # It tells of the repetition alone: the first may have been carried out.
        if refused is not None and refused.status not in _UNSURE:
            return Refused(f"the API server refused the binding: {refused.status} {refused.message}")
        return self._resolved(namespace, name, uid, node, deadline, refused, said)

    def get_pod(self, namespace: str, name: str, *, timeout: float = 2.0) -> model.Pod | None:
        """See Binder."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        reply = self._client.exchange("GET", path, timeout=timeout)
        if reply.status == http.HTTPStatus.NOT_FOUND:
            return None
        if reply.status >= http.HTTPStatus.BAD_REQUEST:
            raise clients.refusal(reply.status, reply.body)
        return decoding.pod(reply.body)

    def _resolved(
        self,
        namespace: str,
        name: str,
        uid: model.Uid,
        node: model.NodeName,
        deadline: float,
        refused: errors.ApiError | None,
        cause: str,
    ) -> Outcome:
        """What the pod itself says about a Binding that was not plainly accepted or refused."""
        try:
            pod = self.get_pod(namespace, name, timeout=max(0.1, deadline - time.monotonic()))
        except errors.KubeError as problem:
            return Unknown(f"{cause}; reading the pod failed too: {problem}")
        if pod is None or pod.uid != uid:
            return Refused(f"pod {namespace}/{name} with uid {uid} is gone")
        if pod.node == node:
            return Bound()
        if pod.node:
            return Refused(f"pod {namespace}/{name} is already bound to node {pod.node}")
        if refused is not None and refused.status == http.HTTPStatus.CONFLICT:
            return Refused(f"the API server refused the binding: {cause}")
        # A request without an answer may still take effect after this reading.
        return Unknown(f"pod {namespace}/{name} is not bound yet: {cause}")
