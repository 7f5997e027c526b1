"""The place of the archive: a directory, or a URL that cannot hold a secret."""

import pytest

from app import settings
from app.settings import archive_urls

CANARY = "cAn4ry"
WRONG = {
    "s3://key:cAn4ry@bucket/prefix": "must not contain credentials or options",
    "s3://bucket/prefix?secret=cAn4ry": "must not contain credentials or options",
    "s3://bucket/prefix#cAn4ry": "must not contain credentials or options",
    "az://container/%63An4ry?sig=cAn4ry": "must not contain credentials or options",
    "s3://": "cannot be understood",
    "s3:///cAn4ry": "cannot be understood",
    "s3://bucket//cAn4ry": "cannot be understood",
    "s3://bucket/../cAn4ry": "cannot be understood",
    "s3://bucket/cAn4ry\n": "cannot be understood",
    "file://host/cAn4ry": "cannot be understood",
    "https://bucket.example/cAn4ry": "it must be a directory, file:///PATH, s3://BUCKET/PREFIX",
}
OBJECTS = (
    "s3://bucket",
    "s3://bucket/",
    "s3://bucket/a/b.c/d-e_f=1",
    "gs://bucket/prefix",
    "az://container/prefix/",
)


@pytest.mark.parametrize("value", WRONG)
def test_a_wrong_place_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(settings.SettingsRefused) as caught:
        settings.load(None, {"TOPOLOG_COMPACTION_ARCHIVE": value})
    assert WRONG[value] in str(caught.value)
    assert "TOPOLOG_COMPACTION_ARCHIVE" in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("value", [*OBJECTS, "/var/lib/topolog", "relative/x", "file:///var/lib/topolog"])
def test_a_right_place_is_accepted(value: str) -> None:
    assert settings.load(None, {"TOPOLOG_COMPACTION_ARCHIVE": value}).compaction.archive == value


def test_a_directory_differs_from_an_object_store() -> None:
    assert archive_urls.directory("file:///var/lib") == "/var/lib"
    assert archive_urls.directory("/a@b?c#d%e") == "/a@b?c#d%e"
    assert [archive_urls.directory(url) for url in OBJECTS] == [""] * len(OBJECTS)
