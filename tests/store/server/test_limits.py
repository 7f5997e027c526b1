"""A store at its limits: appends fail with the reason, reads continue, and it recovers by itself."""

import contextlib
import resource
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import redis

from app import settings
from app.domain import snapshots
from app.store import errors, schemas, snapshot_format, stores
from app.store.decisions import records
from app.store.health import durability, readiness
from app.store.log import batches, readers
from app.store.state import subscribers
from tests.support import declared
from tests.support.store import crash_safe_server, servers, writers
from workers.compactor import compactors

NAMES = declared.names("c")


@contextlib.contextmanager
def served(
    directory: Path, *lines: str, timeout: float = 1.0
) -> Iterator[tuple[servers.Server, stores.Store]]:
    server = servers.Server(directory / "s", ["appendonly yes", *lines])
    options = settings.Store(url=f"redis://{server.address}", socket_timeout=timeout)
    with schemas.connect(options, NAMES) as client:
        schemas.migrate(client, NAMES, declared.SCHEMA)
    store = stores.open_store(options, schema=declared.SCHEMA, cluster="c")
    try:
        yield server, store
    finally:
        store.close()
        server.kill()


def append(store: stores.Store, count: int = 1, *, weight: int = 0) -> batches.Appended:
    """``weight``: bytes that each event is heavier by."""
    batch = [writers.seen(secrets.token_hex(4), note="x" * weight) for _ in range(count)]
    return store.log.append(batches.Batch(events=batch))


def append_until_refused(store: stores.Store, *, weight: int) -> tuple[int, str]:
    """The last offset acknowledged, and the refusal after it."""
    last = 0
    for _ in range(10_000):
        try:
            last = append(store, 20, weight=weight).last
        except errors.StoreAway as away:
            if "refuses work" in str(away):
                return last, str(away)
            last = store.log.head().offset  # No reply in time: the outcome is not known.
    pytest.fail("nothing ever refused")


def nothing_is_missing(store: stores.Store, last: int) -> None:
    """Everything that was acknowledged is there, once, and the views are its fold."""
    assert store.follower.catch_up().offset == store.log.head().offset == last
    found = [raw.offset for raw in store.log.raws(store.log.oldest() - 1, last)]
    assert found == list(range(store.log.oldest(), last + 1))


# -- memory --------------------------------------------------------------------------------


def test_a_full_memory_stops_appends_and_not_reads_and_trimming_frees_memory(tmp_path: Path) -> None:
    with served(tmp_path, "maxmemory-policy noeviction") as (server, store):
        compactor = compactors.Compactor(store, settings.Compaction(events=200, keep=150, checkpoints=3))
        for _ in range(5):
            append(store, 50, weight=5_000)
        compactor.run_once()
        assert [header.offset for header in store.checkpoints.headers()] == [250]
        # Capacity for more events than the compactor keeps: Redis 8.2 needs 12 KB for one of this weight.
        server.ask("CONFIG", "SET", "maxmemory", str(int(_info(server, "used_memory:")) + 2_500_000))
        last, error = append_until_refused(store, weight=5_000)
        assert last > 400
        assert "used memory > 'maxmemory'" in error
        # Reads of the present and the past continue, and a reader can still report a loss.
        nothing_is_missing(store, last)
        assert store.histories.at(100).offset == 100
        assert store.log.report_loss(store.log.seen)
        server.ask("CONFIG", "SET", "maxmemory", str(int(_info(server, "used_memory:")) - 300_000))
        # No space for a checkpoint, but the existing one allows trimming, which is the way out.
        with pytest.raises(errors.StoreAway, match="maxmemory"):
            compactor.run_once()
        assert store.log.oldest() == 250
        compactor.run_once()
        assert append(store).first == last + 1
        nothing_is_missing(store, last + 1)
        assert _info(server, "evicted_keys:") == "0"


def test_a_checkpoint_that_a_full_memory_refuses_leaves_nothing_in_it(tmp_path: Path) -> None:
    with served(tmp_path, "maxmemory-policy noeviction") as (server, store):
        append(store)
        taken = snapshot_format.serialize(store.follower.catch_up(), cluster="c", at_ms=1)
        parts = [secrets.token_bytes(250_000) for _ in range(20)]
        large = snapshot_format.SerializedSnapshot(
            msgspec.structs.replace(taken.header, lines=len(parts)), parts
        )
        server.ask("CONFIG", "SET", "maxmemory", str(int(_info(server, "used_memory:")) + 2_000_000))
        for _ in range(3):
            with pytest.raises(errors.StoreAway, match="maxmemory"):
                store.checkpoints.keep(large)
            assert (
                list(store.client.scan_iter(NAMES.checkpoint(taken.header.offset, "*", 0)[:-1] + "*")) == []
            )
        append(store, 50, weight=5_000)
        assert store.checkpoints.keep(taken).lines == taken.header.lines


# -- disk ----------------------------------------------------------------------------------


def test_a_full_disk_stops_appends_and_not_reads_until_there_is_space(tmp_path: Path) -> None:
    with served(tmp_path, "auto-aof-rewrite-percentage 0") as (server, store):
        append(store, 10)
        looked = readiness.DurabilityCheck(store.client, durable=True)
        assert looked.problem() is None
        # As a disk of limited size: a file cannot grow beyond its limit.
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
        last, error = append_until_refused(store, weight=5_000)
        assert "MISCONF" in error
        assert "AOF" in error
        nothing_is_missing(store, last)
        with schemas.connect(settings.Store(url=f"redis://{server.address}"), NAMES) as client:
            found = {one.subject: one for one in durability.persistence(readiness.facts(client))}
        assert found["aof writes"].grade == "bad"
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        after = append_in_the_end(store)
        # Nothing that was acknowledged is missing, now or after a restart.
        assert after.first >= last + 1
        nothing_is_missing(store, after.last)
        crash_safe_server.await_written(f"redis://{server.address}")
        server.kill()
        server.start()
        servers.eventually(lambda: store.client.ping(), "the server is back")
        nothing_is_missing(store, after.last)


def append_in_the_end(store: stores.Store) -> batches.Appended:
    """As the recorder does it: again and again the same."""
    done: list[batches.Appended] = []

    def tried() -> bool:
        with contextlib.suppress(errors.StoreAway):
            done.append(append(store))
        return bool(done)

    servers.eventually(tried, "an append goes through")
    return done[0]


# -- a busy server -------------------------------------------------------------------------

ENDLESS = """#!lua name=endless
local function endless() while true do end end
redis.register_function{function_name='endless', callback=endless, flags={'no-writes'}}
"""


def test_a_server_that_is_busy_with_a_script_is_away_until_it_ends(tmp_path: Path) -> None:
    with served(tmp_path, "busy-reply-threshold 50", timeout=1.0) as (server, store):
        store.start()
        last = append(store, 3).last
        servers.eventually(lambda: store.follower.snapshot.offset == last, "it is followed")
        with redis.Redis(port=server.port) as other:
            other.function_load(ENDLESS)
        busy = threading.Thread(target=_endless, args=(server.port,))
        busy.start()
        with pytest.raises(errors.StoreAway):
            servers.eventually(lambda: append(store) and False, "an append is refused")
        with pytest.raises(errors.StoreAway, match="FUNCTION KILL"):
            append(store)
        with pytest.raises(errors.StoreAway):
            store.follower.catch_up(timeout=0.3)
        # What was known before can still be read, and how old it is.
        assert len(store.follower.snapshot.pods) >= 3
        servers.eventually(lambda: store.follower.error is not None, "readiness shows it")
        server.ask("FUNCTION", "KILL")
        busy.join()
        after = append(store).last
        servers.eventually(lambda: store.follower.snapshot.offset == after, "it is followed again")
        servers.eventually(lambda: store.follower.error is None, "readiness shows that too")
        nothing_is_missing(store, after)


def _endless(port: int) -> None:
    with redis.Redis(port=port) as client, contextlib.suppress(redis.ResponseError):
        client.fcall_ro("endless", 0)


# -- slow readers --------------------------------------------------------------------------


def test_a_slow_subscriber_stops_the_follower_from_reading_ahead(store: stores.Store) -> None:
    follower, release, offsets = store.follower, threading.Event(), []

    def slow(before: snapshots.Snapshot, after: snapshots.Snapshot, entry: readers.Entry) -> None:
        release.wait(servers.LIMIT)
        offsets.append(entry.offset)

    follower.start()
    assert follower.wait_until_caught_up(timeout=servers.LIMIT)
    follower.subscribe(slow)
    total = 4 * subscribers.MAX_PENDING
    for _ in range(total // 200):
        append(store, 200)
    # The snapshot stays behind the head until the subscribers were notified of the events in between.
    with pytest.raises(errors.StoreAway, match="events behind"):
        follower.catch_up(timeout=2.0)
    assert len(follower._subscribers) <= subscribers.MAX_PENDING + readers.CHUNK
    assert follower.snapshot.offset < total
    release.set()
    servers.eventually(lambda: len(offsets) == total, "all events were delivered")
    assert offsets == list(range(1, total + 1))
    assert follower.catch_up().offset == total


def test_a_reader_that_takes_nothing_costs_the_server_one_answer(store: stores.Store) -> None:
    for _ in range(30):
        append(store, 200, weight=500)
    reads = store.log.read_all(0)
    assert next(reads).last == readers.CHUNK
    # The next answer waits in its connection, and no third one: it was not asked for.
    assert _buffered(store) < 1_500_000
    assert max(read.last for read in reads) == 6000


def _buffered(store: stores.Store) -> int:
    """Bytes of the largest output buffer of any client."""
    clients: list[dict[str, str]] = store.client.client_list()
    return max(int(client["omem"]) for client in clients)


def test_decisions_that_are_not_written_are_dropped_by_count_and_by_weight(store: stores.Store) -> None:
    kept = store.decisions
    pod, position = writers.pod("u"), store.log.head()
    wide = tuple(f"node-{number}" for number in range(15_000))

    def draft(names: tuple[str, ...]) -> records.Draft:
        return records.Draft(
            position=position,
            verb="filter",
            pod=pod,
            names=names,
            configuration="c",
            kept=0,
            outcome="refused",
            at="2026-01-01T00:00:00Z",
            milliseconds=0.1,
        )

    for _ in range(1000):
        kept.record(draft(wide))
    assert kept.waiting * len(wide) <= 4_100_000
    assert kept.dropped == 1000 - kept.waiting
    for _ in range(10_000):
        kept.record(draft(("a",)))
    assert kept.waiting <= 8_192


def _info(server: servers.Server, name: str) -> str:
    return next(line.partition(":")[2] for line in servers.info(server).splitlines() if line.startswith(name))
