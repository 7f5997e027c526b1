"""Many concurrent binds under all kinds of faults: no quota is exceeded, and no answer is wrong."""

import random
import secrets
from concurrent import futures

import pytest
from hypothesis import example, given, settings

from app.domain import model
from app.simulation.apiserver import faults
from app.store.server import embedded
from tests.support.campaigns import sizes
from tests.support.extender import bind_plays, replicas
from tests.support.store import materialised

HOSTS = tuple(f"h{number}" for number in range(4))
QUOTA = 10


@pytest.mark.scenario("WP-14")
@pytest.mark.parametrize("seed", range(3))
def test_fifty_pods_ten_places_two_replicas(store_server: embedded.Server, cluster: str, seed: int) -> None:
    dice = random.Random(seed)
    with replicas.cluster(store_server.url, cluster) as shop:
        for host in HOSTS:
            shop.node(host, role="host")
        shop.policy({"host": QUOTA})
        pods = [shop.pod(f"web-{number}") for number in range(50)]
        before = shop.see()
        both = [shop.replica(), shop.replica()]
        for status in (403, 409, 500):
            shop.api.faults.add(faults.FaultKind.FAIL, bind_plays.BINDING, status=status, times=2)
        shop.api.faults.add(faults.FaultKind.LOSE, bind_plays.BINDING, times=2)
        # Some pods are asked about twice at the same time, as after a call that timed out.
        plan = [(pod, dice.choice(both), dice.choice(HOSTS)) for pod in pods]
        plan += [(pod, dice.choice(both), host) for pod, _, host in dice.sample(plan, 15)]
        dice.shuffle(plan)
        with futures.ThreadPoolExecutor(8) as pool:
            errors = list(pool.map(lambda one: attempted(*one), plan))

        assert all(
            shop.bound(pod) == host for (pod, _, host), error in zip(plan, errors, strict=True) if not error
        )
        asked = {pod.uid: host for pod, _, host in plan}
        # A Binding whose outcome is unknown keeps its place until it cannot take effect any more.
        for _ in range(3):
            for pod in dice.sample(pods, len(pods)):
                if not shop.bound(pod):
                    shop.touch(pod)  # kube-scheduler writes the failure into the pod's status
                attempted(pod, both[0], asked[pod.uid])
        shop.see()
        appended = both[0].events(after=before)
        assert shop.most("host") == QUOTA
        assert sum(shop.bound(pod) != "" for pod in pods) == QUOTA
        assert shop.quotas_used() == dict(both[1].snapshot().counts) == materialised.counts(both[0].store)
        for pod in pods:
            placements = [line.split()[0] for line in appended if line.endswith(f"pod:{pod.uid}")]
            last = [name for name in placements if name in ("PlacementsCommitted", "PlacementReleased")][-1:]
            assert (last == ["PlacementsCommitted"]) == (shop.bound(pod) != ""), (
                "each bound pod has a placement"
            )


def attempted(pod: model.Pod, replica: replicas.Replica, node: str) -> str:
    """The calls of kube-scheduler about a pod: no bind if filter keeps no node."""
    answer = replica.filter(pod)
    return replica.bind(pod, node) if node in answer.trace.kept else "refused by filter"


# -- whatever happens --------------------------------------------------------------------------

UNDER_WAY: list[bind_plays.Step] = [
    ("late",),
    ("bind", 0, "h1", 1),
    ("problem", "403"),
    ("bind", 0, "m1", 1),
    ("bind", 1, "h2", 1),
    ("arrive",),
]
"""A Binding arrives after another node was refused to its pod, and its place given to another pod."""

REPEATED: list[bind_plays.Step] = [
    ("bind", 0, "m1", 0),
    ("problem", "LOSE"),
    ("problem", "403"),
    ("bind", 1, "h1", 0),
    ("bind", 2, "h2", 0),
]
"""A Binding is carried out on a kept connection, which is closed; its repetition on another one is denied."""

FENCED: list[bind_plays.Step] = [
    ("offer", 0, 0),
    ("late",),
    ("bind", 0, "h1", 0),
    ("touch", 0),
    ("bind", 0, "m1", 1),
    ("bind", 1, "h2", 1),
    ("arrive",),
]
"""A Binding arrives after the pod was written to: its place has been released, and given to another pod."""

CONFLICT: list[bind_plays.Step] = [
    ("offer", 0, 0),
    ("late", 409),
    ("bind", 0, "h1", 0),
    ("bind", 1, "h2", 1),
    ("arrive",),
]
"""etcd fails after a Binding was sent to it, which is answered 409, and carries it out later."""

OUTDATED: list[bind_plays.Step] = [
    ("offer", 0, 0),
    ("touch", 0),
    ("late",),
    ("late",),
    ("bind", 0, "h1", 0),
    ("bind", 0, "m1", 1),
    ("bind", 1, "h2", 1),
    ("arrive",),
]
"""A pod is bound for an outdated version, then for the present one, which may arrive late."""

GONE: list[bind_plays.Step] = [("bind", 0, "h1", 0), ("see",), ("delete", 0), ("bind", 0, "h1", 0)]
"""A bind is repeated after its pod was bound and is gone again, which neither replica has observed yet."""


@pytest.mark.scenario("WP-14", "PR-23", "LX-12")
@settings(max_examples=sizes.examples(60), deadline=None)
@example(steps=UNDER_WAY)
@example(steps=GONE)
@example(steps=REPEATED)
@example(steps=FENCED)
@example(steps=CONFLICT)
@example(steps=OUTDATED)
@given(steps=bind_plays.steps)
def test_success_is_only_answered_for_a_bound_pod(
    store_server: embedded.Server, steps: list[bind_plays.Step]
) -> None:
    with replicas.cluster(store_server.url, f"p{secrets.token_hex(6)}") as shop:
        play = bind_plays.Play(shop)
        for step in steps:
            play.step(*step)
        play.end()
