"""What filter answers, a bind in the same state commits: for gangs beside quotas and nominated pods.

Otherwise kube-scheduler would repeat a bind that is refused each time.
"""

import json
import random
from collections.abc import Iterator

import msgspec
import pytest

from app.domain import model
from app.domain.fit import node_fit
from app.framework import plans
from app.plugins.coscheduling import membership
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees import membership as quotas
from tests.support.campaigns import sizes
from tests.support.decisions import small_quotas
from tests.support.decisions.small_gangs import CORE, ZONE, Cluster, gang, node, pod

STEPS = 40


def generated_gangs(dice: random.Random, nodes: list[model.Node]) -> Iterator[model.Pod]:
    """Members of three gangs, two of which may be placed together."""
    both = '["x/a", "x/b"]' if dice.random() < 0.4 else ""
    for name in "abc":
        given = {"match_policy": dice.choice(["once-satisfied", "waiting-and-running", "only-waiting"])}
        if both and name in "ab":
            given["groups"] = both
        if dice.random() < 0.3:
            rule = {"layer": ZONE, "strategy": dice.choice(["MustGather", "PreferGather"])}
            given["network_topology_spec"] = json.dumps({"gatherStrategy": [rule]})
        count, priority, labels = dice.randint(1, 5), dice.randint(0, 2), dict[str, str]()
        if dice.random() < 0.7:
            labels[quotas.LABEL] = dice.choice("qr")
        if dice.random() < 0.3:
            labels[quotas.PREEMPTIBLE] = "false"
        for one in gang(name, count, dice.randint(1, 3), minimum=dice.randint(1, count), **given):
            nominated = dice.choice(nodes).name if dice.random() < 0.2 else ""
            yield msgspec.structs.replace(one, priority=priority, labels=labels, nominated=nominated)


def generated(dice: random.Random) -> Cluster:
    nodes = [
        node(f"n{number}", dice.choice([4, 8]), {ZONE: f"z{number % 2}"})
        for number in range(dice.randint(3, 6))
    ]
    least, most = ({"cpu": dice.randint(low, high) * CORE} for low, high in ((4, 20), (8, 30)))
    own = namespace_quota.NamespaceQuota(uid="u", namespace="x", name="own", min=least, max=most)
    singles = [
        pod(
            f"s{number}",
            dice.randint(1, 4),
            priority=dice.randint(0, 3),
            labels={quotas.LABEL: dice.choice("qr")} if dice.random() < 0.6 else {},
            nominated=dice.choice(nodes).name if dice.random() < 0.3 else "",
        )
        for number in range(dice.randint(0, 6))
    ]
    return Cluster(
        *nodes,
        *(small_quotas.quota(name, dice.randint(0, 4), dice.randint(4, 24)) for name in "qr"),
        *([own] if dice.random() < 0.5 else []),
        *generated_gangs(dice, nodes),
        *singles,
        beside=(ElasticQuota(runtime=dice.random() < 0.7),),
    )


def offered(dice: random.Random, small: Cluster, one: model.Pod) -> list[str]:
    """The nodes that kube-scheduler offers: all of them to a member, and to others those with capacity."""
    if membership.of(one) is not None:
        return sorted(name for name in small.snapshot.nodes if dice.random() < 0.9)
    return [
        name for name, known in small.snapshot.nodes.items() if not node_fit.fits(small.snapshot, one, known)
    ]


def scheduled(small: Cluster, dice: random.Random, one: model.Pod) -> int:
    """Filter and bind the pod; how many pods were placed."""
    kept = small.filter(one, offered(dice, small, one)).kept
    if not kept:
        return 0
    target = dice.choice(sorted(kept))
    assert not small.filter(one, [target]).refused
    made: plans.Commitment = small.commitment(one, target)
    placed = small.commit(one, target)
    assert all(small.snapshot.counts.get(key, 0) <= top for key, top in made.ceilings.items())
    for name, known in small.snapshot.nodes.items():
        assert small.snapshot.used(name).get("cpu", 0) <= known.allocatable["cpu"]
    return len(placed)


def history(seed: int) -> int:
    """The most pods that one bind placed in a generated history."""
    dice = random.Random(seed)
    small, most = generated(dice), 0
    for _ in range(STEPS):
        snapshot = small.snapshot
        waiting = sorted((snapshot.pods[uid] for uid in snapshot.waiting), key=lambda one: one.uid)
        seated = sorted(uid for uid in snapshot.placements if uid in snapshot.pods)
        chance = dice.random()
        if chance < 0.15 and seated:
            uid = dice.choice(seated)
            small.run(msgspec.structs.replace(snapshot.pods[uid], nominated=""), snapshot.node_of(uid))
        elif chance < 0.2 and snapshot.pods:
            small.gone(snapshot.pods[dice.choice(sorted(snapshot.pods))])
        elif waiting:
            most = max(most, scheduled(small, dice, dice.choice(waiting)))
    return most


@pytest.mark.parametrize("block", range(8))
def test_what_filter_answers_a_bind_commits(block: int) -> None:
    assert max(history(seed) for seed in range(block * 40, block * 40 + sizes.examples(20))) >= 4
