"""The shipped dashboards: their panels' queries, and what the reference page has on each metric."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support import manifests

FOLDER = manifests.DEPLOY / "monitoring" / "dashboards"
FILES = sorted(FOLDER.glob("*.json"))
PAGE = manifests.DEPLOY.parent / "docs" / "reference" / "metrics.md"
NAMESPACE = "topolog-system"
CLUSTER = "production"
ALL = ".*"
"""What Grafana puts in place of a variable whose value is All."""
SELECTED = '{cluster=~"$cluster",namespace=~"$namespace"}'
SILENT = {
    "topolog_archived_offset",  # without an archive
    "topolog_checkpoint_offset",  # before the first one
    "topolog_log_oldest_offset",
    "topolog_evictions_total",
    "topolog_fences_total",
    "topolog_loop_failures_total",
    "topolog_object_excess",
    "topolog_plugin_failures_total",
    "topolog_quarantined_total",
    "topolog_refused_nodes_total",
    "topolog_shadow_behind_seconds",
    "topolog_shadow_decisions_total",
    "topolog_shadow_gap",
    "topolog_shadow_skipped_total",
    "topolog_status_patches_total",
    "topolog_store_certificate_expiry_timestamp_seconds",  # without TLS
    "topolog_wakeups_total",
}
"""Metrics that have no sample while nothing has happened."""

Json = dict[str, Any]


class Query(NamedTuple):
    """An expression of a panel, its variables replaced."""

    where: str
    expression: str
    legend: str

    def metrics(self) -> set[str]:
        """Names of samples."""
        return set(re.findall(r"\btopolog_\w+", self.expression))

    def labels(self) -> set[str]:
        """The labels that the legend names."""
        return set(re.findall(r"\{\{(\w+)\}\}", self.legend))


def loaded() -> list[Json]:
    """The dashboards."""
    return [json.loads(path.read_text()) for path in FILES]


def queries(*, cluster: str = CLUSTER, namespace: str = NAMESPACE) -> Iterator[Query]:
    """The queries of all panels, for these values of the variables."""
    variables = {"$__rate_interval": "5m", "$namespace": namespace, "$cluster": cluster}
    for dashboard in loaded():
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                expression = target["expr"]
                for name, value in variables.items():
                    expression = expression.replace(name, value)
                where = f"{dashboard['title']}, {panel['title']}, {target['refId']}"
                yield Query(where, expression, target["legendFormat"])


def documented() -> dict[str, set[str]]:
    """Metric -> labels, of the reference page."""
    rows = re.findall(r"^\| `(topolog_\w+)` \|[^|]+\|[^|]+\|([^|]+)\|", PAGE.read_text(), re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


def family(sample: str) -> str:
    """The metric of a sample; those of histograms have suffixes."""
    return (
        re.sub(r"_(bucket|count|sum)$", "", sample)
        if sample.endswith(("_bucket", "_count", "_sum"))
        else sample
    )
