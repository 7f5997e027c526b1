"""Metrics of pending pods by what refuses them: a plugin, kube-scheduler, or nothing that is known.

The reasons themselves are texts without end: ``topolog status`` and ``/apis/v1/status`` have them. The groups
are computed at most every ten seconds, because scrapes of several Prometheus servers may arrive together.
Only the leader exposes them, so that two replicas do not count twice. There are none while a plugin raises.
"""

import datetime
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import core
from prometheus_client import registry as prometheus_registry

from app import telemetry
from app.domain import snapshots
from app.framework import registry
from app.verbs.explain import pending_groups

EVERY: Final = 10.0
"""Seconds for which groups are kept."""
_BESIDE: Final = (pending_groups.KUBE_SCHEDULER, pending_groups.NEITHER)


class PendingMetrics(prometheus_registry.Collector):
    """Collects them from the latest snapshot at a scrape."""

    def __init__(
        self,
        plugins: registry.Registry,
        snapshot: Callable[[], snapshots.Snapshot],
        leads: Callable[[], bool],
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``wall``: seconds since 1970; ``monotonic``: seconds of the time that groups are kept."""
        self._plugins = plugins
        self._snapshot = snapshot
        self._leads = leads
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._groups: list[pending_groups.Group] | None = []
        """None if they cannot be computed."""
        self._until = 0.0

    def collect(self) -> Iterator[core.Metric]:
        """Yield the metrics; without samples on standby, and with one of each refuser on the leader."""
        pods = core.GaugeMetricFamily(
            "topolog_pending_pods",
            "Pending pods by what refuses them: a plugin, `kube-scheduler`, or `none`; the leader only.",
            labels=("by",),
        )
        oldest = core.GaugeMetricFamily(
            "topolog_pending_oldest_seconds",
            "Age of the oldest of these pods, 0 without one; the leader only.",
            labels=("by",),
        )
        groups = self._known() if self._leads() else None
        if groups is not None:
            numbers = dict.fromkeys((*(plugin.name for plugin in self._plugins.filters), *_BESIDE), 0)
            ages = dict.fromkeys(numbers, 0.0)
            for group in groups:
                by = group.cause.by
                numbers[by] = numbers.get(by, 0) + group.pods
                ages[by] = max(ages.get(by, 0.0), self._age(group.oldest))
            for by, number in numbers.items():
                pods.add_metric((by,), number)
                oldest.add_metric((by,), ages[by])
        yield from (pods, oldest)

    def _known(self) -> list[pending_groups.Group] | None:
        with self._lock:
            now = self._monotonic()
            if now >= self._until:
                self._groups = self._computed()
                self._until = now + EVERY
            return self._groups

    def _computed(self) -> list[pending_groups.Group] | None:
        """The groups; None if a plugin raises, the first time with a line in the log."""
        try:
            return pending_groups.groups(self._snapshot(), self._plugins)
        except Exception:
            # The other metrics are exposed all the same, which show that the process runs.
            if self._groups is not None:
                telemetry.log.exception("cannot compute why pods are pending")
            return None

    def _age(self, created: str) -> float:
        try:
            since = datetime.datetime.fromisoformat(created).timestamp()
        except ValueError:
            return 0.0
        return max(0.0, self._wall() - since)
