"""Metrics of pending pods by what refuses them: a plugin, kube-scheduler, or nothing that is known.

The reasons themselves are texts without end: ``topolog status`` and ``/apis/v1/status`` have them. The groups
are computed at most every ten seconds, because scrapes of several Prometheus servers may arrive together.
With hundreds of gangs that takes longer than a scrape may: each scrape then computes a part, and exposes the
groups that were completed last. Only the leader exposes them, so that two replicas do not count twice. There
are none before they have been completed once, and while a plugin raises, unless in its filter: then the pods
that it concerns are its own.
"""

import datetime
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Final

from prometheus_client import core
from prometheus_client import registry as prometheus_registry

from app import telemetry
from app.domain import snapshots
from app.framework import registry
from app.verbs.explain import pending_groups

EVERY: Final = 10.0
"""Seconds for which groups are kept, at least."""
LONGEST: Final = 2.0
"""Seconds that one scrape computes: Prometheus gives up after ten."""
SHARE: Final = 9.0
"""Pause after a scrape that computed, in the time that it took: the groups take at most a tenth of a CPU."""
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
        """Of the computation; a scrape waits for it only until there are groups."""
        self._groups: list[pending_groups.Group] | None = None
        """None until they are computed, and while they cannot be."""
        self._steps: Generator[None, None, list[pending_groups.Group]] | None = None
        """The computation that goes on at the next scrape."""
        self._failing = False
        self._until = float("-inf")

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
        groups = None
        if self._leads():
            groups = self._known()
        else:
            self._forget()
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
        """The groups that were completed last, after a part of the next computation if it is time."""
        if self._lock.acquire(blocking=self._groups is None):
            try:
                began = self._monotonic()
                if began >= self._until:
                    keep = EVERY if self._advanced(began + LONGEST) else 0.0
                    ended = self._monotonic()
                    self._until = ended + max(keep, SHARE * (ended - began))
            finally:
                self._lock.release()
        return self._groups

    def _forget(self) -> None:
        """Keep no state on standby."""
        with self._lock:
            self._groups = self._steps = None
            self._until = float("-inf")

    def _advanced(self, until: float) -> bool:
        """Compute until that time (monotonic); whether the groups are complete, or a plugin has raised.

        The first time that one raises there is a line in the log.
        """
        try:
            if self._steps is None:
                self._steps = pending_groups.stepwise(self._snapshot(), self._plugins)
            while self._monotonic() < until:
                next(self._steps)
            return False
        except StopIteration as end:
            self._groups, self._failing = end.value, False
        except Exception:
            # The other metrics are exposed all the same, which show that the process runs.
            if not self._failing:
                telemetry.log.exception("cannot compute why pods are pending")
            self._groups, self._failing = None, True
        self._steps = None
        return True

    def _age(self, created: str) -> float:
        try:
            since = datetime.datetime.fromisoformat(created).timestamp()
        except ValueError:
            return 0.0
        return max(0.0, self._wall() - since)
