"""The archive of a log that lost its end: what is archived shows the loss, and is no history behind it."""

import pathlib
from collections.abc import Sequence
from unittest import mock

import pytest
from structlog import testing

from app import settings
from app.domain import snapshots
from app.store import errors, schemas, snapshot_format, stores
from app.store.checkpoints import archive_storage, archives
from app.store.log import incarnations, logs, readers
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.store import archive_ends
from tests.support.workers import compactions
from workers.compactor import archivers, compactors

KEEPING = settings.Compaction(events=100, seconds=3600, keep=500, checkpoints=3)
TRIMMING = settings.Compaction(events=100, seconds=3600, keep=0, checkpoints=3)


@pytest.mark.parametrize("grown", [5, 120], ids=["shorter than the archive", "longer than the archive"])
@pytest.mark.parametrize("trimmed", [False, True])
def test_a_loss_that_only_the_archive_shows_is_reported(
    store: stores.Store, store_server: embedded.Server, archive: str, grown: int, trimmed: bool
) -> None:
    past = compactions.History(store)
    past.go_on(150)
    with compactions.reopened(store, store_server, archive) as other:
        compactor = compactors.Compactor(other, TRIMMING if trimmed else KEEPING)
        compactor.run_once()
        past.go_on(100)
        backup = compactions.Backup(store)
        past.go_on(10)
        compactors.Compactor(other, KEEPING).run_once()
        assert other.archive is not None
        assert archive_ends.last(other.archive) == 260
    backup.restore(store.client)
    former = store.log.incarnation
    # Every process is a new one.
    with compactions.reopened(store, store_server, archive) as other:
        past.lose(250, other)
        past.go_on(grown)
        compactor = compactors.Compactor(other, TRIMMING)
        with pytest.raises(errors.Rewound, match="offset 260 is in the archive"):
            compactor.run_once()
        assert other.log.state().lost == incarnations.Watermark(former, 260, kept=250)
        past.begin_incarnation(260)
        past.go_on(100)
        compactor.run_once()
        assert other.log.oldest() == len(past.states) - 1
        assert past.misread(other) == []


def test_a_compactor_that_has_not_read_what_another_one_archived_notices_its_loss(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past = compactions.History(store)
    with (
        compactions.reopened(store, store_server, str(tmp_path)) as one,
        compactions.reopened(store, store_server, str(tmp_path)) as two,
    ):
        slow = compactors.Compactor(two, KEEPING)
        past.go_on(110)
        slow.run_once()
        past.go_on(90)
        backup = compactions.Backup(store)
        past.go_on(20)
        compactors.Compactor(one, KEEPING).run_once()
        backup.restore(store.client)
        with compactions.reopened(store, store_server) as other:
            past.lose(200, other)
            past.go_on(110)
        with pytest.raises(errors.Rewound, match="offset 220 is in the archive"):
            slow.run_once()
        assert two.log.state().lost == incarnations.Watermark(store.log.incarnation, 220, kept=200)


def test_a_segment_of_a_former_incarnation_may_reach_beyond_the_log(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past = compactions.History(store)
    past.go_on(120)
    backup = compactions.Backup(store)
    past.go_on(30)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        compactors.Compactor(other, KEEPING).run_once()
    backup.restore(store.client)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        past.lose(120, other)
        past.begin_incarnation(150)
        compactor = compactors.Compactor(other, KEEPING)
        compactor.run_once()
        past.go_on(110)
        compactor.run_once()
        assert other.log.state().lost is None
        assert other.archive is not None
        assert archive_ends.last(other.archive) == 231


def test_a_restored_copy_that_shares_the_archive_leaves_the_history_of_the_original(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past = compactions.History(store)
    past.go_on(100)
    backup = compactions.Backup(store)
    with compactions.reopened(store, store_server, str(tmp_path)) as original:
        compactor = compactors.Compactor(original, TRIMMING)
        past.go_on(110)
        compactor.run_once()
        server = embedded.Server()
        try:
            client = connections.connect(server.url)
            schemas.migrate(client, declared.names("functions"), declared.SCHEMA)
            backup.restore(client)
            client.close()
            with compactions.reopened(store, server, str(tmp_path)) as copy:
                other = compactions.History(copy)
                copied = compactors.Compactor(copy, KEEPING)
                other.go_on(110)
                with pytest.raises(errors.Rewound):
                    copied.run_once()
                other.begin_incarnation(210)
                copied.run_once()
                other.go_on(110)
                copied.run_once()
                assert copy.archive is not None
                assert archive_ends.last(copy.archive) == 100 + 110 + 1 + 110
        finally:
            server.stop()
        past.go_on(110)
        compactor = compactors.Compactor(original, TRIMMING)
        compactor.run_once()
        assert original.log.state().lost is None
        assert past.misread(original) == []


def test_a_checkpoint_that_a_new_incarnation_continues_is_archived_once(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past = compactions.History(store)
    past.go_on(150)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        compactors.Compactor(other, KEEPING).run_once()
    past.go_on(20)
    store.log.report_loss(incarnations.Watermark(store.log.incarnation, 175, 1))
    past.begin_incarnation(175)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        compactor = compactors.Compactor(other, TRIMMING)
        # While trimming waits for a reader, the archive is extended in each run.
        store.client.hset(store.keys.readers, "slow", f"15 {store.log.state().now_ms}")
        assert other.archive is not None
        with mock.patch.object(other.archive, "keep_checkpoint", wraps=other.archive.keep_checkpoint) as kept:
            for _ in range(3):
                compactor.run_once()
        assert kept.call_count == 1
        past.go_on(100)
        compactor.run_once()
        assert [file.last for file in other.archive.history("checkpoint")] == [150, 271]
        found = other.recovery_points.not_after(160, indexed=frozenset())
        assert found is not None
        assert snapshot_format.digest(found.snapshot) == past.digests(150)[0]


def test_the_archive_is_listed_once_for_a_checkpoint(
    store: stores.Store,
    store_server: embedded.Server,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archivers, "SEGMENT", 40)
    past = compactions.History(store)
    names = archive_storage.Folder.names
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        compactor = compactors.Compactor(other, TRIMMING)
        for _ in range(2):
            past.go_on(110)
            with mock.patch.object(
                archive_storage.Folder, "names", autospec=True, side_effect=names
            ) as listed:
                compactor.run_once()
            assert listed.call_count == 1
        assert other.archive is not None
        files = other.archive.files()
        assert [file.last for file in files if file.kind == "segment"] == [40, 80, 110, 150, 190, 220]
        assert [file.last for file in files if file.kind == "checkpoint"] == [110, 220]


def test_a_compactor_that_another_one_overtakes_while_it_reads_continues(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past = compactions.History(store)
    past.go_on(110)
    with (
        compactions.reopened(store, store_server, str(tmp_path)) as one,
        compactions.reopened(store, store_server, str(tmp_path)) as two,
    ):
        slow, fast = compactors.Compactor(one, TRIMMING), compactors.Compactor(two, TRIMMING)
        read = one.log.raws

        def late(after: int, until: int) -> list[readers.Raw]:
            store.client.delete(store.keys.readers)
            fast.run_once()
            return read(after, until)

        with mock.patch.object(logs.Log, "raws", autospec=True) as raws:
            raws.side_effect = lambda log, *offsets: (late if log is one.log else read)(*offsets)
            slow.run_once()
        assert store.log.oldest() == 110
        assert one.archive is not None
        assert [(file.first, file.last) for file in one.archive.files("segment")] == [(1, 110)]


def test_a_segment_whose_header_is_unreadable_does_not_stop_archiving_and_trimming(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past = compactions.History(store)
    past.go_on(110)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        compactors.Compactor(other, TRIMMING).run_once()
        assert store.log.oldest() == 110
        assert other.archive is not None
        (segment,) = other.archive.files("segment")
        (place,) = tmp_path.rglob(segment.name)
        place.write_bytes(b"")
        compactor = compactors.Compactor(other, TRIMMING)
        with testing.capture_logs() as lines:
            for _ in range(2):
                past.go_on(110)
                compactor.run_once()
        assert [file.last for file in other.archive.files("segment")] == [110, 220, 330]
        assert store.log.oldest() == 330
        (logged,) = (line for line in lines if line["log_level"] == "error")
        assert logged["file"] == segment.name


def test_a_segment_that_another_compactor_wrote_meanwhile_is_read_before_anything_is_trimmed(
    store: stores.Store,
    store_server: embedded.Server,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archivers, "SEGMENT", 100)
    past = compactions.History(store)
    past.go_on(250)
    with (
        compactions.reopened(store, store_server, str(tmp_path)) as one,
        compactions.reopened(store, store_server, str(tmp_path)) as two,
    ):
        slow, fast = compactors.Compactor(one, TRIMMING), compactors.Compactor(two, TRIMMING)
        assert one.archive is not None
        keep, read = one.archive.keep_segment, one.archive.header
        kept, proven = list[str](), list[str]()

        def overtaken(entries: Sequence[readers.Raw], incarnation: str) -> str:
            name = keep(entries, incarnation)
            if not kept:
                store.client.delete(store.keys.readers)
                fast.run_once()
            kept.append(name)
            return name

        def header(name: str) -> archives.Segment:
            proven.append(name)
            return read(name)

        with (
            mock.patch.object(one.archive, "keep_segment", overtaken),
            mock.patch.object(one.archive, "header", header),
        ):
            slow.run_once()
        assert store.log.oldest() == 250
        assert len(kept) == 1
        assert proven == [one.archive.files("segment")[-1].name]


def test_a_tail_that_is_lost_before_it_is_archived_is_a_loss_and_no_hole(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past = compactions.History(store)
    past.go_on(90)
    backup = compactions.Backup(store)
    past.go_on(20)
    with compactions.reopened(store, store_server, str(tmp_path)) as other:
        compactor, write = compactors.Compactor(other, TRIMMING), other.checkpoints.write

        def lost(snapshot: snapshots.Snapshot, at_ms: int) -> snapshot_format.Header:
            header = write(snapshot, at_ms)
            backup.restore(store.client)
            return header

        with mock.patch.object(other.checkpoints, "write", lost), pytest.raises(errors.Rewound):
            compactor.run_once()
