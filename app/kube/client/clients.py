"""Sends requests to the API server: bytes in, bytes out, errors of this package.

Lists, watches, patches and events go through the official client's connection pool; ``exchange`` uses
the fast client for the calls that kube-scheduler waits for.
"""

import contextlib
import http.client
import time
import urllib.parse
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType

import msgspec
import urllib3
from prometheus_client import Histogram

from app import telemetry
from app.kube import errors
from app.kube.client import credentials, fast_client, renewals
from app.kube.objects import schema

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_status = msgspec.json.Decoder(schema.Status)
_NO_PARAMETERS: Mapping[str, str] = {}
_NO_REPLY = 0
_observers: dict[tuple[str, int], Histogram] = {}
_MAX_RETRY_AFTER = 60.0
"""Seconds: a longer Retry-After is cut to this."""


class Client:
    """One API server under one identity; thread-safe."""

    def __init__(self, access: credentials.Access, *, timeout: float = 30.0) -> None:
        self._access = access
        self._timeout = timeout
        self._pooled = access.tls, access.pool()
        self._fast = fast_client.FastClient(access)
        self._renewer = renewals.Renewer(access).start()
        self._stop_renewer = weakref.finalize(self, self._renewer.stop)

    @property
    def host(self) -> str:
        """The server's URL without credentials, for people."""
        return self._access.shown

    @property
    def namespace(self) -> str:
        """The namespace of this process' own objects: that of its pod, or of the kubeconfig's context."""
        return self._access.namespace

    def get(
        self, path: str, parameters: Mapping[str, str] = _NO_PARAMETERS, *, timeout: float | None = None
    ) -> bytes:
        """Read an object or a list. Raises ApiError or Unreachable, as do the other methods."""
        return self._send("GET", path, parameters, timeout=timeout)

    def post(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        """Create an object or a subresource."""
        return self._send("POST", path, body=body, timeout=timeout)

    def put(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        """Replace an object; its resourceVersion, if the body has one, is a precondition."""
        return self._send("PUT", path, body=body, timeout=timeout)

    def patch(self, path: str, body: bytes, *, content: str = MERGE, timeout: float | None = None) -> bytes:
        """Patch an object; ``content`` is the media type of the patch."""
        return self._send("PATCH", path, body=body, content=content, timeout=timeout)

    def delete(self, path: str, body: bytes = b"") -> bytes:
        """Delete an object; the body may be DeleteOptions."""
        return self._send("DELETE", path, body=body or None)

    def stream(self, path: str, parameters: Mapping[str, str], *, silence: float) -> "Stream":
        """Open a long response such as a watch; ``silence`` seconds without a byte raise Unreachable."""
        response = self._request("GET", path, parameters, timeout=silence, whole=False)
        if not _succeeded(response.status):
            try:
                with self._unreachable("GET", path):
                    raise refusal(response.status, response.data, response.headers.get("Retry-After"))
            finally:
                response.close()
        return Stream(response)

    def exchange(self, method: str, path: str, body: bytes = b"", *, timeout: float) -> fast_client.Reply:
        """Send an idempotent request by the fast client; returns any status. Raises Unreachable."""
        if self._access.direct:
            began, status = time.perf_counter(), _NO_REPLY
            try:
                reply = self._fast.exchange(method, path, body, timeout=timeout)
                status = reply.status
            finally:
                self._observe(method, status, began)
            return reply
        response = self._request(method, path, _NO_PARAMETERS, body=body or None, timeout=timeout)
        return fast_client.Reply(response.status, response.data)

    def close(self) -> None:
        """Close the kept connections, and stop renewing the credentials."""
        self._stop_renewer()
        self._pool().clear()
        self._fast.close()

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
        began, status = time.perf_counter(), _NO_REPLY
        with self._unreachable(method, path):
            try:
                response = self._pool().request(
                    method,
                    f"{self._access.host}{path}{query}",
                    body=body,
                    headers=headers,
                    timeout=urllib3.Timeout(connect=min(limit, 10.0), read=limit),
                    preload_content=whole,
                    retries=False,
                    redirect=False,
                )
                status = response.status
            finally:
                self._observe(method, status, began)
        return response

    def _pool(self) -> urllib3.PoolManager:
        """The connections under the present certificate; requests under a former one end on their own."""
        tls, pool = self._pooled
        if tls != self._access.tls:
            tls, pool = self._pooled = self._access.tls, self._access.pool()
        return pool

    def _observe(self, method: str, status: int, began: float) -> None:
        """Measure a request that began then (``time.perf_counter``); refused credentials are renewed."""
        _observe(method, status, began)
        if status == http.HTTPStatus.UNAUTHORIZED:
            self._renewer.refused()

    @contextlib.contextmanager
    def _unreachable(self, method: str, path: str) -> Iterator[None]:
        """Raise Unreachable for every failure to get a reply."""
        try:
            yield
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as problem:
            raise errors.Unreachable(f"cannot connect to {self.host}: {problem}", refused=True) from problem
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError) as problem:
            raise errors.Unreachable(
                f"no answer from {self.host} to {method} {path}: {problem!r}"
            ) from problem


def _observe(method: str, status: int, began: float) -> None:
    """Measure a request that began then (``time.perf_counter``)."""
    observer = _observers.get((method, status))
    if observer is None:
        observer = telemetry.metrics.APISERVER_SECONDS.labels(method, str(status))
        _observers[method, status] = observer
    observer.observe(time.perf_counter() - began)


class Stream:
    """A response read in pieces; a context manager. Any thread may call ``close``."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        """The pieces as they arrive, until the stream ends. Raises Unreachable if the connection breaks."""
        try:
            while not self._closed:
                piece = self._response.read1(1 << 18)
                if not piece:
                    return
                yield piece
        except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError) as problem:
            if not self._closed:
                raise errors.Unreachable(f"the stream was interrupted: {problem!r}") from problem

    def close(self) -> None:
        """End the iteration, also in a thread that waits for the next piece."""
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
    """Whether the body is a metav1.Status that reports success."""
    try:
        answer = _status.decode(body)
    except (ValueError, RecursionError):
        return False
    return answer.kind == "Status" and answer.status == "Success"


def _succeeded(status: int) -> bool:
    """Whether the status is 2xx; a redirection counts as a failure, because it is not followed."""
    return http.HTTPStatus.OK <= status < http.HTTPStatus.MULTIPLE_CHOICES


def refusal(status: int, body: bytes, retry_after: str | None = None) -> errors.ApiError:
    """The error for an unsuccessful reply, from its metav1.Status if it has one."""
    try:
        answer = _status.decode(body)
    except (ValueError, RecursionError):
        answer = schema.Status(message=body[:500].decode(errors="replace"))
    asked = retry_after.strip() if retry_after else ""
    wait = min(float(asked), _MAX_RETRY_AFTER) if asked.isascii() and asked.isdecimal() else 0.0
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
    """A client for the given kubeconfig, or for the environment of the process (credentials.find)."""
    return Client(credentials.find(kubeconfig, context))
