"""Who may see what ``topolog view`` shows: its certificates over real TLS."""

import pathlib
import secrets
import ssl
from collections.abc import Iterator
from http import HTTPStatus

import pytest
import urllib3
from urllib3 import exceptions

from app.serving.tls import certificate_issuer
from app.store.server import embedded
from tests.support import extender_processes
from tests.support.extender import api_worlds

pytestmark = pytest.mark.scenario("UI-11")
PATHS = ("/dashboard/", "/dashboard/pending", "/apis/v1/map", "/apis/v1/watch", "/apis/v1/lag")


@pytest.fixture(scope="module")
def view(
    store_server: embedded.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, pathlib.Path]]:
    """Its URL and the folder of certificates."""
    folder = tmp_path_factory.mktemp("roles")
    tls = folder / "tls"
    certificate_issuer.issue(tls, ["127.0.0.1"])
    cluster = f"roles{secrets.token_hex(4)}"
    with api_worlds.processes(store_server, cluster) as start:
        api_worlds.filled(start())
        with extender_processes.viewing(store_server.url, cluster, tls, folder) as running:
            yield running.url, tls


def status(view: tuple[str, pathlib.Path], role: str, method: str, path: str) -> int:
    """The status of a reply; ``role``: the name of the certificate, empty for none."""
    url, tls = view
    context = ssl.create_default_context(cafile=str(tls / "ca.crt"))
    if role:
        context.load_cert_chain(tls / f"{role}.crt", tls / f"{role}.key")
    with urllib3.PoolManager(ssl_context=context, retries=False) as pool:
        reply = pool.request(
            method,
            url + path,
            body=b"" if method == "GET" else b"{}",
            headers={"Content-Type": "application/json"},
            timeout=30.0,
            preload_content=False,
        )
        found = reply.status
        reply.close()
    return found


@pytest.mark.parametrize("path", PATHS)
def test_viewers_and_operators_see_it_and_others_do_not(view: tuple[str, pathlib.Path], path: str) -> None:
    found = {role: status(view, role, "GET", path) for role in ("viewer", "operator", "scheduler")}
    assert found == {
        "viewer": HTTPStatus.OK,
        "operator": HTTPStatus.OK,
        "scheduler": HTTPStatus.FORBIDDEN,
    }
    with pytest.raises(exceptions.HTTPError):
        status(view, "", "GET", path)


@pytest.mark.parametrize(("method", "path"), [("POST", "/filter"), ("PUT", "/apis/v1/shadows/one")])
def test_nothing_is_decided_or_changed_there(view: tuple[str, pathlib.Path], method: str, path: str) -> None:
    found = {role: status(view, role, method, path) for role in ("viewer", "operator", "scheduler")}
    assert all(code in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND) for code in found.values()), found
