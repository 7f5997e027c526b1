"""The compactor on a real store: checkpoint, archive, trim, in this order or not at all."""

import contextlib
import pathlib
import threading
from collections.abc import Iterable
from unittest import mock

import msgspec
import pytest

from app import settings, telemetry
from app.domain import events
from app.domain.audit import findings
from app.store import audit_reports, errors, schemas, snapshot_format, stores
from app.store.checkpoints import archive_storage
from app.store.log import batches, incarnations
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.monitoring import samples
from tests.support.store import archive_ends, crash_safe_server, object_server
from tests.support.workers import compactions, recordings
from workers.compactor import compactors


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_checkpoints_are_taken_and_the_entries_that_they_cover_trimmed(
    store: stores.Store, store_server: embedded.Server
) -> None:
    past = compactions.History(store)
    with compactions.reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=20, keep=30, checkpoints=12))
        for _ in range(8):
            past.go_on(20)
            compactor.run_once()
        offsets = [header.offset for header in other.checkpoints.headers()]
        assert offsets == [160, 140, 120]
        assert store.log.oldest() == 120
        assert compactor.checks() == dict.fromkeys(("store", "state", "archive", "memory", "form"))
        telemetry.metrics.CHECKPOINT.forget()  # Another process, which takes none.
        compactors.Compactor(other, settings.Compaction(keep=30)).run_once()
        assert samples.value("topolog_checkpoint_offset") == 160
    with compactions.reopened(store, store_server) as later:
        assert snapshot_format.digest(later.follower.catch_up()) == snapshot_format.digest(past.states[160])
        found = [snapshot_format.digest(later.histories.at(at)) for at in (120, 121, 139, 140, 155, 160)]
        assert found == past.digests(120, 121, 139, 140, 155, 160)
        with pytest.raises(errors.Trimmed) as trimmed:
            later.histories.at(119)
        assert trimmed.value.oldest == 120


def test_the_log_of_another_cluster_is_left_as_it_is(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past, options = compactions.History(store), settings.Compaction(events=20, keep=0, checkpoints=3)
    past.go_on(50)
    with compactions.reopened(store, store_server, str(tmp_path / "archive")) as other:
        compactor = compactors.Compactor(other, options)
        other.log.foreign = ("first", "second")
        with pytest.raises(errors.OtherCluster):
            compactor.run_once()
        assert store.log.oldest() == 1
        assert store.checkpoints.headers() == []
        assert not (tmp_path / "archive").exists()
        other.log.foreign = None
        compactor.run_once()
        assert store.log.oldest() == 50
        assert [header.offset for header in store.checkpoints.headers()] == [50]


def test_with_an_archive_every_offset_stays_readable(
    store: stores.Store, store_server: embedded.Server, archive: str
) -> None:
    past = compactions.History(store)
    with compactions.reopened(store, store_server, archive) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=30, keep=0, checkpoints=3))
        for _ in range(6):
            past.go_on(30)
            compactor.run_once()
        assert store.log.oldest() == 180
        assert other.archive is not None
        assert (other.archive.oldest(), archive_ends.last(other.archive)) == (1, 180)
    with compactions.reopened(store, store_server, archive) as later:
        everywhere = list(range(len(past.states)))
        assert [snapshot_format.digest(later.histories.at(at)) for at in everywhere] == past.digests(
            *everywhere
        )
        read = later.histories.entries(1, 180, limit=1000)
        assert [entry.offset for entry in read] == list(range(1, 181))
        # A time is found in the log and in the archive alike.
        for offset in (1, 50, 180):
            at_ms = later.histories.appended_ms(offset)
            assert at_ms is not None
            assert later.histories.at(time_ms=at_ms).offset >= offset
            assert later.histories.appended_ms(later.histories.offset_at(at_ms)) == at_ms
        assert later.histories.offset_at(1) == 0


def test_nothing_is_trimmed_that_is_not_in_the_archive(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past = compactions.History(store)
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / store.keys.cluster).write_text("a file where a folder should be")
    with compactions.reopened(store, store_server, str(folder)) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=20, keep=0, checkpoints=3))
        past.go_on(25)
        with pytest.raises(errors.ArchiveAway, match=r"exists|directory"):
            compactor.run_once()
        assert store.log.oldest() == 1
        (folder / store.keys.cluster).unlink()
        past.go_on(1)
        compactor.run_once()
        assert store.log.oldest() == 25, "what could not be archived is due again, the next checkpoint is not"


@pytest.mark.parametrize("failing", ["PUT", "GET"])
def test_nothing_is_trimmed_while_an_object_store_refuses(
    store: stores.Store, store_server: embedded.Server, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    past = compactions.History(store)
    with object_server.serving() as server:
        for name, value in object_server.environment(server).items():
            monkeypatch.setenv(name, value)
        with compactions.reopened(store, store_server, "s3://bucket") as other:
            compactor = compactors.Compactor(other, settings.Compaction(events=20, keep=0, checkpoints=3))
            past.go_on(25)
            server.failing = {failing: 403}
            with pytest.raises(errors.ArchiveAway, match="HTTP 403"):
                compactor.run_once()
            assert store.log.oldest() == 1
            server.failing = {}
            compactor.run_once()
            assert store.log.oldest() == 25


@pytest.mark.parametrize("restarted", [False, True])
def test_a_segment_that_is_not_as_it_was_written_is_written_again(
    store: stores.Store, store_server: embedded.Server, archive: str, restarted: bool
) -> None:
    past, options = compactions.History(store), settings.Compaction(events=20, keep=0, checkpoints=3)
    with compactions.reopened(store, store_server, archive) as other:
        assert other.archive is not None
        compactor, storage = compactors.Compactor(other, options), other.archive.storage
        write = type(storage).write

        def damaged(self: archive_storage.Storage, name: str, members: Iterable[bytes]) -> None:
            write(self, name, (b"".join(members)[:-9],))
            if restarted:
                raise OSError("the process ends before it reads the segment back")

        with mock.patch.object(type(storage), "write", damaged):
            past.go_on(25)
            failing = errors.ArchiveAway if restarted else errors.Damaged
            with pytest.raises(failing, match=r"cannot be read|the process ends"):
                compactor.run_once()
        assert store.log.oldest() == 1
        if restarted:
            compactor = compactors.Compactor(other, options)
            with pytest.raises(errors.Damaged, match="cannot be read"):
                compactor.run_once()
            assert store.log.oldest() == 1
        assert list(storage.names()) == [], "its name alone would count as archived"
        compactor.run_once()
        assert store.log.oldest() == 25
        assert len(other.archive.read(0, limit=100)) == 25


def test_an_outage_of_the_archive_behind_its_listing_rewrites_no_segment(
    store: stores.Store, store_server: embedded.Server, archive: str
) -> None:
    past, options = compactions.History(store), settings.Compaction(events=20, keep=0, checkpoints=3)
    with compactions.reopened(store, store_server, archive) as other:
        assert other.archive is not None
        storage = other.archive.storage
        past.go_on(25)
        with mock.patch.object(type(storage), "read", side_effect=OSError("connection reset")):
            for compactor in (compactors.Compactor(other, options), compactors.Compactor(other, options)):
                with pytest.raises(errors.ArchiveAway, match="connection reset"):
                    compactor.run_once()
                assert len([name for name in storage.names() if name.startswith("segment")]) == 1
        assert store.log.oldest() == 1
        with mock.patch.object(
            type(storage), "write", autospec=True, side_effect=type(storage).write
        ) as wrote:
            compactors.Compactor(other, options).run_once()
        assert [call.args[1] for call in wrote.mock_calls if call.args[1].startswith("segment")] == []
        assert store.log.oldest() == 25


def test_it_waits_for_a_reader_that_is_alive_and_reads_the_checkpoint_once(
    store: stores.Store, store_server: embedded.Server
) -> None:
    past = compactions.History(store)
    with compactions.reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=20, keep=0, checkpoints=5))
        past.go_on(40)
        store.client.hset(store.keys.readers, "slow", f"15 {store.log.state().now_ms}")
        compactor.run_once()
        assert store.log.oldest() == 1
        was_read = AssertionError("was read before")
        with mock.patch.object(other.checkpoints, "serialized", side_effect=was_read):
            compactor.run_once()
        assert store.log.oldest() == 1
        store.client.hset(store.keys.readers, "slow", "15 1")
        compactor.run_once()
        assert store.log.oldest() == 40


def test_a_checkpoint_is_due_after_a_time_if_events_were_appended(
    store: stores.Store, store_server: embedded.Server
) -> None:
    past, clock = compactions.History(store), Clock()
    with compactions.reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(seconds=60), monotonic=clock)
        past.go_on(5)
        compactor.run_once()
        assert other.checkpoints.headers() == []
        clock.now += 61
        compactor.run_once()
        assert [header.offset for header in other.checkpoints.headers()] == [5]
        clock.now += 61
        compactor.run_once()
        assert [header.offset for header in other.checkpoints.headers()] == [5]


def test_a_damaged_checkpoint_trims_nothing(store: stores.Store, store_server: embedded.Server) -> None:
    past = compactions.History(store)
    with compactions.reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=20, keep=10, checkpoints=5))
        past.go_on(20)
        compactor.run_once()
        (header,) = other.checkpoints.headers()
        store.client.delete(store.keys.checkpoint(20, header.parts, 0))
        past.go_on(20)
        compactor.run_once()
        assert store.log.oldest() == 1
        assert [header.offset for header in other.checkpoints.headers()] == [40]
        past.go_on(20)
        compactor.run_once()
        assert store.log.oldest() == 40


def test_a_corrupt_checkpoint_is_deleted_once_for_one_finding(
    store: stores.Store, store_server: embedded.Server
) -> None:
    past = compactions.History(store)
    past.go_on(25)
    with compactions.reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=20, keep=0, checkpoints=3))
        compactor.run_once()
        (corrupt,) = other.checkpoints.headers()
        one = findings.Difference(
            kind="checkpoint", key="checkpoint:25", expected="e", found="f", first=25, last=25, blame="b"
        )
        reports = audit_reports.Reports(store.client, store.keys)
        report = findings.Report(
            incarnation=store.log.incarnation, offset=25, at_ms=1, by="a", every=1.0, differences=(one,)
        )
        reports.write(report)
        compactor.run_once()
        (written,) = other.checkpoints.headers()
        assert written.parts != corrupt.parts
        # The auditor verifies large ones seldom, and reports the finding until then.
        reports.write(msgspec.structs.replace(report, at_ms=2))
        compactor.run_once()
        assert other.checkpoints.headers() == [written]
        reports.write(msgspec.structs.replace(report, at_ms=3, differences=()))
        compactor.run_once()
        reports.write(report)
        compactor.run_once()
        assert other.checkpoints.headers() != [written]


def test_an_unreadable_header_at_the_offset_of_a_checkpoint_is_replaced(
    store: stores.Store, store_server: embedded.Server
) -> None:
    past = compactions.History(store)
    past.go_on(25)
    store.client.hset(store.keys.checkpoints, "25", "not a header")
    with compactions.reopened(store, store_server) as other:
        compactors.Compactor(other, settings.Compaction(events=20, keep=0, checkpoints=3)).run_once()
        assert [header.offset for header in other.checkpoints.headers()] == [25]
        assert snapshot_format.digest(other.recovery_points.newest(indexed=frozenset()).snapshot) == (
            snapshot_format.digest(past.states[25])
        )


def test_a_problem_ends_with_the_next_run_that_succeeds(
    store: stores.Store, store_server: embedded.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactors, "EVERY", 0.01)
    compactions.History(store).go_on(25)
    with compactions.reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=20, keep=0, checkpoints=3))
        compactor.run_once()
        running = threading.Thread(target=compactor.run)
        with mock.patch.object(other.checkpoints, "headers", side_effect=errors.Damaged("is damaged")):
            running.start()
            recordings.eventually(lambda: compactor.checks()["archive"] == "is damaged", "it is shown")
        try:
            recordings.eventually(lambda: compactor.checks()["archive"] is None, "it has ended")
        finally:
            compactor.stop()
            running.join()


def test_two_compactors_do_no_harm(store: stores.Store, store_server: embedded.Server, archive: str) -> None:
    past = compactions.History(store)
    with (
        compactions.reopened(store, store_server, archive) as one,
        compactions.reopened(store, store_server, archive) as two,
        contextlib.ExitStack() as running,
    ):
        for opened in (one, two):
            compactor = compactors.Compactor(opened, settings.Compaction(events=20, keep=0, checkpoints=3))
            thread = threading.Thread(target=compactor.run)
            thread.start()
            running.callback(thread.join)
            running.callback(compactor.stop)
        while store.log.oldest() < 40:
            past.go_on(10)
    with compactions.reopened(store, store_server, archive) as later:
        everywhere = list(range(0, len(past.states), 3))
        assert [snapshot_format.digest(later.histories.at(at)) for at in everywhere] == past.digests(
            *everywhere
        )


def test_it_waits_while_the_store_is_away(tmp_path: pathlib.Path) -> None:
    server = crash_safe_server.CrashSafeServer(tmp_path / "s", append_only=True)
    try:
        client = connections.connect(server.url)
        schemas.migrate(client, declared.names("c"), declared.SCHEMA)
        store = stores.open_store(
            settings.Store(url=server.url, socket_timeout=2.0),
            schema=declared.SCHEMA,
            cluster="c",
        )
        compactor = compactors.Compactor(store, settings.Compaction(events=20, keep=0, checkpoints=3))
        past = compactions.History(store)
        past.go_on(30)
        server.kill()
        thread = threading.Thread(target=compactor.run)
        thread.start()
        while compactor.checks()["store"] is None:
            thread.join(0.01)
        server.restart()
        while store.log.oldest() != 30:
            thread.join(0.05)
        compactor.stop()
        thread.join()
        store.close()
        client.close()
    finally:
        server.stop()


def test_a_loss_that_is_reported_meanwhile_removes_no_checkpoint(
    store: stores.Store, store_server: embedded.Server
) -> None:
    """Of a log that lost its end, no checkpoint of a former incarnation can be shown to be a part."""
    past = compactions.History(store)
    past.go_on(20)
    store.follower.catch_up()
    _, at_ms = store.follower.dated()
    assert at_ms is not None
    store.checkpoints.write(past.states[-1], at_ms)
    log, former = store.log, store.log.incarnation
    log.report_loss(incarnations.Watermark(former, 25, 1))
    begun = incarnations.new((former,))
    rewound = events.StoreRewound(
        from_incarnation=former, lost_from=21, lost_to=25, reason="r", by="b", relisting=()
    )
    assert log.rewind(rewound, begun, found=former, guard=batches.Guard(epoch="7", writer="w"))
    with compactions.reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=100, seconds=3600, keep=0))
        other.follower.catch_up()
        listed = other.checkpoints.headers

        def lost() -> list[snapshot_format.Header]:
            other.log.report_loss(incarnations.Watermark(begun, 99, 1))
            return listed()

        with mock.patch.object(other.checkpoints, "headers", lost), pytest.raises(errors.Rewound):
            compactor.run_once()
        assert [header.offset for header in listed()] == [20]
