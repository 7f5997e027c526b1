"""Which cluster this is: the UID of its kube-system namespace, which is made once and never again."""

import http

import msgspec

from app import telemetry
from app.kube import clients, errors, wire

PATH = "/api/v1/namespaces/kube-system"


class _Object(wire.Wire):
    metadata: wire.Metadata


_decoder = msgspec.json.Decoder(_Object)


class Identity:
    """The UID of the cluster; asked of the API server until it is known."""

    def __init__(self, client: clients.Client) -> None:
        self._client = client
        self._uid: str | None = None

    def uid(self) -> str:
        """The UID; empty if it cannot be had. Raises KubeError if asking again may help."""
        if self._uid is None:
            self._uid = self._asked()
        return self._uid

    def _asked(self) -> str:
        try:
            return _decoder.decode(self._client.get(PATH, timeout=5.0)).metadata.uid
        except msgspec.MsgspecError as problem:
            raise errors.Undecodable("namespace", "kube-system", str(problem)) from problem
        except errors.ApiError as refused:
            if refused.status not in (http.HTTPStatus.FORBIDDEN, http.HTTPStatus.NOT_FOUND):
                raise
            telemetry.log.warning(
                "cannot see which cluster this is: another one under the same name would not be noticed",
                error=str(refused),
            )
            return ""
