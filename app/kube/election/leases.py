"""Reads, creates and conditionally replaces one Lease (coordination.k8s.io/v1)."""

import http
from typing import Any

import msgspec

from app.kube import errors
from app.kube.client import clients
from app.kube.objects import schema

Json = dict[str, Any]

_checked = msgspec.json.Decoder(schema.Lease)


class Lease:
    """A Lease by its name. All calls raise Unreachable, Undecodable, or ApiError except as documented."""

    def __init__(self, client: clients.Client, namespace: str, name: str, *, timeout: float) -> None:
        """``timeout``: seconds for one call."""
        self.name = f"{namespace}/{name}"
        self._client = client
        self._metadata = {"namespace": namespace, "name": name}
        self._timeout = timeout
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"

    def read(self) -> Json | None:
        """The Lease; None if it does not exist."""
        try:
            return self._decoded(self._client.get(self._path, timeout=self._timeout))
        except errors.ApiError as problem:
            if problem.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def write(self, before: Json | None, spec: Json, annotations: dict[str, str]) -> Json | None:
        """Create the Lease (``before`` is None) or replace it; None if another client was first.

        ``before``: the Lease as read or written last; its resourceVersion is the precondition.
        """
        made: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **(before or {}), "spec": spec}
        metadata = {**self._metadata, **made.get("metadata", {})}
        made["metadata"] = metadata | {"annotations": {**metadata.get("annotations", {}), **annotations}}
        body = msgspec.json.encode(made)
        try:
            if before is None:
                return self._decoded(self._client.post(self._collection, body, timeout=self._timeout))
            return self._decoded(self._client.put(self._path, body, timeout=self._timeout))
        except errors.ApiError as problem:
            lost = problem.status == http.HTTPStatus.CONFLICT
            # 404: the Lease was deleted meanwhile. When creating, 404 means that the namespace is missing.
            if lost or (before is not None and problem.status == http.HTTPStatus.NOT_FOUND):
                return None
            raise

    def _decoded(self, body: bytes) -> Json:
        """The whole object, unknown fields included, after the fields that are read here were validated."""
        try:
            _checked.decode(body)
            found: Json = msgspec.json.decode(body)
        except (ValueError, RecursionError) as problem:
            raise errors.Undecodable("leases", self.name, str(problem)) from problem
        return found


def version(lease: Json) -> str:
    """The resourceVersion of a Lease."""
    return str(lease["metadata"]["resourceVersion"])


def note(lease: Json, name: str) -> str:
    """The value of an annotation; empty if the Lease does not have it."""
    return str((lease["metadata"].get("annotations") or {}).get(name, ""))
