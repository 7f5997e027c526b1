"""A real Prometheus that scrapes the processes of an installation and evaluates the shipped rules.

It has the configuration that the Prometheus operator makes of the PodMonitor: the port ``health`` of each
pod at /metrics, and the labels ``namespace`` and ``pod`` of the target.
"""

import contextlib
import json
import os
import pathlib
import shutil
import urllib.parse
from collections.abc import Iterator
from typing import Any

import urllib3

from tests.support import child_processes, polling
from tests.support.monitoring import alerts, dashboards, installations

PATH = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
MISSING = "Prometheus is not installed: install it (Debian: prometheus), or set PROMETHEUS to its path"
SCRAPE_SECONDS = 2
"""Between two scrapes, and between two evaluations of the rules."""

Json = dict[str, Any]


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def ready(self) -> bool:
        """Whether it answers queries."""
        reply = urllib3.request("GET", f"{self._url}/-/ready", timeout=10.0, retries=False)
        return reply.status == 200

    def alerts(self, *states: str) -> dict[str, set[str]]:
        """Alert -> the pods that it is about; an empty name if it is about none.

        ``states``: ``pending`` and ``firing``.
        """
        found: dict[str, set[str]] = {}
        for one in self._get("alerts")["alerts"]:
            if one["state"] in states:
                found.setdefault(one["labels"]["alertname"], set()).add(one["labels"].get("pod", ""))
        return found

    def rules(self) -> dict[str, str]:
        """Rule -> ``ok``, or why it could not be evaluated."""
        (group,) = self._get("rules")["groups"]
        return {one["name"]: one.get("lastError") or one["health"] for one in group["rules"]}

    def await_evaluation(self) -> None:
        """Wait until the rules are evaluated again."""
        before = self._evaluated_at()
        polling.eventually(lambda: self._evaluated_at() != before, "the rules are evaluated", within=60)

    def targets(self) -> dict[str, str]:
        """Pod -> ``up``, or why it could not be scraped."""
        active = self._get("targets")["activeTargets"]
        return {one["labels"]["pod"]: one["lastError"] or one["health"] for one in active}

    def query(self, expression: str) -> list[dict[str, str]]:
        """The labels of each series of an instant query."""
        return [one["metric"] for one in self._get("query", query=expression)["result"]]

    def names(self) -> set[str]:
        """The names of all samples of Topolog's metrics."""
        return {one["__name__"] for one in self.query('{__name__=~"topolog_.+"}')}

    def _evaluated_at(self) -> str:
        (group,) = self._get("rules")["groups"]
        return str(group["lastEvaluation"])

    def _get(self, path: str, **parameters: str) -> Json:
        query = urllib.parse.urlencode(parameters)
        reply = urllib3.request("GET", f"{self._url}/api/v1/{path}?{query}", timeout=10.0, retries=False)
        document: Json = reply.json()
        assert reply.status == 200, document
        data: Json = document["data"]
        return data


@contextlib.contextmanager
def scraping(own: installations.Installation, folder: pathlib.Path) -> Iterator[Prometheus]:
    """A Prometheus that has scraped every process and then evaluated the shipped rules."""
    assert PATH, MISSING
    folder.mkdir(parents=True)
    config = folder / "prometheus.yml"
    config.write_text(json.dumps(_configuration(own)))  # JSON is valid YAML.
    address = f"127.0.0.1:{child_processes.free_port()}"
    process = child_processes.Process(
        "prometheus",
        [
            PATH,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        ],
        log=folder / "prometheus.log",
        cwd=folder,
    )
    process.start()
    try:
        started = Prometheus(f"http://{address}")

        def scraped() -> bool:
            return started.ready and started.targets() == dict.fromkeys(own.processes, "up")

        polling.ready(process, scraped, within=60)
        for _ in range(2):  # One evaluation may have begun before the last scrape.
            started.await_evaluation()
        yield started
    finally:
        process.stop()


def _configuration(own: installations.Installation) -> Json:
    seconds = f"{SCRAPE_SECONDS}s"
    return {
        "global": {"scrape_interval": seconds, "scrape_timeout": seconds, "evaluation_interval": seconds},
        "rule_files": [str(alerts.RULES)],
        "scrape_configs": [
            {
                "job_name": f"podMonitor/{dashboards.NAMESPACE}/topolog/0",
                "metrics_path": "/metrics",
                "static_configs": [
                    {
                        "targets": [f"127.0.0.1:{one.health}"],
                        "labels": {"namespace": dashboards.NAMESPACE, "pod": name},
                    }
                    for name, one in own.processes.items()
                ],
            }
        ],
    }
