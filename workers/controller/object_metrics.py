"""Metrics of the objects of plugins, such as the pods of each policy by domain, up to a number of series.

There may be tens of thousands of objects, and each series costs Prometheus memory for hours. Beyond the limit
the rest is left out, and its number is a metric itself. Only the leader exposes them, so that two replicas do
not count twice. A plugin that raises has no samples in that scrape, the others have theirs.
"""

import functools
import heapq
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import core
from prometheus_client import registry as prometheus_registry

from app.domain import snapshots
from app.framework import capabilities, registry, views
from workers.controller import plugin_calls

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
        self._calls = plugin_calls.PluginCalls()

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
                exceeded = functools.partial(_exceeded, plugin, snapshot)
                found = self._calls.call(plugin.name, "exceeded", exceeded) or {}
                shown = heapq.nsmallest(left, found)
                left -= len(shown)
                omissions += len(found) - len(shown)
                for key in shown:
                    excess.add_metric((plugin.name, *key), found[key])
            for measuring in self._plugins.measures:
                measured = functools.partial(_measured, measuring, snapshot)
                keys = self._calls.call(measuring.name, "measured", measured) or []
                # The same ones at every scrape, so that no series comes and goes.
                chosen = heapq.nsmallest(left // _SERIES, keys)
                left -= len(chosen) * _SERIES
                omissions += (len(keys) - len(chosen)) * _SERIES
                measures = functools.partial(_measures, measuring, snapshot, chosen)
                for domain, measure in self._calls.call(measuring.name, "measure", measures) or ():
                    labels = (measuring.name, *domain)
                    pods.add_metric(labels, measure.pods)
                    desired.add_metric(labels, measure.desired)
            omitted.add_metric((), omissions)
        yield from (pods, desired, excess, omitted)


def _exceeded(plugin: capabilities.Exceeds, snapshot: snapshots.Snapshot) -> dict[views.Limited, float]:
    return dict(plugin.exceeded(snapshot))


def _measured(plugin: capabilities.Measures, snapshot: snapshots.Snapshot) -> list[views.Measured]:
    return list(plugin.measured(snapshot))


def _measures(
    plugin: capabilities.Measures, snapshot: snapshots.Snapshot, keys: Sequence[views.Measured]
) -> list[tuple[views.Measured, views.Measure]]:
    return [(key, plugin.measure(snapshot, key)) for key in keys]
