"""The comparison with the API server reads a list of any length before the API server forgets it."""

import threading
from unittest import mock

import pytest

from app import settings
from app.domain import model
from app.kube.watch import kinds
from tests.support import declared
from tests.support.store import writers
from tests.support.workers import audits, corruptions, recordings
from workers.auditor import auditors, cluster_diff

PODS = 12


@pytest.fixture
def long(world: audits.World, monkeypatch: pytest.MonkeyPatch) -> audits.World:
    """A list of pods has 16 pages."""
    for number in range(PODS):
        world.cluster.pod(f"later{number}")
    recordings.eventually(
        lambda: world.recorder.snapshot.pod_named("ns", f"later{PODS - 1}") is not None, "they are recorded"
    )
    monkeypatch.setattr(kinds, "PAGE", 1)
    return world


def test_a_run_reads_a_list_on_for_a_second(long: audits.World) -> None:
    auditor = auditors.Auditor(
        long.store, long.cluster.client, settings.Audit(page=10_000), monotonic=lambda: 1.0
    )
    for _ in kinds.watched(declared.SCHEMA):
        auditor.run_once()
    assert auditor.report is not None
    assert auditor.report.listings == len(kinds.watched(declared.SCHEMA))
    assert auditor.report.differences == ()


def test_a_list_is_read_on_however_long_the_interval_is(
    long: audits.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_diff, "SECONDS", 0.0)
    auditor = long.another(settings.Audit(interval=3600.0, page=10_000))
    # The kind that is compared first.
    monkeypatch.setattr(auditor, "_kinds", (kinds.PODS,))
    running = threading.Thread(target=auditor.run)
    running.start()
    try:
        recordings.eventually(
            lambda: auditor.report is not None and auditor.report.listings == 1, "all pods are compared"
        )
    finally:
        auditor.stop()
        running.join()


def test_a_list_that_cannot_be_read_on_does_not_shorten_the_pauses(
    long: audits.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_diff, "SECONDS", 0.0)
    auditor = long.another(settings.Audit(interval=3600.0, page=10_000))
    monkeypatch.setattr(auditor, "_kinds", (kinds.PODS,))
    pauses: list[float] = []

    def wait(pause: float) -> bool:
        pauses.append(pause)
        if len(pauses) == 3:
            (lost,) = corruptions.placement_of_an_unknown_pod(long)
            long.cluster.label_node("n1", zone="b")
            recordings.eventually(lambda: long.head > lost.offset, "an event follows")
            long.client.xdel(long.keys.log, f"{lost.offset}-0")
        return len(pauses) > 5

    with mock.patch.object(auditor, "_stopped") as stopped:
        stopped.wait = wait
        auditor.run()
    assert pauses == [0.0, 0.0, 0.0, 3600.0, 3600.0, 3600.0]


def test_a_placement_that_was_reported_is_confirmed_before_others(
    world: audits.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_diff, "MAX_SUSPECTS", 1)
    corruptions.placement_of_an_unknown_pod(world)
    reported = [("placement", "pod:unknown")]
    auditor = world.another()
    assert [one.identity for one in world.audited(auditor).differences] == reported
    first = model.Pod(uid="first", namespace="ns", name="first", labels={"app": "x"})
    writers.placement(world.store.log, world.store.follower.catch_up(), first, "n1")
    assert [one.identity for one in world.audited(auditor).differences] == reported
