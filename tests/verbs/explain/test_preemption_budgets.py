"""The dry run of a preemption within a budget: the result names only nodes that were judged to the end."""

import itertools
from collections.abc import Callable

import pytest

from app import plugins
from app.domain import snapshots
from app.framework import registry
from app.verbs.explain import preemptions
from tests.support.decisions import crowded_nodes

NODES = 1_000
EVERY = registry.Registry([kind() for kind in plugins.IN_TREE])


def times(most: int) -> Callable[[], bool]:
    """There is time for so many steps."""
    steps = itertools.count(1)
    return lambda: next(steps) <= most


def crowded(count: int) -> snapshots.Snapshot:
    """A pod p of priority 50, and so many nodes that are full of pods of priority 10."""
    names = [f"n{number:04}" for number in range(count)]
    nodes = [crowded_nodes.node(name) for name in names]
    pods = [crowded_nodes.pod(f"on-{name}", 10, 8, node=name) for name in names]
    return crowded_nodes.world(*nodes, *pods, crowded_nodes.pod("p", 50, 3))


def run(world: snapshots.Snapshot, selecting: int, judging: int) -> preemptions.Preemption:
    pod = world.pod_named("ns", "p")
    assert pod is not None
    return preemptions.dry_run(pod, world, EVERY, selecting=times(selecting), running=times(judging))


@pytest.mark.scenario("PR-45")
@pytest.mark.parametrize(
    ("selecting", "judging", "judged"),
    [
        pytest.param(3, NODES, 0, id="for the filters of few nodes"),
        pytest.param(NODES + 3, NODES, 3, id="for the victims of few nodes"),
        pytest.param(2 * NODES, 3, 3, id="for few answers of the plugins"),
        pytest.param(2 * NODES, NODES, NODES, id="for all nodes"),
    ],
)
def test_a_node_is_chosen_among_those_that_there_was_time_for(
    selecting: int, judging: int, judged: int
) -> None:
    found = run(crowded(NODES), selecting, judging)
    named = [one.node for one in found.outcomes]
    assert (len(named), found.unjudged) == (judged, NODES - judged)
    assert (found.choice.node if found.choice else None) == (named[0] if judged else None)
    assert found.needed


def test_a_node_that_admits_the_pod_is_named_only_if_it_was_judged() -> None:
    world = crowded_nodes.world(*map(crowded_nodes.node, ("n1", "n2")), crowded_nodes.pod("p", 50, 3))
    found = run(world, 1, 9)
    assert (len(found.fitting), found.outcomes, found.unjudged) == (1, (), 1)
