"""Client of an extender's REST API, authenticated by a client certificate."""

import http.client
import json
import os
import pathlib
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from app import exit_codes, settings
from app.cli import certs, exits

F = TypeVar("F", bound=Callable[..., None])


def server_options(command: F) -> F:
    """Add the options that select the extender and the client certificate."""
    for option in (
        click.option("--ca", metavar="FILE", help="CA certificates that verify the extender. [client.ca]"),
        click.option("--key", metavar="FILE", help="Private key of the client certificate. [client.key]"),
        click.option("--cert", metavar="FILE", help="Client certificate. [client.cert]"),
        click.option("--server", metavar="URL", help="URL of the extender. [client.url]"),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class ExtenderClient:
    """Sends requests to an extender."""

    client: settings.Client

    def get(
        self, path: str, query: Mapping[str, object] | None = None, *, accept: str = "application/json"
    ) -> dict[str, Any] | str:
        """JSON at a path, or text if `accept` allows it. Raises Failed with the exit code of the error."""
        parameters = {name: str(value) for name, value in (query or {}).items() if value is not None}
        url = self._url(path)
        if parameters:
            url += "?" + urllib.parse.urlencode(parameters)
        request = urllib.request.Request(url, headers={"Accept": accept})
        return self._sent(request, path, self.client.timeout)

    def post(self, path: str, body: Mapping[str, object], *, timeout: float = 0.0) -> dict[str, Any]:
        """The JSON answer to a JSON body, waiting for at least ``timeout`` seconds. Raises Failed."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url(path), data=json.dumps(body).encode(), headers=headers)
        answer = self._sent(request, path, max(timeout, self.client.timeout))
        if isinstance(answer, str):
            raise exits.Failed(exit_codes.UNREACHABLE, f"{self.client.url}{path} did not answer with JSON")
        return answer

    def _url(self, path: str) -> str:
        return self.client.url.rstrip("/") + urllib.parse.quote(path)

    def _sent(self, request: urllib.request.Request, path: str, timeout: float) -> dict[str, Any] | str:
        try:
            with self._opener().open(request, timeout=timeout) as reply:
                body: bytes = reply.read()
                is_json = reply.headers.get_content_type() == "application/json"
        except urllib.error.HTTPError as error:
            raise _failure(error, path) from error
        except (OSError, http.client.HTTPException) as error:
            raise exits.Failed(exit_codes.UNREACHABLE, self._unreachable(error)) from error
        if not is_json:
            return str(body, "utf-8", "replace")
        document: dict[str, Any] = json.loads(body)
        return document

    def _opener(self) -> urllib.request.OpenerDirector:
        # Never through a proxy: it could not present our client certificate.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.client.url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=self._context()))
        return urllib.request.build_opener(*handlers)

    def _context(self) -> ssl.SSLContext:
        client = self.client
        try:
            context = ssl.create_default_context(cafile=client.ca or None)
            if client.cert:
                context.load_cert_chain(client.cert, client.key or None)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(name for name in (client.ca, client.cert, client.key) if name)
            raise exits.Failed(
                exit_codes.SETTINGS, f"cannot load the certificates {files}: {error}"
            ) from error
        return context

    def _unreachable(self, error: Exception) -> str:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        text = f"{self.client.url} is unreachable: {reason}"
        if isinstance(reason, ssl.SSLCertVerificationError):
            return f"{text} (is --ca the CA that signed the extender's certificate?)"
        if isinstance(reason, ssl.SSLError | ConnectionResetError) and not self.client.cert:
            return f"{text} (it requires a client certificate: use --cert and --key)"
        return text


def extender(config: str | None, options: Mapping[str, str | None]) -> ExtenderClient:
    """Client by the options, then the settings, then the certificates that ``up`` created."""
    loaded = settings.load(config, os.environ)
    client = loaded.client
    client = replace(
        client,
        url=options["server"] or client.url,
        cert=options["cert"] or client.cert,
        key=options["key"] or client.key,
        ca=options["ca"] or client.ca,
    )
    made = certs.default_directory(loaded.cluster)
    if not client.cert and _exist(made / "viewer.crt", made / "viewer.key", made / "ca.crt"):
        client = replace(
            client,
            cert=str(made / "viewer.crt"),
            key=str(made / "viewer.key"),
            ca=client.ca or str(made / "ca.crt"),
        )
    return ExtenderClient(client)


def _exist(*files: pathlib.Path) -> bool:
    return all(file.is_file() for file in files)


def _failure(error: urllib.error.HTTPError, path: str) -> exits.Failed:
    try:
        message = str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError, OSError):
        message = f"{path}: {error.code} {error.reason}"
    codes = {400: exit_codes.USAGE, 404: exit_codes.NEGATIVE, 410: exit_codes.NEGATIVE, 503: exit_codes.STORE}
    return exits.Failed(codes.get(error.code, exit_codes.UNREACHABLE), message)
