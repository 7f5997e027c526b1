"""The archive: complete files only, readable and verifiable with standard tools."""

import functools
import gzip
import json
import pathlib
import shutil
import subprocess
from collections.abc import Callable
from unittest import mock

import msgspec
import pytest

from app.domain import events, snapshots
from app.store import errors, snapshot_format, stores
from app.store.checkpoints import archive_storage, archives
from app.store.log import codecs, readers
from tests.project import reference_pages
from tests.support import declared
from tests.support.store import archive_ends, object_server, writers

NAMES, READ = archive_storage.Folder.names, archive_storage.Folder.read


def archive_of(store: stores.Store, storage: archive_storage.Storage) -> archives.Archive:
    return archives.Archive(storage, store.keys.cluster, lambda: store.log.incarnation)


def filled(store: stores.Store, count: int) -> list[events.AnyEvent]:
    history: list[events.AnyEvent] = [writers.seen(f"u{i}", note="line\nbreak\r\u2028") for i in range(count)]
    for event in history:
        writers.facts(store.log, store.follower.catch_up(), [event])
    return history


def test_a_segment_holds_the_entries_as_they_were(
    store: stores.Store, storage: archive_storage.Storage
) -> None:
    history = filled(store, 10)
    archive = archive_of(store, storage)
    name = archive.keep_segment(store.log.raws(0, 6), store.log.incarnation)
    archive.keep_segment(store.log.raws(6, 10), store.log.incarnation)
    assert archive.read(0, limit=100) == store.log.read(0)[:6]
    assert archive.read(4, limit=1) == store.log.read(4)[:1]
    assert archive.read(6, limit=100) == store.log.read(6)
    assert (archive.oldest(), archive_ends.last(archive)) == (1, 10)
    with pytest.raises(errors.Trimmed):
        archive.read(10, limit=1)
    raws = archive.raws(name)
    assert [bytes(raw.e) for raw in raws] == [codecs.encode(event) for event in history[:6]]
    assert [file.name for file in archive.files()] == sorted(storage.names())


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_entries_do_not_depend_on_the_pieces_that_are_decompressed(
    store: stores.Store, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    filled(store, 10)
    archive = archive_of(store, archive_storage.Folder(tmp_path))
    name = archive.keep_segment(store.log.raws(0, 10), store.log.incarnation)
    whole = archive.raws(name)
    monkeypatch.setattr(archives, "_TEXT", size)
    assert archive.raws(name) == whole


@pytest.mark.skipif(not (shutil.which("zcat") and shutil.which("sha256sum")), reason="needs zcat, sha256sum")
def test_zcat_and_sha256sum_suffice_to_read_and_verify_a_segment(
    store: stores.Store, storage: archive_storage.Storage, tmp_path: pathlib.Path
) -> None:
    filled(store, 3)
    name = archive_of(store, storage).keep_segment(store.log.raws(0, 3), store.log.incarnation)
    path = tmp_path / "copy"
    path.write_bytes(storage.read(name))
    text = subprocess.run(["zcat", path], capture_output=True, check=True, text=True).stdout
    header, *entries = [json.loads(line) for line in text.rstrip().split("\n")]
    assert header["kind"] == "topolog.segment"
    assert (header["cluster"], header["first"], header["last"]) == (store.keys.cluster, 1, 3)
    assert [entry["e"]["pod"]["uid"] for entry in entries] == ["u0", "u1", "u2"]
    summed = subprocess.run(
        f"zcat {path} | tail -n +2 | sha256sum", shell=True, capture_output=True, check=True, text=True
    ).stdout
    assert summed.split()[0] == header["sha256"]


@pytest.mark.skipif(not all(map(shutil.which, ("bash", "zcat", "sha256sum", "jq"))), reason="needs jq, too")
def test_the_documented_command_verifies_both_kinds_of_files(
    store: stores.Store, tmp_path: pathlib.Path
) -> None:
    filled(store, 3)
    archive = archive_of(store, archive_storage.Folder(tmp_path))
    archive.keep_segment(store.log.raws(0, 3), store.log.incarnation)
    archive.keep_checkpoint(
        snapshot_format.serialize(store.follower.catch_up(), cluster=store.keys.cluster, at_ms=7)
    )
    page = (reference_pages.ROOT / "docs" / "how-to" / "history.md").read_text()
    (command,) = [line for line in page.splitlines() if "sha256sum --check" in line]
    for file in archive.files():
        words = ["bash", "-c", command.replace("FILE", str(tmp_path / file.name))]
        done = subprocess.run(words, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "-: OK\n"), done.stderr


def test_a_checkpoint_is_a_file_too(store: stores.Store, storage: archive_storage.Storage) -> None:
    filled(store, 5)
    snapshot = store.follower.catch_up()
    archive = archive_of(store, storage)
    image = snapshot_format.serialize(snapshot, cluster=store.keys.cluster, at_ms=7)
    name = archive.keep_checkpoint(image)
    (header,) = archive.checkpoints()
    assert header == image.header
    back = archive.checkpoint(
        header, schema=declared.SCHEMA, incarnation=store.log.incarnation, indexed=snapshot.indexed
    )
    assert snapshot_format.digest(back) == header.digest
    lines = gzip.decompress(storage.read(name)).splitlines()
    assert json.loads(lines[0])["digest"] == header.digest


@pytest.mark.parametrize("kind", ["segment", "checkpoint"])
def test_every_flipped_byte_is_found(store: stores.Store, tmp_path: pathlib.Path, kind: str) -> None:
    filled(store, 3)
    storage = archive_storage.Folder(tmp_path)
    archive = archive_of(store, storage)
    if kind == "segment":
        name = archive.keep_segment(store.log.raws(0, 3), store.log.incarnation)
    else:
        name = archive.keep_checkpoint(
            snapshot_format.serialize(store.follower.catch_up(), cluster="c", at_ms=7)
        )
    good = storage.read(name)
    text = gzip.decompress(good)
    header = next(
        iter(archive.checkpoints()),
        snapshot_format.serialize(snapshots.empty(schema=declared.SCHEMA), cluster="c", at_ms=0).header,
    )
    found = 0
    for place in range(len(good)):
        broken = bytearray(good)
        broken[place] ^= 0x20
        if still_contains(bytes(broken), text):
            continue  # a byte of a gzip header that means nothing
        storage.write(name, (bytes(broken),))
        with pytest.raises(errors.Damaged):
            archive.raws(name) if kind == "segment" else archive.checkpoint(
                header, schema=declared.SCHEMA, incarnation="i"
            )
        found += 1
    assert found > len(good) / 2


def still_contains(broken: bytes, text: bytes) -> bool:
    try:
        return gzip.decompress(broken) == text
    except Exception:
        return False


def test_a_file_that_was_not_finished_is_not_there(store: stores.Store, tmp_path: pathlib.Path) -> None:
    filled(store, 3)
    archive = archive_of(store, archive_storage.Folder(tmp_path))
    path = tmp_path / archive.keep_segment(store.log.raws(0, 3), store.log.incarnation)
    path.rename(path.with_name(f".{path.name}.4711"))
    assert archive.files() == []
    assert archive_ends.last(archive) == 0
    other = archives.Archive(archive_storage.Folder(tmp_path / "nowhere"), "c")
    assert other.files() == []


def test_an_older_incarnation_counts_only_up_to_the_start_of_the_present_one(
    store: stores.Store, storage: archive_storage.Storage
) -> None:
    filled(store, 10)
    archive = archive_of(store, storage)
    archive.keep_segment(store.log.raws(0, 4), "0-former")
    archive.keep_segment(store.log.raws(4, 9), "0-former")
    archive.keep_segment(store.log.raws(4, 6), store.log.incarnation)
    archive.keep_segment(store.log.raws(6, 10), store.log.incarnation)
    own = [(file.first, file.last) for file in archive.history("segment")]
    assert own == [(1, 4), (5, 6), (7, 10)]
    assert (archive.oldest(), archive_ends.last(archive)) == (1, 10)


def test_after_two_losses_no_lost_entry_is_history(
    store: stores.Store, storage: archive_storage.Storage
) -> None:
    # Z lost 45 to 50, A continued at 45 and lost 81 to 90, B continued at 81, and C is of later.
    wrote = {"1-z": (1, 50), "2-a": (40, 90), "3-b": (81, 120), "4-c": (30, 60)}
    for incarnation, (first, last) in wrote.items():
        entries = [
            readers.Raw(offset=at, t=at, e=msgspec.Raw(codecs.encode(writers.seen(f"{incarnation}-{at}"))))
            for at in range(first, last + 1)
        ]
        archives.Archive(storage, store.keys.cluster).keep_segment(entries, incarnation)
    for incarnation, offset in (
        ("1-z", 20),
        ("1-z", 47),
        ("2-a", 47),
        ("2-a", 85),
        ("3-b", 110),
        ("4-c", 35),
    ):
        storage.write(f"checkpoint.{incarnation}.{offset:016d}.jsonl.gz", (b"-",))
    expected = {
        "1-z": ([("1-z", 1, 50)], [("1-z", 20), ("1-z", 47)]),
        "2-a": ([("1-z", 1, 39), ("2-a", 40, 90)], [("1-z", 20), ("2-a", 47), ("2-a", 85)]),
        "3-b": (
            [("1-z", 1, 39), ("2-a", 40, 80), ("3-b", 81, 120)],
            [("1-z", 20), ("2-a", 47), ("3-b", 110)],
        ),
    }
    for incarnation, (segments, checkpoints) in expected.items():
        read = archives.Archive(storage, store.keys.cluster, functools.partial(str, incarnation))
        assert [(file.incarnation, file.first, file.last) for file in read.history("segment")] == segments
        assert [(file.incarnation, file.last) for file in read.history("checkpoint")] == checkpoints
    lines = [bytes(raw.e) for raw in read.read_raw(40, 100)]
    assert lines == [codecs.encode(writers.seen(f"2-a-{at}")) for at in range(40, 81)]
    assert [raw.offset for raw in read.read_raw(39, 50)] == [39]
    assert read.oldest() == 1


def test_a_time_is_found_in_the_archive(store: stores.Store, storage: archive_storage.Storage) -> None:
    filled(store, 6)
    archive = archive_of(store, storage)
    raws = store.log.raws(0, 6)
    times = (1000, 2000, 2000, 3000, 3001, 9000)
    moved = [type(raw)(offset=raw.offset, t=at, e=raw.e) for raw, at in zip(raws, times, strict=True)]
    archive.keep_segment(moved[:3], store.log.incarnation)
    archive.keep_segment(moved[3:], store.log.incarnation)
    wanted = {999: None, 1000: 1, 1999: 1, 2000: 3, 2999: 3, 3000: 4, 8999: 5, 9000: 6, 99_999: 6}
    assert {at: archive.offset_at(at) for at in wanted} == wanted


def test_a_time_is_found_by_few_reads(store: stores.Store, tmp_path: pathlib.Path) -> None:
    filled(store, 64)
    archive = archive_of(store, archive_storage.Folder(tmp_path))
    raws = [msgspec.structs.replace(raw, t=100 * raw.offset) for raw in store.log.raws(0, 64)]
    for raw in raws:
        archive.keep_segment([raw], store.log.incarnation)
    with mock.patch.object(archive_storage.Folder, "read", autospec=True, side_effect=READ) as read:
        assert archive.offset_at(750) == 7
    assert read.call_count < 10


def test_a_time_is_found_although_a_segment_of_another_time_is_damaged(
    store: stores.Store, tmp_path: pathlib.Path
) -> None:
    filled(store, 9)
    archive = archive_of(store, archive_storage.Folder(tmp_path))
    raws = [msgspec.structs.replace(raw, t=100 * raw.offset) for raw in store.log.raws(0, 9)]
    names = [archive.keep_segment([raw], store.log.incarnation) for raw in raws]
    (tmp_path / names[4]).write_bytes(b"")
    assert [archive.offset_at(at) for at in (99, 250, 399, 650, 999)] == [None, 2, 3, 6, 9]
    with pytest.raises(errors.Damaged):
        archive.offset_at(550)


def test_segments_are_listed_again_for_what_a_listing_lacks(
    store: stores.Store, tmp_path: pathlib.Path
) -> None:
    filled(store, 12)
    archive = archive_of(store, archive_storage.Folder(tmp_path))
    archive.keep_segment(store.log.raws(0, 4), store.log.incarnation)
    archive.keep_segment(store.log.raws(4, 8), store.log.incarnation)
    with mock.patch.object(archive_storage.Folder, "names", autospec=True, side_effect=NAMES) as names:
        for after in range(8):
            (entry,) = archive.read(after, limit=1)
            assert entry.offset == after + 1
            assert archive.read_raw(after + 1, after + 1)[0].offset == after + 1
        assert names.call_count == 1
        archive.keep_segment(store.log.raws(8, 12), store.log.incarnation)
        assert archive.read(8, limit=1)[0].offset == 9
        assert names.call_count == 2


def test_a_listing_without_a_segment_of_the_incarnation_is_not_used_again(
    store: stores.Store, tmp_path: pathlib.Path
) -> None:
    """The border of a former incarnation is known once the present one has archived something."""
    filled(store, 6)
    former, present = "1-a", "2-b"
    archive = archives.Archive(archive_storage.Folder(tmp_path), store.keys.cluster, lambda: present)
    archive.keep_segment([msgspec.structs.replace(raw, t=1) for raw in store.log.raws(0, 6)], former)
    assert archive.read_raw(5, 5)[0].t == 1
    archive.keep_segment([msgspec.structs.replace(raw, t=2) for raw in store.log.raws(2, 6)], present)
    assert archive.read_raw(5, 5)[0].t == 2
    assert archive.read_raw(2, 5)[0].t == 1


def test_a_name_with_a_path_is_refused(storage: archive_storage.Storage, store: stores.Store) -> None:
    filled(store, 1)
    with pytest.raises(errors.StoreError, match="cannot be the name"):
        archive_of(store, storage).keep_segment(store.log.raws(0, 1), "../../x")


def test_a_header_is_read_without_the_rest(store: stores.Store, storage: archive_storage.Storage) -> None:
    filled(store, 3)
    archive = archive_of(store, storage)
    name = archive.keep_segment(store.log.raws(0, 3), store.log.incarnation)
    content = storage.read(name)
    second = content.index(b"\x1f\x8b", 2)
    storage.write(name, (content[:second], b"damaged"))
    assert archive.header(name).last == 3
    for broken in (b"", content[:9], gzip.compress(b""), gzip.compress(b"no newline")):
        storage.write(name, (broken,))
        with pytest.raises(errors.Damaged):
            archive.header(name)
        with pytest.raises(errors.Damaged):
            archive.raws(name)
        with pytest.raises(errors.Damaged):
            archive.prove(archive.files()[0])


def test_an_archive_that_cannot_be_listed_is_away(objects: object_server.Server) -> None:
    archive = archives.Archive(archive_storage.opened("s3://bucket", "berlin"), "berlin")
    objects.failing = {"GET": 403}
    with pytest.raises(errors.StoreAway, match=r"cannot be listed: s3://bucket/berlin: .*HTTP 403"):
        archive.files()
    with pytest.raises(errors.ArchiveAway, match="HTTP 403"):
        archive.read(0, limit=1)


def test_an_outage_behind_a_listing_is_not_damage(
    store: stores.Store, storage: archive_storage.Storage
) -> None:
    filled(store, 3)
    archive = archive_of(store, storage)
    name = archive.keep_segment(store.log.raws(0, 3), store.log.incarnation)
    file = archive.files()[0]
    calls: list[Callable[[], object]] = [
        lambda: archive.raws(name),
        lambda: archive.header(name),
        lambda: archive.prove(file),
        lambda: archive.read(0, limit=1),
        lambda: archive.read_raw(1, 3),
        lambda: archive.offset_at(2**50),
    ]
    with mock.patch.object(type(storage), "read", side_effect=OSError("connection reset")):
        for call in calls:
            with pytest.raises(errors.ArchiveAway, match="cannot be read: connection reset"):
                call()
    for operation, change in (
        ("write", lambda: archive.keep_segment(store.log.raws(0, 3), store.log.incarnation)),
        ("remove", lambda: archive.remove(name)),
    ):
        with (
            mock.patch.object(type(storage), operation, side_effect=OSError("connection reset")),
            pytest.raises(errors.ArchiveAway, match="connection reset"),
        ):
            change()
    storage.remove(name)
    with pytest.raises(errors.Damaged, match="does not exist"):
        archive.raws(name)
    assert not issubclass(errors.ArchiveAway, OSError)
