"""The archive: complete files only, readable and verifiable with standard tools."""

import gzip
import json
import pathlib
import shutil
import subprocess

import pytest

from app.domain import events, snapshots
from app.store import errors, snapshot_format, stores
from app.store.checkpoints import archives
from app.store.log import codecs
from tests.support import declared
from tests.support.store import writers


def archive_of(store: stores.Store, folder: pathlib.Path) -> archives.Archive:
    return archives.Archive(folder, store.keys.cluster, lambda: store.log.incarnation)


def filled(store: stores.Store, count: int) -> list[events.AnyEvent]:
    history: list[events.AnyEvent] = [writers.seen(f"u{i}", note="line\nbreak\r\u2028") for i in range(count)]
    for event in history:
        writers.facts(store.log, store.follower.catch_up(), [event])
    return history


def test_a_segment_holds_the_entries_as_they_were(store: stores.Store, tmp_path: pathlib.Path) -> None:
    history = filled(store, 10)
    archive = archive_of(store, tmp_path)
    path = archive.keep_segment(store.log.raws(0, 6), store.log.incarnation)
    archive.keep_segment(store.log.raws(6, 10), store.log.incarnation)
    assert archive.read(0, limit=100) == store.log.read(0)[:6]
    assert archive.read(4, limit=1) == store.log.read(4)[:1]
    assert archive.read(6, limit=100) == store.log.read(6)
    assert (archive.oldest(), archive.newest()) == (1, 10)
    with pytest.raises(errors.Trimmed):
        archive.read(10, limit=1)
    raws = archive.raws(path)
    assert [bytes(raw.e) for raw in raws] == [codecs.encode(event) for event in history[:6]]
    assert [file.path.name for file in archive.files()] == sorted(
        file.name for file in (tmp_path / store.keys.cluster).iterdir()
    )


@pytest.mark.skipif(not (shutil.which("zcat") and shutil.which("sha256sum")), reason="needs zcat, sha256sum")
def test_zcat_and_sha256sum_suffice_to_read_and_verify_a_segment(
    store: stores.Store, tmp_path: pathlib.Path
) -> None:
    filled(store, 3)
    path = archive_of(store, tmp_path).keep_segment(store.log.raws(0, 3), store.log.incarnation)
    text = subprocess.run(["zcat", path], capture_output=True, check=True, text=True).stdout
    header, *entries = [json.loads(line) for line in text.rstrip().split("\n")]
    assert header["kind"] == "topolog.segment"
    assert (header["cluster"], header["first"], header["last"]) == (store.keys.cluster, 1, 3)
    assert [entry["e"]["pod"]["uid"] for entry in entries] == ["u0", "u1", "u2"]
    summed = subprocess.run(
        f"zcat {path} | tail -n +2 | sha256sum", shell=True, capture_output=True, check=True, text=True
    ).stdout
    assert summed.split()[0] == header["sha256"]


def test_a_checkpoint_is_a_file_too(store: stores.Store, tmp_path: pathlib.Path) -> None:
    filled(store, 5)
    snapshot = store.follower.catch_up()
    archive = archive_of(store, tmp_path)
    image = snapshot_format.serialize(snapshot, cluster=store.keys.cluster, at_ms=7)
    path = archive.keep_checkpoint(image)
    (header,) = archive.checkpoints()
    assert header == image.header
    back = archive.checkpoint(
        header, schema=declared.SCHEMA, incarnation=store.log.incarnation, indexed=snapshot.indexed
    )
    assert snapshot_format.digest(back) == header.digest
    lines = gzip.decompress(path.read_bytes()).splitlines()
    assert json.loads(lines[0])["digest"] == header.digest


@pytest.mark.parametrize("kind", ["segment", "checkpoint"])
def test_every_flipped_byte_is_found(store: stores.Store, tmp_path: pathlib.Path, kind: str) -> None:
    filled(store, 3)
    archive = archive_of(store, tmp_path)
    if kind == "segment":
        path = archive.keep_segment(store.log.raws(0, 3), store.log.incarnation)
    else:
        path = archive.keep_checkpoint(
            snapshot_format.serialize(store.follower.catch_up(), cluster="c", at_ms=7)
        )
    good = path.read_bytes()
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
        path.write_bytes(bytes(broken))
        with pytest.raises(errors.Damaged):
            archive.raws(path) if kind == "segment" else archive.checkpoint(
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
    archive = archive_of(store, tmp_path)
    path = archive.keep_segment(store.log.raws(0, 3), store.log.incarnation)
    path.rename(path.with_name(f".{path.name}.4711"))
    assert archive.files() == []
    assert archive.newest() == 0
    other = archives.Archive(tmp_path / "nowhere", "c")
    assert other.files() == []


def test_an_older_incarnation_counts_only_up_to_the_start_of_the_present_one(
    store: stores.Store, tmp_path: pathlib.Path
) -> None:
    filled(store, 10)
    archive = archive_of(store, tmp_path)
    archive.keep_segment(store.log.raws(0, 4), "0-former")
    archive.keep_segment(store.log.raws(4, 9), "0-former")
    archive.keep_segment(store.log.raws(4, 6), store.log.incarnation)
    archive.keep_segment(store.log.raws(6, 10), store.log.incarnation)
    own = [(file.first, file.last) for file in archive.history("segment")]
    assert own == [(1, 4), (5, 6), (7, 10)]
    assert (archive.oldest(), archive.newest()) == (1, 10)


def test_a_time_is_found_in_the_archive(store: stores.Store, tmp_path: pathlib.Path) -> None:
    filled(store, 6)
    archive = archive_of(store, tmp_path)
    raws = store.log.raws(0, 6)
    times = (1000, 2000, 2000, 3000, 3001, 9000)
    moved = [type(raw)(offset=raw.offset, t=at, e=raw.e) for raw, at in zip(raws, times, strict=True)]
    archive.keep_segment(moved[:3], store.log.incarnation)
    archive.keep_segment(moved[3:], store.log.incarnation)
    wanted = {999: None, 1000: 1, 1999: 1, 2000: 3, 2999: 3, 3000: 4, 8999: 5, 9000: 6, 99_999: 6}
    assert {at: archive.offset_at(at) for at in wanted} == wanted


def test_a_name_with_a_path_is_refused(tmp_path: pathlib.Path, store: stores.Store) -> None:
    filled(store, 1)
    with pytest.raises(errors.StoreError, match="cannot be the name"):
        archive_of(store, tmp_path).keep_segment(store.log.raws(0, 1), "../../x")
