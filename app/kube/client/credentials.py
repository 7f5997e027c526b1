"""Finds the address of the API server and the credentials for it.

The official client loads them, so that every kubeconfig works: client certificates, tokens, token files,
exec plugins and the rotating token of a service account. Loading them again is how they are renewed, because
the official client renews some of them only, and by the wall clock.
"""

import contextlib
import datetime
import functools
import os
import pathlib
import re
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from urllib3 import PoolManager
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from app import optional_modules, telemetry, temporary_folders
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
    from kubernetes.config import dateutil, exec_provider, kube_config
    from kubernetes.utils import keepalive
# The package keeps what it has looked up: others shall find the class.
vars(client).pop("ApiClient", None)

_UNUSABLE = (config.ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError)

_load_service_account: Callable[..., None] = config.load_incluster_config
_merge: Callable[[str], Any] = kube_config.KubeConfigMerger
_file_loader: Callable[..., Any] = kube_config.KubeConfigLoader
_exec_plugin: Callable[..., Any] = exec_provider.ExecProvider
_parse_time: Callable[[str], datetime.datetime] = dateutil.parse_rfc3339
_bypassed: Callable[[str, str], bool] = rest.should_bypass_proxies
_PROXIES = ("http", "https", *sorted(rest.SUPPORTED_SOCKS_PROXIES))
RELOAD_SECONDS = 60.0
"""How often credentials are loaded again, as client-go reads token files; those of an exec plugin are not."""
_SHARE_OF_LIFE = 0.9
"""The part of the time to the expiry of a plugin's credentials after which the plugin runs again."""
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


class Loaded(NamedTuple):
    """A configuration with the credentials of the moment."""

    configuration: Configuration
    seconds: float | None = None
    """Until the credentials are due to be loaded again; None: once they are refused."""


class Tls(NamedTuple):
    """What new connections are made with; those that were made with another value are not used again."""

    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    certificate: bytes
    """The contents of ``cert_file``."""


class Access:
    """A server address and the credentials for it. One thread at a time may call ``renew``."""

    def __init__(self, load: Callable[[], Loaded], *, connections: int = 16, namespace: str = "") -> None:
        self._load = load
        self._connections = connections
        configuration = self._take(load())
        self.host = str(configuration.host).rstrip("/")
        self.shown = re.sub(r"//.*@", "//", self.host)
        """The address without user and password, for people."""
        self.verified = bool(configuration.verify_ssl)
        self.server_name: str | None = configuration.tls_server_name
        self.direct = not configuration.proxy or _bypassed(self.host, configuration.no_proxy or "")
        """The server is reached without a proxy."""
        self.namespace = namespace or "default"
        """The namespace of this process' own objects, unless the settings name another."""

    def authorization(self) -> str:
        """The current Authorization header; empty if the credentials have none."""
        return self._authorization

    def due(self) -> float | None:
        """Seconds until the credentials are due to be renewed; None: once they are refused."""
        if self._due_at is None:
            return None
        return min(max(0.0, self._due_at - time.monotonic()), threading.TIMEOUT_MAX)

    def renew(self) -> None:
        """Load the credentials again.

        If that fails the last ones are used, as in client-go: the API server decides whether they are still
        valid.
        """
        try:
            self._take(self._load())
        except Exception as problem:  # a token file or an exec plugin may raise anything
            telemetry.log.warning("cannot renew the credentials; using the last ones", error=repr(problem))

    def pool(self) -> PoolManager:
        """A connection pool, as configured by the official client, for the current ``tls``."""
        make: Callable[[Configuration], Any] = rest.RESTClientObject
        manager: PoolManager = make(self._configuration).pool_manager
        return manager

    def _take(self, loaded: Loaded) -> Configuration:
        configuration = loaded.configuration
        # The sender of a write resolves a lost answer; the client never repeats one blindly.
        configuration.retries = False
        configuration.connection_pool_maxsize = self._connections
        configuration.socket_options = _keep_alive()
        # It would load credentials, and run plugins, at each call.
        configuration.refresh_api_key_hook = None
        header = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        cert_file: str | None = configuration.cert_file
        certificate = pathlib.Path(cert_file).read_bytes() if cert_file else b""
        self._configuration = configuration
        self._authorization = header.strip() if header else ""
        self.tls = Tls(configuration.ssl_ca_cert, cert_file, configuration.key_file, certificate)
        self._due_at = None if loaded.seconds is None else time.monotonic() + loaded.seconds
        return configuration


def find(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """Use the given kubeconfig, else the pod's service account, else $KUBECONFIG or ~/.kube/config.

    Raises Misconfigured, which names the source that was tried.
    """
    inside = not kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ
    path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    source = "the pod's service account" if inside else f"kubeconfig {path}"
    if context and not inside:
        source += f", context {context}"
    try:
        if inside:
            return Access(_of_service_account, namespace=pod_namespace())
        file = _Kubeconfig(path, context or None)
        return Access(file.load, namespace=file.namespace)
    except _UNUSABLE as problem:
        raise errors.Misconfigured(
            f"cannot load the credentials of the API server from {source}: {problem}"
        ) from problem


def _of_service_account() -> Loaded:
    configuration = Configuration()
    _load_service_account(client_configuration=configuration)
    _check_proxy(configuration)
    return Loaded(configuration, RELOAD_SECONDS)


class _Kubeconfig:
    """A context of a kubeconfig, which is read once, as by client-go: later it may name another cluster."""

    def __init__(self, path: str, context: str | None) -> None:
        _refuse_missing(path)
        content = _merge(path).config
        self._loader = functools.partial(_file_loader, content, context, config_base_path=None)
        chosen = self._loader().current_context["context"]
        self.namespace = str(chosen.get("namespace") or "")
        user = content["users"].get_with_name(chosen.get("user"), safe=True)
        self._user: dict[str, Any] = user["user"].value if user else {}
        if self._user.get("tokenFile"):
            self._user.pop("token", None)  # as client-go, which reads the file if there are both
        self._plugin: Any = None
        if "exec" in self._user:
            cluster = content["clusters"].get_with_name(chosen["cluster"])["cluster"]
            folder = os.path.abspath(os.path.dirname(user.path))
            self._plugin = _exec_plugin(user["user"]["exec"], folder, cluster)
            # The loader would run it, log its failure, and go on without credentials.
            del self._user["exec"]
        self._keys: pathlib.Path | None = None
        """The folder of the certificate and its key that the plugin has returned, if so."""

    def load(self) -> Loaded:
        """Read the files, ask the provider or run the plugin. May raise anything."""
        configuration = Configuration()
        self._loader().load_and_set(configuration)
        _check_proxy(configuration)
        if configuration.api_key:
            return Loaded(configuration, RELOAD_SECONDS)
        if self._user.get("tokenFile"):
            raise config.ConfigException(f"token file {self._user['tokenFile']} is empty")
        if self._plugin is not None:
            return Loaded(configuration, self._run_plugin(configuration))
        return Loaded(configuration, RELOAD_SECONDS)

    def _run_plugin(self, configuration: Configuration) -> float | None:
        """Add the credentials of the plugin; return the seconds until it is due to run again."""
        status = self._plugin.run()
        token, certificate, key = map(status.get, ("token", "clientCertificateData", "clientKeyData"))
        if token:
            configuration.api_key["BearerToken"] = f"Bearer {token}"
        if certificate and key:
            configuration.cert_file = configuration.key_file = self._stored(f"{certificate}\n{key}\n")
        elif not token:
            raise config.ConfigException("exec: the plugin returns neither a token nor a certificate and key")
        expires = status.get("expirationTimestamp")
        if not expires:
            return None
        left = _parse_time(expires) - datetime.datetime.now(datetime.UTC)
        return max(0.0, _SHARE_OF_LIFE * left.total_seconds())

    def _stored(self, pair: str) -> str:
        """The file with this certificate and its key, which replaces the former one at once."""
        if self._keys is None:
            folders = contextlib.ExitStack()
            self._keys = folders.enter_context(temporary_folders.temporary_folder("topolog-credentials-"))
            weakref.finalize(self, folders.close)
        new, file = self._keys / "new.pem", self._keys / "client.pem"
        new.write_text(pair)
        # Raises OSError if the two do not belong together.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(new)
        new.replace(file)
        return str(file)


def _check_proxy(configuration: Configuration) -> None:
    """Complete the URL of a proxy that is used. Raises ValueError."""
    if configuration.proxy and not _bypassed(str(configuration.host), configuration.no_proxy or ""):
        configuration.proxy = _proxy(configuration.proxy)


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
