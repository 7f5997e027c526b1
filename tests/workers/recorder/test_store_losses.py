"""A store that lost events: the loss is noticed, reported as a range, and the cluster is listed again."""

import pathlib
import random
from typing import Any

import pytest

from app import settings
from app.domain import events, model, projections
from app.store import errors, schemas
from app.store.log import batches, incarnations
from tests.support import declared
from tests.support.store import archive_ends
from tests.support.workers import leadership_events, lossy_worlds, recordings
from workers.compactor import compactors


def test_a_flushed_store_is_filled_again_while_all_processes_run(own: lossy_worlds.World) -> None:
    recording = lossy_worlds.filled(own)
    former = own.log.incarnation
    head = own.extender.follower.catch_up().offset
    own.extender.client.flushall()
    with pytest.raises(errors.StoreError):
        own.extender.log.append(batches.Batch(events=()))
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    recordings.eventually(lambda: recording.recorder.ready, "the recorder is ready again")
    ((offset, rewound),) = leadership_events.rewinds(own.log)
    assert offset == 1
    assert (rewound.from_incarnation, rewound.lost_from) == (former, 1)
    assert rewound.lost_to >= head - 1
    assert set(rewound.relisting) == lossy_worlds.ALL_KINDS
    assert incarnations.later(own.log.incarnation, former)
    assert recording.thread.is_alive()
    assert schemas.status(own.extender.client, own.extender.keys).ready
    with pytest.raises(errors.Superseded, match=f"oldest one that is kept is {own.log.incarnation}/1"):
        own.extender.histories.of(model.Position(former, 3))
    own.cluster.node("later")
    own.healed()


@pytest.mark.parametrize("seed", range(6))
def test_a_file_cut_anywhere_is_noticed_and_healed(own: lossy_worlds.World, seed: int) -> None:
    begin = own.size
    lossy_worlds.filled(own)
    former, head = own.log.incarnation, own.extender.follower.catch_up().offset
    rng = random.Random(seed)
    own.cut(rng.randint(begin, own.size - 1))
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    ((offset, rewound),) = leadership_events.rewinds(own.log)
    # What is before it is what the server still held, and the range is exactly the rest.
    assert rewound.from_incarnation == former
    assert rewound.lost_from == offset
    assert rewound.lost_to >= head
    listed = [one.event for one in own.log.read(offset) if isinstance(one.event, events.Relisted)]
    assert {one.kind for one in listed} == lossy_worlds.ALL_KINDS
    assert {one.reason for one in listed} == {"the store lost events"}


def test_a_restored_backup_is_noticed_and_healed(own: lossy_worlds.World) -> None:
    recording = lossy_worlds.filled(own)
    size = own.size
    former = own.log.incarnation
    for at in range(20):
        own.cluster.pod(f"later-{at}", node="n0", app="x")
    own.healed()
    recording.until(lambda one: len(one.pods) == 32, "all is recorded")
    own.cut(size)
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    # And once more, to the same backup: of an earlier incarnation now.
    second = own.log.incarnation
    own.cut(size)
    recordings.eventually(lambda: own.log.incarnation not in (former, second), "it follows on again")
    own.healed()
    assert incarnations.later(own.log.incarnation, second)


def test_a_loss_is_noticed_by_a_recorder_that_starts_after_it(own: lossy_worlds.World) -> None:
    """No process ran when it happened; only the last leader's note in the Lease shows it."""
    recording = lossy_worlds.filled(own)
    own.extender.follower.stop()
    size = own.size
    own.cluster.pod("later", node="n0", app="x")
    recording.until(lambda one: any(pod.name == "later" for pod in one.pods.values()), "it is recorded")
    former, seen = own.log.incarnation, recording.store.log.seen
    recording.stop()
    own.cut(size)
    second = own.record().ready()
    ((_, rewound),) = leadership_events.rewinds(second.store.log)
    assert (rewound.from_incarnation, rewound.lost_to) == (former, seen.offset)
    assert rewound.by == second.elector.identity


def test_a_loss_that_only_the_archive_shows_is_healed(
    own: lossy_worlds.World, tmp_path: pathlib.Path
) -> None:
    """Store and Lease are restored from one backup, and every process is a new one."""
    recording = lossy_worlds.filled(own)
    own.extender.follower.stop()
    size, archive, options = own.size, str(tmp_path / "archive"), settings.Compaction(events=1)
    own.cluster.pod("later", node="n0", app="x")
    recording.until(lambda one: any(pod.name == "later" for pod in one.pods.values()), "it is recorded")
    archiving = own.open(archive)
    compactors.Compactor(archiving, options).run_once()
    assert archiving.archive is not None
    former, kept, archived = own.log.incarnation, own.log.seen.offset, archive_ends.last(archiving.archive)
    recording.stop()
    own.cluster.server.objects.remove("leases", ("ns", "topolog-recorder"))
    own.cut(size)
    second = own.record().ready()
    assert second.store.log.incarnation == former
    with pytest.raises(errors.Rewound):
        compactors.Compactor(own.open(archive), options).run_once()
    own.healed()
    ((_, rewound),) = leadership_events.rewinds(second.store.log)
    assert (rewound.from_incarnation, rewound.lost_from, rewound.lost_to) == (former, kept + 1, archived)


def test_a_recorder_that_takes_over_waits_for_the_rest_of_the_settle_time(own: lossy_worlds.World) -> None:
    """A predecessor that was stopped meanwhile has waited for a part of it only."""
    recording = lossy_worlds.filled(own)
    former = own.log.incarnation
    recording.stop()
    own.extender.client.flushall()
    first = own.record(settle=2.0)
    recordings.eventually(lambda: own.log.state().incarnation != former, "a new incarnation")
    first.stop()
    second = own.record(settle=2.0).ready()
    times = {type(one.event): one.at_ms for one in reversed(second.store.log.read(0))}
    assert times[events.Relisted] - times[events.StoreRewound] >= 2_000
    assert {one.by for one in leadership_events.leaders(second.store.log)} >= {second.elector.identity}
    # Who takes over once everything is listed again has nothing to wait for.
    at = second.store.log.head().offset
    second.stop()
    third = own.record(settle=60.0).ready()
    own.cluster.node("later")
    third.until(lambda one: "later" in one.nodes, "it records")
    assert not [one for one in third.store.log.read(at) if isinstance(one.event, events.Relisted)]


def test_a_store_emptied_while_no_process_ran_is_filled_again(own: lossy_worlds.World) -> None:
    recording = lossy_worlds.filled(own)
    own.extender.follower.stop()
    former = own.log.incarnation
    recording.stop()
    own.extender.client.flushall()
    second = own.record().ready()
    ((_, rewound),) = leadership_events.rewinds(second.store.log)
    assert (rewound.from_incarnation, rewound.lost_from) == (former, 1)
    # The same if an empty log was made of it meanwhile.
    third = second.store.log.incarnation
    second.stop()
    own.extender.client.flushall()
    schemas.migrate(own.extender.client, own.extender.keys, declared.SCHEMA)
    ((_, rewound),) = leadership_events.rewinds(own.record().ready().store.log)
    assert rewound.from_incarnation == third


def test_a_loss_is_reported_from_its_start_although_the_log_has_grown_again(own: lossy_worlds.World) -> None:
    """The writer had not read the lost entries; a reader that had reports where they began."""
    lossy_worlds.filled(own).stop()
    own.extender.follower.catch_up()
    size, first = own.size, own.log.head().offset + 1
    for at in range(3):
        own.log.append(batches.Batch(events=(events.Quarantined("notes", f"n{at}", "lost"),)))
    own.extender.follower.catch_up()
    own.extender.follower.stop()
    own.cut(size)
    second = own.record().ready()
    own.cluster.node("later")
    second.until(lambda one: "later" in one.nodes, "the log grows again")
    former = own.log.incarnation
    own.extender.follower.start()
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    ((offset, rewound),) = leadership_events.rewinds(own.log)
    assert offset > first
    assert (rewound.lost_from, rewound.lost_to) == (first, first + 2)


def test_an_empty_store_that_never_held_a_log_is_left_alone(own: lossy_worlds.World) -> None:
    own.extender.client.flushall()
    recording = own.record()
    recording.thread.join(recordings.LIMIT)
    assert isinstance(recording.error, errors.SchemaMismatch)


def test_a_loss_that_one_reader_reports_stops_every_writer(own: lossy_worlds.World) -> None:
    recording = lossy_worlds.filled(own)
    recording.stop()
    unaware = own.open()
    behind = unaware.log.read(0)[-1].offset
    own.cut(own.size - 40)
    recordings.eventually(
        lambda: own.log.state().lost is not None, "the extender's follower has reported it to the store"
    )
    for refused in (
        lambda: unaware.log.append(batches.Batch(events=())),
        lambda: unaware.log.read(0),
        lambda: unaware.follower.catch_up(),
    ):
        with pytest.raises(errors.Rewound):
            refused()
    own.record().ready()
    own.healed()
    assert unaware.follower.catch_up().offset > behind - 1


def test_a_decision_on_a_former_incarnation_is_not_appended_to_the_next(own: lossy_worlds.World) -> None:
    lossy_worlds.filled(own)
    extender, pod = own.extender, model.Pod(uid="u", namespace="ns", name="late", labels={"app": "x"})
    before = extender.follower.catch_up()
    extender.client.flushall()
    recordings.eventually(lambda: own.log.incarnation != before.position.incarnation, "a new incarnation")
    own.healed()
    projection = projections.Projection(before)
    placed = events.placed(pod, "n0")
    projection.apply(placed)
    guard = batches.Guard(incarnation=before.position.incarnation, versions={"pod:u": 0})
    with pytest.raises(errors.Rewound, match="decide again"):
        extender.log.append(batches.Batch(events=(placed,), increments=projection.increments), guard)
    assert "u" not in extender.follower.catch_up().placements


def test_placements_that_the_tail_still_holds_stay(own: lossy_worlds.World) -> None:
    lossy_worlds.filled(own)
    pod = own.cluster.pod("placed", app="x")
    snapshot = own.extender.follower.catch_up()
    placed = events.placed(pod, "n0")
    projection = projections.Projection(snapshot)
    projection.apply(placed)
    batch: Any = batches.Batch(events=(placed,), increments=projection.increments)
    while True:
        try:
            own.extender.log.append(batch, batches.Guard(head=snapshot.offset))
            break
        except errors.Conflict:
            snapshot = own.extender.follower.catch_up()
            projection = projections.Projection(snapshot)
            projection.apply(placed)
            batch = batches.Batch(events=(placed,), increments=projection.increments)
    size = own.size
    own.cluster.node("lost")
    own.healed()
    former = own.log.incarnation
    own.cut(size)
    recordings.eventually(lambda: own.log.incarnation != former, "the extender follows on")
    own.healed()
    assert own.extender.follower.catch_up().placements[pod.uid].node == "n0"
