"""Client of an extender's REST API, authenticated by a client certificate."""

import atexit
import contextlib
import functools
import http.client
import json
import os
import pathlib
import ssl
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click
import urllib3

from app import exit_codes, settings
from app.cli import certs, exits
from app.cli.client import option_names, urls
from app.serving.tls import role_names

if TYPE_CHECKING:
    from app.cli.client import port_forwards

F = TypeVar("F", bound=Callable[..., None])
_HTTPS_PORT = 443
_OF_THE_STORE = ("ArchiveAway", "Behind", "StoreAway", "StoreRefused", "StoreRewound")
"""Reason codes of a process that cannot read the log; the status 503 has other causes, too."""
_EXTENDER, _VIEW = "the extender", "`topolog view`"


def server_options(command: F) -> F:
    """Add the options that select the extender and the client certificate."""
    for option in (
        click.option(
            "--server-name",
            metavar="NAME",
            help="Name in the extender's certificate, if it is reached by another one, such as through a"
            " port-forward. [client.server_name]",
        ),
        click.option("--ca", metavar="FILE", help="CA certificates that verify the extender. [client.ca]"),
        click.option("--key", metavar="FILE", help="Private key of the client certificate. [client.key]"),
        click.option("--cert", metavar="FILE", help="Client certificate. [client.cert]"),
        click.option("--server", type=urls.URL, metavar="URL", help="URL of the extender. [client.url]"),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class ExtenderClient:
    """Sends requests to an extender."""

    client: settings.Client
    otherwise: str = ""
    """Why the kubeconfig led to no process or is not used, for the message if this one is unreachable."""
    process: str = _EXTENDER
    """What answers there, for the same message."""
    forward: "port_forwards.Forward | None" = None
    """The port that is forwarded to it, if the kubeconfig led to one."""

    def get(
        self,
        path: str,
        query: Mapping[str, object] | Sequence[tuple[str, object]] = (),
        *,
        accept: str = "application/json",
        timeout: float = 0.0,
    ) -> dict[str, Any] | str:
        """JSON at a path, or text if `accept` allows it. Raises Failed with the exit code of the error.

        Waits for at least ``timeout`` seconds. Pairs may repeat a parameter; those without a value are left
        out.
        """
        pairs = query.items() if isinstance(query, Mapping) else query
        parameters = [(name, str(value)) for name, value in pairs if value is not None]
        query_text = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        return self._patient(timeout)._sent("GET", path, query_text, accept)

    def document(self, path: str) -> dict[str, Any]:
        """JSON at a path. Raises Failed."""
        return self._document("GET", path)

    def post(self, path: str, question: Mapping[str, object], *, timeout: float) -> dict[str, Any]:
        """The JSON answer to a JSON body, waiting for at least ``timeout`` seconds. Raises Failed."""
        return self._patient(timeout)._document("POST", path, question)

    def put(self, path: str, body: Mapping[str, object], *, timeout: float) -> dict[str, Any]:
        """The JSON reply to what is set, waiting for at least ``timeout`` seconds. Raises Failed."""
        return self._patient(timeout)._document("PUT", path, body)

    def set_text(self, path: str, value: str, query: Mapping[str, object]) -> str:
        """The sentence that replies to a value, which is sent as text. Raises Failed."""
        parameters = {name: str(each) for name, each in query.items() if each is not None}
        query_text = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        answer = self._sent("PUT", path, query_text, "text/plain, application/json", value.encode())
        if isinstance(answer, str):
            return answer
        raise exits.Failed(
            exit_codes.UNREACHABLE, f"{self.client.url} is not an extender: its reply to {path} is not text"
        )

    def delete(self, path: str) -> dict[str, Any]:
        """The JSON of what was deleted. Raises Failed."""
        return self._document("DELETE", path)

    def _patient(self, timeout: float) -> "ExtenderClient":
        return replace(self, client=replace(self.client, timeout=max(timeout, self.client.timeout)))

    def _document(self, method: str, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        sent = None if body is None else json.dumps(body).encode()
        answer = self._sent(method, path, "", "application/json", sent)
        if isinstance(answer, str):
            raise exits.Failed(
                exit_codes.UNREACHABLE,
                f"{self.client.url} is not an extender: its reply to {path} is not JSON",
            )
        return answer

    def _sent(
        self, method: str, path: str, query: str, accept: str, body: bytes | None = None
    ) -> dict[str, Any] | str:
        url = self.client.url.rstrip("/") + urllib.parse.quote(path) + query
        headers = {"Accept": accept, **({"Content-Type": "application/json"} if body is not None else {})}
        try:
            # Not by the proxies of the environment: they could not present our client certificate.
            with self.pool() as pool:
                # A redirection is not followed, and a request that failed is not repeated.
                request = functools.partial(pool.request, retries=False, redirect=False)
                reply = self._sent_to_a_pod(lambda: request(method, url, body=body, headers=headers))
        except (urllib3.exceptions.HTTPError, OSError, http.client.HTTPException, ValueError) as error:
            message = self._unreachable(error)
            raise exits.Failed(exit_codes.UNREACHABLE, message, temporary=True) from error
        if reply.status != http.HTTPStatus.OK:
            raise self.failure(reply.status, reply.data, path, reply.headers.get("Location", ""))
        if reply.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            return str(reply.data, "utf-8", "replace")
        try:
            document: dict[str, Any] = json.loads(reply.data)
        except ValueError as error:
            raise exits.Failed(
                exit_codes.UNREACHABLE,
                f"{self.client.url} is not an extender: its reply to {path} is not JSON",
            ) from error
        return document

    @contextlib.contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        silence: float | None = None,
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """A reply of any status, read as it arrives; ``path`` includes the query.

        ``silence``: seconds without a byte after which it fails; None for the timeout of the client. Raises
        Failed if there is no reply, or not all of it.
        """
        url = self.client.url.rstrip("/") + path
        reply: urllib3.BaseHTTPResponse | None = None
        try:
            with self.pool(silence=silence) as pool:
                request = functools.partial(
                    pool.request,
                    retries=False,
                    redirect=False,
                    preload_content=False,
                    decode_content=False,
                )
                reply = self._sent_to_a_pod(lambda: request(method, url, body=body, headers=headers))
                with contextlib.closing(reply):
                    yield reply
        except (urllib3.exceptions.HTTPError, OSError, http.client.HTTPException, ValueError) as error:
            message = self._unreachable(error) if reply is None else self._lost(error)
            raise exits.Failed(exit_codes.UNREACHABLE, message, temporary=True) from error

    def _sent_to_a_pod(self, send: Callable[[], urllib3.BaseHTTPResponse]) -> urllib3.BaseHTTPResponse:
        """The reply. The request is sent again if kubectl, which forwarded the port, has lost its pod."""
        number = self.forward.number if self.forward else 0
        try:
            return send()
        except (urllib3.exceptions.HTTPError, OSError):
            if self.forward is None or not self.forward.renewed(number):
                raise
        return send()

    def pool(self, *, silence: float | None = None) -> urllib3.PoolManager:
        """Connections with the certificate of the client. Raises Failed."""
        timeout = urllib3.Timeout(connect=self.client.timeout, read=silence or self.client.timeout)
        if not self.client.url.startswith("https:"):
            return urllib3.PoolManager(timeout=timeout)
        return urllib3.PoolManager(
            timeout=timeout, ssl_context=self._context(), server_hostname=self.client.server_name or None
        )

    def _context(self) -> ssl.SSLContext:
        client = self.client
        what = f"the CA certificates {client.ca} (client.ca)"
        try:
            context = ssl.create_default_context(cafile=client.ca or None)
            # The CA that issued the extender's certificate suffices, without its root.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            if client.cert:
                key = client.key or client.cert
                for file, name in ((client.cert, "the certificate"), (key, "the private key")):
                    what = f"{name} {file}"
                    pathlib.Path(file).read_bytes()
                what = f"the certificate {client.cert} with the private key {key} (client.cert, client.key)"
                context.load_cert_chain(client.cert, client.key or None)
        except OSError as error:
            reason = str(error)
            if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
                reason = "the key is that of another certificate"
            elif isinstance(error, ssl.SSLError):
                reason = f"not in PEM form ({error})"
            elif error.strerror:
                reason = error.strerror
            raise exits.Failed(exit_codes.SETTINGS, f"cannot load {what}: {reason}") from error
        return context

    def _unreachable(self, error: Exception) -> str:
        """Why there is no reply, and why the kubeconfig led nowhere."""
        return self._why(error) + self.otherwise

    def _why(self, error: Exception) -> str:
        # Only a failure needs it, and it imports cryptography.
        from app.cli.client import tls_hints

        client, url = self.client, urllib.parse.urlsplit(self.client.url)
        if self.forward is not None and (lost := self.forward.lost()):
            return f"{client.url} is unreachable: {lost}"
        cause = _cause(error)
        text = f"{client.url} is unreachable: {cause or error}"
        if url.scheme == "http" and isinstance(cause, ConnectionError | None):
            return text if isinstance(cause, ConnectionRefusedError) else f"{text} (does it require https?)"
        if cause is None or url.scheme == "http":
            return text
        host = url.hostname or ""
        connection = tls_hints.Connection(
            host=host,
            port=url.port or _HTTPS_PORT,
            name=client.server_name or host,
            ca=client.ca,
            cert=client.cert,
            key=client.key,
            timeout=client.timeout,
        )
        hint = tls_hints.of(connection, cause, self.process)
        return f"{text} ({hint})" if hint else text

    def _lost(self, error: Exception) -> str:
        cause = _cause(error)
        return f"the connection to {self.client.url} was lost{f': {cause}' if cause else ''}"

    def failure(self, status: int, data: bytes, path: str, location: str = "") -> exits.Failed:
        """The failure that a reply means; ``location``: where it redirects to."""
        if location:
            return exits.Failed(
                exit_codes.UNREACHABLE,
                f"{self.client.url} redirects {path} to {location} (HTTP {status}), which is not followed:"
                " request a path below /apis/v1",
            )
        temporary = (
            status == http.HTTPStatus.TOO_MANY_REQUESTS or status >= http.HTTPStatus.INTERNAL_SERVER_ERROR
        )
        try:
            problem = json.loads(data)
            message, reason = str(problem["message"]), problem.get("reasonCode")
        except (ValueError, KeyError, TypeError):
            return exits.Failed(
                exit_codes.UNREACHABLE,
                f"{self.client.url} is not an extender: its reply to {path} is HTTP {status}, no message",
                temporary=temporary,
            )
        if status == http.HTTPStatus.FORBIDDEN and self.client.cert:
            message += f" (the client certificate is {self.client.cert})"
        codes: dict[int, int] = {
            http.HTTPStatus.BAD_REQUEST: exit_codes.USAGE,
            http.HTTPStatus.NOT_FOUND: exit_codes.NEGATIVE,
            http.HTTPStatus.GONE: exit_codes.NEGATIVE,
        }
        code = exit_codes.STORE if reason in _OF_THE_STORE else codes.get(status, exit_codes.UNREACHABLE)
        if code == exit_codes.USAGE:
            message = option_names.spelled(message)
        if reason == "NotRecorded":
            return exits.Failed(exit_codes.USAGE, message)
        return exits.Failed(code, message, temporary=temporary)


def extender(
    config: str | None,
    options: Mapping[str, str | None],
    *,
    role: str = role_names.VIEWER,
    namespace: str = "",
) -> ExtenderClient:
    """Client by the options, the settings, the certificates that ``up`` made, or else the kubeconfig.

    ``role``: whose certificate is taken where none is named. ``namespace``: where the kubeconfig leads, in
    place of client.namespace.
    """
    loaded = settings.load(config, os.environ)
    client, found, otherwise = _chosen(loaded, options, role)
    client = replace(client, namespace=namespace or client.namespace)
    if found:
        return ExtenderClient(client, otherwise)
    return _forwarded(replace(loaded, client=client), role, "extender")


def view(config: str | None, options: Mapping[str, str | None]) -> ExtenderClient:
    """Client of ``topolog view``, found in the same ways."""
    loaded = settings.load(config, os.environ)
    client, found, otherwise = _chosen(loaded, options, role_names.VIEWER)
    if not options["server"]:
        client = replace(client, url=client.view_url or _next_port(client.url))
    if found or client.view_url:
        return ExtenderClient(client, otherwise, _VIEW)
    return _forwarded(replace(loaded, client=client), role_names.VIEWER, "view")


def _chosen(
    loaded: settings.Settings, options: Mapping[str, str | None], role: str
) -> tuple[settings.Client, bool, str]:
    """The settings of a client, whether they lead to a process, and why the kubeconfig is not used then."""
    client = loaded.client
    given = options["server"] or options["cert"] or client.cert or client.url != settings.Client().url
    client = replace(
        client,
        url=options["server"] or client.url,
        server_name=options["server_name"] or client.server_name,
        cert=options["cert"] or client.cert,
        key=options["key"] or client.key,
        ca=options["ca"] or client.ca,
    )
    made = certs.default_directory(loaded.cluster)
    if client.cert or not _exist(made / f"{role}.crt", made / f"{role}.key", made / "ca.crt"):
        return client, bool(given), ""
    cert, key, ca = (str(made / name) for name in (f"{role}.crt", f"{role}.key", "ca.crt"))
    otherwise = f"; remove {made}, the certificates of `topolog up`, to ask the cluster of the kubeconfig"
    return replace(client, cert=cert, key=key, ca=client.ca or ca), True, "" if given else otherwise


def _forwarded(loaded: settings.Settings, role: str, component: str) -> ExtenderClient:
    """A client by way of the kubeconfig, as long as the command runs; else of the URL in the settings."""
    process = _VIEW if component == "view" else _EXTENDER
    from app.cli.client import port_forwards

    until = contextlib.ExitStack()
    context = click.get_current_context(silent=True)
    (context.find_root().call_on_close if context is not None else atexit.register)(until.close)
    try:
        client, forward = until.enter_context(port_forwards.opened(loaded, role, component))
    except port_forwards.NotFound as reason:
        return ExtenderClient(loaded.client, f"; nor by the kubeconfig: {reason}", process)
    return ExtenderClient(client, process=process, forward=forward)


def _next_port(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port or (_HTTPS_PORT if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{host}:{port + 1}"


def _exist(*files: pathlib.Path) -> bool:
    return all(file.is_file() for file in files)


def _cause(error: BaseException) -> OSError | None:
    """The error of the socket or of TLS that urllib3's error is about."""
    for one in _chain(error):
        if isinstance(one, OSError) and not isinstance(one, urllib3.exceptions.HTTPError):
            return one
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    yield error
    for inner in (*error.args, error.__cause__, error.__context__):
        if isinstance(inner, BaseException) and inner is not error:
            yield from _chain(inner)
