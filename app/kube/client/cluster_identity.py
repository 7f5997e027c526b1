"""Identifies the cluster by the UID of its kube-system namespace, which is never recreated."""

import http

import msgspec

from app import telemetry
from app.framework import manifests
from app.kube import errors
from app.kube.client import clients

PATH = "/api/v1/namespaces/kube-system"


class _Object(manifests.ApiStruct):
    metadata: manifests.Metadata


_decoder = msgspec.json.Decoder(_Object)


class Identity:
    """The UID of the cluster, requested from the API server until it is known."""

    def __init__(self, client: clients.Client) -> None:
        self._client = client
        self._uid = ""
        self._warned = False

    def uid(self) -> str:
        """The UID; empty if this process may not read it now. Raises KubeError if a retry may help.

        A refusal may be over soon: an API server that starts refuses until it has read the roles.
        """
        self._uid = self._uid or self._request()
        return self._uid

    def uid_if_known(self) -> str | None:
        """As ``uid``, but None if a retry may help."""
        try:
            return self.uid()
        except errors.KubeError:
            return None

    def _request(self) -> str:
        try:
            return _decoder.decode(self._client.get(PATH, timeout=5.0)).metadata.uid
        except (ValueError, RecursionError) as problem:
            raise errors.Undecodable("namespace", "kube-system", str(problem)) from problem
        except errors.ApiError as refused:
            if refused.status not in (http.HTTPStatus.FORBIDDEN, http.HTTPStatus.NOT_FOUND):
                raise
            if not self._warned:
                telemetry.log.warning(
                    "cannot read the UID of namespace kube-system: a change of cluster would go unnoticed",
                    error=str(refused),
                )
            self._warned = True
            return ""
