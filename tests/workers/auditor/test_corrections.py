"""What the auditor does about a difference: it repairs views once, and requests lists for facts."""

from collections.abc import Callable

import pytest

from app.domain import events
from app.store import errors, keys, stores
from tests.support.store import materialised
from tests.support.workers import audits, corruptions, recordings


def test_counts_and_versions_are_corrected_by_an_event(world: audits.World) -> None:
    counts, versions = materialised.counts(world.store), materialised.versions(world.store)
    for plant in (
        corruptions.count_raised,
        corruptions.count_invented,
        corruptions.version_raised,
        corruptions.version_invented,
        corruptions.version_deleted,
    ):
        plant(world)
    before = world.head
    auditor = world.another(audits.REPAIRING)
    report = world.audited(auditor)
    assert report.differences == ()
    assert [(one.what, one.offset) for one in report.repairs] == [
        ("counts", before + 1),
        ("versions", before + 1),
    ]
    assert materialised.counts(world.store) == counts
    repaired = {"store:views": before + 1, "node:n1": before + 1, "node:n2": before + 1}
    assert (
        materialised.versions(world.store)
        == {**versions, **repaired}
        == dict(world.recorder.snapshot.versions)
    )
    (entry,) = world.store.log.read(before)
    assert isinstance(entry.event, events.ViewsRepaired)
    assert (entry.event.by, entry.event.ended) == (auditor.identity, ("pod:unknown",))
    # And the next writer conflicts with no other.
    corruptions.placed_and_counted(world, 1)
    assert world.audited(auditor).differences == ()


def test_two_auditors_repair_once(world: audits.World) -> None:
    others = [world.another(audits.REPAIRING) for _ in range(2)]
    for other in others:
        assert world.audited(other).differences == ()
    key = audits.counted(world, "a")
    world.client.hincrby(world.keys.counts, key, 3)
    for _ in range(4):
        for other in others:
            other.run_once()
    repaired = [
        entry.event for entry in world.store.log.read(0) if isinstance(entry.event, events.ViewsRepaired)
    ]
    assert [one.counts for one in repaired] == [{key: -3}]
    assert materialised.counts(world.store)[key] == 2


def test_views_are_not_repaired_while_the_log_has_findings(world: audits.World) -> None:
    auditor = world.another(audits.REPAIRING)
    world.audited(auditor)
    corruptions.entry_edited(world)
    auditor.run_once()
    key = audits.counted(world, "a")
    world.client.hincrby(world.keys.counts, key, 3)
    report = world.audited(auditor)
    assert {one.kind for one in report.differences} == {"edited", "count"}
    assert report.repairs == ()
    assert materialised.counts(world.store)[key] == 5


@pytest.mark.parametrize(
    "plant",
    [corruptions.fact_lost, corruptions.fact_invented, corruptions.fact_changed],
    ids=lambda plant: plant.__name__.replace("_", " "),
)
def test_facts_are_corrected_by_a_requested_list(
    world: audits.World, plant: Callable[[audits.World], list[corruptions.Found]]
) -> None:
    counts = materialised.counts(world.store)
    plant(world)
    auditor = world.another(audits.REPAIRING)
    recordings.eventually(
        lambda: bool(auditor.run_once()) and auditor.report is not None and bool(auditor.report.repairs),
        "a list is asked for",
    )
    recordings.eventually(
        lambda: bool(auditor.run_once()) and auditor.report is not None and not auditor.report.differences,
        "the recorder mends it",
    )
    assert materialised.counts(world.store) == counts
    asked = [
        entry.event for entry in world.store.log.read(0) if isinstance(entry.event, events.RelistRequested)
    ]
    listed = [entry.event for entry in world.store.log.read(0) if isinstance(entry.event, events.Relisted)]
    assert len(asked) == 1
    assert listed[-1].kind == asked[0].kind
    assert listed[-1].reason.startswith("asked by the auditor")


def test_an_auditor_that_restarts_replays_an_edited_entry_and_corrects_its_facts(
    world: audits.World, again: Callable[..., stores.Store]
) -> None:
    counts = materialised.counts(world.store)
    corruptions.entry_edited(world)
    restarted = recordings.Recording(again(), world.cluster).ready()
    try:
        auditor = world.another(audits.REPAIRING)
        report = world.audited(auditor)
        recordings.eventually(
            lambda: (
                bool(auditor.run_once()) and auditor.report is not None and not auditor.report.differences
            ),
            f"it is mended: {report.differences}",
        )
        assert materialised.counts(world.store) == counts == dict(restarted.snapshot.counts)
    finally:
        restarted.stop()


def test_an_entry_that_was_added_beyond_the_head_can_be_adopted(
    world: audits.World, again: Callable[..., stores.Store]
) -> None:
    (wrong,) = corruptions.entry_added(world)
    assert world.audited().total == 1
    with pytest.raises(errors.StoreError):
        audits.place(world)
    # As docs/how-to/consistency.md describes.
    at_ms = world.store.log.time_of(wrong.offset)
    assert at_ms is not None
    world.client.hset(world.keys.meta, mapping={keys.HEAD: wrong.offset, "at": at_ms})
    restarted = recordings.Recording(again(), world.cluster).ready()
    try:
        auditor = world.another(audits.REPAIRING)

        def mended() -> bool:
            auditor.run_once()
            assert auditor.report is not None
            done = {one.what for one in auditor.report.repairs} == {"counts", "versions", "pods"}
            return done and {one.kind for one in auditor.board} == {"fence"}

        recordings.eventually(
            mended, "it is taken for what it is, not counted and not true; its origin stays"
        )
        assert "added" not in restarted.snapshot.pods
        audits.place(world)
    finally:
        restarted.stop()
