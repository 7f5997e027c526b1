"""Pods of one quota race through three extender processes, one of which is killed meanwhile."""

import pathlib
import random
from concurrent import futures

import pytest

from app.plugins.elastic_quota.trees import membership
from app.simulation import populations
from tests.support.campaigns import loads, sizes, stacks
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import plain_fold, quota_law
from tests.support.store import materialised

# ssl.SSLSocket forgets to close a socket that was reset before the handshake began, as a kill may do it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)

PODS, LIMIT, CALLERS = 40, 10, 8
QUOTA = "ten"


def created(stack: stacks.Stack) -> list[cluster_objects.Json]:
    """Pods of a core, and a quota for a quarter of them, which all are recorded."""
    stack.side.quota(QUOTA, "", 0, LIMIT)
    labels = {membership.LABEL: QUOTA}
    for number in range(PODS):
        made = populations.pod(cluster_objects.NAMESPACE, f"member-{number}", labels, cpu="1")
        stack.api.objects.create("pods", made)
    stacks.settled(stack)
    return stack.side.all("pods")


def race(stack: stacks.Stack, pods: list[cluster_objects.Json], seed: int, *, kill: bool = False) -> None:
    """Bind the pods in threads; ``kill``: an extender at the third of the calls."""
    rng, each = random.Random(seed), stacks.callers(stack, CALLERS)
    nodes = sorted(cluster_objects.NODES)
    shares = [pods[at::CALLERS] for at in range(CALLERS)]

    def work(bind: loads.Bind, share: list[cluster_objects.Json], own: random.Random) -> None:
        for number, pod in enumerate(share):
            if kill and bind is each[0] and number == len(share) // 3:
                stack.replicas[0].process.kill()
            bind(pod, own.choice(nodes), own)

    with futures.ThreadPoolExecutor(CALLERS) as pool:
        seeds = [random.Random(rng.random()) for _ in each]
        list(pool.map(work, each, shares, seeds))


def overspent(stack: stacks.Stack) -> list[str]:
    """The limits that are exceeded at any offset, by a fold that shares no code with the product."""
    fold, found = plain_fold.Fold(), list[str]()
    for entry in stack.store.log.read(0, limit=10_000):
        fold.apply(entry.event)
        found += [f"offset {fold.offset}: {problem}" for problem in quota_law.overspent(fold)]
    return found


@pytest.mark.scenario("EQ-15")
def test_a_quota_is_used_up_exactly_although_an_extender_is_killed(tmp_path: pathlib.Path) -> None:
    with stacks.raised(tmp_path, each=1) as stack:
        for _ in range(2):
            stack.extend(f"extender-{len(stack.replicas)}")
        for one in stack.replicas:
            one.ready()
        pods, seed = created(stack), sizes.first_seed()
        race(stack, pods, seed, kill=True)
        stacks.settled(stack)
        race(stack, [pod for pod in pods if pod["metadata"]["uid"] not in stack.side.bound], seed + 1)
        stacks.settled(stack)
        assert len(stack.side.bound) == LIMIT
        assert materialised.counts(stack.store)[f"quota||{QUOTA}|cpu"] == 1000 * LIMIT
        assert overspent(stack) == []
