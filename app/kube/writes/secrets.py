"""Reads, creates and conditionally replaces Secrets of one namespace (v1).

No error of this module contains data of a Secret.
"""

import base64
import http
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from app.kube import errors
from app.kube.client import clients
from app.kube.objects import schema

Json = dict[str, Any]

OPAQUE = "Opaque"
TLS = "kubernetes.io/tls"
"""The API server accepts only Secrets of this type that have `tls.crt` and `tls.key`."""

_TIMEOUT = 10.0
"""Seconds for one call."""

_checked = msgspec.json.Decoder(schema.Secret)


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret as it was read, or as it will be written."""

    name: str
    data: Mapping[str, bytes] = field(repr=False)
    type: str = OPAQUE
    labels: Mapping[str, str] = field(default_factory=dict)
    manifest: Json = field(default_factory=dict, repr=False)
    """The object as it was read; empty if it was not."""

    def as_object(self, namespace: str) -> Json:
        """The object of the API; what was read and is not described here is kept."""
        former = self.manifest.get("metadata", {})
        named = {"name": self.name, "namespace": namespace}
        return {
            **{"apiVersion": "v1", "kind": "Secret"},
            **self.manifest,
            "metadata": {**former, **named, "labels": {**former.get("labels", {}), **self.labels}},
            "type": self.type,
            "data": {key: base64.b64encode(value).decode() for key, value in sorted(self.data.items())},
        }


class Secrets:
    """The Secrets of a namespace. All calls raise ApiError, Unreachable or Undecodable."""

    def __init__(self, client: clients.Client, namespace: str) -> None:
        self.namespace = namespace
        self._client = client
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"

    def read(self, name: str) -> Secret | None:
        """The Secret; None if it does not exist."""
        try:
            body = self._client.get(f"{self._collection}/{name}", timeout=_TIMEOUT)
        except errors.ApiError as refused:
            if refused.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise
        try:
            found = _checked.decode(body)
            data = {key: base64.b64decode(value, validate=True) for key, value in (found.data or {}).items()}
            return Secret(name, data, found.type, found.metadata.labels or {}, msgspec.json.decode(body))
        except (ValueError, RecursionError) as problem:
            raise errors.Undecodable("secret", name, type(problem).__name__) from None

    def write(self, secret: Secret) -> bool:
        """Create the Secret, or replace the one that was read; False if another client was first."""
        body = msgspec.json.encode(secret.as_object(self.namespace))
        try:
            if secret.manifest:
                self._client.put(f"{self._collection}/{secret.name}", body, timeout=_TIMEOUT)
            else:
                self._client.post(self._collection, body, timeout=_TIMEOUT)
        except errors.ApiError as refused:
            lost = refused.status == http.HTTPStatus.CONFLICT
            # 404: the Secret was deleted meanwhile. When creating, 404 means that the namespace is missing.
            if lost or (secret.manifest and refused.status == http.HTTPStatus.NOT_FOUND):
                return False
            raise
        return True
