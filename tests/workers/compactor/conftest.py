"""The places that an archive may have."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support.store import object_server


@pytest.fixture(params=["directory", "bucket"])
def archive(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The place of an archive."""
    if request.param == "directory":
        yield str(tmp_path)
        return
    with object_server.serving() as server:
        for name, value in object_server.environment(server).items():
            monkeypatch.setenv(name, value)
        yield "s3://bucket/prefix"
