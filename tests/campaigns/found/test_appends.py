"""Appends whose reply, or whose offset, was another's: each case was a mistake once.

The histories are those of failing seeds of the simulation, cut down to what mattered.
"""

from unittest import mock

import pytest

from app.domain import events
from app.kube import errors
from app.store import errors as store_errors
from app.store.log import batches, logs
from app.store.server import connections
from tests.support.simulation import processes, stepped_worlds
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.store import lagging_replica, lossy_calls


def observe_without_replies(world: stepped_worlds.World, recorder: processes.Recorder) -> None:
    """The changes of the cluster are appended, and the replies are lost."""

    def unheard(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        answer = ask()
        if call is lossy_calls.Call.APPEND and not recorder.problem:
            lost.append(answer)
            raise lossy_calls.away("the answer was lost")
        return answer

    lost: list[object] = []
    with lossy_calls.watched(unheard):
        world.observe(recorder)
    assert lost


def test_what_seems_no_news_beside_a_foreign_event_is_recorded(
    world: stepped_worlds.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder with many changes expects no other writer: it lost the end of a pod that way."""
    recorder = world.recorder()
    monkeypatch.setattr("workers.recorder.batch_builder.OPTIMISTIC_MIN", 3)
    pod = world.cluster.pod("web-0")
    other_log = world.store().log
    foreign = batches.Batch(events=(events.Quarantined(kind="pods", object="p", reason="a test"),))

    def others(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        if call is lossy_calls.Call.APPEND and not written:
            written.append(foreign)
            other_log.append(foreign)
        return ask()

    written: list[batches.Batch] = []
    with lossy_calls.watched(others):
        world.observe(recorder)
    assert written
    world.cluster.objects.remove("pods", (cluster_objects.NAMESPACE, "web-0"))
    world.observe(recorder)
    assert any(
        isinstance(one, events.PodGone) and one.uid == pod["metadata"]["uid"] for one in world.events()
    )


def test_a_batch_whose_answer_was_lost_is_known_again_in_the_log(world: stepped_worlds.World) -> None:
    """Drafted again after it, the pod that had been added and removed was added and removed once more."""
    recorder = world.recorder()
    world.cluster.pod("web-0")
    world.cluster.objects.remove("pods", (cluster_objects.NAMESPACE, "web-0"))
    observe_without_replies(world, recorder)
    found = [one for one in world.events() if isinstance(one, events.PodSeen | events.PodGone)]
    assert [type(one).__name__ for one in found] == ["PodSeen", "PodGone"]


def test_a_batch_that_was_known_again_is_missed_when_it_is_lost(world: stepped_worlds.World) -> None:
    """The reply to its append was lost; that it was found in the log has to be remembered."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    replica.follow()
    world.cluster.pod("web-0")
    observe_without_replies(world, recorder)
    world.watchdog.compare()
    replica.promote()
    assert world.watchdog.failed_over() is not None
    assert isinstance(recorder.run_once(), store_errors.Rewound)


def test_a_placement_differs_from_the_one_at_its_offset_before_a_loss(world: stepped_worlds.World) -> None:
    """It was taken for as old as that one, and given up while its Binding was under way."""
    replica = lagging_replica.Replica(world.direct)
    recorder, one, other = world.recorder(), world.extender(), world.extender()
    uid = world.cluster.pod("web-0")["metadata"]["uid"]
    world.observe(recorder)
    replica.follow()
    before = recorder.store.log.head().offset

    def fill(log: logs.Log, until: int) -> None:
        nothing = events.Quarantined(kind="pods", object="p", reason="a test")
        log.append(batches.Batch(events=(nothing,) * (until - log.head().offset)))

    def lost(*_: object, **__: object) -> object:
        raise errors.Unreachable("simulated: no answer")

    fill(other.store.log, before + 100)
    other.offer(world.cluster.objects.get("pods", (cluster_objects.NAMESPACE, "web-0")))
    with mock.patch.object(other.client, "exchange", lost):
        assert "not known" in other.bind("shop", "web-0", uid, "h1")
    assert "may still be bound there" in one.bind("shop", "web-0", uid, "m1")
    former = one.store.follower.snapshot.placement_position(uid)
    world.watchdog.compare()
    replica.promote()
    world.watchdog.failed_over()
    world.clock.advance(60.0)
    with pytest.raises(store_errors.StoreError):
        one.store.follower.catch_up()
    assert isinstance(recorder.run_once(), store_errors.Rewound)
    assert recorder.begin()
    world.observe(recorder)
    fill(recorder.store.log, before + 100)

    ways: list[str] = []
    exchange = other.client.exchange

    def meanwhile(method: str, path: str, body: bytes = b"", *, timeout: float) -> object:
        ways.append(one.bind("shop", "web-0", uid, "m1"))
        return exchange(method, path, body, timeout=timeout)

    with mock.patch.object(other.client, "exchange", meanwhile):
        assert other.bind("shop", "web-0", uid, "h1") == ""
    made = one.store.follower.snapshot.placement_position(uid)
    assert former is not None
    assert made is not None
    assert made.offset == former.offset
    assert made != former
    assert "may still be bound there" in ways[0]
    world.observe(recorder)
    world.watchdog.compare()
    assert world.cluster.bound[uid] == {"h1"}
