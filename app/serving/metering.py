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


class Sparse:
    """Lines that anybody can cause: one a second at most, with how many were left out. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_line = 0.0
        self._unlogged = 0

    def due(self) -> int | None:
        """Return how many lines were left out since the last one, or None if this one is left out too."""
        with self._lock:
            now = time.monotonic()
            if now < self._next_line:
                self._unlogged += 1
                return None
            self._next_line = now + SECONDS_BETWEEN_LINES
            unlogged, self._unlogged = self._unlogged, 0
            return unlogged


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
        self._busy = 0
        self._lines = Sparse()

    def count(self, outcome: str) -> None:
        """Count one connection."""
        with self._lock:
            self._counts[outcome] += 1

    def busy(self) -> None:
        """Count a question that was refused because all threads of the introspection were taken."""
        with self._lock:
            self._busy += 1

    def refused(self, client: object, reason: str) -> None:
        """Count a handshake that failed and say why, once a second at most: anybody can cause it."""
        self.count("refused")
        untold = self._lines.due()
        if untold is None:
            return
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
        yield core.CounterMetricFamily(
            "topolog_introspection_refused",
            "Questions answered with 429: too many at once.",
            self._busy,
        )
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
