"""A real kube-scheduler, run with a configuration from deploy/ that is pointed at this machine."""

import pathlib
import urllib.parse

import yaml

from tests.e2e import clients, processes, waiting


def configuration(
    path: pathlib.Path,
    *,
    extender: str = "",  # such as https://127.0.0.1:8443
    ca: pathlib.Path | None = None,
    certificate: pathlib.Path | None = None,
    key: pathlib.Path | None = None,
    scheduler_name: str = "",
) -> clients.Object:
    """Return a KubeSchedulerConfiguration with nothing changed but what is given here."""
    config: clients.Object = yaml.safe_load(path.read_text())
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
    """One kube-scheduler process and the port on which it tells about itself."""

    def __init__(self, process: processes.Process, api: clients.Api) -> None:
        self.process = process
        self._api = api

    def await_ready(self) -> None:
        """Return once it has seen the cluster and takes pods."""
        waiting.ready(self.process, lambda: self._api.text("GET", "/readyz") == b"ok")

    def metrics(self) -> str:
        """Return its metrics in the text form of Prometheus."""
        return self._api.text("GET", "/metrics").decode()

    def configz(self) -> clients.Object:
        """Return the configuration that it really runs with."""
        config: clients.Object = self._api.get("/configz")["componentconfig"]
        return config
