"""Requests to the API server: bytes in, bytes out, own errors.

The general way (lists, watches, patches, events) goes over the official client's connection pool;
``exchange`` is the short way for calls that kube-scheduler waits for.
"""

import contextlib
import http.client
import urllib.parse
from collections.abc import Iterator, Mapping
from types import TracebackType

import msgspec
import urllib3

from app.kube import accessing, connecting, errors, wire

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_status = msgspec.json.Decoder(wire.Status)
_NO_PARAMETERS: Mapping[str, str] = {}
_LONGEST_RETRY = 60.0
"""Seconds that a Retry-After may ask for; more is not believed."""


class Client:
    """One API server under one identity; safe between threads."""

    def __init__(self, access: accessing.Access, *, timeout: float = 30.0) -> None:
        self._access = access
        self._timeout = timeout
        self._pool = access.pool()
        self._connections = connecting.Connections(access)

    @property
    def host(self) -> str:
        """The server's URL, for people."""
        return self._access.shown

    def get(
        self, path: str, parameters: Mapping[str, str] = _NO_PARAMETERS, *, timeout: float | None = None
    ) -> bytes:
        """Read an object or a list. Raises ApiError or Unreachable, as do all of these."""
        return self._send("GET", path, parameters, timeout=timeout)

    def post(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        """Create an object or a subresource."""
        return self._send("POST", path, body=body, timeout=timeout)

    def put(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        """Replace an object; its resourceVersion, if given, must be the current one."""
        return self._send("PUT", path, body=body, timeout=timeout)

    def patch(self, path: str, body: bytes, *, content: str = MERGE, timeout: float | None = None) -> bytes:
        """Change a part of an object."""
        return self._send("PATCH", path, body=body, content=content, timeout=timeout)

    def delete(self, path: str, body: bytes = b"", *, timeout: float | None = None) -> bytes:
        """Delete an object; the body may carry DeleteOptions."""
        return self._send("DELETE", path, body=body or None, timeout=timeout)

    def stream(self, path: str, parameters: Mapping[str, str], *, silence: float) -> "Stream":
        """Open an answer that does not end soon; no byte for ``silence`` seconds ends it with Unreachable."""
        response = self._request("GET", path, parameters, timeout=silence, whole=False)
        if not _succeeded(response.status):
            try:
                with self._answering("GET", path):
                    raise refusal(response.status, response.data, response.headers.get("Retry-After"))
            finally:
                response.close()
        return Stream(response)

    def exchange(self, method: str, path: str, body: bytes = b"", *, timeout: float) -> connecting.Reply:
        """A call that may be repeated, by the shortest way; every status is an answer. Raises Unreachable."""
        if self._access.direct:
            return self._connections.exchange(method, path, body, timeout=timeout)
        response = self._request(method, path, _NO_PARAMETERS, body=body or None, timeout=timeout)
        return connecting.Reply(response.status, response.data)

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.clear()
        self._connections.close()

    def _send(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] = _NO_PARAMETERS,
        *,
        body: bytes | None = None,
        content: str = JSON,
        timeout: float | None = None,
    ) -> bytes:
        response = self._request(method, path, parameters, body=body, content=content, timeout=timeout)
        if not _succeeded(response.status):
            raise refusal(response.status, response.data, response.headers.get("Retry-After"))
        return response.data

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        *,
        body: bytes | None = None,
        content: str = JSON,
        timeout: float | None = None,
        whole: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": JSON, "User-Agent": "topolog"}
        authorization = self._access.authorization()
        if authorization:
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = content
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        limit = timeout or self._timeout
        with self._answering(method, path):
            return self._pool.request(
                method,
                f"{self._access.host}{path}{query}",
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=min(limit, 10.0), read=limit),
                preload_content=whole,
                retries=False,
                redirect=False,
            )

    @contextlib.contextmanager
    def _answering(self, method: str, path: str) -> Iterator[None]:
        """Everything that is no answer becomes Unreachable."""
        try:
            yield
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as problem:
            raise errors.Unreachable(f"cannot connect to {self.host}: {problem}", refused=True) from problem
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError) as problem:
            raise errors.Unreachable(
                f"no answer from {self.host} to {method} {path}: {problem!r}"
            ) from problem


class Stream:
    """An answer in pieces; a context manager. ``close`` ends it from any thread."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        """The pieces as they come; ends with the stream. Raises Unreachable if it breaks off."""
        try:
            while not self._closed:
                piece = self._response.read1(1 << 18)
                if not piece:
                    return
                yield piece
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError) as problem:
            if not self._closed:
                raise errors.Unreachable(f"the stream broke off: {problem!r}") from problem

    def close(self) -> None:
        """Wake whoever reads and let the reading end."""
        self._closed = True
        try:
            self._response.shutdown()
        except (OSError, ValueError, RuntimeError):
            self._response.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._response.close()


def success(body: bytes) -> bool:
    """Whether the body is the metav1.Status of a request that was carried out."""
    try:
        answer = _status.decode(body)
    except ValueError:
        return False
    return answer.kind == "Status" and answer.status == "Success"


def _succeeded(status: int) -> bool:
    """Whether it is the status of a success; a redirection is none, for it is not followed."""
    return http.HTTPStatus.OK <= status < http.HTTPStatus.MULTIPLE_CHOICES


def refusal(status: int, body: bytes, retry_after: str | None = None) -> errors.ApiError:
    """The error for an answer that is no success: a metav1.Status where there is one."""
    try:
        answer = _status.decode(body)
    except (ValueError, RecursionError):
        answer = wire.Status(message=body[:500].decode(errors="replace"))
    asked = retry_after.strip() if retry_after else ""
    wait = min(float(asked), _LONGEST_RETRY) if asked.isascii() and asked.isdecimal() else 0.0
    kind = errors.Expired if status == http.HTTPStatus.GONE else errors.ApiError
    failure = (answer.kind, answer.api_version, answer.status, answer.code) == (
        "Status",
        "v1",
        "Failure",
        status,
    )
    return kind(
        status,
        answer.reason or http.client.responses.get(status, ""),
        answer.message,
        retry_after=wait,
        original=failure,
    )


def connect(kubeconfig: str | None = None, context: str | None = None) -> Client:
    """A client for the given kubeconfig, or for the environment that the process runs in."""
    return Client(accessing.find(kubeconfig, context))
