"""What the auditor does about a store that was damaged by hand, whatever was repaired before."""

import threading
from collections.abc import Callable

import pytest

from app.domain import events
from app.store import logs, opening
from tests.workers import conftest, test_auditing
from workers import recording, repairing

REPAIRING = test_auditing.REPAIRING


@pytest.fixture
def watched(
    cluster_side: conftest.Cluster,
    recorded: Callable[[], conftest.Recording],
    again: Callable[..., opening.Store],
    monkeypatch: pytest.MonkeyPatch,
) -> test_auditing.World:
    """A cluster that is recorded, and an auditor that repairs."""
    monkeypatch.setattr(recording, "MARKS_EVERY", 0.02)
    for name, zone in (("n1", "a"), ("n2", "b")):
        cluster_side.node(name, zone=zone)
    cluster_side.policy("p", a=5, b=5)
    for number in range(4):
        cluster_side.pod(f"w{number}", node=f"n{1 + number % 2}", app="x")
    recorder = recorded().ready()
    recorder.until_counts(a=2, b=2)
    made = test_auditing.World(cluster_side, recorder, again, REPAIRING)
    assert made.looked().differences == ()
    return made


def healed(world: test_auditing.World) -> None:
    """The views become those of the log, and what is appended next is in nobody's way."""
    store = world.store
    conftest.eventually(
        lambda: (
            world.auditor.turn()
            and store.log.versions() == dict(world.recorder.snapshot.versions)
            and store.log.counts() == dict(world.recorder.snapshot.counts)
        ),
        f"the views are those of the log: {world.auditor.report}",
    )
    assert world.looked().differences == ()


def versions_deleted(world: test_auditing.World) -> None:
    world.client.delete(world.keys.versions)


def counts_deleted(world: test_auditing.World) -> None:
    world.client.delete(world.keys.counts)


def mark_of_repairs_changed(world: test_auditing.World) -> None:
    world.client.hset(world.keys.versions, repairing.VIEWS, "many")


@pytest.mark.parametrize("damage", [versions_deleted, counts_deleted, mark_of_repairs_changed])
def test_a_view_is_repaired_again_whatever_was_repaired_before(
    watched: test_auditing.World, damage: Callable[[test_auditing.World], None]
) -> None:
    for _ in range(2):
        damage(watched)
        healed(watched)
        test_auditing._place(watched)
        assert watched.looked().differences == ()


def test_a_view_is_repaired_in_parts_of_one_turn(
    watched: test_auditing.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repairing, "MOST", 2)
    subjects = len(watched.store.log.versions())
    assert subjects > 2 * 2
    watched.client.delete(watched.keys.versions)
    before = watched.head
    conftest.eventually(
        lambda: watched.auditor.turn() and watched.head > before, "the auditor has repaired something"
    )
    entries = watched.store.log.read(before)
    repairs = [entry.event for entry in entries if isinstance(entry.event, events.ViewsRepaired)]
    assert [len(one.moved) for one in repairs] == [2] * (subjects // 2) + [1] * (subjects % 2)
    healed(watched)


def test_a_view_is_repaired_while_others_append(
    watched: test_auditing.World, again: Callable[..., opening.Store]
) -> None:
    stopping = threading.Event()
    other = again()

    def write() -> None:
        while not stopping.is_set():
            other.log.append(logs.Batch(events=(events.RelistRequested("nothing", "a test"),)))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(2):
            watched.client.delete(watched.keys.versions)
            watched.client.hincrby(watched.keys.counts, test_auditing.counted(watched, "a"), 3)
            conftest.eventually(
                lambda: (
                    watched.auditor.turn()
                    and watched.auditor.report is not None
                    and watched.auditor.report.differences == ()
                    and "node:n1" in watched.store.log.versions()
                ),
                f"they are repaired: {watched.auditor.report}",
            )
    finally:
        stopping.set()
        thread.join(conftest.LIMIT)
    healed(watched)
