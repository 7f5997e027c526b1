"""Changed certificates are loaded while calls continue; invalid ones are ignored."""

import dataclasses
import os
import pathlib
import re
import shutil
import ssl
import urllib.request
from collections.abc import Callable

import pytest
from cryptography import x509
from prometheus_client import registry

from app.serving import errors
from app.serving.http import conn_metrics
from app.serving.tls import certificate_issuer, keystores, rotation
from tests.support.extender import echo_application, server_processes, steady_callers

EXPIRY = "topolog_certificate_expiry_timestamp_seconds"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rotating(certificates: pathlib.Path, clock: Clock) -> rotation.RotatingContext:
    return rotation.RotatingContext(server_processes.pem_source(certificates, "server"), clock=clock)


def renew(directory: pathlib.Path) -> int:
    """Issue new certificates under the same CA; return the new server's serial number."""
    hosts, replace = ["localhost", "127.0.0.1"], certificate_issuer.Replace.SIGNED
    certificate_issuer.issue(directory, hosts, password="a good one", replace=replace)
    return keystores.read(server_processes.pem_source(directory, "server")).chain[0].serial_number


def test_one_context_serves_until_the_files_change(
    rotating: rotation.RotatingContext, certificates: pathlib.Path, clock: Clock
) -> None:
    first = rotating.current()
    clock.now += 10
    assert rotating.current() is first
    serial = renew(certificates)
    assert rotating.current() is first, "the files are checked once per second, not per connection"
    clock.now += rotation.POLL_SECONDS
    assert rotating.current() is not first
    assert rotating.material.chain[0].serial_number == serial
    assert (rotating.renewals, rotating.failure) == (1, None)


def test_a_scrape_checks_the_files_although_no_client_connects(
    rotating: rotation.RotatingContext, certificates: pathlib.Path, clock: Clock
) -> None:
    shown = registry.CollectorRegistry()
    shown.register(conn_metrics.ConnectionMetrics(rotating))
    name = EXPIRY
    before = shown.get_sample_value(name, {"file": "server"})
    assert before == rotating.material.expires.timestamp()
    whole = (certificates / "server.crt").read_text()
    (certificates / "server.crt").write_text("damaged")
    clock.now += rotation.POLL_SECONDS
    assert shown.get_sample_value("topolog_certificate_files_bad") == 1
    assert shown.get_sample_value(name, {"file": "server"}) == before
    (certificates / "server.crt").write_text(whole)
    renew(certificates)
    clock.now += rotation.POLL_SECONDS
    assert shown.get_sample_value("topolog_certificate_files_bad") == 0
    assert shown.get_sample_value(name, {"file": "server"}) == rotating.material.expires.timestamp()


def test_the_certificate_that_kube_scheduler_shows_is_measured(
    start: server_processes.Starts, certificates: pathlib.Path
) -> None:
    """Its file may be a copy on a node, which nothing renews."""
    server = start()

    def measured() -> list[float]:
        url = f"http://127.0.0.1:{server.process.health_port()}/metrics"
        with urllib.request.urlopen(url) as reply:
            found = re.findall(rf'{EXPIRY}\{{file="scheduler"\}} (\S+)', reply.read().decode())
        return [float(one) for one in found]

    def end() -> float:
        held = x509.load_pem_x509_certificate((certificates / "scheduler.crt").read_bytes())
        return held.not_valid_after_utc.timestamp()

    with server.client("viewer") as client:
        client.ask("GET", "/apis/v1/nodes")
    assert measured() == []
    ends = []
    for days in (365, 100):
        certificate_issuer.issue(
            certificates, ["localhost"], days=days, replace=certificate_issuer.Replace.SIGNED
        )
        with server.client("scheduler") as client:
            client.ask("POST", "/filter", b"{}")
        ends.append(end())
        assert measured() == [end()]
    assert ends[0] - ends[1] > 200 * 86_400


def test_a_certificate_that_no_kube_scheduler_shows_any_more_is_forgotten(
    rotating: rotation.RotatingContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, meter = registry.CollectorRegistry(), conn_metrics.ConnectionMetrics(rotating)
    shown.register(meter)
    later = 2.0**40
    meter.shown_by_scheduler(("10.0.0.1", 1), later + 9.0)
    meter.shown_by_scheduler(("10.0.0.2", 1), later + 7.0)
    assert shown.get_sample_value(EXPIRY, {"file": "scheduler"}) == later + 7.0
    meter.shown_by_scheduler(("10.0.0.2", 2), later + 8.0)
    assert shown.get_sample_value(EXPIRY, {"file": "scheduler"}) == later + 8.0
    monkeypatch.setattr(conn_metrics, "SEEN_SECONDS", 0.0)
    assert shown.get_sample_value(EXPIRY, {"file": "scheduler"}) is None


def test_a_certificate_that_has_expired_is_kept_until_its_kube_scheduler_shows_a_later_one(
    rotating: rotation.RotatingContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused from then on, and would be forgotten a day later."""
    shown, meter = registry.CollectorRegistry(), conn_metrics.ConnectionMetrics(rotating)
    shown.register(meter)
    monkeypatch.setattr(conn_metrics, "SEEN_SECONDS", 0.0)
    for address in ("10.0.0.1", "10.0.0.2"):
        meter.shown_by_scheduler((address, 1), 1_000.0)
    meter.shown_by_scheduler(("10.0.0.1", 2), 2.0**40)
    assert shown.get_sample_value(EXPIRY, {"file": "scheduler"}) == 1_000.0
    monkeypatch.setattr(conn_metrics, "EXPIRED_SECONDS", 0.0)
    assert shown.get_sample_value(EXPIRY, {"file": "scheduler"}) is None


def test_an_inconsistent_pair_is_not_loaded(
    rotating: rotation.RotatingContext, certificates: pathlib.Path, clock: Clock
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
def test_the_last_valid_pair_stays_in_use(
    rotating: rotation.RotatingContext, certificates: pathlib.Path, clock: Clock, damage: bytes | None
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


def test_a_system_error_during_a_reload_only_delays_it(
    rotating: rotation.RotatingContext,
    certificates: pathlib.Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = rotating.current()
    serial = renew(certificates)
    with monkeypatch.context() as patched:

        def exhausted(*_: object) -> ssl.SSLContext:
            raise OSError(24, "Too many open files")

        patched.setattr(rotation, "build", exhausted)
        clock.now += rotation.POLL_SECONDS
        assert rotating.current() is first
    assert "Too many open files" in (rotating.failure or "")
    clock.now += rotation.POLL_SECONDS
    assert rotating.current() is not first
    assert rotating.material.chain[0].serial_number == serial
    assert rotating.failure is None


def test_a_mounted_secret_is_detected_through_its_link(
    certificates: pathlib.Path, tmp_path: pathlib.Path, clock: Clock
) -> None:
    # As in the kubelet: files are links through ..data, a link to a directory.
    mount = tmp_path / "mount"
    shutil.copytree(certificates, mount / "..1")
    (mount / "..data").symlink_to("..1")
    for name in ("server.crt", "server.key", "ca.crt"):
        (mount / name).symlink_to(f"..data/{name}")
    rotating = rotation.RotatingContext(server_processes.pem_source(mount, "server"), clock=clock)
    first = rotating.current()
    shutil.copytree(certificates, mount / "..2")
    serial = renew(mount / "..2")
    (mount / "..new").symlink_to("..2")
    (mount / "..new").rename(mount / "..data")
    clock.now += 1
    assert rotating.current() is not first
    assert rotating.material.chain[0].serial_number == serial


def test_invalid_initial_files_are_refused(certificates: pathlib.Path) -> None:
    (certificates / "server.key").unlink()
    with pytest.raises(errors.BadMaterial, match="does not exist"):
        rotation.RotatingContext(server_processes.pem_source(certificates, "server"))


def served_serial(server: server_processes.Server) -> str:
    with server.connect("viewer") as connection:
        return str((connection.getpeercert() or {})["serialNumber"])


def renew_in_two_steps(
    server: server_processes.Server, directory: pathlib.Path, callers: list[steady_callers.Caller]
) -> None:
    """Renew the pair, with the old key beside the new certificate for a while."""

    def complaints() -> int:
        return sum(
            "does not belong" in line and "keeping the current ones" in line for line in server.process.lines
        )

    def calls() -> int:
        return sum(each.calls for each in callers)

    old_key = (directory / "server.key").read_bytes()
    serial = renew(directory)
    new_key = (directory / "server.key").read_bytes()
    (directory / "server.key").write_bytes(old_key)
    complained = complaints()
    server_processes.eventually(lambda: complaints() > complained, "the inconsistent pair is reported")
    called = calls()
    server_processes.eventually(lambda: calls() > called + 50, "calls continue")
    (directory / "server.key").write_bytes(new_key)
    server_processes.eventually(
        lambda: int(served_serial(server), 16) == serial, "the new certificate is served"
    )


@pytest.mark.scenario("RL-9")
def test_certificates_change_under_load_without_a_lost_call(
    start: server_processes.Starts, certificates: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    server = start()
    # The clients' certificates are a copy, which does not change.
    clients = shutil.copytree(certificates, tmp_path / "clients")
    callers = [
        steady_callers.Caller(dataclasses.replace(server, certificates=clients), calls_each=2)
        for _ in range(2)
    ]
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
    renewals = sum("TLS files reloaded" in line for line in server.process.lines)
    assert renewals >= 2


@pytest.mark.scenario("RL-9")
def test_a_new_client_ca_is_trusted_without_restart(
    start: server_processes.Starts, certificates: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    server = start()
    other = tmp_path / "other"
    certificate_issuer.issue(other, ["localhost"])
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
    server_processes.eventually(admitted, "clients of the new CA are accepted")
    with server.client("viewer") as client:
        assert client.ask("GET", "/apis/v1/nodes")[0] == 200


@pytest.mark.scenario("RL-8")
@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"certificate": "/nowhere/server.p12"}, "/nowhere/server.p12 does not exist"),
        ({"password": "a bad one"}, "cannot be opened with the password of TLS_KEYSTORE_PASSWORD"),
        ({"trust": "/nowhere/ca.p12"}, "/nowhere/ca.p12 does not exist"),
    ],
    ids=["missing keystore", "wrong password", "missing trust store"],
)
def test_without_valid_stores_the_process_exits(
    certificates: pathlib.Path,
    launch: Callable[[echo_application.Plan], server_processes.Process],
    mistake: dict[str, str],
    message: str,
) -> None:
    stores: dict[str, object] = {"certificate": str(certificates / "server.p12"), "key": None}
    stores |= {"trust": str(certificates / "ca.p12")}
    stores |= {"password": "a good one", "trust_password": "a good one"}
    process = launch(server_processes.plan_for(certificates, **{**stores, **mistake}))
    assert process.wait() == 1
    assert len(process.lines) == 1
    assert message in process.lines[0]
