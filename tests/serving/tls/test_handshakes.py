"""Which clients pass the TLS handshake, and how others are refused."""

import datetime
import pathlib
import socket
import ssl

import pytest
from cryptography import x509

from app import settings
from app.cli.client import api_client
from app.serving.tls import certificate_issuer, role_names
from tests.support import issuing_authorities
from tests.support.extender import server_processes


def refused(server: server_processes.Server, context: ssl.SSLContext) -> bool:
    """Return whether calls fail. A TLS 1.3 client notices a refusal at its first read."""
    try:
        with context.wrap_socket(server.raw(), server_hostname="localhost") as connection:
            connection.sendall(b"GET /apis/v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return connection.recv(100) == b""
    except (ssl.SSLError, ConnectionError):
        return True


@pytest.mark.scenario("RL-7")
def test_a_valid_certificate_is_accepted(shared: server_processes.Server) -> None:
    with shared.client() as client:
        assert client.ask("POST", "/filter", b"{}") == (
            200,
            {"length": 2, "who": server_processes.scheduler_uri()},
        )


def test_an_issuing_ca_is_trusted_by_both_sides_without_its_root(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "issued"
    issuing_authorities.write(folder)
    certificate_issuer.issue(folder, ["127.0.0.1"])
    process = server_processes.Process(server_processes.plan_for(folder), tmp_path)
    try:
        chosen = settings.Client(
            url=f"https://127.0.0.1:{process.port()}",
            cert=str(folder / "viewer.crt"),
            key=str(folder / "viewer.key"),
            ca=str(folder / "ca.crt"),
        )
        found = api_client.ExtenderClient(chosen).document("/apis/v1/nodes")
        assert found["who"] == role_names.uri(role_names.VIEWER)
    finally:
        process.stop()


@pytest.mark.scenario("RL-7")
def test_a_client_without_a_certificate_is_refused(start: server_processes.Starts) -> None:
    server = start()
    assert refused(server, server.context(None))
    server.process.wait_for("TLS handshake refused.*peer did not return a certificate")


@pytest.mark.scenario("RL-7")
def test_a_certificate_of_another_ca_is_refused(
    shared: server_processes.Server, tmp_path: pathlib.Path
) -> None:
    certificate_issuer.issue(tmp_path, ["localhost"])
    context = shared.context(None)
    context.load_cert_chain(tmp_path / "scheduler.crt", tmp_path / "scheduler.key")
    assert refused(shared, context)


@pytest.mark.scenario("RL-7")
@pytest.mark.parametrize(
    ("name", "start", "end"), [("expired", -60, -1), ("not-yet", 1, 60)], ids=["expired", "not yet valid"]
)
def test_a_certificate_outside_its_validity_is_refused(
    shared: server_processes.Server, name: str, start: int, end: int
) -> None:
    first, last = (datetime.timedelta(minutes=minutes) for minutes in (start, end))
    server_processes.sign(
        shared.certificates, name, uris=(server_processes.scheduler_uri(),), start=first, end=last
    )
    assert refused(shared, shared.context(name))


def test_a_server_certificate_is_refused_for_clients(shared: server_processes.Server) -> None:
    assert refused(shared, shared.context("server"))


@pytest.mark.scenario("RL-7")
def test_plain_http_gets_no_response(shared: server_processes.Server) -> None:
    with shared.raw() as connection:
        connection.sendall(b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        try:
            received = connection.recv(1000)
        except ConnectionError:
            received = b""
    # At most a TLS alert, never HTTP.
    assert b"HTTP/" not in received


def test_old_tls_is_refused(shared: server_processes.Server) -> None:
    context = shared.context("scheduler")
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    assert refused(shared, context)


@pytest.mark.parametrize("cipher", ["ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA"])
def test_ciphers_without_authentication_are_refused(shared: server_processes.Server, cipher: str) -> None:
    context = shared.context("scheduler")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(cipher)
    assert refused(shared, context)


def test_tls_1_2_is_supported(shared: server_processes.Server) -> None:
    context = shared.context("scheduler")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert not refused(shared, context)


def test_a_revoked_certificate_is_refused(start: server_processes.Starts, certificates: pathlib.Path) -> None:
    viewer = x509.load_pem_x509_certificate((certificates / "viewer.crt").read_bytes())
    server = start(crl=str(server_processes.revoke(certificates, viewer)))
    assert refused(server, server.context("viewer"))
    assert not refused(server, server.context("scheduler"))


def test_a_certificate_revoked_later_is_valid_until_its_connection_is_closed(
    start: server_processes.Starts, certificates: pathlib.Path
) -> None:
    viewer = x509.load_pem_x509_certificate((certificates / "viewer.crt").read_bytes())
    young, old = (
        start(
            crl=str(server_processes.revoke(certificates)),
            age=age,
            certificate=str(certificates / "server.crt"),
        )
        for age in (3600.0, 0.0)
    )
    # With TLS 1.3 a client finishes before the server has verified its certificate.
    context = young.context("viewer")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with young.client(context=context) as kept, old.client(context=context) as ended:
        for client in (kept, ended):
            client.connection.connect()
        server_processes.revoke(certificates, viewer)
        for _ in range(2):
            assert kept.ask("GET", "/apis/v1/nodes")[0] == 200
            assert kept.connection.sock is not None
        # The old connection gets one more response and is closed: the next one verifies the certificate.
        assert ended.ask("GET", "/apis/v1/nodes")[0] == 200
        assert ended.connection.sock is None
    # The list is checked once per second.
    server_processes.eventually(lambda: refused(old, old.context("viewer")), "the revoked one is refused")
    assert not refused(old, old.context("scheduler"))


def test_nagle_is_off_on_accepted_connections(shared: server_processes.Server) -> None:
    with shared.client("viewer") as client:
        status, seen = client.ask("GET", "/apis/v1/nodes")
    assert (status, seen["nodelay"], seen["scheme"]) == (200, True, "https")


def test_headers_do_not_change_identity_or_path(shared: server_processes.Server) -> None:
    forged = {
        "X-SSL-Client-CN": "operator",
        "X-Forwarded-Client-Cert": "URI=spiffe://topolog.io/role/operator",
        "X-Forwarded-For": "10.1.1.1",
        "X-Forwarded-Proto": "http",
        "SCRIPT_NAME": "/apis",
        "PATH_INFO": "/debug/flags/s",
    }
    with shared.client("viewer") as client:
        status, seen = client.ask("GET", "/apis/v1/nodes", headers=forged)
        assert status == 200
        assert (seen["roles"], seen["scheme"], seen["path"]) == (["viewer"], "https", "/apis/v1/nodes")
        assert seen["address"] == "127.0.0.1"
        assert client.ask("PUT", "/debug/flags/s", b"1", forged)[0] == 403


def test_two_requests_in_one_record(shared: server_processes.Server) -> None:
    request = b"GET /apis/v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with shared.connect("viewer") as connection:
        connection.sendall(request + request)
        received = b""
        while received.count(b"HTTP/1.1 200") < 2 or not received.endswith(b"}"):
            received += connection.recv(10_000)
    assert received.count(b"HTTP/1.1 200") == 2


def test_a_body_and_the_next_request_in_one_record(shared: server_processes.Server) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: 2\r\n\r\n{}"
    with shared.connect() as connection:
        # The second head ends in another record, so that OpenSSL buffers the data after the body.
        connection.sendall(request + request[:40])
        connection.sendall(request[40:])
        received = b""
        while received.count(b'"length": 2') < 2:
            piece = connection.recv(10_000)
            assert piece, received
            received += piece


def test_a_connection_is_reused_for_all_requests(shared: server_processes.Server) -> None:
    with shared.client("viewer") as client:
        ports = set()
        for _ in range(20):
            assert client.ask("GET", "/apis/v1/nodes")[0] == 200
            assert isinstance(client.connection.sock, socket.socket)
            ports.add(client.connection.sock.getsockname())
    assert len(ports) == 1
