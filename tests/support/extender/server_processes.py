"""A server process of these tests, and its clients."""

import collections
import contextlib
import dataclasses
import datetime
import http.client
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import oid

from app.serving.tls import certificate_issuer, keystores, role_names
from tests.support.extender import echo_application

PATIENCE = 30.0
ROOT = pathlib.Path(__file__).parents[3]


class Process:
    """A server process, and its log lines as they arrive."""

    def __init__(self, plan: echo_application.Plan, directory: pathlib.Path) -> None:
        path = directory / "plan.json"
        path.write_text(json.dumps(dataclasses.asdict(plan)))
        self.lines: collections.deque[str] = collections.deque(maxlen=10_000)
        self._news = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.extender.echo_application", str(path)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            with self._news:
                self.lines.append(line.rstrip())
                self._news.notify_all()
        stream.close()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the first log line that matches, waiting for it."""

        def found() -> re.Match[str] | None:
            return next((match for line in self.lines if (match := re.search(pattern, line))), None)

        with self._news:
            self._news.wait_for(lambda: found() or self._ended, timeout=PATIENCE)
            match = found()
            assert match, f"no line matches {pattern!r}:\n" + "\n".join(self.lines)
            return match

    def port(self) -> int:
        return int(self.wait_for(r"Listening at: https?://127\.0\.0\.1:(\d+)")[1])

    def health_port(self) -> int:
        return int(self.wait_for(r'"address":\["127\.0\.0\.1",(\d+)\]')[1])

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Return the exit code, once the process has ended by itself."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def stop(self) -> int:
        """Stop the process; return its exit code."""
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self.wait()


@dataclasses.dataclass(frozen=True)
class Server:
    """A running server and the directory that its certificates are in."""

    process: Process
    certificates: pathlib.Path
    port: int

    def context(self, name: str | None) -> ssl.SSLContext:
        """Return a client's context with the certificate of that name, or without any."""
        return client_context(self.certificates, name)

    def connect(self, name: str | None = "scheduler") -> ssl.SSLSocket:
        return self.context(name).wrap_socket(
            socket.create_connection(("127.0.0.1", self.port), PATIENCE), server_hostname="localhost"
        )

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    @contextlib.contextmanager
    def client(
        self, name: str | None = "scheduler", *, context: ssl.SSLContext | None = None
    ) -> Iterator["Client"]:
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=PATIENCE, context=context or self.context(name)
        )
        with contextlib.closing(connection):
            yield Client(connection)


class Client:
    """A keep-alive client."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        content = {"Content-Type": "application/json"} if body is not None else {}
        self.connection.request(method, path, body, {**content, **(headers or {})})
        response = self.connection.getresponse()
        data = response.read()
        return response.status, json.loads(data) if data.startswith(b"{") else data


def client_context(directory: pathlib.Path, name: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    if name is not None:
        context.load_cert_chain(directory / f"{name}.crt", directory / f"{name}.key")
    return context


def plan_for(directory: pathlib.Path, **others: object) -> echo_application.Plan:
    """Return a plan with the PEM files that `certificate_issuer.issue` writes."""
    files: dict[str, Any] = {"certificate": str(directory / "server.crt")}
    files |= {"key": str(directory / "server.key"), "trust": str(directory / "ca.crt")}
    return echo_application.Plan(**{**files, **others})


def pem_source(directory: pathlib.Path, name: str) -> keystores.Source:
    """Return the paths of the certificate of that name, for a server."""
    return keystores.Source(directory / f"{name}.crt", directory / "ca.crt", directory / f"{name}.key")


def sign(
    directory: pathlib.Path,
    name: str,
    *,
    uris: tuple[str, ...] = (),
    dns: tuple[str, ...] = (),
    common_name: str = "client",
    start: datetime.timedelta = datetime.timedelta(hours=-1),
    end: datetime.timedelta = datetime.timedelta(hours=1),
    usage: x509.ObjectIdentifier = oid.ExtendedKeyUsageOID.CLIENT_AUTH,
) -> x509.Certificate:
    """Write a certificate of the directory's CA that differs from those of `certificate_issuer.issue`."""
    authority = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
    signer = certificate_issuer.load_key((directory / "ca.key").read_bytes())
    key = certificate_issuer.new_key()
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + start)
        .not_valid_after(now + end)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(each) for each in uris]
    names += [x509.DNSName(each) for each in dns]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(signer, certificate_issuer.HASH)
    (directory / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / f"{name}.key").write_bytes(certificate_issuer.Pair(certificate, key).key_pem())
    return certificate


def revoke(directory: pathlib.Path, *certificates: x509.Certificate, days: int = 1) -> pathlib.Path:
    """Write a revocation list of the directory's CA; with negative days, one that is overdue."""
    authority = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
    now = datetime.datetime.now(datetime.UTC)
    due = now + datetime.timedelta(days=days)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    builder = builder.last_update(min(now, due) - datetime.timedelta(days=1)).next_update(due)
    for each in certificates:
        entry = (
            x509.RevokedCertificateBuilder().serial_number(each.serial_number).revocation_date(now).build()
        )
        builder = builder.add_revoked_certificate(entry)
    signed = builder.sign(
        certificate_issuer.load_key((directory / "ca.key").read_bytes()), certificate_issuer.HASH
    )
    path = directory / "revoked.crl"
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return path


def eventually(check: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, f"not in {PATIENCE} s: {what}"
        time.sleep(0.02)


def scheduler_uri() -> str:
    return role_names.uri(role_names.SCHEDULER)


class Starts(Protocol):
    """Starts a server process with these changes to its plan."""

    def __call__(self, **plan: object) -> Server: ...
