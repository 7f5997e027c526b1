"""Metrics of the objects of plugins, such as the pods of each policy by domain, up to a number of series.

There may be tens of thousands of objects, and each series costs Prometheus memory for hours. Beyond the limit
the rest is left out, and its number is a metric itself. Only the leader exposes them, so that two replicas do
not count twice.
"""

import heapq
from collections.abc import Callable, Iterator

from prometheus_client import core
from prometheus_client import registry as prometheus_registry

from app.domain import snapshots
from app.framework import registry

_LABELS = ("plugin", "namespace", "name", "domain")
_SERIES = 2
"""Series of each domain of an object."""


class ObjectMetrics(prometheus_registry.Collector):
    """Collects them from the latest snapshot at each scrape."""

    def __init__(
        self,
        plugins: registry.Registry,
        snapshot: Callable[[], snapshots.Snapshot],
        leads: Callable[[], bool],
        *,
        limit: int,
    ) -> None:
        """``limit``: series at most."""
        self._plugins = plugins
        self._snapshot = snapshot
        self._leads = leads
        self._limit = limit

    def collect(self) -> Iterator[core.Metric]:
        """Yield the metrics; without samples on standby."""
        pods = core.GaugeMetricFamily(
            "topolog_object_domain_pods",
            "Pods that an object of a plugin, such as a policy, counts in a domain; the leader only.",
            labels=_LABELS,
        )
        desired = core.GaugeMetricFamily(
            "topolog_object_domain_desired_pods",
            "Pods that the object wants in the domain; the leader only.",
            labels=_LABELS,
        )
        omitted = core.GaugeMetricFamily(
            "topolog_object_series_omitted",
            "Series of objects left out beyond `metrics.object_series`; the leader only.",
        )
        if self._leads():
            snapshot, left, beyond = self._snapshot(), self._limit // _SERIES, 0
            for plugin in self._plugins.measures:
                keys = plugin.measured(snapshot)
                # The same ones at every scrape, so that no series comes and goes.
                shown = heapq.nsmallest(left, keys)
                left -= len(shown)
                beyond += len(keys) - len(shown)
                for key in shown:
                    found = plugin.measure(snapshot, key)
                    labels = (plugin.name, *key)
                    pods.add_metric(labels, found.pods)
                    desired.add_metric(labels, found.desired)
            omitted.add_metric((), beyond * _SERIES)
        yield from (pods, desired, omitted)
