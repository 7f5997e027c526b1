"""The compactor on a real store: checkpoint, archive, trim, in this order or not at all."""

import contextlib
import pathlib
import threading
from collections.abc import Iterable, Iterator
from unittest import mock

import pytest

from app import settings
from app.domain import events, model, projections, snapshots
from app.store import errors, schemas, snapshot_format, stores
from app.store.checkpoints import archive_storage
from app.store.log import batches, incarnations
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.store import crash_safe_server, object_server, writers
from workers.compactor import compactors


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def reopened(store: stores.Store, server: embedded.Server, archive: str = "") -> Iterator[stores.Store]:
    """The same store as another process sees it, perhaps with an archive."""
    opened = stores.open_store(
        settings.Store(url=server.url),
        schema=declared.SCHEMA,
        cluster=store.keys.cluster,
        indexed=("app", "rl-job-group"),
        archive=archive,
    )
    try:
        yield opened
    finally:
        opened.close()


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


class History:
    """A cluster that changes, and its state at every offset."""

    def __init__(self, store: stores.Store) -> None:
        self._store = store
        self.states: list[snapshots.Snapshot] = [store.follower.catch_up()]

    def go_on(self, count: int) -> None:
        for _ in range(count):
            number = len(self.states)
            event: events.AnyEvent = writers.seen(f"u{number % 17}", f"n{number % 3}" if number % 2 else "")
            if number % 5 == 0:
                event = events.NodeSeen(node=model.Node(name=f"n{number % 3}", uid="n", labels={"zone": "a"}))
            if number % 11 == 0:
                event = events.PodGone(f"u{number % 17}", "blue", f"pod-u{number % 17}")
            writers.facts(self._store.log, self.states[-1], [event])
            self.states.append(projections.project(self.states[-1], event))
        self._store.client.delete(self._store.keys.readers)

    def digests(self, *offsets: int) -> list[str]:
        return [snapshot_format.digest(self.states[offset]) for offset in offsets]


def test_checkpoints_are_taken_and_the_entries_that_they_cover_trimmed(
    store: stores.Store, store_server: embedded.Server
) -> None:
    past = History(store)
    with reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=20, keep=30, checkpoints=12))
        for _ in range(8):
            past.go_on(20)
            compactor.run_once()
        offsets = [header.offset for header in other.checkpoints.headers()]
        assert offsets == [160, 140, 120]
        assert store.log.oldest() == 120
        assert compactor.checks() == {"store": None, "state": None, "archive": None, "memory": None}
    with reopened(store, store_server) as later:
        assert snapshot_format.digest(later.follower.catch_up()) == snapshot_format.digest(past.states[160])
        found = [snapshot_format.digest(later.histories.at(at)) for at in (120, 121, 139, 140, 155, 160)]
        assert found == past.digests(120, 121, 139, 140, 155, 160)
        with pytest.raises(errors.Trimmed) as trimmed:
            later.histories.at(119)
        assert trimmed.value.oldest == 120


def test_the_log_of_another_cluster_is_left_as_it_is(
    store: stores.Store, store_server: embedded.Server, tmp_path: pathlib.Path
) -> None:
    past, options = History(store), settings.Compaction(events=20, keep=0, checkpoints=3)
    past.go_on(50)
    with reopened(store, store_server, str(tmp_path / "archive")) as other:
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
    past = History(store)
    with reopened(store, store_server, archive) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=30, keep=0, checkpoints=3))
        for _ in range(6):
            past.go_on(30)
            compactor.run_once()
        assert store.log.oldest() == 180
        assert other.archive is not None
        assert (other.archive.oldest(), other.archive.newest()) == (1, 180)
    with reopened(store, store_server, archive) as later:
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
    past = History(store)
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / store.keys.cluster).write_text("a file where a folder should be")
    with reopened(store, store_server, str(folder)) as other:
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
    past = History(store)
    with object_server.serving() as server:
        for name, value in object_server.environment(server).items():
            monkeypatch.setenv(name, value)
        with reopened(store, store_server, "s3://bucket") as other:
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
    past, options = History(store), settings.Compaction(events=20, keep=0, checkpoints=3)
    with reopened(store, store_server, archive) as other:
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
        assert storage.names() == [], "its name alone would count as archived"
        compactor.run_once()
        assert store.log.oldest() == 25
        assert len(other.archive.read(0, limit=100)) == 25


def test_an_outage_of_the_archive_behind_its_listing_rewrites_no_segment(
    store: stores.Store, store_server: embedded.Server, archive: str
) -> None:
    past, options = History(store), settings.Compaction(events=20, keep=0, checkpoints=3)
    with reopened(store, store_server, archive) as other:
        assert other.archive is not None
        storage = other.archive.storage
        past.go_on(25)
        with mock.patch.object(type(storage), "read", side_effect=OSError("connection reset")):
            for compactor in (compactors.Compactor(other, options), compactors.Compactor(other, options)):
                with pytest.raises(errors.ArchiveAway, match="connection reset"):
                    compactor.run_once()
                assert len([name for name in storage.names() if name.startswith("segment")]) == 1
        assert store.log.oldest() == 1
        with mock.patch.object(type(storage), "write", side_effect=AssertionError("is archived")):
            with pytest.raises(AssertionError):
                other.archive.keep_segment(store.log.raws(0, 3), store.log.incarnation)
            other.archive.raws(other.archive.files("segment")[0].name)
        compactors.Compactor(other, options).run_once()
        assert store.log.oldest() == 25


def test_it_waits_for_a_reader_that_is_alive(store: stores.Store, store_server: embedded.Server) -> None:
    past = History(store)
    with reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=20, keep=0, checkpoints=5))
        past.go_on(40)
        store.client.hset(store.keys.readers, "slow", f"15 {10**15}")
        compactor.run_once()
        assert store.log.oldest() == 1
        store.client.hset(store.keys.readers, "slow", "15 1")
        compactor.run_once()
        assert store.log.oldest() == 40


def test_a_checkpoint_is_due_after_a_time_if_events_were_appended(
    store: stores.Store, store_server: embedded.Server
) -> None:
    past, clock = History(store), Clock()
    with reopened(store, store_server) as other:
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
    past = History(store)
    with reopened(store, store_server) as other:
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


def test_two_compactors_do_no_harm(store: stores.Store, store_server: embedded.Server, archive: str) -> None:
    past = History(store)
    with (
        reopened(store, store_server, archive) as one,
        reopened(store, store_server, archive) as two,
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
    with reopened(store, store_server, archive) as later:
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
        past = History(store)
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
    past = History(store)
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
    with reopened(store, store_server) as other:
        compactor = compactors.Compactor(other, settings.Compaction(events=100, seconds=3600, keep=0))
        other.follower.catch_up()
        listed = other.checkpoints.headers

        def lost() -> list[snapshot_format.Header]:
            other.log.report_loss(incarnations.Watermark(begun, 99, 1))
            return listed()

        with mock.patch.object(other.checkpoints, "headers", lost), pytest.raises(errors.Rewound):
            compactor.run_once()
        assert [header.offset for header in listed()] == [20]
