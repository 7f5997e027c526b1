"""A restarted store: all kinds are listed again, since what it lost is perhaps in no note and no reader."""

import pytest
from structlog import testing

from app.domain import events, projections
from app.store import errors, keys, schemas
from app.store.log import batches
from app.store.server import connections
from tests.support.simulation.store import lagging_replica, lossy_calls
from tests.support.workers import leadership_events, lossy_worlds, recordings

RESTARTED = "the store was restarted"
WAITS = "everything is listed again once the Bindings under way have ended"


def test_a_placement_lost_without_a_reader_is_not_forgotten_in_silence(own: lossy_worlds.World) -> None:
    """A power failure of everything at once: the file lacks an end that no note and no reader names."""
    recording = lossy_worlds.filled(own)
    own.extender.follower.stop()
    recording.stop()
    size = own.size
    pod = own.cluster.pod("placed", app="x")
    extender = own.open()
    snapshot = extender.follower.catch_up()
    placed = events.placed(pod, "n0")
    projection = projections.Projection(snapshot)
    projection.apply(placed)
    extender.log.append(batches.Batch(events=(placed,), increments=projection.increments))
    own.cut(size)
    before = own.open()
    with pytest.raises(errors.Rewound, match="restarted"):
        before.log.append(batches.Batch(events=(placed,), increments=projection.increments))
    second = own.record(settle=0.5)
    second.ready()
    log = second.store.log
    (restarted,) = leadership_events.restarts(log)
    assert restarted.by == second.elector.identity
    assert restarted.after == log.state().run != restarted.before
    assert leadership_events.rewinds(log) == []
    at = next(one.offset for one in log.read(0) if one.event == restarted)
    entries = [one for one in log.read(at) if isinstance(one.event, events.Relisted)]
    assert {
        one.event.kind for one in entries if isinstance(one.event, events.Relisted)
    } == lossy_worlds.ALL_KINDS
    assert min(one.at_ms for one in entries) - (log.time_of(at) or 0) >= 500
    # One list for each restart: the next leader in the same run has nothing to doubt.
    second.stop()
    third = own.record().ready()
    assert leadership_events.restarts(third.store.log) == [restarted]
    extender = own.open()
    assert pod.uid not in extender.follower.catch_up().placements
    assert not extender.follower.snapshot.unlisted
    extender.log.append(batches.Batch(events=(events.Quarantined("notes", "n", "goes on"),)))


def test_a_recorder_that_leads_notices_a_restart_of_the_store(own: lossy_worlds.World) -> None:
    recording = lossy_worlds.filled(own)
    before = own.log.state().run
    with testing.capture_logs() as lines:
        own.server.kill()
        own.server.start()
        recordings.eventually(
            lambda: len(leadership_events.restarts(recording.store.log)) == 1, "the restart is recorded"
        )
        recordings.eventually(lambda: recording.recorder.ready, "the recorder is ready again")
    written = [line["event"] for line in lines]
    noticed, waits = written.index(f"{RESTARTED}; its latest events may be lost"), written.index(WAITS)
    assert noticed < waits < written.index("recorder leads", waits)
    own.healed()
    (restarted,) = leadership_events.restarts(own.log)
    assert (restarted.before, restarted.after) == (before, own.log.state().run)
    assert leadership_events.rewinds(own.log) == []


def test_a_store_that_falls_back_within_one_run_is_examined(own: lossy_worlds.World) -> None:
    """A recorder verified the new run, its reply was lost, and its server got older data again.

    A primary that is demoted copies the data of another server; promoted once more, it has its old run_id.
    """
    lossy_worlds.filled(own).stop()
    own.extender.follower.stop()
    own.server.kill()
    own.server.start()
    client = own.extender.client
    older = lagging_replica.Replica(client)
    older.follow()
    verified: list[int] = []
    fallen: list[int] = []

    def fall_back(
        _: connections.Wire, call: lossy_calls.Call, packed: connections.Packed, ask: lossy_calls.Ask
    ) -> connections.Reply:
        if call is lossy_calls.Call.APPEND and not fallen:
            if not verified:
                ask()
                verified.append(own.log.head().offset)
            raise lossy_calls.away("the reply is lost, and those to the repetitions")
        if call is lossy_calls.Call.READ and verified and not fallen:
            older.promote()
            fallen.append(own.log.head().offset)
        return ask()

    with lossy_calls.watched(fall_back):
        second = own.record(settle=1.0).ready()
    log = second.store.log
    assert fallen[0] < verified[0], "the store fell back after the recorder had read its state"
    ((offset, rewound),) = leadership_events.rewinds(log)
    assert rewound.lost_to == verified[0]
    entries = [one for one in log.read(offset) if isinstance(one.event, events.Relisted)]
    assert min(one.at_ms for one in entries) - (log.time_of(offset) or 0) >= 1_000


def test_the_functions_may_be_loaded_again_in_the_same_run(own: lossy_worlds.World) -> None:
    lossy_worlds.filled(own)
    own.extender.client.function_load(schemas.library(), replace=True)
    own.extender.log.append(batches.Batch(events=(events.Quarantined("notes", "n", "goes on"),)))
    assert leadership_events.restarts(own.log) == []


def test_a_log_of_an_earlier_version_is_continued(own: lossy_worlds.World) -> None:
    """It names no verified run; all kinds were listed."""
    lossy_worlds.filled(own).stop()
    own.extender.client.hdel(own.extender.keys.meta, keys.RUN)
    own.server.kill()
    own.server.start()
    own.extender.log.append(batches.Batch(events=(events.Quarantined("notes", "n", "goes on"),)))
    at = own.log.head().offset
    second = own.record(settle=60.0).ready()
    assert not [one for one in second.store.log.read(at) if isinstance(one.event, events.Relisted)]
    assert own.log.state().verified_run == own.log.state().run
