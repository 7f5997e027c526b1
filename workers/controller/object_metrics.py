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
        excess = core.GaugeMetricFamily(
            "topolog_object_excess",
            "By how much an object of a plugin, such as a quota, uses more of a resource than it may: cores, "
            "bytes or a number. No series for an object within its limits; the leader only.",
            labels=("plugin", "namespace", "name", "resource"),
        )
        omitted = core.GaugeMetricFamily(
            "topolog_object_series_omitted",
            "Series of objects left out beyond `metrics.object_series`; the leader only.",
        )
        if self._leads():
            snapshot, left, omissions = self._snapshot(), self._limit, 0
            for plugin in self._plugins.exceeds:
                found = plugin.exceeded(snapshot)
                shown = heapq.nsmallest(left, found)
                left -= len(shown)
                omissions += len(found) - len(shown)
                for key in shown:
                    excess.add_metric((plugin.name, *key), found[key])
            for measuring in self._plugins.measures:
                keys = measuring.measured(snapshot)
                # The same ones at every scrape, so that no series comes and goes.
                chosen = heapq.nsmallest(left // _SERIES, keys)
                left -= len(chosen) * _SERIES
                omissions += (len(keys) - len(chosen)) * _SERIES
                for domain in chosen:
                    measure = measuring.measure(snapshot, domain)
                    labels = (measuring.name, *domain)
                    pods.add_metric(labels, measure.pods)
                    desired.add_metric(labels, measure.desired)
            omitted.add_metric((), omissions)
        yield from (pods, desired, excess, omitted)
