"""Metrics of connections, and rate-limited log lines about refused ones."""

import collections
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import structlog
from prometheus_client import core, registry

from app.serving.tls import rotation, sockets

OUTCOMES = ("accepted", "refused", "late", "evicted")
SECONDS_BETWEEN_LINES = 1.0
SEEN_SECONDS = 86_400.0
"""How long the certificate of a kube-scheduler counts after it was last shown."""
EXPIRED_SECONDS = 7 * 86_400.0
"""The same for one that has expired since: it cannot be shown any more."""

log = structlog.get_logger(__name__)


class LineLimiter:
    """Limits log lines that any client can cause to one per second. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_line = 0.0
        self._suppressed = 0

    def due(self) -> int | None:
        """Return the number of lines suppressed since the last one, or None to suppress this one."""
        with self._lock:
            now = time.monotonic()
            if now < self._next_line:
                self._suppressed += 1
                return None
            self._next_line = now + SECONDS_BETWEEN_LINES
            suppressed, self._suppressed = self._suppressed, 0
            return suppressed


class ConnectionMetrics(registry.Collector):
    """Prometheus collector of connections by outcome: accepted, refused, late or evicted. Thread-safe.

    A connection is accepted after its TLS handshake with a valid client certificate, if TLS is used. It is
    evicted if it waits for its client while too many are open.
    """

    def __init__(self, rotating: rotation.RotatingContext | None = None, *, view: bool = False) -> None:
        """``view``: without the open connections, whose absence reports that no extender runs."""
        self.connections: Callable[[], int] = lambda: 0
        self._rotating = rotating
        self._view = view
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter(dict.fromkeys(OUTCOMES, 0))
        self._busy = 0
        self._schedulers: dict[str, tuple[float, float]] = {}
        """Address -> end of the certificate that was last shown from there, and when it was shown."""
        self._lines = LineLimiter()
        self._closed_lines = LineLimiter()

    def count(self, outcome: str) -> None:
        """Count one connection."""
        with self._lock:
            self._counts[outcome] += 1

    def busy(self) -> None:
        """Count a refused request to the introspection API: its threads or its memory were in use."""
        with self._lock:
            self._busy += 1

    def identified(self, client: object, connection: socket.socket, *, scheduler: bool) -> None:
        """Keep the end of the certificate of a kube-scheduler: its file may be a copied one."""
        if scheduler and isinstance(connection, ssl.SSLSocket):
            self.shown_by_scheduler(client, sockets.expiry(connection))

    def shown_by_scheduler(self, client: object, ends: float) -> None:
        """Keep the end of a certificate, in POSIX time, in place of that of the same address."""
        address = str(client[0] if isinstance(client, tuple) else client)
        with self._lock:
            self._schedulers[address] = (ends, time.monotonic())

    def refused(self, client: object, failure: Exception) -> None:
        """Count and log a failed handshake; any client can cause one, so lines are limited.

        A client that closes the connection, such as a probe, is no reason to warn.
        """
        self.count("refused")
        closed = isinstance(failure, _CLOSED)
        suppressed = (self._closed_lines if closed else self._lines).due()
        if suppressed is None:
            return
        address = client[0] if isinstance(client, tuple) else client
        if closed:
            log.debug("the client closed the connection in the TLS handshake", client=address)
        else:
            log.warning(
                "TLS handshake refused", client=address, reason=_reason(failure), suppressed=suppressed
            )

    def evicted(self, count: int, holder: object) -> None:
        """Count and log connections that were closed to accept others; `holder` had the most of them."""
        with self._lock:
            self._counts["evicted"] += count
        suppressed = self._lines.due()
        if suppressed is not None:
            log.warning(
                "too many connections are open: closed some that wait for their clients",
                closed=count,
                holder=holder,
                suppressed=suppressed,
            )

    def counts(self) -> dict[str, int]:
        """Return the counts by outcome."""
        with self._lock:
            return dict(self._counts)

    def _expiries(self, rotating: rotation.RotatingContext) -> dict[str, float]:
        """File -> POSIX time of its expiry."""
        now, shown = time.monotonic(), time.time()
        with self._lock:
            self._schedulers = {
                at: (end, seen)
                for at, (end, seen) in self._schedulers.items()
                if now - seen < (SEEN_SECONDS if end > shown else EXPIRED_SECONDS)
            }
            ends = [end for end, _ in self._schedulers.values()]
        return {**rotating.expiries(), **({"scheduler": min(ends)} if ends else {})}

    def collect(self) -> Iterator[core.Metric]:
        """Yield the metrics."""
        connections = core.CounterMetricFamily(
            "topolog_connections", "Connections by outcome.", labels=["outcome"]
        )
        for outcome, count in self.counts().items():
            connections.add_metric([outcome], count)
        yield connections
        yield core.CounterMetricFamily(
            "topolog_introspection_refused",
            "Requests to the introspection API refused with 429.",
            self._busy,
        )
        if not self._view:
            yield core.GaugeMetricFamily("topolog_open_connections", "Open connections.", self.connections())
        if self._rotating is None:
            return
        # The files are otherwise checked only when a client connects.
        self._rotating.current()
        expiry = core.GaugeMetricFamily(
            "topolog_certificate_expiry_timestamp_seconds",
            "Expiry time of the served certificate and its chain (`server`), of the clients' CA (`ca`), of"
            " the revocation list (`crl`) and of what kube-schedulers have shown within a day (`scheduler`;"
            " expired ones within a week); of several in a file, the first, and of several CAs the last.",
            labels=["file"],
        )
        for file, at in self._expiries(self._rotating).items():
            expiry.add_metric([file], at)
        yield expiry
        yield core.GaugeMetricFamily(
            "topolog_certificate_files_bad",
            "1 while the TLS files on disk are invalid and the last valid ones are served.",
            0.0 if self._rotating.failure is None else 1.0,
        )
        yield core.CounterMetricFamily(
            "topolog_certificate_renewals",
            "Reloads of changed TLS files.",
            self._rotating.renewals,
        )


_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)


def _reason(error: Exception) -> str:
    """Why a handshake failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate rejected: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)
