"""A source over HTTP, a bundle of it, and a terminal."""

import os
import pathlib
import secrets
from collections.abc import Iterator

import pytest

from app.store.server import embedded
from tests.support.extender import api_worlds, bundled, http_servers, terminals


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> terminals.Terminal:
    for name in [name for name in os.environ if name.startswith("TOPOLOG_")]:
        monkeypatch.delenv(name)
    return terminals.Terminal(monkeypatch, capsys)


@pytest.fixture(scope="module")
def world(store_server: embedded.Server) -> Iterator[api_worlds.World]:
    with api_worlds.processes(store_server, f"cli{secrets.token_hex(4)}") as start:
        made = bundled.lived(start())
        made.append(api_worlds.pod_seen("web-7"))
        yield made


@pytest.fixture(scope="module")
def url(world: api_worlds.World) -> Iterator[str]:
    with http_servers.serving_http(world.app) as found:
        yield found


@pytest.fixture(scope="module")
def incident(world: api_worlds.World, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    file = tmp_path_factory.mktemp("bundles") / "incident.tar"
    file.write_bytes(bundled.exported(world, "?around=shop/new-300"))
    return file
