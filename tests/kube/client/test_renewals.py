"""Credentials that are replaced while a client uses them, over real TLS."""

import contextlib
import datetime
import http
import itertools
import pathlib
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from kubernetes.config import incluster_config

from app.kube import errors
from app.kube.client import clients, credentials, renewals
from app.simulation.apiserver import apiservers, requests
from tests.support import commands, declared, polling
from tests.support.kube import kubeconfigs

ENDS = """
import sys
from app.kube.client import clients, credentials
access = credentials.find(sys.argv[1])
client = clients.Client(access)
print(len(access.tls.certificate))
"""
PODS = "/api/v1/pods"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read again soon, and plugins may run again soon."""
    monkeypatch.setattr(renewals, "SHORTEST_PAUSE", 0.05)
    monkeypatch.setattr(renewals, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(credentials, "RELOAD_SECONDS", 0.05)


@pytest.fixture
def plugin(tmp_path: pathlib.Path) -> kubeconfigs.Plugin:
    return kubeconfigs.Plugin(tmp_path)


@pytest.fixture
def used(
    secured: apiservers.ApiServer, folder: pathlib.Path, tmp_path: pathlib.Path
) -> Iterator[Callable[[dict[str, object]], clients.Client]]:
    """Makes a client of a kubeconfig with this user."""
    made: list[clients.Client] = []

    def use(user: dict[str, object]) -> clients.Client:
        path = kubeconfigs.write(tmp_path / "config", secured.url, folder / "ca.crt", user)
        made.append(clients.Client(credentials.find(path)))
        return made[-1]

    yield use
    for client in made:
        client.close()


Use = Callable[[dict[str, object]], clients.Client]


def accepted(client: clients.Client) -> bool:
    """Whether the server accepts the credentials, of the official client and of the fast one."""
    with contextlib.suppress(errors.ApiError):
        client.get(PODS)
        return client.exchange("GET", PODS, timeout=5.0).status == http.HTTPStatus.OK
    return False


def accept(server: apiservers.ApiServer, token: str) -> None:
    """Let the server accept this token alone."""
    server.router.tokens = frozenset((token,))


def replaced(server: apiservers.ApiServer, client: clients.Client) -> None:
    """Wait until the second token is used, while the server still accepts the first; then let it not."""

    def used() -> str:
        assert accepted(client)
        return server.seen[-1].headers["authorization"]

    server.router.tokens = frozenset((kubeconfigs.TOKEN, "second"))
    polling.eventually(lambda: used().endswith(" second"), "the second token is used")
    accept(server, "second")
    assert accepted(client)


def in_seconds(seconds: float) -> str:
    """The time then, as a plugin prints it."""
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    return then.isoformat()


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("beside", [{}, {"token": "of the kubeconfig"}], ids=["alone", "beside a token"])
def test_a_token_file_is_read_again(
    secured: apiservers.ApiServer, tmp_path: pathlib.Path, used: Use, beside: dict[str, object]
) -> None:
    token = tmp_path / "token"
    token.write_text(kubeconfigs.TOKEN + "\n")
    client = used({"tokenFile": str(token), **beside})
    assert accepted(client)
    token.write_text("second\n")
    replaced(secured, client)


class Yesterday(datetime.datetime):
    """A clock that was set back."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "Yesterday":
        return super().now(tz) - datetime.timedelta(days=1)


@pytest.mark.usefixtures("soon")
def test_the_token_of_a_service_account_is_read_again_whatever_the_clock_shows(
    secured: apiservers.ApiServer,
    folder: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = tmp_path / "token"
    token.write_text(kubeconfigs.TOKEN)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(folder / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", secured.url.rpartition(":")[2])
    client = clients.Client(credentials.find())
    assert accepted(client)
    monkeypatch.setattr(datetime, "datetime", Yesterday)
    token.write_text("second")
    replaced(secured, client)
    client.close()


@pytest.mark.usefixtures("soon")
def test_a_plugin_without_an_expiry_runs_again_once_its_token_is_refused(
    secured: apiservers.ApiServer, plugin: kubeconfigs.Plugin, used: Use
) -> None:
    plugin.prints(token=kubeconfigs.TOKEN)
    client = used(plugin.user)
    assert accepted(client)
    accept(secured, "second")
    plugin.prints(token="second")
    assert plugin.runs == 1
    polling.eventually(lambda: accepted(client), "the second token is used")


def test_a_plugin_whose_token_is_wrong_is_not_run_for_each_request(
    plugin: kubeconfigs.Plugin, used: Use
) -> None:
    plugin.prints(token="wrong")
    client = used(plugin.user)
    assert [accepted(client) for _ in range(20)] == [False] * 20
    assert plugin.runs <= 3


class Refused:
    """Credentials that are always refused."""

    def __init__(self) -> None:
        self.renewed: list[float] = []

    def due(self) -> float:
        return 0.0

    def renew(self) -> None:
        self.renewed.append(time.monotonic())


def test_pauses_grow_while_credentials_are_always_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewals, "SHORTEST_PAUSE", 0.05)
    monkeypatch.setattr(renewals, "LONGEST_PAUSE", 0.2)
    renewed = (refused := Refused()).renewed
    began = time.monotonic()
    renewer = renewals.Renewer(refused).start()
    while len(renewed) < 5:
        renewer.refused()
        time.sleep(0.001)
    renewer.stop()
    pauses = [later - former for former, later in itertools.pairwise([began, *renewed[:5]])]
    assert all(pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2, 0.2, 0.2), strict=True))


class Cached:
    """Credentials of a plugin that prints the same token until it has expired, after 1.2 s."""

    def __init__(self) -> None:
        self.expires = self._due_at = time.monotonic() + 1.2
        self.replaced = threading.Event()

    def due(self) -> float:
        return max(0.0, self._due_at - time.monotonic())

    def renew(self) -> None:
        now = time.monotonic()
        if now >= self.expires:
            self.expires = now + 3600.0
            self.replaced.set()
        self._due_at = now + 0.9 * (self.expires - now)


def test_a_cached_token_that_is_nearly_spent_is_replaced_soon_after_it_expires(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renewals, "SHORTEST_PAUSE", 0.01)
    cached = Cached()
    cached.renew()
    renewer = renewals.Renewer(cached).start()
    expired = cached.expires
    assert cached.replaced.wait(20)
    renewer.stop()
    assert cached.expires - 3600.0 - expired < renewals.LONGEST_PAUSE / 10


@pytest.mark.usefixtures("soon")
def test_no_request_waits_for_a_plugin(plugin: kubeconfigs.Plugin, used: Use) -> None:
    plugin.prints(token=kubeconfigs.TOKEN, expirationTimestamp=in_seconds(-60.0))
    client = used(plugin.user)
    with plugin.stalled():
        before = plugin.runs
        polling.eventually(lambda: plugin.runs > before, "the plugin runs again")
        assert accepted(client)


@pytest.mark.parametrize(
    ("expiry", "due"),
    [
        ("", None),
        (in_seconds(1e6), pytest.approx(9e5, rel=0.01)),
        (in_seconds(-1.0), 0.0),
        ("9999-12-31T23:59:59Z", threading.TIMEOUT_MAX),
    ],
    ids=["unknown", "later", "past", "never"],
)
def test_a_plugin_is_due_before_its_credentials_expire(
    plugin: kubeconfigs.Plugin, folder: pathlib.Path, tmp_path: pathlib.Path, expiry: str, due: float | None
) -> None:
    plugin.prints(token="one", expirationTimestamp=expiry)
    path = kubeconfigs.write(tmp_path / "config", "https://127.0.0.1:1", folder / "ca.crt", plugin.user)
    assert credentials.find(path).due() == due


def certificate(folder: pathlib.Path, role: str) -> dict[str, str]:
    """What a plugin prints for the certificate of this role."""
    return {
        "clientCertificateData": (folder / f"{role}.crt").read_text(),
        "clientKeyData": (folder / f"{role}.key").read_text(),
    }


def test_the_last_token_is_used_while_its_file_is_missing_or_being_written(
    folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    path = kubeconfigs.write(
        tmp_path / "config", "https://127.0.0.1:1", folder / "ca.crt", {"tokenFile": str(token)}
    )
    access = credentials.find(path)
    token.write_text("")
    access.renew()
    assert access.authorization() == "Bearer one"
    token.unlink()
    access.renew()
    assert access.authorization() == "Bearer one"
    token.write_text("two")
    access.renew()
    assert access.authorization() == "Bearer two"


def test_the_last_certificate_is_used_while_a_plugin_fails(
    plugin: kubeconfigs.Plugin, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    plugin.prints(**certificate(folder, "viewer"))
    path = kubeconfigs.write(tmp_path / "config", "https://127.0.0.1:1", folder / "ca.crt", plugin.user)
    access = credentials.find(path)
    first = access.tls
    of_another = certificate(folder, "operator")["clientKeyData"]
    plugin.prints(**{**certificate(folder, "viewer"), "clientKeyData": of_another})
    access.renew()
    assert access.tls == first
    plugin.answer.unlink()
    access.renew()
    assert access.tls == first
    plugin.prints(**certificate(folder, "operator"))
    access.renew()
    assert access.tls != first
    assert first.cert_file is not None
    assert access.tls.certificate == pathlib.Path(first.cert_file).read_bytes()


def test_a_plugin_that_fails_at_the_start_is_reported_with_its_reason(
    plugin: kubeconfigs.Plugin, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    path = kubeconfigs.write(tmp_path / "config", "https://127.0.0.1:1", folder / "ca.crt", plugin.user)
    with pytest.raises(errors.Misconfigured, match=r"No such file or directory: .*answer"):
        credentials.find(path)
    plugin.prints()
    with pytest.raises(errors.Misconfigured, match="neither a token nor a certificate and key"):
        credentials.find(path)


class ByCertificate(apiservers.ApiServer):
    """A server that accepts the certificates of some roles, and answers all others with 401."""

    roles: tuple[str, ...] = ("viewer",)
    refusals = 0

    def _reply(self, connection: socket.socket, request: requests.Request) -> bool:
        assert isinstance(connection, ssl.SSLSocket)
        shown = str(connection.getpeercert())
        if any(role in shown for role in self.roles):
            return super()._reply(connection, request)
        self.refusals += 1
        connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        return True


@pytest.fixture
def by_certificate(context: ssl.SSLContext) -> Iterator[ByCertificate]:
    context.verify_mode = ssl.CERT_REQUIRED
    server = ByCertificate(declared.SCHEMA, tls=context)
    with server:
        yield server


@pytest.mark.usefixtures("soon")
def test_connections_with_a_certificate_that_is_refused_are_replaced(
    by_certificate: ByCertificate, plugin: kubeconfigs.Plugin, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    plugin.prints(**certificate(folder, "viewer"))
    path = kubeconfigs.write(tmp_path / "config", by_certificate.url, folder / "ca.crt", plugin.user)
    client = clients.Client(credentials.find(path))
    assert accepted(client)
    by_certificate.roles = ("operator",)
    plugin.prints(**certificate(folder, "operator"))
    assert plugin.runs == 1
    polling.eventually(lambda: accepted(client), "connections have the second certificate")
    client.close()


@pytest.mark.usefixtures("soon")
def test_no_request_is_refused_if_a_plugin_replaces_its_certificate_in_time(
    by_certificate: ByCertificate, plugin: kubeconfigs.Plugin, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    expired = in_seconds(-60.0)
    plugin.prints(**certificate(folder, "viewer"), expirationTimestamp=expired)
    path = kubeconfigs.write(tmp_path / "config", by_certificate.url, folder / "ca.crt", plugin.user)
    access = credentials.find(path)
    client = clients.Client(access)
    assert accepted(client)
    first = access.tls
    by_certificate.roles = ("viewer", "operator")
    plugin.prints(**certificate(folder, "operator"), expirationTimestamp=expired)
    polling.eventually(lambda: access.tls != first, "the plugin has run again")
    by_certificate.roles = ("operator",)
    assert accepted(client)
    assert by_certificate.refusals == 0
    client.close()


def test_no_key_of_a_plugin_is_left(
    plugin: kubeconfigs.Plugin, folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "temporary"
    keys.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(keys))
    plugin.prints(**certificate(folder, "viewer"))
    path = kubeconfigs.write(tmp_path / "config", "https://127.0.0.1:1", folder / "ca.crt", plugin.user)
    access = credentials.find(path)
    for role in ("operator", "viewer", "scheduler"):
        plugin.prints(**certificate(folder, role))
        access.renew()
    with_keys = [file for file in keys.rglob("*") if file.is_file() and b"PRIVATE KEY" in file.read_bytes()]
    assert [file.name for file in with_keys] == ["client.pem"]
    del access
    assert not with_keys[0].parent.exists()
    done = commands.run(["-c", ENDS, path], environ={"TMPDIR": str(keys)})
    assert int(done.stdout) > 0, done.stderr
    assert list(keys.glob("topolog-*")) == []
