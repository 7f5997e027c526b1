"""What became of the connections, counted for metrics; and a word in the log about those refused."""

import collections
import threading
import time
from collections.abc import Callable, Iterator

import structlog
from prometheus_client import core, registry

from app.serving import contexts

OUTCOMES = ("accepted", "refused", "late")
SECONDS_BETWEEN_LINES = 1.0

log = structlog.get_logger(__name__)


class Meter(registry.Collector):
    """Counts connections by outcome: accepted (greeted, with TLS and a good certificate where that is
    asked), refused, late.

    It is a collector for a prometheus registry. Any thread may count.
    """

    def __init__(self, rotating: contexts.Rotating | None = None) -> None:
        self.connections: Callable[[], int] = lambda: 0
        self._rotating = rotating
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter(dict.fromkeys(OUTCOMES, 0))
        self._next_line = 0.0
        self._untold = 0

    def count(self, outcome: str) -> None:
        """Count one connection."""
        with self._lock:
            self._counts[outcome] += 1

    def refused(self, client: object, reason: str) -> None:
        """Count a handshake that failed and say why, once a second at most: anybody can cause it."""
        with self._lock:
            self._counts["refused"] += 1
            now = time.monotonic()
            if now < self._next_line:
                self._untold += 1
                return
            self._next_line = now + SECONDS_BETWEEN_LINES
            untold, self._untold = self._untold, 0
        address = client[0] if isinstance(client, tuple) else client
        log.warning("TLS handshake refused", client=address, reason=reason, untold=untold)

    def counts(self) -> dict[str, int]:
        """Return the counts by outcome."""
        with self._lock:
            return dict(self._counts)

    def collect(self) -> Iterator[core.Metric]:
        """Yield the metrics."""
        connections = core.CounterMetricFamily(
            "topolog_connections", "Connections by what became of them.", labels=["outcome"]
        )
        for outcome, count in self.counts().items():
            connections.add_metric([outcome], count)
        yield connections
        yield core.GaugeMetricFamily("topolog_open_connections", "Connections open now.", self.connections())
        if self._rotating is None:
            return
        yield core.GaugeMetricFamily(
            "topolog_certificate_expiry_timestamp_seconds",
            "When the served certificate expires, as a POSIX time.",
            self._rotating.expires,
        )
        yield core.GaugeMetricFamily(
            "topolog_certificate_files_bad",
            "1 while the TLS files on disk are of no use and the last good ones are served.",
            0.0 if self._rotating.failure is None else 1.0,
        )
        yield core.CounterMetricFamily(
            "topolog_certificate_renewals",
            "How often renewed TLS files were taken up.",
            self._rotating.renewals,
        )
