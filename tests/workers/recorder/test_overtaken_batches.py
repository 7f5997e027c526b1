"""Batches that others overtake: however long a recount takes, it is appended."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from unittest import mock

import msgspec
import pytest
from structlog import testing

from app.domain import events, model, projections
from app.kube.watch import kinds, reflectors
from app.plugins.elastic_quota import kinds as quota_kinds
from app.plugins.elastic_quota import quota_model
from app.store import errors, stores
from app.store.log import batches
from tests.support.store import view_oracle, writers
from workers.recorder import batch_builder, log_writer

QUOTAS = kinds.declared(quota_kinds.QUOTAS)
QUOTA = quota_model.Quota(
    uid="q", namespace="quotas", name="blue", max={"cpu": 10_000}, namespaces=("blue",), created="1"
)
SECOND = msgspec.structs.replace(QUOTA, uid="r", name="a")
ADDED = reflectors.Seen(QUOTAS, SECOND, "7")
"""All pods are counted again for it: they belong to the first quota by name that lists their namespace."""
CHANGED = quota_kinds.QUOTAS.observed(SECOND)
ATTEMPTS = 20
WAITING = tuple(f"w{number}" for number in range(ATTEMPTS))


def pod(uid: str, node: str = "") -> model.Pod:
    return model.Pod(uid=uid, namespace="blue", name=uid, node=node, requests={"cpu": 100})


@pytest.fixture
def other(store: stores.Store, again: Callable[..., stores.Store]) -> stores.Store:
    """The store as an extender has it, with a quota, pods on a node, and some that wait."""
    known: list[events.AnyEvent] = [
        events.NodeSeen(node=model.Node(name="n", uid="n")),
        quota_kinds.QUOTAS.observed(QUOTA),
    ]
    placed = [events.PodSeen(pod=pod(f"p{number}", "n")) for number in range(5)]
    waits = [events.PodSeen(pod=pod(uid)) for uid in WAITING]
    writers.facts(store.log, store.follower.catch_up(), [*known, *placed, *waits])
    return again()


@contextlib.contextmanager
def overtaken(other: stores.Store, uids: Iterable[str]) -> Iterator[list[str]]:
    """An extender places one of these pods whenever the pods are counted again for a batch.

    The result has one item for each time.
    """
    fold, left, recounts, busy = projections.Projection.apply_all, iter(uids), list[str](), False

    def slow(projection: projections.Projection, batch: Iterable[events.AnyEvent]) -> None:
        nonlocal busy
        held = list(batch)
        fold(projection, held)
        if busy or CHANGED not in held:
            return
        busy = True
        snapshot = other.follower.catch_up()
        if SECOND.key not in snapshot.all(quota_kinds.QUOTAS):
            recounts.append(next(left, ""))
            if recounts[-1]:
                writers.placement(other.log, snapshot, pod(recounts[-1]), "n")
        busy = False

    with mock.patch.object(projections.Projection, "apply_all", slow):
        yield recounts


def append(store: stores.Store, *steps: batch_builder.Step, most: int = ATTEMPTS) -> log_writer.LogWriter:
    """Append the steps in at most so many attempts."""
    store.follower.catch_up()
    writer, left = log_writer.LogWriter(store.log, store.follower, wait=lambda _: None), iter(range(most))
    writer.append(steps, lambda: next(left, None) is not None)
    return writer


def names(store: stores.Store) -> list[str]:
    return [type(entry.event).__name__ for entry in store.log.read(0)]


def test_a_recount_that_others_overtake_each_time_is_appended(
    store: stores.Store, other: stores.Store
) -> None:
    with overtaken(other, WAITING) as recounts:
        append(store, ADDED)
    assert recounts == ["w0"]
    assert names(store)[-2:] == ["PlacementsCommitted", "ObjectObserved"]
    assert store.follower.catch_up().counts["quota||a|cpu"] == 600
    assert view_oracle.differences(store) == []


def test_a_recount_that_was_overtaken_again_is_not_computed_again(
    store: stores.Store, other: stores.Store
) -> None:
    attempts = iter(WAITING[:5])
    send = store.log.append

    def late(batch: batches.Batch, guard: batches.Guard) -> batches.Appended:
        if (uid := next(attempts, None)) is not None:
            writers.placement(other.log, other.follower.catch_up(), pod(uid), "n")
        return send(batch, guard)

    with mock.patch.object(store.log, "append", late), overtaken(other, ()) as recounts:
        append(store, ADDED)
    assert len(recounts) == 1
    assert names(store)[-6:] == [*["PlacementsCommitted"] * 5, "ObjectObserved"]
    assert view_oracle.differences(store) == []


def test_a_recount_is_computed_again_if_others_append_about_a_pod_of_its_batch(
    store: stores.Store, other: stores.Store
) -> None:
    bound = reflectors.Seen(kinds.PODS, pod("w0", "n"), "8")
    with overtaken(other, ["w0"]) as recounts:
        append(store, ADDED, bound)
    assert len(recounts) == 2
    assert names(store)[-3:] == ["PlacementsCommitted", "ObjectObserved", "PodSeen"]
    assert view_oracle.differences(store) == []


def test_a_recount_is_computed_twice_at_most_however_many_of_its_pods_others_place(
    store: stores.Store, other: stores.Store
) -> None:
    pods = [reflectors.Seen(kinds.PODS, pod(uid, "n"), "8") for uid in WAITING]
    with overtaken(other, WAITING) as recounts:
        append(store, ADDED, *pods)
    assert recounts == ["w0", "w1"]
    assert view_oracle.differences(store) == []


def test_the_snapshot_at_hand_has_what_was_appended_although_others_came_first(
    store: stores.Store, other: stores.Store
) -> None:
    """What a list lacks is compared with it."""
    send, late = store.log.append, iter(("w0",))

    def overtaking(batch: batches.Batch, guard: batches.Guard) -> batches.Appended:
        for uid in late:
            writers.placement(other.log, other.follower.catch_up(), pod(uid), "n")
        return send(batch, guard)

    with mock.patch.object(store.log, "append", overtaking):
        append(store, reflectors.Seen(kinds.PODS, pod("new"), "8"))
    assert names(store)[-2:] == ["PlacementsCommitted", "PodSeen"]
    assert "new" in store.follower.snapshot.pods


@pytest.mark.parametrize("times", [log_writer.OVERTAKEN_OFTEN - 1, 2 * log_writer.OVERTAKEN_OFTEN])
def test_a_writer_that_others_overtake_often_has_a_problem(
    store: stores.Store, other: stores.Store, times: int
) -> None:
    conflict = errors.Conflict(("head",))
    with testing.capture_logs() as lines, mock.patch.object(store.log, "append", side_effect=conflict):
        writer = append(store, ADDED, most=times)
    often = times >= log_writer.OVERTAKEN_OFTEN
    assert ("10 times in a row" in writer.problem) is often
    assert [line["log_level"] for line in lines].count("warning") == int(often)
    writer.append([ADDED], lambda: True)
    assert writer.problem == ""


def test_the_snapshot_has_an_append_that_was_not_applied_because_another_thread_read(
    store: stores.Store,
) -> None:
    with mock.patch.object(store.follower, "apply_own_append"):
        append(store, reflectors.Seen(kinds.PODS, pod("w0"), "7"))
    assert store.follower.snapshot.offset == 1
