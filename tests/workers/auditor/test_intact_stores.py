"""The auditor finds nothing in an intact store: under load, while it is trimmed, and after a loss."""

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Callable

import immutables
import pytest

from app import settings
from app.domain.audit import findings
from app.store import errors, raw_access, stores
from app.store.log import incarnations
from app.verbs import placement_releases
from tests.support.store import writers
from tests.support.workers import audits, recordings
from workers.auditor import auditors, checkpoint_checks, ledger
from workers.compactor import compactors


def test_an_intact_store_never_shows_a_difference_under_load(
    world: audits.World, again: Callable[..., stores.Store]
) -> None:
    stopping = threading.Event()
    failures: list[Exception] = []

    def churn() -> None:
        try:
            for number in itertools.count():
                if stopping.is_set():
                    return
                name = f"c{number % 20}"
                world.cluster.pod(name, node=f"n{1 + number % 2}", app="x")
                world.cluster.label_node("n2", zone="ab"[number % 2])
                world.cluster.end_pod(name)
        except Exception as error:
            failures.append(error)

    def place(store: stores.Store, who: int) -> None:
        try:
            for number in itertools.count():
                if stopping.is_set():
                    return
                pod = world.cluster.pod(f"r{who}-{number}", app="x")
                for _ in range(5):
                    with contextlib.suppress(errors.Conflict):
                        writers.placement(store.log, store.follower.catch_up(), pod, "n2")
                    placement_releases.release(store.follower, store.log, pod.uid, "superseded", "a test")
                world.cluster.end_pod(pod.name)
        except Exception as error:
            failures.append(error)

    threads = [
        threading.Thread(target=churn),
        *(threading.Thread(target=place, args=(again(), n)) for n in range(2)),
    ]
    for thread in threads:
        thread.start()
    try:
        begun = world.head
        auditor = world.another(audits.REPAIRING)
        seen: list[findings.Difference] = []
        recordings.eventually(
            lambda: _noted(auditor, seen) >= 9 and world.head > begun + 1000,
            f"a thousand events and three lists of each kind: {auditor.report}",
        )
        assert seen == []
        assert auditor.report is not None
        assert auditor.report.repairs == ()
    finally:
        stopping.set()
        for thread in threads:
            thread.join(recordings.LIMIT)
    assert failures == []


def _noted(auditor: auditors.Auditor, seen: list[findings.Difference]) -> int:
    """Run once; returns how many comparisons are complete."""
    auditor.run_once()
    seen.extend(auditor.board)
    return auditor.report.listings if auditor.report is not None else 0


def test_compaction_and_a_new_incarnation_are_not_differences(
    world: audits.World, again: Callable[..., stores.Store]
) -> None:
    other = again()
    compactor = compactors.Compactor(other, settings.Compaction(events=100, seconds=1, keep=0))
    _, at_ms = world.store.follower.dated()
    assert at_ms is not None
    world.store.checkpoints.write(world.recorder.snapshot, at_ms)
    world.client.delete(world.keys.readers)
    compactor.run_once()
    assert world.store.log.oldest() == world.head
    assert world.audited().differences == ()
    assert world.audited(world.another()).folded > 0

    log = world.store.log
    assert not log.report_loss(incarnations.Watermark(log.incarnation, world.head + 7, 1))
    former = log.incarnation
    recordings.eventually(lambda: log.state().incarnation != former, "the recorder begins a new incarnation")
    world.recorder.ready()
    report = world.audited()
    assert report.incarnation == log.state().incarnation
    assert report.differences == ()


def _trimmed(world: audits.World) -> None:
    """Trim everything that a checkpoint covers: readers without a heartbeat count as dead."""
    _, at_ms = world.store.follower.dated()
    assert at_ms is not None
    world.store.checkpoints.write(world.recorder.snapshot, at_ms)
    world.client.delete(world.keys.readers)
    world.store.log.trim(world.head, world.head, reader_timeout=0.001)
    assert world.store.log.oldest() == world.head


def test_an_auditor_that_was_passed_by_a_trim_begins_again(world: audits.World) -> None:
    world.audited()
    for number in range(5):
        world.cluster.pod(f"later{number}")
    recordings.eventually(
        lambda: world.recorder.snapshot.pod_named("ns", "later4") is not None, "they are recorded"
    )
    _trimmed(world)
    with pytest.raises(errors.Trimmed):
        world.auditor.run_once()
    report = world.audited()
    assert (report.offset, report.differences) == (world.head, ())


def test_a_long_replay_is_not_passed_by_a_trim(world: audits.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_MAX_READS", 1)
    monkeypatch.setattr(raw_access, "LINES", 2)
    late = world.another()
    world.client.delete(world.keys.readers)
    assert not late.run_once()
    assert [offset for offset, _ in world.store.log.consumers().values()] == [2]


def test_a_replay_that_cannot_continue_holds_back_no_trim(world: audits.World) -> None:
    world.client.xdel(world.keys.log, "3-0")
    late = world.another()
    world.client.delete(world.keys.readers)
    assert late.run_once()
    assert late.report is not None
    assert late.report.waiting["counts"] == "offset 3 is missing from the log"
    assert late.identity not in world.store.log.consumers()
    _trimmed(world)
    with pytest.raises(errors.Trimmed):
        late.run_once()
    report = world.audited(late)
    assert (report.offset, report.differences, report.waiting) == (world.head, (), {})


def test_digests_are_kept_of_present_checkpoints_only(world: audits.World) -> None:
    store, (_, at_ms) = world.store, world.store.follower.dated()
    assert at_ms is not None
    reader = raw_access.RawReader(store.client, store.keys)
    checks = checkpoint_checks.CheckpointChecks(
        reader, store.checkpoints, findings.Board(), store.log.incarnation, raw_access.Fingerprints()
    )
    first = store.checkpoints.write(world.recorder.snapshot, at_ms)
    other = dataclasses.replace(world.recorder.snapshot, nodes=immutables.Map())
    for snapshot in (world.recorder.snapshot, other):
        checks.compare(first, snapshot)
    kept = (checks._digests, checks._wrong)
    checks.headers()
    assert [set(one) for one in kept] == [{first.offset}] * 2
    store.checkpoints.remove(first)
    checks.headers()
    assert [set(one) for one in kept] == [set(), set()]
