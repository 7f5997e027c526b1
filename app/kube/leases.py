"""One Lease (coordination.k8s.io/v1) at the API server: read, created, replaced if it is still the same."""

import http
from typing import Any

import msgspec

from app.kube import clients, errors, wire

Json = dict[str, Any]

_checked = msgspec.json.Decoder(wire.Lease)


class Lease:
    """A Lease by its name. All calls raise Unreachable, Undecodable, or ApiError but for what is said."""

    def __init__(self, client: clients.Client, namespace: str, name: str, *, timeout: float) -> None:
        """``timeout``: seconds that a call may take."""
        self.name = f"{namespace}/{name}"
        self._client = client
        self._metadata = {"namespace": namespace, "name": name}
        self._timeout = timeout
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{self._collection}/{name}"

    def read(self) -> Json | None:
        """The object; None if there is none."""
        try:
            return self._decoded(self._client.get(self._path, timeout=self._timeout))
        except errors.ApiError as problem:
            if problem.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def write(self, before: Json | None, spec: Json, annotations: dict[str, str]) -> Json | None:
        """Create it, or replace what was read before; None if somebody else was first."""
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
            # What was to be replaced is gone; where the namespace is missing, 404 is no race.
            if lost or (before is not None and problem.status == http.HTTPStatus.NOT_FOUND):
                return None
            raise

    def _decoded(self, body: bytes) -> Json:
        """The whole object, fields of other versions included, if what is read of it is as it has to be."""
        try:
            _checked.decode(body)
            found: Json = msgspec.json.decode(body)
        except (ValueError, RecursionError) as problem:
            raise errors.Undecodable("leases", self.name, str(problem)) from problem
        return found


def version(lease: Json) -> str:
    """Its resourceVersion."""
    return str(lease["metadata"]["resourceVersion"])


def note(lease: Json, name: str) -> str:
    """One of its annotations; empty if it has none of that name."""
    return str((lease["metadata"].get("annotations") or {}).get(name, ""))
