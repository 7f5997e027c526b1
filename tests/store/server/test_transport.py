"""A store over TLS that asks for a client certificate, and a user with a password behind it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from app import settings
from app.serving.tls import certificate_issuer
from app.store import errors, schemas, stores
from app.store.health import doctor
from app.store.log import batches
from app.store.server import connections, logins
from tests.support import child_processes, declared
from tests.support.store import servers, tls_terminator, writers

NAMES = declared.names("c")


class Secured(NamedTuple):
    """A server behind TLS."""

    port: int
    plain: int
    certificates: Path

    def url(self, *, user: str = "", directory: Path | None = None, client: str = "scheduler") -> str:
        """``client``: whose certificate is shown; empty: none."""
        held = directory or self.certificates
        shown = f"&ssl_certfile={held}/{client}.crt&ssl_keyfile={held}/{client}.key" if client else ""
        return f"rediss://{user}127.0.0.1:{self.port}?ssl_ca_certs={held}/ca.crt{shown}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The server's own TLS where one is installed that has it; else TLS of ours before it."""
    directory = tmp_path_factory.mktemp("secured")
    certificates = certificate_issuer.issue(directory / "tls", ["127.0.0.1"]).directory
    users = ["user default off", "user someone on >secret ~* &* +@all"]
    native = servers.tls_binary()
    if native:
        port = child_processes.free_port()
        lines = [f"tls-port {port}", "tls-auth-clients yes"]
        for name, file in (("cert", "server.crt"), ("key", "server.key"), ("ca-cert", "ca.crt")):
            lines.append(f"tls-{name}-file {certificates / file}")
        server = servers.Server(directory / "s", [*users, *lines, "appendonly yes"], binary=native)
        yield Secured(port, server.port, certificates)
    else:
        server = servers.Server(directory / "s", [*users, "appendonly yes"])
        before = tls_terminator.Terminator(server.port, certificates)
        yield Secured(before.port, server.port, certificates)
        before.close()
    server.kill()


def test_everything_works_over_tls(secured: Secured) -> None:
    options = settings.Store(url=secured.url(user="someone:secret@"))
    with schemas.connect(options, NAMES) as client:
        assert schemas.migrate(client, NAMES, declared.SCHEMA).ready
    store = stores.open_store(options, schema=declared.SCHEMA, cluster="c")
    store.start()
    appended = store.log.append(batches.Batch(events=[writers.seen("a")]))
    servers.eventually(lambda: store.follower.snapshot.offset == appended.last, "it is followed")
    store.close()
    found = {one.subject: one for one in doctor.examine(options, NAMES)}
    assert (found["transport"].grade, found["transport"].found) == ("good", "TLS")


def test_clients_without_a_certificate_are_refused(secured: Secured) -> None:
    for client in ("", "foreign"):
        directory = None
        if client:
            # A certificate of another authority, shown to a server whose own is known.
            directory = secured.certificates.parent / "strange"
            certificate_issuer.issue(directory, ["127.0.0.1"], replace=certificate_issuer.Replace.ALL)
            shutil.copy(secured.certificates / "ca.crt", directory / "ca.crt")
        url = secured.url(user="someone:secret@", client="viewer" if client else "", directory=directory)
        assert "secret" not in refused(url, errors.StoreAway)


def test_a_server_certificate_of_another_authority_is_refused(secured: Secured, tmp_path: Path) -> None:
    strange = certificate_issuer.issue(tmp_path / "tls", ["127.0.0.1"]).directory
    shutil.copy(secured.certificates / "viewer.crt", strange)
    shutil.copy(secured.certificates / "viewer.key", strange)
    error = refused(secured.url(directory=strange, client="viewer"), errors.StoreError)
    assert "certificate verify failed" in error


def test_a_certificate_that_was_replaced_is_shown_at_the_next_connecting(
    secured: Secured, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    shutil.copytree(secured.certificates, held)
    strange = certificate_issuer.issue(tmp_path / "strange", ["127.0.0.1"]).directory
    with connections.connect(secured.url(user="someone:secret@", directory=held)) as opened:
        assert opened.ping()
        for name in ("scheduler.crt", "scheduler.key"):
            shutil.copy(strange / name, held / name)
        assert opened.ping()
        opened.connection_pool.disconnect()
        with pytest.raises(errors.StoreAway), connections.translated():
            opened.ping()
        for name in ("scheduler.crt", "scheduler.key"):
            shutil.copy(secured.certificates / name, held / name)
        assert opened.ping()


def test_a_wrong_password_is_refused_behind_tls_too(secured: Secured) -> None:
    assert "credentials" in refused(secured.url(user="someone:wrong@"), errors.StoreError)


def refused(url: str, kind: type[errors.StoreError]) -> str:
    """The error of a client that connects."""
    with connections.connect(url) as opened, pytest.raises(kind) as caught, connections.translated():
        opened.ping()
    return str(caught.value)


def test_a_login_that_is_given_no_ca_trusts_those_of_the_machine(secured: Secured) -> None:
    with pytest.raises(errors.StoreAway, match="certificate verify failed"):
        logins.try_login(secured.url(user="someone:secret@"))
