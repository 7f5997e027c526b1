"""Preemption inside a quota: what is dropped from an offer, and which pods would have to go."""

import random

import msgspec
import pytest

from app.domain import model, snapshots
from app.domain.fit import budgets
from app.framework import cycles
from app.plugins.elastic_quota import samples
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership, quota_preemption
from app.verbs.preemption import offers
from tests.support.decisions import scheduling_driver, small_gangs, small_quotas
from tests.support.decisions.small_gangs import CORE

RULES = ElasticQuota(runtime=False, same_quota_only=True)


def pod(
    name: str, cpu: int, quota: str, node: str = "", priority: int = 0, *, firm: bool = False
) -> model.Pod:
    labels = {membership.LABEL: quota, **({membership.PREEMPTIBLE: "false"} if firm else {})}
    made = small_gangs.pod(name, cpu, node=node, priority=priority, labels=labels)
    return msgspec.structs.replace(made, started="2026-01-01T00:00:00Z" if node else "")


def cluster(*things: scheduling_driver.Thing, rules: ElasticQuota = RULES) -> scheduling_driver.Cluster:
    return scheduling_driver.Cluster(*things, configured=[rules])


def least_harm(snapshot: snapshots.Snapshot, asks: model.Pod) -> dict[str, object] | None:
    return quota_preemption.least_harm(quota_preemption.evictions(snapshot, asks, RULES))


@pytest.mark.parametrize("same_quota_only", [False, True])
def test_only_preemptible_pods_of_the_same_quota_are_preempted_if_so_configured(
    same_quota_only: bool,
) -> None:
    victims = {
        "n1": pod("own", 8, "q", "n1"),
        "n2": pod("other", 8, "r", "n2"),
        "n3": pod("firm", 8, "q", "n3", firm=True),
    }
    small = cluster(
        *(small_gangs.node(name, 8) for name in victims),
        small_quotas.quota("q", 0, 100),
        small_quotas.quota("r", 0, 100),
        *victims.values(),
        rules=ElasticQuota(runtime=False, same_quota_only=same_quota_only),
    )
    offer = {name: [one.uid] for name, one in victims.items()}
    base = cycles.cycle(pod("asks", 8, "q", priority=9), frozenset(offer), small.snapshot)
    answer = offers.judge(small.plugins, base, offer)
    assert set(answer.kept) == ({"n1"} if same_quota_only else {"n1", "n2", "n3"})
    if same_quota_only:
        assert answer.dropped == {
            "n2": "elastic quota q: pod x/other is of another quota",
            "n3": "elastic quota q: pod x/firm is not preemptible",
        }


def test_pods_without_a_quota_preempt_as_before() -> None:
    victim = pod("other", 8, "r", "n1")
    small = cluster(small_gangs.node("n1", 8), small_quotas.quota("r", 0, 100), victim)
    asks = small_gangs.pod("asks", 8, priority=9)
    base = cycles.cycle(asks, frozenset(("n1",)), small.snapshot)
    assert set(offers.judge(small.plugins, base, {"n1": [victim.uid]}).kept) == {"n1"}


def test_the_view_of_a_refused_pod_shows_whom_koordinator_would_evict() -> None:
    limit = budgets.DisruptionBudget(
        uid="u", namespace="x", name="kept", selector=model.Selector({"app": "db"}), allowed=0
    )
    protected = pod("protected", 4, "q", "n1")
    protected = msgspec.structs.replace(protected, labels={**protected.labels, "app": "db"})
    small = cluster(
        *(small_gangs.node(name, 8) for name in ("n1", "n2", "n3")),
        small_quotas.quota("q", 0, 12),
        small_quotas.quota("r", 0, 100),
        limit,
        protected,
        pod("low", 4, "q", "n2"),
        pod("high", 4, "q", "n3", priority=5),
        pod("other", 4, "r", "n3"),
        asks := pod("asks", 4, "q", priority=9),
    )
    assert small.why(asks) == "elastic quota q: no capacity in cpu"
    shown = least_harm(small.snapshot, asks)
    assert shown == {
        "node": "n2",
        "decidedBy": "lowest priority of the most important victim",
        "violations": 0,
        "victims": [{"namespace": "x", "name": "low", "priority": 0}],
    }
    sample = samples.ADMISSION["eviction"]
    assert isinstance(sample, dict)
    assert shown.keys() == sample.keys()
    never = msgspec.structs.replace(asks, preemption_policy="Never")
    assert least_harm(small.snapshot, never) is None
    assert least_harm(small.snapshot, pod("fits", 0, "q", priority=9)) is None


@pytest.mark.parametrize("seed", range(60))
def test_a_shown_eviction_is_enough_and_none_of_its_victims_can_stay(seed: int) -> None:
    dice = random.Random(seed)
    nodes = [small_gangs.node(f"n{number}", 8) for number in range(3)]
    running = [
        pod(f"p{number}", dice.randint(1, 4), "q", f"n{dice.randrange(3)}", dice.randrange(3))
        for number in range(dice.randint(2, 7))
    ]
    limit = sum(one.requests["cpu"] for one in running) // CORE + dice.randrange(3)
    asks = pod("asks", dice.randint(3, 6), "q", priority=2)
    small = cluster(*nodes, small_quotas.quota("q", 0, limit), *running, asks)
    for name, eviction in quota_preemption.evictions(small.snapshot, asks, RULES).items():
        assert all(one.priority < asks.priority and one.node == name for one in eviction.victims)
        for staying in (None, *eviction.victims):
            used = sum(
                one.requests["cpu"] for one in running if one not in eviction.victims or one == staying
            )
            there = sum(
                one.requests["cpu"]
                for one in running
                if one.node == name and (one not in eviction.victims or one == staying)
            )
            most = (limit * CORE, 8 * CORE)
            fits = used + asks.requests["cpu"] <= most[0] and there + asks.requests["cpu"] <= most[1]
            assert fits == (staying is None), (name, staying)


def test_a_pod_goes_where_the_quota_is_full_and_the_node_is_not() -> None:
    small = cluster(
        small_gangs.node("n0", 8),
        small_quotas.quota("q", 0, 4),
        pod("p", 4, "q", "n0"),
        asks := pod("asks", 3, "q", priority=2),
    )
    assert set(quota_preemption.evictions(small.snapshot, asks, RULES)) == {"n0"}
