"""New certificates are taken up while calls go on, and bad ones are not taken up."""

import dataclasses
import os
import pathlib
import shutil
import ssl
import threading
from collections.abc import Callable

import pytest

from app.serving import contexts, errors, issuing, keystores
from tests.serving import echoing, servers
from tests.serving.conftest import Starts


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rotating(certificates: pathlib.Path, clock: Clock) -> contexts.Rotating:
    return contexts.Rotating(servers.pem_source(certificates, "server"), clock=clock)


def renew(directory: pathlib.Path) -> int:
    """Issue again under the same authority; return the new server's serial number."""
    hosts, replace = ["localhost", "127.0.0.1"], issuing.Replace.SIGNED
    issuing.issue(directory, hosts, password="a good one", replace=replace)
    return keystores.read(servers.pem_source(directory, "server")).chain[0].serial_number


def test_one_context_serves_until_the_files_change(
    rotating: contexts.Rotating, certificates: pathlib.Path, clock: Clock
) -> None:
    first = rotating.current()
    clock.now += 10
    assert rotating.current() is first
    serial = renew(certificates)
    assert rotating.current() is first, "the files are looked at once a second, not for each connection"
    clock.now += contexts.LOOK_SECONDS
    assert rotating.current() is not first
    assert rotating.material.chain[0].serial_number == serial
    assert (rotating.renewals, rotating.failure) == (1, None)


def test_half_a_pair_is_not_taken_up(
    rotating: contexts.Rotating, certificates: pathlib.Path, clock: Clock
) -> None:
    first = rotating.current()
    old_key = (certificates / "server.key").read_bytes()
    renew(certificates)
    new_key = (certificates / "server.key").read_bytes()
    (certificates / "server.key").write_bytes(old_key)
    clock.now += 1
    assert rotating.current() is first
    assert rotating.failure is not None
    assert "does not belong" in rotating.failure
    (certificates / "server.key").write_bytes(new_key)
    clock.now += 1
    assert rotating.current() is not first
    assert rotating.failure is None


@pytest.mark.parametrize(
    "damage", [b"", b"-----BEGIN CERTIFICATE-----\nMII", None], ids=["empty", "cut", "gone"]
)
def test_the_last_good_pair_outlives_damage(
    rotating: contexts.Rotating, certificates: pathlib.Path, clock: Clock, damage: bytes | None
) -> None:
    first, path = rotating.current(), certificates / "server.crt"
    good = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage)
    clock.now += 1
    assert rotating.current() is first
    assert rotating.failure
    path.write_bytes(good)
    clock.now += 1
    rotating.current()
    assert rotating.failure is None


def test_an_error_of_the_machine_while_files_are_read_delays_their_renewal_only(
    rotating: contexts.Rotating,
    certificates: pathlib.Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = rotating.current()
    serial = renew(certificates)
    with monkeypatch.context() as patched:

        def exhausted(*_: object) -> ssl.SSLContext:
            raise OSError(24, "Too many open files")

        patched.setattr(contexts, "build", exhausted)
        clock.now += contexts.LOOK_SECONDS
        assert rotating.current() is first
    assert "Too many open files" in (rotating.failure or "")
    clock.now += contexts.LOOK_SECONDS
    assert rotating.current() is not first
    assert rotating.material.chain[0].serial_number == serial
    assert rotating.failure is None


def test_a_mounted_secret_is_swapped_by_one_link(
    certificates: pathlib.Path, tmp_path: pathlib.Path, clock: Clock
) -> None:
    # As the kubelet does it: files are links through ..data, which is a link to a directory.
    mount = tmp_path / "mount"
    shutil.copytree(certificates, mount / "..1")
    (mount / "..data").symlink_to("..1")
    for name in ("server.crt", "server.key", "ca.crt"):
        (mount / name).symlink_to(f"..data/{name}")
    rotating = contexts.Rotating(servers.pem_source(mount, "server"), clock=clock)
    first = rotating.current()
    shutil.copytree(certificates, mount / "..2")
    serial = renew(mount / "..2")
    (mount / "..new").symlink_to("..2")
    (mount / "..new").rename(mount / "..data")
    clock.now += 1
    assert rotating.current() is not first
    assert rotating.material.chain[0].serial_number == serial


def test_bad_files_at_the_start_are_refused(certificates: pathlib.Path) -> None:
    (certificates / "server.key").unlink()
    with pytest.raises(errors.BadMaterial, match="does not exist"):
        contexts.Rotating(servers.pem_source(certificates, "server"))


def served_serial(server: servers.Server) -> str:
    with server.connect("viewer") as connection:
        return str((connection.getpeercert() or {})["serialNumber"])


class Caller(threading.Thread):
    """Calls without pause, half of the time on a new connection."""

    def __init__(self, server: servers.Server) -> None:
        super().__init__()
        self.server = server
        self.calls = 0
        self.failures: list[str] = []
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            try:
                with self.server.client() as client:
                    for _ in range(2):
                        status, _ = client.ask("POST", "/filter", b"{}")
                        assert status == 200
                        self.calls += 1
            except Exception as error:
                self.failures.append(repr(error))


def renew_in_two_steps(server: servers.Server, directory: pathlib.Path, callers: list[Caller]) -> None:
    """Renew the pair, but let the new certificate lie beside the old key for a while."""

    def complaints() -> int:
        return sum("does not belong" in line and "the old ones stay" in line for line in server.process.lines)

    def calls() -> int:
        return sum(each.calls for each in callers)

    old_key = (directory / "server.key").read_bytes()
    serial = renew(directory)
    new_key = (directory / "server.key").read_bytes()
    (directory / "server.key").write_bytes(old_key)
    complained = complaints()
    servers.eventually(lambda: complaints() > complained, "the half-written pair is seen")
    called = calls()
    servers.eventually(lambda: calls() > called + 50, "calls go on beside it")
    (directory / "server.key").write_bytes(new_key)
    servers.eventually(lambda: int(served_serial(server), 16) == serial, "the new one is served")


@pytest.mark.scenario("RL-9")
def test_certificates_change_under_load_without_a_lost_call(
    start: Starts, certificates: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    server = start()
    # The clients' certificates lie elsewhere: theirs are not what changes here.
    clients = shutil.copytree(certificates, tmp_path / "clients")
    callers = [Caller(dataclasses.replace(server, certificates=clients)) for _ in range(2)]
    for caller in callers:
        caller.start()
    try:
        with server.client("viewer") as kept:
            assert kept.ask("GET", "/apis/v1/nodes")[0] == 200
            for _ in range(2):
                renew_in_two_steps(server, certificates, callers)
            assert kept.ask("GET", "/apis/v1/nodes")[0] == 200
    finally:
        for caller in callers:
            caller.enough.set()
            caller.join()
    assert [caller.failures for caller in callers] == [[], []]
    renewals = sum("TLS files renewed" in line for line in server.process.lines)
    assert renewals >= 2


@pytest.mark.scenario("RL-9")
def test_a_new_client_authority_is_trusted_without_restart(
    start: Starts, certificates: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    server = start()
    other = tmp_path / "other"
    issuing.issue(other, ["localhost"])
    newcomer = server.context(None)
    newcomer.load_cert_chain(other / "viewer.crt", other / "viewer.key")

    def admitted() -> bool:
        try:
            with newcomer.wrap_socket(server.raw(), server_hostname="localhost") as connection:
                connection.sendall(b"GET /apis/v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n")
                return connection.recv(12) == b"HTTP/1.1 200"
        except OSError:
            return False

    assert not admitted()
    bundle = tmp_path / "bundle.crt"
    bundle.write_bytes((certificates / "ca.crt").read_bytes() + (other / "ca.crt").read_bytes())
    os.replace(bundle, certificates / "ca.crt")
    servers.eventually(admitted, "clients of the new authority are let in")
    with server.client("viewer") as client:
        assert client.ask("GET", "/apis/v1/nodes")[0] == 200


@pytest.mark.scenario("RL-8")
@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ({"certificate": "/nowhere/server.p12"}, "/nowhere/server.p12 does not exist"),
        ({"password": "a bad one"}, "does not open with the password of TLS_KEYSTORE_PASSWORD"),
        ({"trust": "/nowhere/ca.p12"}, "/nowhere/ca.p12 does not exist"),
    ],
    ids=["missing keystore", "wrong password", "missing trust store"],
)
def test_without_good_stores_nothing_is_served(
    certificates: pathlib.Path,
    launch: Callable[[echoing.Plan], servers.Process],
    mistake: dict[str, str],
    told: str,
) -> None:
    stores: dict[str, object] = {"certificate": str(certificates / "server.p12"), "key": None}
    stores |= {"trust": str(certificates / "ca.p12")}
    stores |= {"password": "a good one", "trust_password": "a good one"}
    process = launch(servers.plan_for(certificates, **{**stores, **mistake}))
    assert process.wait() == 1
    assert len(process.lines) == 1
    assert told in process.lines[0]
