"""What the Lease and the store note of the end of the log: each case was a mistake once.

The histories are those of failing seeds of the simulation, cut down to what mattered.
"""

import random

from app.domain import events
from app.kube.election import leases
from app.store import errors as store_errors
from app.store.log import incarnations
from app.store.server import connections
from tests.support.simulation import processes, stepped_worlds
from tests.support.simulation.oracle import losses
from tests.support.simulation.store import lagging_replica, lossy_calls


def test_the_range_of_a_loss_includes_what_any_process_has_read(world: stepped_worlds.World) -> None:
    """The note in the Lease may be old: others have recorded since how far the log went."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    noted = recorder.store.log.head().offset
    world.clock.advance(processes.TERMS.retry)  # writes its note
    replica.follow()
    world.cluster.pod("web-0")
    assert recorder.elector is not None
    recorder.elector.frozen = True
    world.observe(recorder)
    extender = world.extender()
    lost = extender.store.follower.catch_up().offset
    assert lost > noted
    recorder.close()
    world.watchdog.compare()
    replica.promote()
    assert world.watchdog.failed_over() == losses.Loss(extender.store.log.incarnation, noted + 1, lost)
    assert extender.bind("shop", "web-0", world.cluster.all("pods")[0]["metadata"]["uid"], "h1")
    successor = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "successor")
    for _ in range(10):
        world.clock.advance(processes.TERMS.retry)
        successor.begin()
    assert successor.leads
    (reported,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (reported.lost_from, reported.lost_to) == (noted + 1, lost)


def test_a_note_of_a_loss_that_is_lost_itself_makes_nothing_else_lost(world: stepped_worlds.World) -> None:
    """A failover between two reads: the entry named in the Lease existed, and was reported as lost."""
    replica = lagging_replica.Replica(world.direct)
    recorder = world.recorder()
    world.clock.advance(processes.TERMS.retry)  # writes its note
    replica.follow()
    kept = recorder.store.log.head().offset
    assert recorder.elector is not None
    recorder.elector.frozen = True
    world.cluster.pod("web-0")
    world.observe(recorder)
    extender = world.extender()
    lost = extender.store.follower.catch_up().offset
    recorder.close()

    def promote() -> None:
        world.watchdog.compare()
        replica.promote()
        world.watchdog.failed_over()

    def bind() -> str:
        return extender.bind("shop", "web-0", world.cluster.all("pods")[0]["metadata"]["uid"], "h1")

    def failing_over(
        _: connections.Wire, call: lossy_calls.Call, packed: connections.Packed, ask: lossy_calls.Ask
    ) -> object:
        answer = ask()
        # The question about the word in the Lease.
        if call is lossy_calls.Call.DOUBT and lossy_calls.arguments(packed)[1] == b"%d" % kept and not again:
            again.append(str(answer))
            promote()
        return answer

    again: list[str] = []
    promote()
    assert bind()  # leaves a note in the store
    successor = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "successor")

    def lead() -> None:
        while not successor.begin():
            world.clock.advance(processes.TERMS.retry)

    with lossy_calls.watched(failing_over):
        lead()
    assert again
    bind()  # and another one
    world.cluster.pod("web-1")
    world.listen(successor)
    assert isinstance(successor.run_once(), store_errors.Rewound)
    lead()
    (reported,) = (one for one in world.events() if isinstance(one, events.StoreRewound))
    assert (reported.lost_from, reported.lost_to) == (kept + 1, lost)


def test_a_recorder_reads_the_note_of_its_predecessor_about_an_incarnation_that_it_began_itself(
    world: stepped_worlds.World,
) -> None:
    """Others have recorded since, and left in the Lease how far: the store may have lost that."""

    def lead(recorder: processes.Recorder) -> None:
        while not recorder.begin():
            world.clock.advance(processes.TERMS.retry)

    replica = lagging_replica.Replica(world.direct)
    first = world.recorder("first")
    world.clock.advance(processes.TERMS.retry)  # leaves its note
    world.empty()
    world.listen(first)
    world.cluster.pod("web-0")
    world.listen(first)
    assert isinstance(first.run_once(), store_errors.Rewound)
    lead(first)
    world.observe(first)
    began = first.store.log.incarnation
    assert first.elector is not None
    read = first.store.log.seen.offset
    first.freeze(True)
    world.clock.advance(processes.TERMS.lease + 1.0)
    second = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "second")
    lead(second)
    world.observe(second)
    replica.follow()
    kept = second.store.log.head().offset
    world.cluster.pod("web-1")
    world.observe(second)
    lost = second.store.log.head().offset
    world.clock.advance(processes.TERMS.retry)  # leaves its note
    second.close()
    world.watchdog.compare()
    replica.promote()
    assert world.watchdog.failed_over() == losses.Loss(began, kept + 1, lost)
    first.freeze(False)
    world.clock.advance(processes.TERMS.lease + 1.0)
    lead(first)
    [rewound] = [one for one in world.events() if isinstance(one, events.StoreRewound)][1:]
    assert rewound.lost_to == lost
    # Only the process that died had certainly read what the store kept of its term.
    assert read < rewound.lost_from <= kept + 1


def test_a_leader_that_was_paused_leaves_the_note_of_the_one_between(world: stepped_worlds.World) -> None:
    """It holds the Lease again before its own loop notices, and what it had read is older."""
    first = world.recorder("first")
    assert first.elector is not None
    first.freeze(True)
    world.clock.advance(processes.TERMS.lease + 1.0)
    second = processes.Recorder(world.store(), world.way(), world.clock, random.Random(0), "second")
    while not second.begin():
        world.clock.advance(processes.TERMS.retry)
    world.observe(second)
    world.cluster.pod("web-1")
    world.observe(second)
    head = second.store.log.head().offset
    world.clock.advance(processes.TERMS.retry)  # leaves its note
    second.close()
    first.freeze(False)
    for _ in range(4):
        # Its elector takes the Lease again, and renews it; the recorder itself does nothing yet.
        world.clock.advance(processes.TERMS.lease)
        first.elector.run_once()
        first.elector.run_once()
    assert first.elector.tenure is not None
    note = leases.note(world.cluster.objects.get("leases", ("topolog", "recorder")), "topolog.io/known")
    known = incarnations.parse_watermark(note)
    assert known is not None
    assert known.offset == head
