"""Answers take memory with their page, not with the cluster: two clusters of different sizes, one page each.

Peaks are counted by tracemalloc, in one process, so that no other program's load can disturb them.
"""

import random
import secrets
import tracemalloc
from collections.abc import Iterator

import pytest

from app.domain import events, model
from app.plugins.workload_policy import policy_model
from app.store.server import embedded
from tests.support import declared
from tests.support.extender import api_worlds
from tests.support.store import filled_stores

LABELS = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
PAGE = 20
FEW, MANY = (60, 300), (600, 1500)
"""Nodes, and as many policies and groups as a third of them; pending pods."""
SLACK = 24 * 1024
SETS = 350
"""Bytes that a node may add where candidates are compared as sets of names."""
DOMAINS = 750
"""Bytes that a node may add where each is a domain with its own set and reason."""


def cluster_of(nodes: int, pending: int) -> Iterator[events.AnyEvent]:
    """Every pending pod is a class alone, and refused by all nodes."""
    chance = random.Random(7)
    for number in range(nodes):
        labels = {LABELS[0]: f"node-{number}", LABELS[1]: f"zone-{number % 3}", "role": f"role-{number}"}
        node = model.Node(name=f"node-{number}", uid=f"n{number}", labels=labels, ready=True)
        yield events.NodeSeen(node=node)
    for number in range(nodes // 3):
        quotas = tuple(policy_model.Allocation(f"role-{at}", 0) for at in range(nodes if number == 0 else 1))
        name = f"policy-{number}"
        yield declared.observed(
            policy_model.WorkloadPolicy(
                uid=name,
                namespace=f"space-{number}",
                name=name,
                topology_key="role",
                selector=model.Selector(labels={"app": "web"}),
                allocations=quotas,
                type="Required",
            )
        )
    for number in range(pending):
        policy = number % (nodes // 3) if number % 2 else 0
        yield events.PodSeen(
            pod=model.Pod(
                uid=f"u{number}",
                namespace=f"space-{policy}",
                name=f"pod-{number}",
                labels={
                    "app": "web",
                    api_worlds.POLICY_LABEL: f"policy-{policy}",
                    "job-name": f"job-{number}",
                    "rl-job-group": f"group-{number % (nodes // 3)}",
                },
                owners=(model.Owner("Job", f"job-{number}", f"j{number}", controller=True),),
                requests={"cpu": chance.randrange(1, 4000)},
                priority=chance.randrange(1000),
                created=f"2026-07-01T10:00:{number % 60:02}Z",
            )
        )


@pytest.fixture(scope="module")
def worlds_of_two_sizes(store_server: embedded.Server) -> Iterator[tuple[api_worlds.World, api_worlds.World]]:
    """The API on a small cluster and on one many times as large."""
    names = [f"costs{secrets.token_hex(4)}" for _ in range(2)]
    for name, size in zip(names, (FEW, MANY), strict=True):
        filled_stores.fill(store_server.url, name, cluster_of(*size))
    with (
        api_worlds.processes(store_server, names[0]) as few,
        api_worlds.processes(store_server, names[1]) as many,
    ):
        yield api_worlds.world(few()), api_worlds.world(many())


def peak(world: api_worlds.World, path: str) -> int:
    """The peak memory of one answer in bytes; other threads may add to some runs."""
    assert world.client.get(path).status_code == 200  # what lasts is made now
    return min(turn(world, path) for _ in range(3))


def turn(world: api_worlds.World, path: str) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert world.client.get(path).status_code == 200
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


LISTS = [
    "nodes",
    "events",
    "events?object=pod:space-0/pod-0",
    "events?type=NodeSeen",
    "decisions",
    "plugins/NodeLabelPriority/nodes",
    "plugins/JobAffinity/groups",
    "plugins/WorkloadPolicy/policies",
    "plugins/WorkloadPolicy/policies/space-0/policy-0/quotas",
    "topology?levels=topology.kubernetes.io/zone,kubernetes.io/hostname",
]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_takes_memory_with_its_page_and_not_with_the_cluster(
    worlds_of_two_sizes: tuple[api_worlds.World, api_worlds.World], path: str
) -> None:
    few, many = worlds_of_two_sizes
    asked = f"/apis/v1/{path}{'&' if '?' in path else '?'}limit={PAGE}"
    assert peak(many, asked) <= peak(few, asked) + SLACK


@pytest.mark.parametrize("path", ["nodes/node-0", "pods/space-0/pod-0", "flags", "lag", "settings"])
def test_a_single_object_takes_the_same_memory_in_any_cluster(
    worlds_of_two_sizes: tuple[api_worlds.World, api_worlds.World], path: str
) -> None:
    few, many = worlds_of_two_sizes
    assert peak(many, f"/apis/v1/{path}") <= peak(few, f"/apis/v1/{path}") + SLACK


@pytest.mark.parametrize(
    ("path", "per_node"),
    [
        ("pending", SETS),
        ("topology", SETS),
        ("pods/space-0/pod-0/explain", DOMAINS),
        ("pods/space-0/pod-0/explain?format=markdown", DOMAINS),
        ("pods/space-0/pod-0/explain?format=csv", DOMAINS),
    ],
)
def test_what_is_computed_over_all_nodes_holds_names_and_no_rows(
    worlds_of_two_sizes: tuple[api_worlds.World, api_worlds.World], path: str, per_node: int
) -> None:
    few, many = worlds_of_two_sizes
    asked = f"/apis/v1/{path}{'&' if '?' in path else '?'}limit={PAGE}"
    assert peak(many, asked) <= peak(few, asked) + SLACK + per_node * (MANY[0] - FEW[0])
