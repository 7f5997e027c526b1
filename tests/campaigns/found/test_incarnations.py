"""Incarnations that begin after a loss, and are lost themselves: each case was a mistake once.

The histories are those of failing seeds of the simulation, cut down to what mattered.
"""

import random

import pytest

from app.domain import events
from app.kube.election import electors
from app.store import errors as store_errors
from app.store.log import incarnations
from app.store.server import connections
from tests.support import declared
from tests.support.simulation import processes, stepped_worlds
from tests.support.simulation.oracle import losses
from tests.support.simulation.store import lagging_replica, lossy_calls


def emptied_after_a_start(world: stepped_worlds.World, lost: list[str]) -> lossy_calls.Watch:
    """The first start of an incarnation is lost at once; ``lost`` gets what the store holds then."""

    def watch(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> connections.Reply:
        answer = ask()
        if call is lossy_calls.Call.REWIND and not lost:
            world.empty()
            lost.append(str(world.direct.dbsize()))
        return answer

    return watch


def test_a_loss_right_after_a_loss_is_healed_too(world: stepped_worlds.World) -> None:
    """It was detected while the first one was being reported, and the error ended the recorder."""
    recorder = world.recorder()
    first = recorder.store.log.incarnation
    world.clock.advance(processes.TERMS.retry)  # writes its note
    world.cluster.pod("early")
    world.observe(recorder)  # and goes on
    head = recorder.store.log.head().offset

    lost: list[str] = []
    world.empty()
    world.cluster.pod("web-0")
    with lossy_calls.watched(emptied_after_a_start(world, lost)):
        world.listen(recorder)
        assert isinstance(recorder.run_once(), store_errors.Rewound)
        for _ in range(20):
            world.clock.advance(processes.TERMS.retry)
            if recorder.begin():
                break
    world.observe(recorder)
    assert lost == ["0"]
    (reported,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (reported.from_incarnation, reported.lost_from, reported.lost_to) == (first, 1, head)
    assert recorder.store.log.incarnation != first
    assert any(isinstance(one, events.PodSeen) and one.pod.name == "web-0" for one in world.events())


def test_an_incarnation_that_is_lost_at_once_is_started_again_with_the_same_range(
    world: stepped_worlds.World,
) -> None:
    """The recorder had the loss from the note in the Lease alone, and reported an older one instead."""

    def lead(recorder: processes.Recorder) -> None:
        while not recorder.begin():
            world.clock.advance(processes.TERMS.retry)

    lost: list[str] = []
    first = world.recorder("first")
    second = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "second")
    assert not second.begin()
    oldest = second.store.follower.catch_up().position.incarnation
    world.empty()
    world.cluster.pod("web-0")
    world.listen(first)
    assert isinstance(first.run_once(), store_errors.Rewound)
    lead(first)
    world.observe(first)
    world.clock.advance(processes.TERMS.retry)  # writes its note
    known = first.store.log.seen
    assert known.incarnation != oldest == second.store.log.incarnation
    first.close()
    world.empty()
    with lossy_calls.watched(emptied_after_a_start(world, lost)):
        lead(second)
    assert lost == ["0"]
    (reported,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (reported.from_incarnation, reported.lost_from, reported.lost_to) == (
        known.incarnation,
        1,
        known.offset,
    )


def test_an_incarnation_that_is_lost_unread_is_reported_as_lost(world: stepped_worlds.World) -> None:
    """A reader that had only its name reported a range that ended before it began."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    replica.follow()
    world.cluster.pod("web-0")
    world.observe(recorder)

    def lose() -> losses.Loss | None:
        world.watchdog.compare()
        replica.promote()
        return world.watchdog.failed_over()

    def crashing(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        answer = ask()
        if call is lossy_calls.Call.REWIND:
            raise lossy_calls.Crashed("after the call")
        return answer

    assert lose() is not None
    world.cluster.pod("web-1")

    def healing() -> None:
        world.listen(recorder)
        recorder.run_once()
        while not recorder.begin():
            world.clock.advance(processes.TERMS.retry)

    with lossy_calls.watched(crashing), pytest.raises(lossy_calls.Crashed):
        healing()
    recorder.close()
    informed = world.extender()
    unread = informed.store.log.incarnation
    loss = lose()
    assert loss is not None
    assert loss.incarnation == unread
    assert informed.bind("shop", "web-0", world.cluster.all("pods")[0]["metadata"]["uid"], "h1")
    successor = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "successor")
    for _ in range(20):
        world.clock.advance(processes.TERMS.retry)
        if successor.begin():
            break
    reported = [one for one in world.events() if isinstance(one, events.StoreRewound)][-1]
    assert reported.from_incarnation == unread
    assert reported.lost_from <= loss.first <= reported.lost_to


def test_a_checkpoint_serves_a_reader_that_moves_to_another_incarnation(world: stepped_worlds.World) -> None:
    """The part before it is trimmed: without the checkpoint there is no way to go along."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    compacting = world.store()
    compacting.follower.catch_up()
    snapshot, at_ms = compacting.follower.dated()
    assert at_ms is not None
    compacting.checkpoints.write(snapshot, at_ms)
    compacting.log.trim(snapshot.offset, snapshot.offset, reader_timeout=-1.0)
    replica.follow()
    world.cluster.pod("web-0")
    world.observe(recorder)
    extender = world.extender()
    extender.store.follower.catch_up()
    replica.promote()
    assert recorder.run_once() is not None
    assert recorder.begin()
    world.observe(recorder)
    assert {pod.name for pod in extender.store.follower.catch_up().pods.values()} == {"web-0"}


def test_checkpoints_that_go_while_the_log_is_trimmed_end_no_compactor(world: stepped_worlds.World) -> None:
    """A new incarnation lets all of them go; there is nothing to trim to then."""
    recorder = world.recorder()
    compactor = processes.compactor(world.store(), world.clock, patient=False)
    for number in range(26):
        if number == 10:
            world.observe(recorder)
            compactor.run_once()
        world.cluster.pod(f"web-{number}")
    world.observe(recorder)
    names = declared.names("found")

    def gone(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        if call is lossy_calls.Call.TRIM:
            deleted.append(world.direct.delete(names.checkpoints))
        return ask()

    deleted: list[object] = []
    with lossy_calls.watched(gone):
        compactor.run_once()
    assert deleted == [1]
    assert world.store().log.oldest() == 1
    compactor.run_once()


def test_what_was_reported_when_a_former_incarnation_began_is_not_reported_again(
    world: stepped_worlds.World,
) -> None:
    """That one is lost as well: its successor speaks of it, and the Lease of the one before."""
    leadership = world.recorder().leadership
    recovery = leadership._recovery
    first, second, third = ("019e7053ca40-00000001", "019e70579676-00000002", "019e7058067e-00000003")
    word = electors.Tenure(epoch="9", transitions=1, handover_note=str(incarnations.Watermark(first, 21, 5)))
    state = leadership._log.state()
    reported = state._replace(incarnation=third, former=second, head=12)
    assert recovery.lost(word, reported) is None
    untold = state._replace(incarnation=third, former="019e7053ca39-00000000", head=12)
    assert recovery.lost(word, untold) == incarnations.Watermark(first, 21, 5)


def test_what_an_incarnation_kept_of_the_one_before_it_is_not_lost(world: stepped_worlds.World) -> None:
    """A recorder reported the loss of an incarnation from another one, which it then missed: without end."""
    first = world.recorder("first")
    world.clock.advance(processes.TERMS.retry)  # leaves its note
    third = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "third")
    known, spare = first.store.log.incarnation, world.store()
    third.freeze(True)
    world.empty()
    world.cluster.pod("web-0")

    def crashing(
        _: connections.Wire, call: lossy_calls.Call, __: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        answer = ask()
        if call is lossy_calls.Call.REWIND:
            raise lossy_calls.Crashed("after the call")
        return answer

    def healing() -> None:
        world.listen(first)
        first.run_once()
        lead(world, first)

    # It begins another incarnation, of which the Lease has no note: the third recorder has read it.
    with lossy_calls.watched(crashing), pytest.raises(lossy_calls.Crashed):
        healing()
    first.close()
    assert not third.begin()
    unnoted = third.store.log.incarnation
    assert unnoted != known
    world.empty()
    # The second one has the note only.
    second = processes.Recorder(spare, world.way(), world.clock, random.Random(0), "second")
    world.clock.advance(processes.TERMS.lease + 1.0)
    assert lead(world, second)
    second.close()
    third.freeze(False)
    assert not third.begin()  # and follows the next one
    world.clock.advance(processes.TERMS.lease + 1.0)
    assert lead(world, third)
    reported = [one.from_incarnation for one in world.events() if isinstance(one, events.StoreRewound)]
    assert reported == [known, unnoted]
    world.observe(third)


def lead(world: stepped_worlds.World, recorder: processes.Recorder) -> bool:
    """Whether the recorder leads after a few attempts."""
    for _ in range(10):
        if recorder.begin():
            return True
        world.clock.advance(processes.TERMS.retry)
    return False
