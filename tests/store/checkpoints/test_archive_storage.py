"""What an archive needs of its storage: the same for a directory and for an object store."""

import datetime
import os
import pathlib
import sys
import threading
from collections.abc import Iterator

import pytest

from app.store import errors
from app.store.checkpoints import archive_storage, object_storage
from tests.support.store import object_server

BIG = bytes(range(256)) * 4096 * 11
"""11 MB: written in parts."""


def test_what_is_written_is_read_and_listed(storage: archive_storage.Storage) -> None:
    assert list(storage.names()) == []
    names = [f"segment.i.{number:016d}-{number:016d}.jsonl.gz" for number in range(1, 8)]
    for name in names:
        storage.write(name, (b"head", name.encode()))
    assert sorted(storage.names()) == names
    assert storage.read(names[0]) == b"head" + names[0].encode()
    assert storage.read(names[0], first=4) == b"head"
    assert storage.read(names[0], first=65536) == storage.read(names[0])
    assert storage.size(names[0]) == 4 + len(names[0])


def test_a_write_may_be_repeated(storage: archive_storage.Storage) -> None:
    storage.write("one", (b"damaged",))
    storage.write("one", (b"as it ", b"should be"))
    assert list(storage.names()) == ["one"]
    assert storage.read("one") == b"as it should be"


def test_a_write_during_another_one_of_the_name_leaves_a_whole_file(storage: archive_storage.Storage) -> None:
    """Two compactors in pods of their own are both process 1."""

    def members() -> Iterator[bytes]:
        yield BIG
        storage.write("one", (b"one ", b"other"))
        assert storage.read("one") in (b"one other", BIG + b"end")
        yield b"end"

    storage.write("one", members())
    assert list(storage.names()) == ["one"]
    assert storage.read("one") in (b"one other", BIG + b"end")


def test_what_a_killed_process_left_unfinished_is_removed(tmp_path: pathlib.Path) -> None:
    storage = archive_storage.Folder(tmp_path)
    old, underway = tmp_path / f".one.{16 * '0'}", tmp_path / f".two.{16 * 'a'}"
    for path in (old, underway):
        path.write_text("unfinished")
    os.utime(old, (1.0, 1.0))
    storage.write("three", (b"whole",))
    assert sorted(path.name for path in tmp_path.iterdir()) == [underway.name, "three"]


def test_a_file_of_many_parts_is_whole(storage: archive_storage.Storage) -> None:
    storage.write("big", (BIG[:7], BIG[7:]))
    assert storage.read("big") == BIG
    assert list(storage.names()) == ["big"]


def test_a_file_that_is_not_there_is_reported(storage: archive_storage.Storage) -> None:
    for call in (storage.read, storage.size):
        with pytest.raises(FileNotFoundError):
            call("none")
    with pytest.raises(FileNotFoundError):
        storage.read("none", first=10)


def test_a_file_can_be_removed_twice(storage: archive_storage.Storage) -> None:
    storage.write("one", (b"x",))
    storage.write("two", (b"y",))
    storage.remove("one")
    storage.remove("one")
    assert list(storage.names()) == ["two"]


def interrupted() -> Iterator[bytes]:
    yield BIG
    raise OSError("the source ends")


def test_a_write_that_is_interrupted_leaves_nothing(storage: archive_storage.Storage) -> None:
    with pytest.raises(OSError, match="the source ends"):
        storage.write("one", interrupted())
    assert list(storage.names()) == []
    storage.write("one", (b"whole",))
    with pytest.raises(OSError, match="the source ends"):
        storage.write("one", interrupted())
    assert storage.read("one") == b"whole"


def test_writers_of_one_name_do_no_harm(storage: archive_storage.Storage) -> None:
    content = [b"%d" % number * 300_000 for number in range(4)]
    threads = [threading.Thread(target=storage.write, args=(f"n{one[:1]!r}", (one,))) for one in content]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(storage.read(name) for name in storage.names()) == content


# -- object stores -------------------------------------------------------------------------


@pytest.fixture
def one_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "_RETRIES", 1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, one_retry: None) -> None:
    monkeypatch.setattr(object_storage, "_REQUEST", datetime.timedelta(milliseconds=200))


def opened() -> archive_storage.Storage:
    return archive_storage.opened("s3://bucket/prefix", "berlin")


def calls(storage: archive_storage.Storage) -> Iterator[OSError]:
    """The error of each operation."""
    for call in (
        lambda: list(storage.names()),
        lambda: storage.read("one"),
        lambda: storage.read("one", first=9),
        lambda: storage.size("one"),
        lambda: storage.write("one", (b"x",)),
        lambda: storage.write("one", (BIG,)),
        lambda: storage.remove("one"),
    ):
        with pytest.raises(OSError, match=r"^s3://") as caught:
            call()
        yield caught.value


@pytest.mark.usefixtures("one_retry")
@pytest.mark.parametrize("status", [400, 403, 500, 503])
def test_an_object_store_that_refuses_is_an_error_with_its_status(
    objects: object_server.Server, status: int
) -> None:
    objects.failing = dict.fromkeys(("GET", "HEAD", "PUT", "POST", "DELETE"), status)
    for problem in calls(opened()):
        assert str(status) in str(problem), problem
        assert str(problem).startswith("s3://bucket/prefix/berlin: "), problem
        assert "cAn4ry" not in str(problem)
        assert problem.__cause__ is None
        assert problem.__suppress_context__
    assert objects.objects == {}


@pytest.mark.usefixtures("impatient")
def test_an_object_store_that_never_replies_is_an_error(objects: object_server.Server) -> None:
    storage = opened()
    objects.silent.set()
    assert {str(problem) for problem in calls(storage)} == {
        "s3://bucket/prefix/berlin: no connection, or no reply in time"
    }


@pytest.mark.usefixtures("impatient")
def test_an_object_store_that_is_away_is_an_error(
    objects: object_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert {str(problem) for problem in calls(opened())} == {
        "s3://bucket/prefix/berlin: no connection, or no reply in time"
    }


@pytest.mark.usefixtures("one_retry")
def test_an_upload_of_parts_that_fails_leaves_no_object(objects: object_server.Server) -> None:
    objects.failing = {"PUT": 403}
    with pytest.raises(OSError, match="403"):
        opened().write("big", (BIG,))
    assert objects.objects == {}
    assert objects.uploads == {}, "the parts are removed"


def test_a_failure_that_passes_is_repeated(objects: object_server.Server) -> None:
    storage = opened()
    objects.failing = {"PUT": 503}
    writing = threading.Thread(target=storage.write, args=("one", (b"x",)))
    writing.start()
    while writing.is_alive() and not objects.calls:
        writing.join(0.001)
    objects.failing = {}
    writing.join()
    assert storage.read("one") == b"x"
    assert objects.calls.count("PUT") >= 2


@pytest.mark.parametrize("url", ["s3://b/p", "gs://b/p", "az://b/p"])
def test_without_the_extra_the_error_names_what_to_install(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "app.store.checkpoints.object_storage")
    monkeypatch.delattr("app.store.checkpoints.object_storage")
    monkeypatch.setattr(sys, "meta_path", [_Missing, *sys.meta_path])
    with pytest.raises(errors.StoreError, match=r"install topolog\[archive\]$") as caught:
        archive_storage.opened(url, "berlin")
    assert "\n" not in str(caught.value)


class _Missing:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "obstore":
            raise ModuleNotFoundError(f"No module named {name!r}", name="obstore")


def test_names_arrive_while_an_object_store_is_listed(
    objects: object_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "_PAGE", 3)
    storage = opened()
    for number in range(30):
        storage.write(f"{number:02}", (b"x",))
    names = iter(storage.names())
    assert next(names) == "00"
    objects.failing = {"GET": 403}
    with pytest.raises(OSError, match="403"):
        list(names)


def test_an_account_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(errors.StoreError, match="AZURE_STORAGE_ACCOUNT_NAME is not set"):
        archive_storage.opened("az://container/prefix", "berlin")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert str(archive_storage.opened("az://container/prefix/", "berlin")) == "az://container/prefix/berlin"


def test_a_temporary_file_is_not_listed(tmp_path: pathlib.Path) -> None:
    folder = archive_storage.Folder(tmp_path)
    folder.write("one", (b"x",))
    (tmp_path / ".two.4711").write_bytes(b"y")
    assert list(folder.names()) == ["one"]


def test_the_first_write_flushes_the_directories_that_it_creates(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that its own parent does not have yet is lost with all files if the machine loses power."""
    flushed = list[pathlib.Path]()
    fsync = os.fsync

    def recorded(number: int) -> None:
        flushed.append(pathlib.Path(f"/proc/self/fd/{number}").readlink())
        fsync(number)

    monkeypatch.setattr(os, "fsync", recorded)
    storage = archive_storage.Folder(tmp_path / "archive" / "default")
    storage.write("a", [b"1"])
    assert {tmp_path, tmp_path / "archive", tmp_path / "archive" / "default"} <= set(flushed)
    flushed.clear()
    storage.write("b", [b"2"])
    assert tmp_path / "archive" not in flushed
