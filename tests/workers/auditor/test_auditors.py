"""The auditor with a real store, a recorder and an API server: every corruption is found."""

import itertools
import threading
from collections.abc import Callable
from unittest import mock

import msgspec
import pytest
from structlog import testing

from app import settings
from app.domain.audit import findings
from app.store import audit_reports, errors, keys, raw_access, schemas, snapshot_format, stores
from app.telemetry import metrics
from tests.support import declared, gadgets
from tests.support.workers import audits, corruptions, recordings
from workers.auditor import auditors, checkpoint_checks
from workers.compactor import compactors


@pytest.mark.parametrize("plant", corruptions.PLANTED, ids=lambda plant: plant.__name__.replace("_", " "))
def test_planted_corruption_is_found_and_blamed(
    world: audits.World, plant: Callable[[audits.World], list[corruptions.Found]]
) -> None:
    expected = plant(world)
    found = world.audited().differences
    assert {(one.kind, one.key) for one in found} == {(one.kind, one.key) for one in expected}, found
    for wanted, one in itertools.product(expected, found):
        if (one.kind, one.key) == (wanted.kind, wanted.key):
            assert one.offset == wanted.offset, one
            assert wanted.writer in one.writer, one
            assert wanted.blame in one.blame, one
            assert wanted.found in one.found, one
            assert wanted.run in ("", one.run), one
            assert one.first <= one.last, one


# -- what the auditor has not seen itself --------------------------------------------------


def test_an_entry_changed_before_it_was_read_is_found_between_two_checkpoints(world: audits.World) -> None:
    corruptions.checkpoint_written(world)
    world.cluster.pod("late", node="n1", app="x")
    world.recorder.until_counts(a=3, b=2)
    offset = world.offset_of("late")
    second = corruptions.checkpoint_written(world)
    world.cluster.label_node("n1", zone="b")
    world.recorder.until_counts(b=5)
    world.edit(offset, lambda fields: {**fields, b"e": fields[b"e"].replace(b'"late"', b'"fate"')})
    fact, one = world.audited(world.another()).differences
    assert (fact.kind, fact.key) == ("fact", f"pod:{world.uid('late')}")
    assert (one.kind, one.key) == ("past", f"checkpoint:{second.offset}")
    assert one.offset == offset
    assert f"the last event on it is {offset}" in one.blame


def test_a_checkpoint_changed_before_it_was_read_is_not_taken_for_a_changed_entry(
    world: audits.World,
) -> None:
    wrong = corruptions.checkpoint_forged(world)
    world.cluster.label_node("n1", zone="b")
    world.recorder.until_counts(b=4)
    _, at_ms = world.store.follower.dated()
    assert at_ms is not None
    world.store.checkpoints.write(world.recorder.snapshot, at_ms)
    report = world.audited(world.another())
    assert [(one.kind, one.key) for one in report.differences] == [(one.kind, one.key) for one in wrong]
    assert "the log leads to the checkpoint after it" in report.differences[0].blame


def test_a_checkpoint_taken_later_acquits_no_entry_until_the_log_is_replayed_again(
    world: audits.World,
) -> None:
    """States that differ by an edited entry become equal again as well."""
    wrong = corruptions.checkpoint_forged(world)
    auditor = world.another()
    assert [one.kind for one in world.audited(auditor).differences] == ["past"]
    world.cluster.label_node("n1", zone="b")
    world.recorder.until_counts(b=4)
    _, at_ms = world.store.follower.dated()
    assert at_ms is not None
    world.store.checkpoints.write(world.recorder.snapshot, at_ms)
    report = world.audited(auditor)
    assert [(one.kind, one.key) for one in report.differences] == [("past", one.key) for one in wrong]
    assert report.problem
    (one,) = world.audited(world.another()).differences
    assert one.kind == "checkpoint"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_checkpoint_of_a_later_version_is_left_to_a_later_auditor(
    world: audits.World, restarted: bool
) -> None:
    snapshot, at_ms = world.recorder.snapshot, world.store.follower.dated()[1]
    assert at_ms is not None
    image = snapshot_format.serialize(snapshot, cluster=world.keys.cluster, at_ms=at_ms)
    later = msgspec.structs.replace(image.header, version=snapshot_format.VERSION + 1)
    world.store.checkpoints.keep(snapshot_format.SerializedSnapshot(later, image.members))
    world.cluster.label_node("n1", zone="b")
    world.recorder.until_counts(b=4)
    report = world.audited(world.another() if restarted else world.auditor)
    assert (report.offset, report.differences, report.checkpoints) == (world.head, (), {})
    assert f"a later version of Topolog wrote those at {later.offset}" in report.waiting["checkpoints"]
    count = audits.counted(world, "b")
    world.client.hset(world.keys.counts, count, 9)
    auditor = world.another() if restarted else world.auditor
    assert [one.key for one in world.audited(auditor).differences] == [count]


def test_a_trimmed_log_that_only_a_checkpoint_of_a_later_version_covers_is_named(world: audits.World) -> None:
    snapshot, at_ms = world.recorder.snapshot, world.store.follower.dated()[1]
    assert at_ms is not None
    image = snapshot_format.serialize(snapshot, cluster=world.keys.cluster, at_ms=at_ms)
    later = msgspec.structs.replace(image.header, version=snapshot_format.VERSION + 1)
    world.store.checkpoints.keep(snapshot_format.SerializedSnapshot(later, image.members))
    world.client.delete(world.keys.readers)
    world.store.log.trim(later.offset, later.offset, reader_timeout=0.001)
    auditor = world.another()
    with testing.capture_logs() as lines:
        auditor.run_once()
    assert f"a later version of Topolog wrote those at {later.offset}" in str(auditor.checks()["log"])
    assert [line for line in lines if "corrupt" in line["event"]] == []


def test_counts_of_another_form_are_left_to_an_auditor_that_keeps_them(world: audits.World) -> None:
    before = world.audited()
    later = keys.Keys(world.keys.cluster, gadgets.SCHEMA.forms)
    assert schemas.migrate(world.client, later, gadgets.SCHEMA).ready
    running = threading.Thread(target=world.auditor.run)
    with testing.capture_logs() as lines:
        running.start()
        try:
            recordings.eventually(lambda: world.auditor.checks()["store"] is not None, "it cannot audit")
        finally:
            world.auditor.stop()
            running.join(recordings.LIMIT)
    assert world.auditor.checks()["store"] == str(
        errors.other_counts(f"counts:{gadgets.SCHEMA.forms}", f"counts:{declared.SCHEMA.forms}")
    )
    assert world.auditor.checks()["store"] in [line.get("error") for line in lines]
    assert [line for line in lines if line["event"] == "drift detected"] == []
    reported = audit_reports.Reports(world.client, world.keys).latest()
    assert reported == world.auditor.report == before


def test_a_corrupt_checkpoint_is_left_to_the_compactor_which_removes_its_values_too(
    world: audits.World, again: Callable[..., stores.Store]
) -> None:
    corruptions.checkpoint_edited(world)
    (one,) = world.audited().differences
    assert (one.kind, one.run) == ("checkpoint", "")
    compactors.Compactor(again(), settings.Compaction(keep=1000)).run_once()
    assert list(world.client.scan_iter(f"{world.keys.prefix}checkpoint*", count=1000)) == []


def test_an_outdated_epoch_is_reported(world: audits.World) -> None:
    world.recorder.stop()
    offset = world.offset_of("w3")
    world.edit(offset, lambda fields: {**fields, b"w": b"1"})
    (one,) = world.audited(world.another()).differences
    assert (one.kind, one.offset, one.writer) == ("fence", offset, "recorder unknown (epoch 1)")


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b'{"v":1,"type":"not an event"}', "which no version of Topolog writes"),
        (b'{"v":0,"type":"PodSeen"}', "which no version of Topolog writes"),
        (b'{"v":1,"type":"PodSeen"}', "event cannot be read"),
        (b"nonsense", "event cannot be read"),
        (declared.UNREADABLE, "a workloadpolicies object cannot be read"),
        (declared.UNREADABLE.replace(b"workloadpolicies", b"gadgets"), "a gadgets object cannot be read"),
    ],
)
def test_an_undecodable_entry_stops_the_replay_and_is_reported(
    world: audits.World, payload: bytes, problem: str
) -> None:
    offset = _appended(world, payload)
    report = world.audited()
    (one,) = report.differences
    assert (one.kind, one.offset) == ("unreadable", offset)
    assert problem in report.waiting["counts"]
    assert "run DEL" in report.problem


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b'{"v":1,"type":"Tomorrow"}', "unknown type 'Tomorrow'"),
        (b'{"v":9,"type":"PodSeen"}', "PodSeen of version 9, but this process reads up to 2"),
    ],
)
def test_an_event_of_a_later_version_is_left_to_a_later_auditor(
    world: audits.World, payload: bytes, problem: str
) -> None:
    offset = _appended(world, payload)
    world.client.hset(world.keys.counts, audits.counted(world, "b"), 9)
    auditor = world.another(audits.REPAIRING)
    report = world.audited(auditor)
    assert (report.differences, report.problem, report.repairs) == ((), "", ())
    assert report.waiting["counts"].startswith(f"entry {offset}: ")
    assert problem in report.waiting["counts"]
    assert "; upgrade the auditor. If no process of a later version has ever run" in report.waiting["counts"]
    assert auditor.checks()["log"] == report.waiting["counts"]
    world.edit(offset, lambda fields: {**fields, b"e": b'{"v":1,"type":"RelistRequested","kind":"nothing"}'})
    auditor.run_once()
    assert auditor.checks()["log"] is None


def test_the_time_of_the_last_comparison_is_not_that_of_a_run_without_one(world: audits.World) -> None:
    first = world.audited()
    assert _compared() == first.at_ms / 1000
    _appended(world, b'{"v":1,"type":"Tomorrow"}')
    for auditor in (world.auditor, world.another()):
        report = world.audited(auditor)
        assert (report.at_ms > first.at_ms, report.compared_ms) == (True, first.at_ms)
        assert _compared() == first.at_ms / 1000
    world.client.delete(world.keys.audit)
    assert world.audited(world.another()).compared_ms == 0


def _compared() -> float:
    (found,) = metrics.CONSISTENCY_AT.collect()
    return float(found.samples[0].value)


def test_a_field_of_meta_that_a_later_version_may_have_written_is_reported_and_kept(
    world: audits.World,
) -> None:
    world.client.hset(world.keys.meta, mapping={"tomorrow": "1", "rv:tomorrow": "x:1"})
    auditor = world.another(audits.REPAIRING)
    report = world.audited(auditor)
    (one,) = report.differences
    assert (one.kind, one.key, one.found, one.run) == ("unknown", "meta:tomorrow", "1", "")
    assert "a later version of Topolog may have written it: then upgrade the auditor" in one.blame
    assert report.problem == "", "extenders are ready"
    count = audits.counted(world, "b")
    world.client.hset(world.keys.counts, count, 9)
    recordings.eventually(lambda: _run(auditor).repairs != (), "views are repaired all the same")
    assert world.client.hget(world.keys.meta, "tomorrow") == b"1"
    world.client.hdel(world.keys.meta, "tomorrow")
    assert _run(auditor).differences == ()


def _run(auditor: auditors.Auditor) -> findings.Report:
    auditor.run_once()
    assert auditor.report is not None
    return auditor.report


def _appended(world: audits.World, payload: bytes) -> int:
    """Append an event as another process does that has written it as it is; returns its offset."""
    world.recorder.stop()
    offset = world.head + 1
    world.client.xadd(world.keys.log, {"t": 1, "e": payload, "w": ""}, id=f"{offset}-0")
    world.client.hset(world.keys.meta, mapping={keys.HEAD: offset, "at": 1})
    return offset


@pytest.mark.parametrize("interrupted", [False, True])
def test_an_open_difference_keeps_its_attribution_over_a_restart(
    world: audits.World, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    offset = corruptions.placed_and_counted(world, 0)
    world.audited()
    for _ in range(3):
        world.cluster.pod(f"more{_}", node="n1", app="x")
    world.recorder.until(lambda now: now.pod_named("ns", "more2") is not None, "they are recorded")
    auditor = world.another()
    if interrupted:
        with monkeypatch.context() as away:
            refused = mock.Mock(side_effect=errors.away("refused"))
            away.setattr(checkpoint_checks.CheckpointChecks, "begin", refused)
            with pytest.raises(errors.StoreAway):
                auditor.run_once()
    (one,) = world.audited(auditor).differences
    assert (one.kind, one.offset, one.writer) == ("count", offset, "replica-7")


def test_one_page_of_many_versions_is_enough_to_find_a_wrong_one(
    world: audits.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_access, "WHOLE", 5)
    world.client.hset(world.keys.versions, "node:n1", 1)
    world.client.hset(world.keys.versions, "pod:unknown", 3)
    found = world.audited().differences
    assert [(one.kind, one.key) for one in found] == [("version", "node:n1"), ("version", "pod:unknown")]
    assert "written bypassing the log" in found[1].blame


def test_an_auditor_whose_store_is_away_pauses_for_twice_its_interval_first(world: audits.World) -> None:
    auditor = world.another(settings.Audit(interval=1.0))
    pauses: list[float] = []

    def wait(pause: float) -> bool:
        pauses.append(pause)
        return len(pauses) == 7

    with (
        mock.patch.object(auditor, "_stopped") as stopped,
        mock.patch.object(auditor, "run_once", side_effect=errors.StoreAway("away")),
    ):
        stopped.wait = wait
        auditor.run()
    assert pauses == [0.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
