"""``topolog archive`` without a store."""

import json
import os
import pathlib
import subprocess
from unittest import mock

import pytest

from app import exit_codes
from app.store import stores
from app.store.checkpoints import archive_storage, archives
from tests.support import commands
from tests.support.store import object_server, writers


@pytest.fixture
def folder(store: stores.Store, tmp_path: pathlib.Path) -> pathlib.Path:
    """An archive of the cluster ``berlin`` with two segments of five."""
    for number in range(10):
        writers.facts(store.log, store.follower.catch_up(), [writers.seen(f"u{number}")])
    archive = archives.Archive(archive_storage.Folder(tmp_path / "berlin"), "berlin", lambda: "i")
    archive.keep_segment(store.log.raws(0, 5), "i")
    archive.keep_segment(store.log.raws(5, 10), "i")
    return tmp_path


def archive(folder: pathlib.Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return commands.called(
        "archive", *words, TOPOLOG_CLUSTER="berlin", TOPOLOG_COMPACTION_ARCHIVE=str(folder)
    )


def test_files_are_listed_by_offset(folder: pathlib.Path) -> None:
    done = archive(folder, "ls", "-o", "json")
    assert [(one["kind"], one["first"], one["last"]) for one in json.loads(done.stdout)] == [
        ("segment", 1, 5),
        ("segment", 6, 10),
    ]
    assert "FIRST" in archive(folder, "ls").stdout
    none = archive(folder / "none", "ls")
    assert (none.returncode, none.stdout) == (0, "")
    assert f"{folder}/none/berlin has no files: check compaction.archive or --directory" in none.stderr


def test_an_intact_archive_has_no_problems(folder: pathlib.Path) -> None:
    done = archive(folder, "verify")
    assert done.returncode == 0
    assert "2 files, 0 problems" in done.stdout


@pytest.mark.parametrize("output", ["table", "json"])
def test_an_archive_without_files_is_not_verified(folder: pathlib.Path, output: str) -> None:
    done = archive(folder, "verify", "--directory", str(folder / "mistyped"), "-o", output)
    assert done.returncode == 1
    assert f"{folder}/mistyped/berlin has no files" in done.stderr


def test_an_incarnation_that_is_not_archived_is_not_exported(folder: pathlib.Path) -> None:
    done = archive(folder, "export", "--incarnation", "j")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has no incarnation j; it has i" in done.stderr


def test_a_damaged_file_and_missing_offsets_are_reported(folder: pathlib.Path, store: stores.Store) -> None:
    archived = archives.Archive(archive_storage.Folder(folder / "berlin"), "berlin")
    archived.keep_segment(store.log.raws(7, 10), "j")
    archived.keep_segment(store.log.raws(2, 5), "j")
    first, *_ = sorted((folder / "berlin").iterdir())
    raw = first.read_bytes()
    first.write_bytes(raw[:-20] + bytes([raw[-20] ^ 255]) + raw[-19:])
    done = archive(folder, "verify", "-o", "json")
    assert done.returncode == 1
    damaged, missing = json.loads(done.stdout)["problems"]
    assert first.name in damaged
    assert missing == "offsets 6 to 7 of j are missing"
    assert archive(folder, "export", "--incarnation", "i").returncode == 1


@pytest.mark.parametrize("command", ["verify", "export"])
def test_an_outage_behind_the_listing_is_not_a_problem_of_the_archive(
    folder: pathlib.Path, command: str
) -> None:
    with mock.patch.object(archive_storage.Folder, "read", side_effect=OSError("connection reset")):
        done = archive(folder, command)
    assert done.returncode == exit_codes.UNREACHABLE
    assert "the archive cannot be read: connection reset" in done.stderr
    assert done.stdout == ""


def test_events_are_exported_as_lines(folder: pathlib.Path) -> None:
    done = archive(folder, "export", "--from", "4", "--to", "7")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["offset"] for line in lines] == [4, 5, 6, 7]
    assert lines[0]["e"]["pod"]["uid"] == "u3"
    assert len(archive(folder, "export").stdout.splitlines()) == 10


def test_what_a_later_incarnation_replaced_is_not_exported(folder: pathlib.Path, store: stores.Store) -> None:
    archived = archives.Archive(archive_storage.Folder(folder / "berlin"), "berlin")
    archived.keep_segment(store.log.raws(3, 8), "j")
    done = archive(folder, "export", "--incarnation", "j")
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [*range(1, 9)]
    assert archive(folder, "verify").returncode == 0


def test_the_latest_incarnation_is_exported_whatever_the_times_of_the_files(
    folder: pathlib.Path, store: stores.Store
) -> None:
    """A copy or a restore of the archive writes its files in any order."""
    archived = archives.Archive(archive_storage.Folder(folder / "berlin"), "berlin")
    later = folder / "berlin" / archived.keep_segment(store.log.raws(3, 8), "j")
    os.utime(later, (0, 0))
    done = archive(folder, "export")
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [*range(1, 9)]


def test_offsets_that_are_not_archived_fail_the_export_and_the_verification(
    folder: pathlib.Path, store: stores.Store
) -> None:
    archived = archives.Archive(archive_storage.Folder(folder / "berlin"), "berlin")
    (folder / "berlin" / archived.files()[-1].name).unlink()
    archived.keep_segment(store.log.raws(7, 10), "j")
    for words, offsets, missing in (
        ((), range(1, 6), 6),
        (("--from", "6", "--to", "7"), (), 6),
        (("--from", "7"), (), 7),
        (("--from", "8", "--to", "12"), range(8, 11), 11),
        (("--from", "11"), (), 11),
    ):
        done = archive(folder, "export", "--incarnation", "j", *words)
        assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [*offsets]
        assert (done.returncode, f"offset {missing} is not in {folder}" in done.stderr) == (1, True)
    done = archive(folder, "export", "--incarnation", "j", "--from", "8")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
    done = archive(folder, "verify", "-o", "json")
    assert json.loads(done.stdout)["problems"] == ["offsets 6 to 7 of j are missing"]


def test_without_an_archive_the_error_names_the_setting(tmp_path: pathlib.Path) -> None:
    done = commands.called("archive", "ls")
    assert done.returncode == 3
    assert "compaction.archive is not set" in done.stderr
    assert archive(tmp_path, "export").returncode == 1


def test_an_archive_in_an_object_store_is_listed_verified_and_exported(folder: pathlib.Path) -> None:
    with object_server.serving() as server:
        for file in (folder / "berlin").iterdir():
            server.objects[f"/bucket/some/prefix/berlin/{file.name}"] = file.read_bytes()

        def called(*words: str) -> "subprocess.CompletedProcess[str]":
            return commands.called(
                "archive",
                *words,
                TOPOLOG_CLUSTER="berlin",
                TOPOLOG_COMPACTION_ARCHIVE="s3://bucket/some/prefix",
                **object_server.environment(server),
            )

        listed = json.loads(called("ls", "-o", "json").stdout)
        assert [one["last"] for one in listed] == [5, 10]
        assert all(one["bytes"] > 100 for one in listed)
        assert "s3://bucket/some/prefix/berlin: 2 files, 0 problems" in called("verify").stdout
        assert len(called("export").stdout.splitlines()) == 10
        server.failing = {"GET": 403}
        failed = called("ls")
        assert failed.returncode == exit_codes.UNREACHABLE
        assert "HTTP 403" in failed.stderr
        assert "Traceback" not in failed.stderr


def test_a_url_is_not_shown_if_it_cannot_be_used(tmp_path: pathlib.Path) -> None:
    done = archive(tmp_path, "ls", "--directory", "s3://u:cAn4ry@bucket")
    assert done.returncode == 3
    assert "must not contain credentials" in done.stderr
    assert "cAn4ry" not in done.stderr + done.stdout
