"""Annotations that a later version keeps are recorded of the pods that exist already."""

import json
from collections.abc import Callable, Iterator

import pytest

from app.domain import events
from app.kube.objects import decoding
from app.simulation import populations
from app.store import stores
from tests.support.workers import clusters, recordings
from workers.recorder import leader_terms

KEY = "read.example/gang"


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    """Each test decides what is kept."""
    before = decoding.kept()
    yield
    decoding.keep(frozenset(before))


def create(cluster_side: clusters.Cluster, name: str) -> None:
    body = populations.pod("ns", name, {}, node="")
    body["metadata"]["annotations"] = {KEY: "train", "unread.example/a": "b"}
    cluster_side.client.post("/api/v1/namespaces/ns/pods", json.dumps(body).encode())


def kept(recording: recordings.Recording) -> dict[str, dict[str, str]]:
    """Pod -> its annotations in the log."""
    return {pod.name: dict(pod.annotations) for pod in recording.snapshot.pods.values()}


def test_a_recorder_that_keeps_more_lists_what_was_recorded_with_less(
    recorded: Callable[[], recordings.Recording], cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    decoding.keep(frozenset())
    create(cluster_side, "old")
    first = recorded().ready()
    first.until(lambda snapshot: bool(snapshot.pods), "the pod is recorded")
    assert kept(first) == {"old": {}}
    first.stop()
    decoding.keep(frozenset((KEY,)))
    second = recorded().ready()
    second.until(lambda _: kept(second) == {"old": {KEY: "train"}}, "the annotation is recorded")
    lists = [
        (entry.event.kind, entry.event.reason)
        for entry in store.log.read(0, limit=1000)
        if isinstance(entry.event, events.Relisted)
    ]
    again = lists[len(lists) // 2 :]
    assert sorted(kind for kind, reason in again if reason == leader_terms.OTHER_FORM) == ["nodes", "pods"]


def test_a_recorder_that_keeps_less_again_lists_what_was_recorded_with_more(
    recorded: Callable[[], recordings.Recording], cluster_side: clusters.Cluster
) -> None:
    """After a rollback its watch does not resume where the last recorder of its version had ended."""
    decoding.keep(frozenset())
    create(cluster_side, "old")
    recorded().ready().stop()
    decoding.keep(frozenset((KEY,)))
    newer = recorded().ready()
    newer.until(lambda _: kept(newer) == {"old": {KEY: "train"}}, "the annotation is recorded")
    newer.stop()
    decoding.keep(frozenset())
    again = recorded().ready()
    again.until(lambda _: kept(again) == {"old": {}}, "the pod is listed again")


def test_a_recorder_that_keeps_the_same_lists_nothing_again(
    recorded: Callable[[], recordings.Recording], cluster_side: clusters.Cluster, store: stores.Store
) -> None:
    decoding.keep(frozenset((KEY,)))
    create(cluster_side, "old")
    first = recorded().ready()
    first.stop()
    recorded().ready()
    reasons = {
        entry.event.reason
        for entry in store.log.read(0, limit=1000)
        if isinstance(entry.event, events.Relisted)
    }
    assert reasons == {"first list"}
