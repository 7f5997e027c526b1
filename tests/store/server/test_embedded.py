"""The embedded server: private, and its data survives a crash if it has a directory."""

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app import settings
from app.store import errors, schemas, stores
from app.store.server import connections, embedded
from migrations import runner
from tests.support import declared
from tests.support.store import crash_safe_server


def test_it_listens_on_a_private_socket_only(store_server: embedded.Server) -> None:
    path = Path(store_server.url.removeprefix("unix://"))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    client: Any = connections.connect(store_server.url)
    assert client.config_get("port") in ({"port": "0"}, {b"port": b"0"})
    client.close()


def test_what_the_server_has_written_survives_a_crash(tmp_path: Path) -> None:
    server = crash_safe_server.CrashSafeServer(tmp_path / "data", append_only=True)
    try:
        client: Any = connections.connect(server.url)
        client.set("key", "value")
        client.function_load(schemas.library())
        server.kill()
        with pytest.raises(errors.StoreAway), connections.translated():
            client.ping()
        server.start()
        assert client.get("key") == b"value"
        assert client.function_list(library=runner.library_name(schemas.library()))
        server.restart()
        assert client.get("key") == b"value"
        client.close()
    finally:
        server.stop()
    assert (tmp_path / "data").is_dir()


def test_a_directory_has_one_server_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_HANDOVER_SECONDS", 0.0)
    used = f"{tmp_path} is in use by another `topolog up`: give each cluster a store.embedded_dir of its own"
    server = embedded.Server(tmp_path, append_only=True)
    with pytest.raises(errors.NoServer, match=re.escape(used)):
        embedded.Server(tmp_path, append_only=True)
    server.restart()
    with pytest.raises(errors.NoServer, match=re.escape(used)):
        embedded.Server(tmp_path, append_only=True)
    connections.connect(server.url).set("key", "value")
    server.stop()
    server = embedded.Server(tmp_path, append_only=True)
    assert connections.connect(server.url).get("key") == b"value"
    server.stop()


def test_a_server_that_outlives_its_keeper_keeps_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = (
        "import os, pathlib, sys; from app.store.server import embedded;"
        "print(embedded.Server(pathlib.Path(sys.argv[1]), append_only=True).pid, flush=True); os._exit(0)"
    )
    left = subprocess.run([sys.executable, "-c", keeper, tmp_path], check=True, stdout=subprocess.PIPE)
    with monkeypatch.context() as patched:
        patched.setattr(embedded, "_HANDOVER_SECONDS", 0.0)
        with pytest.raises(errors.NoServer, match="is in use"):
            embedded.Server(tmp_path, append_only=True)
    os.kill(int(left.stdout), signal.SIGTERM)
    embedded.Server(tmp_path, append_only=True).stop()


def test_a_temporary_one_leaves_nothing() -> None:
    server = embedded.Server()
    directory = Path(server.url.removeprefix("unix://")).parent
    assert directory.is_dir()
    server.stop()
    assert not directory.exists()
    server.stop()


def test_one_that_cannot_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(embedded, "find_binary", lambda: "/bin/false")
    with pytest.raises(errors.NoServer, match="did not start"):
        embedded.Server()
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    server = embedded.Server(tmp_path)
    try:
        (tmp_path / "server.log").unlink()
        (tmp_path / "server.log").mkdir()
        with pytest.raises(errors.NoServer, match=re.escape(f"'{tmp_path / 'server.log'}'")):
            server.restart()
    finally:
        server.stop()


def test_a_long_folder_name_is_not_an_obstacle(tmp_path: Path) -> None:
    server = embedded.Server(tmp_path / ("long-" * 20))
    connections.connect(server.url).close()
    server.stop()


def test_a_long_temporary_directory_is_not_an_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long-" * 20)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    server = embedded.Server()
    assert connections.connect(server.url).ping()
    server.stop()
    assert not Path(server.url.removeprefix("unix://")).parent.exists()
    assert list(long.iterdir()) == []


def test_a_server_that_cannot_start_shows_its_output(tmp_path: Path) -> None:
    # A damaged append-only file: the server refuses to load it.
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(errors.NoServer, match="did not start"):
        embedded.Server(tmp_path, append_only=True)


def test_data_of_a_later_server_is_named_and_no_repair_is_suggested(tmp_path: Path) -> None:
    server = embedded.Server(tmp_path, append_only=True)
    connections.connect(server.url).set("k", "v")
    server.kill()
    (base,) = (tmp_path / "appendonlydir").glob("*.base.rdb")
    content = base.read_bytes()
    later = re.sub(rb"^([A-Z]+)\d+", lambda found: found[1] + b"9" * (9 - len(found[1])), content)
    later = re.sub(rb"(-ver.)\d", rb"\g<1>9", later, count=1, flags=re.DOTALL)
    later = re.sub(rb"(-ver.9\.)\d", rb"\g<1>9", later, count=1, flags=re.DOTALL)
    assert later != content
    base.write_bytes(later)
    with pytest.raises(
        errors.NoServer, match=r"was written by \w+ 9\.9\.\d+, and .* Nothing is damaged"
    ) as caught:
        server.start()
    assert "--fix " not in str(caught.value).splitlines()[-1]
    base.write_bytes(content)
    server.start()
    assert connections.connect(server.url).get("k") == b"v"
    server.stop()


def test_a_missing_server_binary_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(errors.NoServer, match=r"topolog\[embedded\]"):
        embedded.find_binary()


@pytest.mark.parametrize("url", ["http://x", "localhost:6379", "redis:/x"])
def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(errors.StoreError, match="must be redis://"):
        connections.connect(url)


@pytest.mark.parametrize("cluster", ["", "a}b", "a{b", "a:b", "a b", "ä", "x" * 64, "-x"])
def test_a_cluster_name_that_would_break_keys_is_refused(cluster: str) -> None:
    with pytest.raises(errors.StoreError, match="cannot be part of a key"):
        declared.names(cluster)


def test_all_keys_of_a_cluster_share_one_hash_tag() -> None:
    names = declared.names("prod.eu-1")
    every = (names.log, names.meta, names.versions, names.counts, names.decisions, names.session("s"))
    assert all(key.startswith("topolog:{prod.eu-1}:") for key in every)
    assert len(set(every)) == len(every)


def test_a_store_without_a_url_is_refused() -> None:
    """Commands that start a server open the store by its URL."""
    with pytest.raises(errors.StoreError, match=r"^store\.url cannot be understood: it must be redis://"):
        stores.open_store(settings.Store(), schema=declared.SCHEMA, cluster="x")


def test_a_store_that_is_not_there_is_away(tmp_path: Path) -> None:
    with pytest.raises(errors.StoreAway):
        stores.open_store(
            settings.Store(url=f"unix://{tmp_path}/none.sock"),
            schema=declared.SCHEMA,
            cluster="x",
        )
