"""A failed connection to an extender is reported with its cause, over real TLS."""

import contextlib
import dataclasses
import datetime
import functools
import http.server
import json
import pathlib
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator

import pytest
from cryptography.x509 import oid

from app.serving.tls import certificate_issuer, role_names
from tests.support import child_processes, commands
from tests.support.extender import server_processes

SERVICE = "topolog-extender.topolog-system.svc"
HOSTS = (SERVICE, f"{SERVICE}.cluster.local")
HOUR = datetime.timedelta(hours=1)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A directory with certificates for the names of the Service, and with wrong ones."""
    directory = certificate_issuer.issue(tmp_path_factory.mktemp("certificates"), HOSTS).directory
    sign = functools.partial(server_processes.sign, directory)
    server, hosts = oid.ExtendedKeyUsageOID.SERVER_AUTH, ("localhost",)
    sign("over", dns=hosts, usage=server, start=-9 * HOUR, end=-HOUR)
    sign("early", dns=hosts, usage=server, start=HOUR, end=9 * HOUR)
    sign("nameless", usage=server)
    viewer = (role_names.uri(role_names.VIEWER),)
    sign("viewer-over", uris=viewer, start=-9 * HOUR, end=-HOUR)
    sign("viewer-early", uris=viewer, start=HOUR, end=9 * HOUR)
    server_processes.revoke(directory, sign("viewer-revoked", uris=viewer))
    return directory


@pytest.fixture(scope="module")
def extender(
    certificates: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[server_processes.Server]:
    """A server with the real handshake and the real roles, as if through a port-forward."""
    plan = server_processes.plan_for(certificates, crl=str(certificates / "revoked.crl"))
    process = server_processes.Process(plan, tmp_path_factory.mktemp("extender"))
    yield server_processes.Server(process, certificates, process.port())
    process.stop()


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The files of another `topolog certs`: its CA has the same name and another key."""
    return certificate_issuer.issue(tmp_path_factory.mktemp("another"), HOSTS).directory


@dataclasses.dataclass(frozen=True)
class Asked:
    """The options of a command; empty: not given."""

    ca: pathlib.Path | None
    cert: pathlib.Path | None
    name: str = SERVICE

    def run(self, url: str) -> subprocess.CompletedProcess[str]:
        options = ["--server", url]
        if self.ca is not None:
            options += ["--ca", str(self.ca)]
        if self.cert is not None:
            options += ["--cert", str(self.cert), "--key", str(self.cert.with_suffix(".key"))]
        if self.name:
            options += ["--server-name", self.name]
        return commands.called("get", "lag", "-o", "json", *options)

    def hint(self, url: str) -> str:
        """The sentence in parentheses."""
        done = self.run(url)
        assert (done.returncode, done.stdout) == (5, ""), done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.endswith(")\n")
        return done.stderr[:-2].rpartition(" (")[2]


@pytest.fixture
def right(certificates: pathlib.Path) -> Asked:
    return Asked(certificates / "ca.crt", certificates / "viewer.crt")


def url(server: server_processes.Server) -> str:
    return f"https://127.0.0.1:{server.port}"


def test_the_name_of_the_certificate_can_be_given(extender: server_processes.Server, right: Asked) -> None:
    done = right.run(url(extender))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"] == "/apis/v1/lag"


def test_the_name_of_the_certificate_can_be_a_setting(
    extender: server_processes.Server, certificates: pathlib.Path
) -> None:
    environ = {"URL": url(extender), "SERVER_NAME": SERVICE, "CA": str(certificates / "ca.crt")}
    environ |= {"CERT": str(certificates / "viewer.crt"), "KEY": str(certificates / "viewer.key")}
    given = {f"TOPOLOG_CLIENT_{name}": value for name, value in environ.items()}
    done = commands.called("get", "lag", "-o", "json", **given)
    assert done.returncode == 0, done.stderr


def test_another_name_of_the_server_is_named_with_the_option(
    extender: server_processes.Server, right: Asked
) -> None:
    hint = dataclasses.replace(right, name="").hint(url(extender))
    assert f"is for {SERVICE}, {SERVICE}.cluster.local, not for 127.0.0.1" in hint
    assert hint.endswith(f"use --server-name {SERVICE}")
    assert "not for elsewhere" in dataclasses.replace(right, name="elsewhere").hint(url(extender))


def test_a_ca_of_the_same_name_and_another_key_is_recognized(
    extender: server_processes.Server, right: Asked, another: pathlib.Path
) -> None:
    hint = dataclasses.replace(right, ca=another / "ca.crt").hint(url(extender))
    assert f"{another / 'ca.crt'} has a CA of the name" in hint
    assert "with another key" in hint


def test_the_issuer_is_named_if_the_file_lacks_it(
    extender: server_processes.Server, right: Asked, certificates: pathlib.Path
) -> None:
    hint = dataclasses.replace(right, ca=certificates / "viewer.crt").hint(url(extender))
    assert f"which is not in {certificates / 'viewer.crt'}: use --ca" in hint


def test_without_a_ca_the_option_is_named(extender: server_processes.Server, right: Asked) -> None:
    hint = dataclasses.replace(right, ca=None).hint(url(extender))
    assert hint.endswith("which this machine does not trust: use --ca")


@contextlib.contextmanager
def listening(directory: pathlib.Path, name: str) -> Iterator[str]:
    """The URL of a server with a certificate that an extender would refuse to serve."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / f"{name}.crt", directory / f"{name}.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("over", r"the extender's certificate expired at \d{4}-.*Z: renew it \(`topolog certs --renew`"),
        ("early", r"the extender's certificate is valid from \d{4}-.*Z on: compare the clocks"),
        ("nameless", r"the extender's certificate has no subject alternative name"),
    ],
)
def test_a_wrong_certificate_of_the_server_is_described(
    certificates: pathlib.Path, right: Asked, name: str, hint: str
) -> None:
    with listening(certificates, name) as where:
        done = dataclasses.replace(right, name="localhost").run(where)
        assert done.returncode == 5
        assert re.search(hint, done.stderr), done.stderr


def test_an_expired_ca_is_named(tmp_path: pathlib.Path, right: Asked) -> None:
    past = datetime.datetime.now(datetime.UTC) - 48 * HOUR
    directory = certificate_issuer.issue(tmp_path, ["localhost"], authority_days=1, now=past).directory
    server_processes.sign(directory, "valid", dns=("localhost",), usage=oid.ExtendedKeyUsageOID.SERVER_AUTH)
    with listening(directory, "valid") as where:
        done = Asked(directory / "ca.crt", right.cert, "localhost").run(where)
    assert re.search(rf"the CA CN=.* in {directory / 'ca.crt'} expired at .*certs --force", done.stderr)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("viewer-over", r"the client certificate \S+/viewer-over.crt expired at .*Z: renew it"),
        ("viewer-early", r"the client certificate \S+/viewer-early.crt is valid from .*Z on"),
        ("viewer-revoked", r"the client certificate \S+/viewer-revoked.crt is revoked"),
    ],
)
def test_a_refused_client_certificate_is_described(
    extender: server_processes.Server, right: Asked, certificates: pathlib.Path, name: str, hint: str
) -> None:
    done = dataclasses.replace(right, cert=certificates / f"{name}.crt").run(url(extender))
    assert done.returncode == 5
    assert re.search(hint, done.stderr), done.stderr


def test_a_client_certificate_of_another_ca_is_described(
    extender: server_processes.Server, right: Asked, another: pathlib.Path
) -> None:
    hint = dataclasses.replace(right, cert=another / "viewer.crt").hint(url(extender))
    assert f"the extender does not trust the issuer of {another / 'viewer.crt'}" in hint
    assert hint.endswith("it must be a CA of the extender's tls.ca")


def test_a_missing_client_certificate_is_named(extender: server_processes.Server, right: Asked) -> None:
    hint = dataclasses.replace(right, cert=None).hint(url(extender))
    assert hint == "the extender requires a client certificate: use --cert and --key"


def test_a_missing_role_is_named_with_the_certificate(
    extender: server_processes.Server, right: Asked, certificates: pathlib.Path
) -> None:
    done = dataclasses.replace(right, cert=certificates / "scheduler.crt").run(url(extender))
    assert done.returncode == 5
    assert "GET /apis/v1/lag requires the role viewer" in done.stderr
    assert "has: scheduler" in done.stderr
    assert f"(the client certificate is {certificates / 'scheduler.crt'})" in done.stderr


def test_the_health_port_is_recognized(extender: server_processes.Server, right: Asked) -> None:
    hint = right.hint(f"https://127.0.0.1:{extender.process.health_port()}")
    assert hint == "the port does not speak TLS: is it the health port? The API is on server.port"


def test_plain_http_to_a_port_with_tls_is_recognized(extender: server_processes.Server, right: Asked) -> None:
    assert right.hint(f"http://127.0.0.1:{extender.port}") == "does it require https?"


def test_a_port_without_a_listener_is_described(right: Asked) -> None:
    hint = right.hint(f"https://127.0.0.1:{child_processes.free_port()}")
    assert hint == "nothing listens there: does the extender run, or a port-forward to it?"
