"""The bundled store over TLS: the manifests' arguments, bootstrap's certificate and users, a real server."""

import base64
import contextlib
import pathlib
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import redis
from click import testing
from cryptography.hazmat.primitives import serialization

from app import cli, settings
from app.provisioning import authorities, store_access, store_certificates
from app.serving.tls import certificate_issuer
from app.store import errors, keys, schemas
from app.store.health import doctor
from app.store.server import connections
from tests.support import child_processes, declared, issuing_authorities
from tests.support.provisioning import namespaces, secrets_of
from tests.support.store import servers, tls_servers

NAMES = keys.Keys("default")
TLS = "topolog-valkey-tls"
RENEWED = 245
"""Days after which two thirds of a year have passed."""
BINARY = servers.tls_binary()
pytestmark = pytest.mark.skipif(not BINARY, reason="no store with TLS: set TLS_STORE to the path of one")


class Bundled(NamedTuple):
    """A bundled store, and the files of its pods."""

    namespace: namespaces.Namespace
    port: int
    folder: pathlib.Path

    @property
    def server(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def mount(self) -> None:
        """Bring the Secrets into the pods, as a kubelet does."""
        for name, folder in ((TLS, self.folder / "tls"), ("topolog-valkey-acl", self.folder / "hashes")):
            folder.mkdir(exist_ok=True)
            for key, value in secrets_of.data(self.namespace.secrets()[name]).items():
                (folder / key).write_bytes(value)

    def url(self, role: str) -> str:
        """The URL of a process, with the path of the CAs here."""
        text = secrets_of.data(self.namespace.secrets()["topolog-store"])[f"{role}-url"].decode()
        assert text.startswith("rediss://")
        assert text.endswith(f"?ssl_ca_certs={store_access.AUTHORITIES}")
        return text.replace(store_access.AUTHORITIES, str(self.folder / "tls" / "ca.crt"))

    def provision(self, days_later: float = 0) -> dict[str, str]:
        return self.namespace.provision(
            store=self.server, store_hosts=["127.0.0.1"], days_later=days_later, hosts=["127.0.0.1"]
        )

    def bootstrap(self) -> str:
        """What the command reports about the certificate of the store."""
        done = self.namespace.bootstrap(f"--store-url={self.server}", "--store-tls")
        assert (done.returncode, done.stderr) == (0, "")
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(TLS)]
        return line.rpartition("; ")[2]

    def shown(self) -> bytes:
        pem = ssl.get_server_certificate(("127.0.0.1", self.port))
        return ssl.PEM_cert_to_DER_cert(pem)

    def held(self) -> bytes:
        """The certificate of the Secret."""
        found = secrets_of.certificate(self.namespace.secrets()[TLS])
        return found.public_bytes(serialization.Encoding.DER)


@pytest.fixture
def unstarted(namespace: namespaces.Namespace, tmp_path: pathlib.Path) -> Bundled:
    """A store whose Secrets are made, and whose server does not run yet."""
    made = Bundled(namespace, child_processes.free_port(), tmp_path)
    assert set(made.provision().values()) == {"created"}
    return made


def listed(folder: pathlib.Path) -> testing.Result:
    """Make the access list, as the manifests' init container does."""
    given = tls_servers.users_arguments()
    for inside, here in {
        "/etc/topolog/hashes": folder / "hashes",
        "/etc/valkey/users.acl": folder / "users.acl",
    }.items():
        given = [each.replace(inside, str(here)) for each in given]
    return testing.CliRunner().invoke(cli.topolog, given, env={"TOPOLOG_CLUSTER": "default"})


@contextlib.contextmanager
def started(store: Bundled, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the server with the access list of the present hashes."""
    store.mount()
    folder = store.folder
    done = listed(folder)
    assert done.exit_code == 0, done.output
    mounted = {store_certificates.FOLDER: str(folder / "tls")}
    monkeypatch.setattr(store_certificates, "FOLDER", str(folder / "tls"))
    with tls_servers.running(folder, BINARY, store.port, mounted):
        yield


@pytest.fixture
def bundled(unstarted: Bundled, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bundled]:
    with started(unstarted, monkeypatch):
        yield unstarted


def test_each_role_works_over_tls_and_nothing_works_without(bundled: Bundled) -> None:
    with schemas.connect(settings.Store(url=bundled.url("migrator")), NAMES) as client:
        assert schemas.migrate(client, NAMES, declared.SCHEMA).ready
    for role in secrets_of.USERS:
        with connections.connect(bundled.url(role)) as client:
            assert client.ping()
    found = {one.subject: one for one in doctor.examine(settings.Store(url=bundled.url("doctor")), NAMES)}
    assert (found["transport"].grade, found["transport"].found) == ("good", "TLS")
    assert {one.grade for name, one in found.items() if name.startswith("user ")} == {"good"}
    with pytest.raises(redis.ConnectionError):
        redis.Redis(port=bundled.port, socket_timeout=5).ping()


def test_a_process_that_trusts_another_ca_refuses_the_server_and_names_the_reason(
    bundled: Bundled, tmp_path: pathlib.Path
) -> None:
    other = certificate_issuer.issue(tmp_path / "other", ["127.0.0.1"]).directory / "ca.crt"
    (tmp_path / "tls" / "ca.crt").write_bytes(other.read_bytes())
    with (
        connections.connect(bundled.url("recorder")) as client,
        pytest.raises(errors.StoreAway, match="certificate verify failed: unable to get local issuer"),
        connections.translated(),
    ):
        client.ping()


def test_an_issuing_ca_is_trusted_without_its_root(
    namespace: namespaces.Namespace, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = issuing_authorities.made()
    data = {"tls.crt": authority.certificate_pem(), "tls.key": authority.key_pem()}
    namespace.put("topolog-ca", data, type="kubernetes.io/tls", by="its-issuer")
    store = Bundled(namespace, child_processes.free_port(), tmp_path)
    assert store.provision()[TLS] == "created"
    with started(store, monkeypatch):
        assert store.bootstrap() == "the server shows it"
        with connections.connect(store.url("recorder")) as client:
            assert client.ping()
        namespace.delete(TLS)
        store.bootstrap()
        store.mount()
        assert store.bootstrap() == "the server has read it"
        namespace.bootstrap("--passwords", "announce")
        refusal = namespace.bootstrap("--passwords", "take-over").stderr
        assert "the store refuses: restart it (the store refuses the credentials" in refusal


def test_the_server_takes_up_a_renewed_certificate_without_a_restart(bundled: Bundled) -> None:
    assert bundled.bootstrap() == "the server shows it"
    with connections.connect(bundled.url("recorder")) as opened:
        assert opened.ping()
        former = bundled.shown()
        # A certificate of the Secret that the pod does not have yet.
        bundled.namespace.delete(TLS)
        assert "still shows a former one" in bundled.bootstrap()
        assert bundled.shown() == former != bundled.held()
        bundled.mount()
        assert bundled.shown() == former
        assert bundled.bootstrap() == "the server has read it"
        assert bundled.shown() == bundled.held()
        assert bundled.bootstrap() == "the server shows it"
        assert opened.ping()
    with connections.connect(bundled.url("recorder")) as client:
        assert client.ping()


def test_the_certificate_is_renewed_with_the_others_and_follows_the_ca(bundled: Bundled) -> None:
    before = secrets_of.certificate(bundled.namespace.secrets()[TLS])
    assert secrets_of.names(before) == ["127.0.0.1"]
    assert bundled.provision(days_later=RENEWED - 5)[TLS] == "kept"
    assert bundled.provision(days_later=RENEWED)[TLS] == "renewed"
    announced = authorities.DAYS * 2 / 3 + 1
    assert bundled.provision(days_later=announced)[TLS] == "renewed"
    given = secrets_of.data(bundled.namespace.secrets()[TLS])
    assert given["ca.crt"].count(b"BEGIN CERTIFICATE") == 2
    taken_over = announced + authorities.DAYS / 6
    assert bundled.provision(days_later=taken_over)["topolog-ca"] == "renewed"
    authority = secrets_of.certificate(bundled.namespace.secrets()["topolog-ca"])
    secrets_of.certificate(bundled.namespace.secrets()[TLS]).verify_directly_issued_by(authority)


def test_the_user_of_certificates_may_do_nothing_else(bundled: Bundled) -> None:
    with connections.connect(bundled.url("certificates")) as client:
        assert client.config_set("tls-cert-file", str(bundled.folder / "tls" / "tls.crt"))
        for command in ("PING", "CONFIG GET tls-cert-file", "ACL WHOAMI", "GET key", "SHUTDOWN"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())


def test_a_server_without_the_user_of_certificates_does_not_start(unstarted: Bundled) -> None:
    """Its pod may be made before bootstrap has a password for it; the kubelet starts the container again."""
    unstarted.mount()
    missing = unstarted.folder / "hashes" / "certificates"
    content = missing.read_bytes()
    missing.unlink()
    done = listed(unstarted.folder)
    assert done.exit_code != 0
    assert "no SHA-256 of 64 hexadecimal digits for: certificates" in done.output
    assert not (unstarted.folder / "users.acl").exists()
    missing.write_bytes(content)
    assert listed(unstarted.folder).exit_code == 0


def test_following_passwords_that_the_server_refuses_do_not_take_over(bundled: Bundled) -> None:
    former = bundled.url("recorder")
    assert bundled.namespace.bootstrap("--passwords", "announce").stderr == ""
    assert "the store refuses: restart it" in bundled.namespace.bootstrap("--passwords", "take-over").stderr
    assert bundled.url("recorder") == former


def test_following_passwords_take_over_once_the_server_accepts_them(
    unstarted: Bundled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is verified by the CA of the Secret, because this process has no file of it."""
    former = unstarted.url("recorder")
    assert unstarted.namespace.bootstrap("--passwords", "announce").stderr == ""
    with started(unstarted, monkeypatch):
        done = unstarted.namespace.bootstrap("--passwords", "take-over")
        assert (done.returncode, done.stderr) == (0, "")
        assert "not tried" not in done.stdout
        for url in (former, *map(unstarted.url, secrets_of.USERS)):
            with connections.connect(url) as client:
                assert client.ping()
        assert unstarted.url("recorder") != former
        assert unstarted.bootstrap() == "the server shows it", "with the following password, too"


def test_a_server_that_cannot_be_asked_is_named_and_no_failure(namespace: namespaces.Namespace) -> None:
    url = f"--store-url=redis://127.0.0.1:{child_processes.free_port()}"
    done = namespace.bootstrap(url, "--store-tls")
    assert (done.returncode, done.stderr) == (0, "")
    assert "the server is not reached (127.0.0.1:" in done.stdout


def test_a_server_whose_certificate_the_ca_no_longer_covers_fails_the_run(bundled: Bundled) -> None:
    """Its pod has not read the certificate of the CA that has taken over, and the former CA is dropped."""
    for step in ("announce", "take-over"):
        assert bundled.namespace.bootstrap("--ca", step).returncode == 0
    bundled.namespace.provision(store="", step="drop", days_later=1)
    url = f"--store-url={bundled.server}"
    done = bundled.namespace.bootstrap(url, "--store-tls")
    assert done.returncode == 1
    assert f"Secret {secrets_of.HOME}/{TLS} for " in done.stderr
    assert "the server does not take it up (" in done.stderr
    assert "certificate verify failed" in done.stderr
    assert "restart its pod" in done.stderr


def test_a_server_without_tls_yet_is_no_failure(namespace: namespaces.Namespace) -> None:
    """Its pod is about to be replaced when an installation is switched to TLS."""
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def reply() -> None:
            connection, _ = plain.accept()
            with connection:
                connection.sendall(b"-ERR Protocol error\r\n")
                connection.recv(65_536)

        server = threading.Thread(target=reply)
        server.start()
        done = namespace.bootstrap(f"--store-url=redis://127.0.0.1:{plain.getsockname()[1]}", "--store-tls")
        server.join()
    assert (done.returncode, done.stderr) == (0, "")
    assert "the server is not reached (127.0.0.1:" in done.stdout


def test_a_certificate_of_others_is_taken_up_too(bundled: Bundled) -> None:
    encoded = bundled.namespace.secrets()[TLS]["data"]
    bundled.namespace.delete(TLS)
    data = {key: base64.b64decode(value) for key, value in encoded.items()}
    bundled.namespace.put(TLS, data, type="kubernetes.io/tls")
    done = bundled.namespace.bootstrap(f"--store-url={bundled.server}", "--store-tls", "--no-certificates")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(TLS)]
    assert line.split(maxsplit=2)[1:] == ["kept", "not made here; the server shows it"]
