"""Runs a real kube-scheduler with a configuration of deploy/, adapted to this machine."""

import pathlib
import urllib.parse

import yaml

from tests.support import child_processes, polling
from tests.support.e2e import api_client


def configuration(
    path: pathlib.Path,
    *,
    extender: str = "",  # such as https://127.0.0.1:8443
    ca: pathlib.Path | None = None,
    certificate: pathlib.Path | None = None,
    key: pathlib.Path | None = None,
    scheduler_name: str = "",
) -> api_client.Object:
    """Return a KubeSchedulerConfiguration with nothing changed but what is given here."""
    config: api_client.Object = yaml.safe_load(path.read_text())
    files = {"caFile": ca, "certFile": certificate, "keyFile": key}
    for each in config.get("extenders", []):
        if extender:
            each["urlPrefix"] = extender + urllib.parse.urlsplit(each["urlPrefix"]).path
        for name, file in files.items():
            if file is not None:
                each["tlsConfig"][name] = str(file)
    if scheduler_name:
        for profile in config.setdefault("profiles", [{}]):
            profile["schedulerName"] = scheduler_name
    return config


class Scheduler:
    """One kube-scheduler process and its health and metrics port."""

    def __init__(self, process: child_processes.Process, api: api_client.Api) -> None:
        self.process = process
        self._api = api

    @property
    def url(self) -> str:
        """The URL of its secure port."""
        return self._api.server

    def await_ready(self) -> None:
        """Wait until its caches are synced and it schedules pods."""
        polling.ready(self.process, lambda: self._api.text("GET", "/readyz") == b"ok")

    def metrics(self) -> str:
        """Return its metrics in the text form of Prometheus."""
        return self._api.text("GET", "/metrics").decode()

    def configz(self) -> str:
        """Return its effective configuration, in the form of this version of kube-scheduler."""
        return self._api.text("GET", "/configz").decode()
