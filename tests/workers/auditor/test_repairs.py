"""The auditor repairs a store that was damaged by hand, whatever was repaired before."""

import threading
from collections.abc import Callable

import pytest

from app.domain import events
from app.store import stores
from app.store.log import batches
from tests.support.store import materialised
from tests.support.workers import audits, clusters, recordings
from workers.auditor import repairs
from workers.recorder import log_writer

REPAIRING = audits.REPAIRING


@pytest.fixture
def watched(
    cluster_side: clusters.Cluster,
    recorded: Callable[[], recordings.Recording],
    again: Callable[..., stores.Store],
    monkeypatch: pytest.MonkeyPatch,
) -> audits.World:
    """A recorded cluster with an auditor that repairs."""
    monkeypatch.setattr(log_writer, "RESUME_VERSIONS_EVERY", 0.02)
    return audits.watched(cluster_side, recorded(), again, REPAIRING)


def healed(world: audits.World) -> None:
    """Wait until the views equal the log, and later appends succeed."""
    store = world.store
    recordings.eventually(
        lambda: (
            world.auditor.run_once()
            and materialised.versions(store) == dict(world.recorder.snapshot.versions)
            and materialised.counts(store) == dict(world.recorder.snapshot.counts)
        ),
        f"the views are those of the log: {world.auditor.report}",
    )
    assert world.audited().differences == ()


def versions_deleted(world: audits.World) -> None:
    world.client.delete(world.keys.versions)


def counts_deleted(world: audits.World) -> None:
    world.client.delete(world.keys.counts)


def mark_of_repairs_changed(world: audits.World) -> None:
    world.client.hset(world.keys.versions, "store:views", "many")


@pytest.mark.parametrize("damage", [versions_deleted, counts_deleted, mark_of_repairs_changed])
def test_a_view_is_repaired_again_whatever_was_repaired_before(
    watched: audits.World, damage: Callable[[audits.World], None]
) -> None:
    for _ in range(2):
        damage(watched)
        healed(watched)
        audits.place(watched)
        assert watched.audited().differences == ()


def test_a_view_is_repaired_in_parts_of_one_turn(
    watched: audits.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repairs, "MAX_KEYS", 2)
    subjects = len(materialised.versions(watched.store))
    assert subjects > 2 * 2
    watched.client.delete(watched.keys.versions)
    before = watched.head
    recordings.eventually(
        lambda: watched.auditor.run_once() and watched.head > before, "the auditor has repaired something"
    )
    entries = watched.store.log.read(before)
    made = [entry.event for entry in entries if isinstance(entry.event, events.ViewsRepaired)]
    assert [len(one.moved) for one in made] == [2] * (subjects // 2) + [1] * (subjects % 2)
    healed(watched)


def test_a_view_is_repaired_while_others_append(
    watched: audits.World, again: Callable[..., stores.Store]
) -> None:
    stopping = threading.Event()
    other = again()

    def write() -> None:
        while not stopping.is_set():
            other.log.append(batches.Batch(events=(events.RelistRequested("nothing", "a test"),)))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(2):
            watched.client.delete(watched.keys.versions)
            watched.client.hincrby(watched.keys.counts, audits.counted(watched, "a"), 3)
            recordings.eventually(
                lambda: (
                    watched.auditor.run_once()
                    and watched.auditor.report is not None
                    and watched.auditor.report.differences == ()
                    and "node:n1" in materialised.versions(watched.store)
                ),
                f"they are repaired: {watched.auditor.report}",
            )
    finally:
        stopping.set()
        thread.join(recordings.LIMIT)
    healed(watched)
