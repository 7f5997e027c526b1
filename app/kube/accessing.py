"""How to reach the API server and as whom: by the official client, so that every kubeconfig works.

Client certificates, tokens, token files, exec plugins and the rotating token of a service account
are all the official client's business; only the outcome is used here.
"""

import os
import pathlib
from collections.abc import Callable
from typing import Any

from kubernetes import config
from kubernetes.client import Configuration, rest
from kubernetes.utils import keepalive
from urllib3 import PoolManager

from app.kube import errors

_load_file: Callable[..., None] = config.load_kube_config
_load_service_account: Callable[..., None] = config.load_incluster_config
_keep_alive: Callable[[], list[Any]] = keepalive.tcp_keepalive_socket_options


class Access:
    """A server address and the credentials for it."""

    def __init__(self, configuration: Configuration, *, connections: int = 16) -> None:
        self._configuration = configuration
        # A write that got no answer is resolved by whoever sent it, never repeated blindly.
        configuration.retries = False
        configuration.connection_pool_maxsize = connections
        configuration.socket_options = _keep_alive()
        self.host = str(configuration.host).rstrip("/")
        self.ca_file: str | None = configuration.ssl_ca_cert
        self.cert_file: str | None = configuration.cert_file
        self.key_file: str | None = configuration.key_file
        self.verified = bool(configuration.verify_ssl)
        self.server_name: str | None = configuration.tls_server_name
        self.direct = not configuration.proxy
        """No proxy stands between."""

    def authorization(self) -> str:
        """The Authorization header of this moment; empty if there is none. Tokens are renewed here."""
        value = self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return value.strip() if value else ""

    def pool(self) -> PoolManager:
        """Connections as the official client makes them."""
        make: Callable[[Configuration], Any] = rest.RESTClientObject
        manager: PoolManager = make(self._configuration).pool_manager
        return manager


def find(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """The given kubeconfig, else $KUBECONFIG or ~/.kube/config, else the pod's service account.

    Raises Misconfigured with what was looked for.
    """
    configuration = Configuration()
    default = os.environ.get("KUBECONFIG") or config.KUBE_CONFIG_DEFAULT_LOCATION
    path = kubeconfig or default
    exists = any(pathlib.Path(part).expanduser().is_file() for part in path.split(os.pathsep))
    try:
        if kubeconfig or exists:
            _refuse_missing(path, exists)
            _load_file(
                config_file=path, context=context, client_configuration=configuration, persist_config=False
            )
        else:
            _load_service_account(client_configuration=configuration)
    except (config.ConfigException, OSError, ValueError, TypeError, KeyError) as problem:
        looked = f"kubeconfig {path}" + (f", context {context}" if context else "")
        if not (kubeconfig or exists):
            looked += " (not there) and the service account of a pod"
        raise errors.Misconfigured(f"no way to the API server from {looked}: {problem}") from problem
    return Access(configuration)


def plain(url: str, *, token: str = "", ca_file: str | None = None) -> Access:
    """A server by its URL alone, as simulations are reached."""
    configuration = Configuration()
    configuration.host = url
    configuration.ssl_ca_cert = ca_file
    configuration.proxy = None
    if token:
        configuration.api_key["BearerToken"] = f"Bearer {token}"
    return Access(configuration)


def _refuse_missing(path: str, exists: bool) -> None:
    if not exists:
        raise errors.Misconfigured(f"kubeconfig {path} does not exist")
