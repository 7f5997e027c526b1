"""Asking an extender over its REST API, with a client certificate."""

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

from app import settings
from app.cli import exits, places

F = TypeVar("F", bound=Callable[..., None])


def server_options(command: F) -> F:
    """Add the options that say which extender is asked, and as whom."""
    for option in (
        click.option("--ca", metavar="FILE", help="CA of the extender's certificate. [client.ca]"),
        click.option("--key", metavar="FILE", help="The certificate's key. [client.key]"),
        click.option("--cert", metavar="FILE", help="Client certificate to show. [client.cert]"),
        click.option("--server", metavar="URL", help="The extender. [client.url]"),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Extender:
    """An extender, and how to reach it."""

    client: settings.Client

    def get(
        self, path: str, query: Mapping[str, object] | None = None, *, accept: str = "application/json"
    ) -> dict[str, Any] | str:
        """The JSON (or text, if that was accepted) at a path; raises Failed with the right exit code."""
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        url = self.client.url.rstrip("/") + urllib.parse.quote(path)
        if given:
            url += "?" + urllib.parse.urlencode(given)
        request = urllib.request.Request(url, headers={"Accept": accept})
        try:
            with self._opener().open(request, timeout=self.client.timeout) as reply:
                body: bytes = reply.read()
                is_json = reply.headers.get_content_type() == "application/json"
        except urllib.error.HTTPError as error:
            raise _refused(error, path) from error
        except (OSError, http.client.HTTPException) as error:
            raise exits.Failed(exits.AWAY, self._unreachable(error)) from error
        if not is_json:
            return str(body, "utf-8", "replace")
        document: dict[str, Any] = json.loads(body)
        return document

    def _opener(self) -> urllib.request.OpenerDirector:
        # No proxy stands between an operator and an extender: it could not show our certificate.
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
            raise exits.Failed(exits.SETTINGS, f"cannot use the certificates {files}: {error}") from error
        return context

    def _unreachable(self, error: Exception) -> str:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        text = f"{self.client.url} cannot be reached: {reason}"
        if isinstance(reason, ssl.SSLCertVerificationError):
            return f"{text} (is --ca the CA that signed the extender's certificate?)"
        if isinstance(reason, ssl.SSLError | ConnectionResetError) and not self.client.cert:
            return f"{text} (it asks for a client certificate: give --cert and --key)"
        return text


def extender(config: str | None, options: Mapping[str, str | None]) -> Extender:
    """The extender of the options, else of the settings; certificates else those that ``up`` made."""
    loaded = settings.load(config, os.environ)
    client = loaded.client
    client = replace(
        client,
        url=options["server"] or client.url,
        cert=options["cert"] or client.cert,
        key=options["key"] or client.key,
        ca=options["ca"] or client.ca,
    )
    made = places.certificates(loaded.cluster)
    if not client.cert and _there(made / "viewer.crt", made / "viewer.key", made / "ca.crt"):
        client = replace(
            client,
            cert=str(made / "viewer.crt"),
            key=str(made / "viewer.key"),
            ca=client.ca or str(made / "ca.crt"),
        )
    return Extender(client)


def _there(*files: pathlib.Path) -> bool:
    return all(file.is_file() for file in files)


def _refused(error: urllib.error.HTTPError, path: str) -> exits.Failed:
    try:
        message = str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError, OSError):
        message = f"{path}: {error.code} {error.reason}"
    codes = {400: exits.USAGE, 404: exits.NOT_SO, 410: exits.NOT_SO, 503: exits.STORE}
    return exits.Failed(codes.get(error.code, exits.AWAY), message)
