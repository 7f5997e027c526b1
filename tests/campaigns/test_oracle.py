"""The oracle of the simulation judges what it can, also after losses that no process noticed at first."""

from collections.abc import Iterator

import pytest
from structlog import testing

from app.store import errors
from app.store.server import embedded
from tests.support import declared
from tests.support.simulation import processes, stepped_worlds, virtual_time
from tests.support.simulation.cluster import cluster_objects, sent_bindings
from tests.support.simulation.oracle import guarantees, watchdog


@pytest.fixture
def world(own: embedded.Server) -> Iterator[stepped_worlds.World]:
    """A world in which only pods change; each domain has capacity for one pod of the policy."""
    made = stepped_worlds.World(own)
    made.watchdog = watchdog.Watchdog(
        made.direct, declared.names("found"), made.cluster, steady=True, monotonic=made.clock.monotonic
    )
    with testing.capture_logs(), virtual_time.installed(made.clock):
        yield made
        made.close()


def run(world: stepped_worlds.World, name: str, node: str) -> None:
    """A pod runs that the policy counts."""
    made = world.cluster.pod(name, cluster_objects.COUNTED, node=node)
    world.cluster.foreign.discard(made["metadata"]["uid"])


def end(world: stepped_worlds.World, name: str) -> None:
    world.cluster.objects.remove("pods", (cluster_objects.NAMESPACE, name))


def recover(world: stepped_worlds.World, recorder: processes.Recorder) -> None:
    """The recorder notices the loss, reports it, and lists everything again."""
    world.listen(recorder)
    assert isinstance(recorder.run_once(), errors.Rewound)
    while not recorder.begin():
        world.clock.advance(processes.TERMS.retry)
    world.observe(recorder)


def excuses(judging: watchdog.Watchdog) -> tuple[bool, bool]:
    """After a comparison: whether a loss is not detected yet, and whether it excuses what a quota forbids."""
    judging.compare()
    return judging.losses.unseen, judging.losses.overspent


def test_a_use_beyond_a_quota_is_found(world: stepped_worlds.World) -> None:
    run(world, "one", "h1")
    world.watchdog.compare()
    run(world, "two", "h2")
    with pytest.raises(guarantees.Broken, match="P6: host: 2 of 1 are bound"):
        world.watchdog.compare()


def test_it_is_found_again_once_nothing_is_left_of_an_undetectable_loss(world: stepped_worlds.World) -> None:
    recorder, judging = world.recorder(), world.watchdog
    run(world, "one", "h1")
    world.observe(recorder)
    world.empty()
    run(world, "two", "h2")
    assert excuses(judging) == (True, True)
    recover(world, recorder)
    assert excuses(judging) == (False, True)
    end(world, "one")
    # The log counts it still.
    assert excuses(judging) == (False, True)
    world.observe(recorder)
    waiting = world.cluster.pod("three", cluster_objects.COUNTED)["metadata"]
    sent = sent_bindings.Sent(waiting["uid"], "h1", waiting["resourceVersion"], world.clock.now + 5.0)
    world.cluster.sends(sent)
    # The Binding may still come, and the log does not count it.
    assert excuses(judging) == (False, True)
    world.cluster.sent.remove(sent)
    assert excuses(judging) == (False, False)
    run(world, "four", "h1")
    with pytest.raises(guarantees.Broken, match="P6: host: 2 of 1 are bound"):
        judging.compare()
