"""Measures when the certificate of the store's server ends."""

import time
from collections.abc import Callable

from app import telemetry
from app.store import errors

EVERY = 300.0
"""Seconds between two measurements, each of which opens a connection."""


class CertificateExpiry:
    """The metric of one server; used by one thread."""

    def __init__(
        self, measure: Callable[[], float | None], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """``measure``: POSIX time at which the certificate ends, None without TLS; raises StoreError."""
        self._measure = measure
        self._monotonic = monotonic
        self._due = monotonic()

    def run_once(self) -> None:
        """Measure if that is due; a server that cannot be connected to leaves the metric as it was."""
        now = self._monotonic()
        if now < self._due:
            return
        self._due = now + EVERY
        try:
            ends = self._measure()
        except errors.StoreError as problem:
            telemetry.log.debug("the certificate of the store was not measured", error=str(problem))
            return
        if ends is not None:
            telemetry.metrics.STORE_CERTIFICATE.set(ends)
