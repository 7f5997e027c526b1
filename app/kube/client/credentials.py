"""Finds the address of the API server and the credentials for it.

The official client loads them, so that every kubeconfig works: client certificates, tokens, token files,
exec plugins and the rotating token of a service account.
"""

import os
import pathlib
import re
import time
from collections.abc import Callable
from typing import Any

from urllib3 import PoolManager
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from app import optional_modules, telemetry
from app.kube import errors
from app.settings import yaml_documents

with (
    optional_modules.hidden("kubernetes_validate"),
    optional_modules.deferred("requests.utils", "should_bypass_proxies"),
    optional_modules.deferred("requests_oauthlib", "OAuth2Session"),
    optional_modules.deferred("kubernetes.client.api_client", "ApiClient"),
):
    from kubernetes import client, config
    from kubernetes.client import Configuration, rest
    from kubernetes.utils import keepalive
# The package keeps what it has looked up: others shall find the class.
vars(client).pop("ApiClient", None)

_UNUSABLE = (config.ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError)

_load_file: Callable[..., None] = config.load_kube_config
_load_service_account: Callable[..., None] = config.load_incluster_config
_contexts: Callable[..., tuple[list[Any], Any]] = config.list_kube_config_contexts
_bypassed: Callable[[str, str], bool] = rest.should_bypass_proxies
_PROXIES = ("http", "https", *sorted(rest.SUPPORTED_SOCKS_PROXIES))
HEADER_SECONDS = 1.0
"""How long the Authorization header is cached, because the official client derives it from its whole
configuration at each call.

It renews tokens minutes before they expire and reads a token file once a minute, so that one more second
does no harm.
"""
_POD_NAMESPACE = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_keep_alive: Callable[[], list[Any]] = keepalive.tcp_keepalive_socket_options


def _leave_files() -> None:
    """Leave the files of certificates and keys to the parent, which uses them.

    The official client removes those in its list when a process exits, also one that was forked.
    """
    config.kube_config._temp_files = {}


os.register_at_fork(after_in_child=_leave_files)


def pod_namespace() -> str:
    """The namespace of the pod in which this runs, by its service account; empty outside of a pod."""
    try:
        return _POD_NAMESPACE.read_text().strip()
    except OSError:
        return ""


class Access:
    """A server address and the credentials for it."""

    def __init__(self, configuration: Configuration, *, connections: int = 16, namespace: str = "") -> None:
        self._configuration = configuration
        # The sender of a write resolves a lost answer; the client never repeats one blindly.
        configuration.retries = False
        configuration.connection_pool_maxsize = connections
        configuration.socket_options = _keep_alive()
        self.host = str(configuration.host).rstrip("/")
        self.shown = re.sub(r"//.*@", "//", self.host)
        """The address without user and password, for people."""
        self.ca_file: str | None = configuration.ssl_ca_cert
        self.cert_file: str | None = configuration.cert_file
        self.key_file: str | None = configuration.key_file
        self.verified = bool(configuration.verify_ssl)
        self.server_name: str | None = configuration.tls_server_name
        self.direct = not configuration.proxy or _bypassed(self.host, configuration.no_proxy or "")
        """The server is reached without a proxy."""
        self._authorization: str | None = None
        self._stale_at = 0.0
        self.namespace = namespace or "default"
        """The namespace of this process' own objects, unless the settings name another."""

    def authorization(self) -> str:
        """The current Authorization header; empty if the credentials have none. Renews tokens.

        If a token cannot be renewed the last one is used, as in client-go: the API server decides whether it
        is still valid. Raises Unreachable if there is no last one.
        """
        now, last = time.monotonic(), self._authorization
        if last is None or now >= self._stale_at:
            try:
                value = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
                last = value.strip() if value else ""
            except Exception as problem:  # a token file or an exec plugin may raise anything
                if last is None:
                    raise errors.Unreachable(f"no credentials: {problem!r}", refused=True) from problem
                telemetry.log.warning("cannot renew the token; using the last one", error=repr(problem))
            self._authorization, self._stale_at = last, now + HEADER_SECONDS
        return last

    def pool(self) -> PoolManager:
        """A connection pool, as configured by the official client."""
        make: Callable[[Configuration], Any] = rest.RESTClientObject
        manager: PoolManager = make(self._configuration).pool_manager
        return manager


def find(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """Use the given kubeconfig, else the pod's service account, else $KUBECONFIG or ~/.kube/config.

    Raises Misconfigured, which names the source that was tried.
    """
    configuration = Configuration()
    inside = not kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ
    path = kubeconfig or os.environ.get("KUBECONFIG") or config.KUBE_CONFIG_DEFAULT_LOCATION
    source = "the pod's service account" if inside else f"kubeconfig {path}"
    if context and not inside:
        source += f", context {context}"
    try:
        if inside:
            _load_service_account(client_configuration=configuration)
        else:
            _refuse_missing(path)
            _load_file(
                config_file=path,
                context=context or None,
                client_configuration=configuration,
                persist_config=False,
            )
        if configuration.proxy and not _bypassed(str(configuration.host), configuration.no_proxy or ""):
            configuration.proxy = _proxy(configuration.proxy)
    except _UNUSABLE as problem:
        raise errors.Misconfigured(
            f"cannot load the credentials of the API server from {source}: {problem}"
        ) from problem
    return Access(configuration, namespace=pod_namespace() if inside else _context_namespace(path, context))


def _proxy(url: str) -> str:
    """The URL of a proxy; without a scheme it is http, as for kubectl.

    Raises ValueError, whose text has no more of the URL than its scheme: it may have a password.
    """
    whole = url if "://" in url else f"http://{url}"
    where = "(proxy-url of the kubeconfig, or HTTPS_PROXY, HTTP_PROXY or ALL_PROXY)"
    try:
        parsed = parse_url(whole)
    except LocationParseError:
        parsed = parse_url("")
    if not parsed.host:
        raise ValueError(f"the URL of the proxy is not SCHEME://HOST:PORT {where}")
    if parsed.scheme not in _PROXIES:
        raise ValueError(f"a proxy is reached by {', '.join(_PROXIES)}, not by {parsed.scheme} {where}")
    return whole


def _context_namespace(path: str, context: str | None) -> str:
    """The namespace of the kubeconfig's context; empty if it has none."""
    found, active = _contexts(config_file=path)
    chosen = next((one for one in found if one["name"] == context), active) if context else active
    return str((chosen or {}).get("context", {}).get("namespace") or "")


def _refuse_missing(path: str) -> None:
    files = [pathlib.Path(os.path.expanduser(part)) for part in path.split(os.pathsep) if part]
    there = [file for file in files if file.is_file()]
    if not there:
        raise config.ConfigException(
            "no such file: name another one by kube.kubeconfig (--kubeconfig of `topolog up`) or KUBECONFIG"
        )
    for file in there:
        try:
            yaml_documents.load(file.read_bytes())
        except (yaml_documents.DocumentTooLarge, yaml_documents.NotYaml) as problem:
            raise config.ConfigException(f"{file} {problem}") from None
