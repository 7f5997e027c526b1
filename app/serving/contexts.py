"""The TLS context that new connections are accepted with, renewed when the files behind it change.

gunicorn would build a context for each connection, at about a millisecond, from whatever is in the files at
that moment. Here one is kept, and the files are looked at, at most once a second, when a client connects.
Kubernetes swaps a mounted Secret by one symbolic link (`..data`), so following links is enough to see it;
files that are written one after the other are caught half-way at times. Then the last good context stays,
with one line in the log, until the files make a pair again. Connections that are open keep what they were
made with.
"""

import contextlib
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import structlog

from app.serving import channels, errors, keystores

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2; those of 1.3 are all authenticated encryption and not chosen here."""

LOOK_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Rotating:
    """A TLS context that follows its files. Any thread may ask for it.

    Raises BadMaterial if there is nothing good to begin with. `expires` (a POSIX time), `renewals` and
    `failure` (None while the files are good) are for metrics and readiness.
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
        self._seen = self._look()
        self._next_look = clock() + LOOK_SECONDS
        self.material = keystores.read(source, hosts_required=hosts_required)
        self._context = build(self.material)
        self._tell()

    @property
    def expires(self) -> float:
        """Return when the certificate that is served expires, as a POSIX time."""
        return self.material.expires.timestamp()

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        if self._clock() >= self._next_look and self._lock.acquire(blocking=False):
            try:
                self._renew()
            finally:
                self._next_look = self._clock() + LOOK_SECONDS
                self._lock.release()
        return self._context

    def _renew(self) -> None:
        seen = self._look()
        if seen == self._seen and self.failure is None:
            return
        # Taken before reading: what is written meanwhile shows as a change at the next look.
        self._seen = seen
        try:
            material = keystores.read(self.source, hosts_required=self._hosts_required)
            context = build(material)
        except Exception as error:  # whatever the files, or the machine, come up with
            failure = str(error) if isinstance(error, errors.BadMaterial) else repr(error)
            if failure != self.failure:
                log.error("the new TLS files are of no use, the old ones stay", reason=failure)
            self.failure = failure
            return
        self.material, self._context, self.failure = material, context, None
        self.renewals += 1
        log.info(
            "TLS files renewed",
            expires=material.expires.isoformat(),
            serial=f"{material.chain[0].serial_number:X}",
        )
        self._tell()

    def _tell(self) -> None:
        for sentence in self.material.warnings:
            log.warning(sentence)

    def _look(self) -> tuple[tuple[int, ...] | None, ...]:
        """Return what tells one state of the files from another."""
        return tuple(_state(path) for path in self.source.paths())


def build(material: keystores.Material) -> ssl.SSLContext:
    """Return a server's context that wants a client certificate.

    Raises BadMaterial if OpenSSL refuses the material.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = channels.Channel
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    # No resumption: each connection proves its certificate, and the first answer does not wait behind
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
    if material.revocations:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Give bytes a path, which is all that the ssl module takes.

    In memory where the system can: it holds a key.
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
