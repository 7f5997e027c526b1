"""Keeps the TLS context of new connections up to date with its files.

gunicorn would build a context for each connection, at about a millisecond, from the current files. Here the
context is cached, and the files are checked at most once per second when a client connects. Kubernetes swaps
a mounted Secret by one symbolic link (`..data`), so that following links detects the change. Files that are
written one after another may be inconsistent for a moment: the last valid context then stays in use, with one
log line, until they match again. Open connections keep their context.
"""

import contextlib
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import structlog

from app.serving import errors
from app.serving.tls import keystores, sockets

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2; all ciphers of TLS 1.3 are authenticated and not configured here."""

POLL_SECONDS = 1.0

log = structlog.get_logger(__name__)


class RotatingContext:
    """A TLS context that is rebuilt when its files change. Thread-safe.

    Raises BadMaterial if the initial files are invalid. `expiries`, `renewals` and `failure` (None
    while the files are valid) are for metrics and readiness.
    """

    def __init__(
        self,
        source: keystores.Source,
        *,
        hosts_required: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        self.renewals = 0
        self.failure: str | None = None
        self._hosts_required = hosts_required
        self._clock = clock
        self._lock = threading.Lock()
        self._state = self._file_states()
        self._next_poll = clock() + POLL_SECONDS
        self.material = keystores.read(source, hosts_required=hosts_required)
        self._context = build(self.material)
        self._log_warnings()

    def expiries(self) -> dict[str, float]:
        """File -> POSIX time of its expiry: ``server``, ``ca``, and ``crl`` if there is one."""
        return {file: at.timestamp() for file, at in self.material.expiries().items()}

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        if self._clock() >= self._next_poll and self._lock.acquire(blocking=False):
            try:
                self._renew()
            finally:
                self._next_poll = self._clock() + POLL_SECONDS
                self._lock.release()
        return self._context

    def _renew(self) -> None:
        states = self._file_states()
        if states == self._state and self.failure is None:
            return
        # Recorded before reading: a write in between shows as a change at the next check.
        self._state = states
        try:
            material = keystores.read(self.source, hosts_required=self._hosts_required)
            context = build(material)
        except Exception as error:  # any error of the files or the system keeps the old context
            failure = str(error) if isinstance(error, errors.BadMaterial) else repr(error)
            if failure != self.failure:
                log.error("new TLS files are invalid, keeping the current ones", reason=failure)
            self.failure = failure
            return
        self.material, self._context, self.failure = material, context, None
        self.renewals += 1
        log.info(
            "TLS files reloaded",
            expires=material.expires.isoformat(),
            serial=f"{material.chain[0].serial_number:X}",
        )
        self._log_warnings()

    def _log_warnings(self) -> None:
        for warning in self.material.warnings:
            log.warning(warning)

    def _file_states(self) -> tuple[tuple[int, ...] | None, ...]:
        """Return the identity, size and mtime of each file."""
        return tuple(_state(path) for path in self.source.paths())


def build(material: keystores.Material) -> ssl.SSLContext:
    """Build a server context that requires client certificates.

    Raises BadMaterial if OpenSSL refuses the material.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = sockets.TlsSocket
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # No resumption: each connection verifies its certificate, and the first response does not wait for
    # tickets.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        context.set_ciphers(CIPHERS)
        with _as_file(material.chain_pem() + material.key_pem) as path:
            context.load_cert_chain(path)
        with _as_file(material.trust_pem()) as path:
            context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise errors.BadMaterial(f"OpenSSL refuses the TLS files: {error.reason or error}") from error
    # As in Go: a CA of tls.ca is trusted whether or not its root is there.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if material.revocations:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Provide a file with the content, as the ssl module requires a path.

    In memory where the system supports it, because the content includes a key.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name


def _state(path: os.PathLike[str]) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
