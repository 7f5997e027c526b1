"""The storages of archives: a directory, and an object store of each kind that can run here."""

import pathlib
from collections.abc import Iterator

import obstore.store
import pytest

from app.store.checkpoints import archive_storage, object_storage
from tests.support.store import object_server


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[object_server.Server]:
    """An S3 server, which the environment names."""
    with object_server.serving() as server:
        for name, value in object_server.environment(server).items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(params=["folder", "file", "s3", "local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> archive_storage.Storage:
    """One of each kind, empty."""
    if request.param == "s3":
        request.getfixturevalue("objects")
        return archive_storage.opened("s3://bucket/some/prefix/", "berlin")
    if request.param == "local":
        return object_storage.Objects(obstore.store.LocalStore(tmp_path), "berlin", "local")
    if request.param == "memory":
        return object_storage.Objects(obstore.store.MemoryStore(), "berlin", "memory")
    place = f"file://{tmp_path}" if request.param == "file" else str(tmp_path)
    return archive_storage.opened(place, "berlin")
