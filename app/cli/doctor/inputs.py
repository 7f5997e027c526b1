"""Sources of the facts: the settings, the API server, and the log as an extender shows it."""

import functools
import pathlib
import socket
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from app import exit_codes, plugins, settings
from app.cli import certs, exits
from app.cli import processes as cli_processes
from app.cli.client import api_client
from app.doctor import api_reader
from app.doctor.run import process_facts
from app.doctor.run import processes as run_processes
from app.doctor.tls import examination
from app.framework import capabilities, registry
from app.kube import errors
from app.kube.client import clients, credentials
from app.kube.objects import decoding

_QUESTION: Final = 5.0
"""Seconds for the answer to a question about one pod."""
_BY_URLS: Final = "the URL of each health port with --process"


def access(loaded: settings.Settings) -> credentials.Access:
    """The credentials for the API server. Raises Unseen."""
    try:
        return credentials.find(loaded.kube.kubeconfig or None, loaded.kube.context or None)
    except errors.Misconfigured as problem:
        raise api_reader.Unseen(str(problem), "set kube.kubeconfig (TOPOLOG_KUBE_KUBECONFIG)") from problem


def reader(loaded: settings.Settings) -> api_reader.ApiReader:
    """A reader of the cluster's objects. Raises Unseen."""
    return api_reader.ApiReader(_client(loaded))


def _client(loaded: settings.Settings) -> clients.Client:
    """A client that is closed, so that its thread ends, with the command. Raises Unseen."""
    made = clients.Client(access(loaded))
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(made.close)
    return made


def election_namespaces(loaded: settings.Settings, namespace: str) -> list[str]:
    """Where the Leases may be: in the setting's namespace, else in Topolog's or in the kubeconfig's."""
    if loaded.election.namespace:
        return [loaded.election.namespace]
    try:
        return [namespace, access(loaded).namespace]
    except api_reader.Unseen:
        return [namespace]


def lease_namespace(
    loaded: settings.Settings, found: Sequence[process_facts.Process] | api_reader.Unseen, namespace: str
) -> str:
    """Where the Leases of these processes are: beside their pods, or in the kubeconfig's namespace."""
    inside = not isinstance(found, api_reader.Unseen) and any(one.namespace for one in found)
    return election_namespaces(loaded, namespace)[0 if inside else -1]


def enabled(loaded: settings.Settings) -> registry.Registry:
    """The enabled plugins with their arguments. Raises ConfigurationRefused."""
    made = plugins.configured(loaded.plugins)
    decoding.keep(plugins.catalog().annotations)
    return made


def evicting(loaded: settings.Settings) -> tuple[str, ...] | api_reader.Unseen:
    """Names of the enabled plugins whose arguments request evictions."""
    try:
        made = enabled(loaded).plugins
    except registry.ConfigurationRefused as problem:
        return api_reader.Unseen(str(problem), "correct plugins.enabled and plugins.args")
    running = loaded.plugins.controllers
    return tuple(
        one.name
        for one in made
        if isinstance(one, capabilities.Evicts) and one.evicts and registry.reconciling(one.name, running)
    )


def server_certificate(loaded: settings.Settings) -> pathlib.Path | None:
    """The extender's certificate on this machine: that of the settings, or that of ``topolog up``."""
    if loaded.tls.cert:
        return pathlib.Path(loaded.tls.cert)
    made = certs.default_directory(loaded.cluster) / "server.crt"
    return made if made.is_file() else None


def processes(
    loaded: settings.Settings, urls: Sequence[str], namespace: str
) -> list[process_facts.Process] | api_reader.Unseen:
    """The processes at these URLs, else in the pods of the cluster, else of ``topolog up`` here."""
    if urls:
        return run_processes.by_urls(urls)
    usual = cli_processes.default_ports(loaded)
    try:
        client = _client(loaded)
        inside = bool(credentials.pod_namespace())
        found = run_processes.of_cluster(api_reader.ApiReader(client), client, namespace, inside=inside)
        if found:
            return found
        unseen = api_reader.Unseen(
            f"namespace {namespace} has no pod of Topolog, and no process answers at"
            f" {cli_processes.local_url(loaded, usual[0])}",
            f"name the namespace of Topolog's pods with --namespace, or {_BY_URLS}",
        )
    except api_reader.Unseen as problem:
        unseen = api_reader.Unseen(problem.reason, f"{_BY_URLS}; or {problem.fix}")
    for ports in (cli_processes.recorded_ports(loaded.cluster), usual):
        here = run_processes.by_urls([cli_processes.local_url(loaded, port) for port in ports])
        if any(one.samples for one in here):
            return here
    return unseen


class Witness:
    """The log as an extender shows it: what kube-scheduler sent, and the outcome."""

    def __init__(self, config: str | None, options: Mapping[str, str | None], namespace: str) -> None:
        self._config = config
        self._options = options
        self._namespace = namespace

    @functools.cached_property
    def _client(self) -> api_client.ExtenderClient:
        # When it is first queried: it may have to forward a port.
        return api_client.extender(self._config, self._options, namespace=self._namespace)

    @property
    def url(self) -> str:
        """The extender that is queried."""
        return self._client.client.url

    def reachable(self) -> bool:
        """Whether its port is open."""
        parts = urllib.parse.urlsplit(self.url)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            socket.create_connection((parts.hostname or "", port), self._client.client.timeout).close()
        except (OSError, ValueError):
            return False
        return True

    def get(self, path: str, **query: object) -> Mapping[str, Any]:
        """The JSON at a path of the REST API. Raises Unseen, and Missing for 404 and 410."""
        try:
            found = self._client.get(path, query)
        except exits.Failed as problem:
            raise self._unseen(problem) from problem
        if isinstance(found, str):
            raise api_reader.Unseen(f"the reply to {path} is not JSON", "name an extender with --server")
        return found

    def ask(self, path: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to a question. Raises Unseen, and Missing for 404 and 410."""
        try:
            return self._client.post(path, question, timeout=_QUESTION)
        except exits.Failed as problem:
            raise self._unseen(problem) from problem

    def _unseen(self, problem: exits.Failed) -> api_reader.Unseen:
        kind = api_reader.Missing if problem.code == exit_codes.NEGATIVE else api_reader.Unseen
        return kind(
            problem.message,
            "name a running extender with --server, --cert, --key and --ca; in a cluster:"
            f" {examination.forward(self._namespace)}",
        )

    def called(self, pod: str) -> bool:
        """Whether the log has a decision about the pod NAMESPACE/NAME. Raises Unseen."""
        return bool(self.get("/apis/v1/decisions", pod=pod, limit=1)["items"])
