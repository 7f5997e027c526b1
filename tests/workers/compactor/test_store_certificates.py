"""The end of the store's certificate, measured on a store behind TLS."""

import contextlib
import functools
import pathlib
from collections.abc import Callable, Iterator

import pytest
import redis
from cryptography import x509

from app import telemetry
from app.serving.tls import certificate_issuer
from app.store.server import connections, server_certificates
from tests.support.monitoring import samples
from tests.support.store import servers, tls_terminator
from workers.compactor import store_certificates

METRIC = "topolog_store_certificate_expiry_timestamp_seconds"


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def secured(folder: pathlib.Path) -> Iterator[tuple[redis.Redis, tls_terminator.Terminator, pathlib.Path]]:
    """A client of a store behind TLS, and the directory of its certificates."""
    held = certificate_issuer.issue(folder / "tls", ["127.0.0.1"]).directory
    server = servers.Server(folder / "s", ["appendonly yes"])
    before = tls_terminator.Terminator(server.port, held)
    files = f"ssl_ca_certs={held}/ca.crt&ssl_certfile={held}/scheduler.crt&ssl_keyfile={held}/scheduler.key"
    try:
        with connections.connect(f"rediss://127.0.0.1:{before.port}?{files}") as client:
            yield client, before, held
    finally:
        before.close()
        server.kill()


@pytest.fixture(autouse=True)
def unmeasured() -> Iterator[None]:
    """As in a process that has not measured it yet."""
    telemetry.metrics.STORE_CERTIFICATE.forget()
    yield
    telemetry.metrics.STORE_CERTIFICATE.forget()


def measure(client: redis.Redis) -> Callable[[], float | None]:
    return functools.partial(server_certificates.expiry, client)


def end(held: pathlib.Path) -> float:
    """POSIX time at which the certificate on the disk ends."""
    found = x509.load_pem_x509_certificate((held / "server.crt").read_bytes())
    return found.not_valid_after_utc.timestamp()


def test_it_is_that_of_the_certificate_that_the_server_shows_now(tmp_path: pathlib.Path) -> None:
    with secured(tmp_path) as (client, before, held):
        clock = Clock()
        measured = store_certificates.CertificateExpiry(measure(client), monotonic=clock)
        assert client.ping()
        measured.run_once()
        first = end(held)
        assert samples.value(METRIC) == first
        renewed = certificate_issuer.issue(
            held, ["127.0.0.1"], days=700, replace=certificate_issuer.Replace.SIGNED
        )
        assert end(renewed.directory) > first
        before.renew(renewed.directory)
        measured.run_once()
        assert samples.value(METRIC) == first  # Not due yet.
        clock.now += store_certificates.EVERY
        # The connection that is open has the former one.
        measured.run_once()
        assert samples.value(METRIC) == end(held)


def test_it_stays_as_it_was_while_the_server_shows_one_that_is_refused(tmp_path: pathlib.Path) -> None:
    with secured(tmp_path) as (client, before, held):
        clock = Clock()
        measured = store_certificates.CertificateExpiry(measure(client), monotonic=clock)
        measured.run_once()
        before.renew(certificate_issuer.issue(tmp_path / "strange", ["127.0.0.1"]).directory)
        clock.now += store_certificates.EVERY
        measured.run_once()
        assert samples.value(METRIC) == end(held)
        before.close()
        clock.now += store_certificates.EVERY
        measured.run_once()
        assert samples.value(METRIC) == end(held)


def test_a_store_without_tls_has_none(tmp_path: pathlib.Path) -> None:
    server = servers.Server(tmp_path / "s", ["appendonly yes"])
    try:
        with connections.connect(f"redis://127.0.0.1:{server.port}") as client:
            store_certificates.CertificateExpiry(measure(client)).run_once()
    finally:
        server.kill()
    assert not samples.exists(METRIC)
