"""A clock of the store that is set, on a real server: no live reader counts as dead for it."""

import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import pytest

from app import settings
from app.store import errors, schemas, stores
from app.store.log import consumers, logs
from app.store.server import connections
from tests.support.store import embedded_stores
from tests.support.workers import compactions
from workers.compactor import compactors

AHEAD = "ahead"
"""A key of the server: the seconds by which its functions show another time than its machine."""
NOW = "redis.call('TIME')"
SHIFTED = f"{{ {NOW}[1] + (redis.call('GET', '{AHEAD}') or 0), {NOW}[2] }}"
OPTIONS = settings.Compaction(events=20, keep=0, checkpoints=5, reader_timeout=60)


class World(NamedTuple):
    """A log of 40 entries, its compactor, a reader, and the clocks of all."""

    store: stores.Store
    compactor: compactors.Compactor
    reader: consumers.Consumer
    passed: mock.Mock
    """Replaces ``time`` where heartbeats are sent."""

    def set_clock(self, seconds: int) -> None:
        """Set the store's clock."""
        self.store.client.incrby(AHEAD, seconds)

    def wait(self, seconds: int) -> None:
        """Let time pass everywhere."""
        self.set_clock(seconds)
        self.passed.monotonic.return_value += seconds

    @contextlib.contextmanager
    def late_replies(self, seconds: int, step: int = 0) -> Iterator[None]:
        """The replies to heartbeats arrive late, and the store's clock is set before each by ``step``."""
        ask = connections.Wire.ask

        def late(
            wire: connections.Wire, packed: connections.Packed, *, timeout: float | None = None
        ) -> connections.Reply:
            heartbeat = any(b"attend" in bytes(part) for part in packed)
            if heartbeat:
                self.set_clock(step)
            reply = ask(wire, packed, timeout=timeout)
            if heartbeat:
                self.wait(seconds)
            return reply

        with mock.patch.object(connections.Wire, "ask", late):
            yield

    def compacted(self) -> int:
        """The oldest entry after a run of the compactor."""
        self.compactor.run_once()
        return self.store.log.oldest()


@pytest.fixture
def world() -> Iterator[World]:
    shifted = schemas.library().replace(NOW, SHIFTED)
    passed = mock.Mock(monotonic=mock.Mock(return_value=time.monotonic()))
    with (
        mock.patch.object(schemas, "library", return_value=shifted),
        mock.patch.object(consumers, "time", passed),
        embedded_stores.opened(None, "c") as (store, server),
        compactions.reopened(store, server) as other,
    ):
        compactions.History(store).go_on(40)
        reader = consumers.Consumer(store.client, store.keys)
        reader.heartbeat_now(15)
        yield World(store, compactors.Compactor(other, OPTIONS), reader, passed)


@pytest.mark.parametrize("seconds", [120, -120, 8 * 3600, -8 * 3600])
def test_nothing_is_trimmed_under_a_reader_because_the_clock_of_the_store_was_set(
    world: World, seconds: int
) -> None:
    assert world.compacted() == 1
    world.set_clock(seconds)
    assert world.compacted() == 1
    world.wait(5)
    world.reader.heartbeat_now(40)
    assert world.compacted() == 1, "another reader may not have sent a heartbeat yet"
    world.wait(56)
    world.reader.heartbeat_now(40)
    assert world.compacted() == 40


def test_a_clock_that_is_slewed_delays_no_trim(world: World) -> None:
    assert world.compacted() == 1
    world.set_clock(2)
    world.reader.heartbeat_now(40)
    assert world.compacted() == 40


def test_nothing_is_trimmed_after_a_failover_before_the_clock_of_the_new_server_is_known(
    world: World,
) -> None:
    assert world.compacted() == 1
    world.set_clock(120)
    world.store.client.client_kill_filter(_type="normal", skipme=True)
    for _ in range(3):
        with contextlib.suppress(errors.StoreAway):
            world.compactor.run_once()
    assert world.store.log.oldest() == 1
    assert world.compacted() == 1


def test_late_replies_to_heartbeats_stop_no_trimming(world: World) -> None:
    assert world.compacted() == 1
    world.reader.heartbeat_now(40)
    with world.late_replies(4):
        assert world.compacted() == 40


def test_a_reply_that_is_too_late_to_exclude_a_step_trims_nothing(world: World) -> None:
    assert world.compacted() == 1
    with world.late_replies(seconds=58, step=57):
        assert world.compacted() == 1
    assert world.compacted() == 1, "the next reply shows the step"
    assert world.compactor.problem["clock"]
    world.wait(61)
    world.reader.heartbeat_now(40)
    assert world.compacted() == 40
    assert "clock" not in world.compactor.problem


def test_a_failover_in_the_middle_of_a_trim_ends_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactors, "_STEP", 5)
    log_trim = logs.Log.trim

    def trim(log: logs.Log, keep: int, checkpoint: int, *, reader_timeout: float) -> int:
        removed = log_trim(log, keep, checkpoint, reader_timeout=reader_timeout)
        if keep == 6:
            world.set_clock(120)
        return removed

    monkeypatch.setattr(logs.Log, "trim", trim)
    assert world.compacted() == 6
    assert world.compacted() == 6
