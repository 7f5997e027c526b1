"""What the controller evicts for quotas: for the pod that has waited longest, and above a runtime."""

import itertools
import json
import random
from collections.abc import Callable, Iterable

import msgspec
import pytest

from app.domain import events, model
from app.domain.fit import budgets
from app.framework import cycles, effects, registry, registry_builder
from app.kube.objects import decoding
from app.plugins import IN_TREE
from app.plugins.elastic_quota import evictions
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees import membership
from tests.support.decisions import fake_plugins, scheduling_driver, small_gangs, small_quotas
from tests.support.decisions.quota_evictions import (
    EVICTING,
    cluster,
    full,
    judged,
    names,
    pod,
    refusal,
    renewed,
    view,
    wanted,
)
from tests.support.decisions.small_gangs import CORE


@pytest.mark.scenario("EQ-26", "TR-17")
def test_by_default_the_eviction_is_shown_and_not_wanted() -> None:
    rules = ElasticQuota(runtime=False)
    small = full(rules)
    assert wanted(small, rules) is None
    assert view(small, "q", rules)["preemption"] == {
        "action": "report",
        "pod": "x/asks",
        "node": "n1",
        "violations": 0,
        "victims": [{"namespace": "x", "name": "low", "priority": 0}],
    }
    assert view(small, "r", rules)["preemption"] is None
    asks = small.snapshot.pod_named("x", "asks")
    assert asks is not None
    shown = rules.shown().remarks
    assert shown is not None
    assert list(shown(cycles.cycle(asks, frozenset(small.snapshot.nodes), small.snapshot)))[-1] == (
        "elastic quota q: would admit the pod without x/low on node n1; quota_preemption is report"
    )


@pytest.mark.scenario("EQ-26")
def test_what_the_view_shows_is_evicted_if_the_argument_requests_it() -> None:
    small = full()
    (found,) = wanted(small) or ()
    assert names([found]) == [("elastic quota q: pod x/asks", ["low"])]
    assert found.message == "evicted from node n1: pod x/asks of elastic quota q is more important"
    assert found.after == evictions.WAITED
    shown = view(small, "q")["preemption"]
    assert isinstance(shown, dict)
    assert shown["action"] == "evict"
    assert [one["name"] for one in shown["victims"]] == ["low"]


@pytest.mark.parametrize(
    "changed",
    [
        {"unscheduled": ""},
        {"unscheduled": "pod has unbound immediate PersistentVolumeClaims"},
        {"unscheduled": "0/2 nodes are available: 2 elastic quota r: no capacity in cpu."},
        {"nominated": "n1"},
        {"preemption_policy": "Never"},
        {"gated": True},
        {"priority": 0},
        {"labels": {membership.LABEL: "r"}, "unscheduled": refusal("r")},
    ],
    ids=["not tried", "volumes", "other", "nominated", "never", "gated", "not more important", "admitted"],
)
def test_nothing_is_evicted_for_other_pods(changed: dict[str, object]) -> None:
    assert wanted(full(changed=changed)) == ()


@pytest.mark.parametrize("above", [False, True])
def test_what_the_plugin_answers_makes_a_condition_that_permits_an_eviction(above: bool) -> None:
    rules = ElasticQuota(runtime=False, check_parents=above, quota_preemption="evict")
    small, asks = full(rules), pod("asks", 4, "q", priority=9)
    if above:
        small.see(small_quotas.quota("above", 0, 12, is_parent=True))
        small.see(small_quotas.quota("q", 0, 100, parent="above"))
    why = small.why(asks)
    assert why == "elastic quota q: no capacity in cpu" + (" of parent above" if above else "")
    expected = [("elastic quota q: pod x/asks", ["low"])]
    for message in (f"2 {why}.", f"1 Too many pods, 1 {why}.", f"2 gang g: no capacity; {why}."):
        small.see(msgspec.structs.replace(asks, unscheduled=f"0/2 nodes are available: {message}"))
        assert names(wanted(small, rules)) == expected
    small.see(msgspec.structs.replace(asks, unscheduled="0/2 nodes are available: 2 Insufficient cpu."))
    assert names(wanted(small, rules)) == []


def test_a_refusal_behind_the_reasons_of_many_nodes_permits_an_eviction() -> None:
    """kube-scheduler sorts the reasons by their text, and each taint has one of its own."""
    taints = [f"1 node(s) had untolerated taint {{team: team-{number:02}}}" for number in range(60)]
    reasons = sorted([*taints, "2 elastic quota q: no capacity in cpu"])
    message = f"0/62 nodes are available: {', '.join(reasons)}."
    assert message.index("elastic quota") > 2_000
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    manifest = {
        "metadata": {"uid": "uid-x-asks", "namespace": "x", "name": "asks"},
        "status": {"conditions": [condition]},
    }
    small = full(changed={"unscheduled": decoding.pod(json.dumps(manifest).encode()).unscheduled})
    assert names(wanted(small)) == [("elastic quota q: pod x/asks", ["low"])]


def test_a_pod_that_terminates_counts_as_gone() -> None:
    small = full()
    small.see(pod("low", 4, "q", "n1", terminating=True))
    assert wanted(small) == ()
    assert view(small, "q")["preemption"] is None


@pytest.mark.scenario("EQ-26", "TR-17")
def test_what_is_still_wanted_is_renewed_from_the_present_state() -> None:
    small = full()
    (found,) = wanted(small) or ()
    assert renewed(found, small) == found
    small.gone(pod("other", 4, "r"))
    small.see(pod("lowest", 4, "q", "n1", priority=-1))
    again = renewed(found, small)
    assert again is not None
    assert names([again]) == [("elastic quota q: pod x/asks", ["lowest", "low"])]


@pytest.mark.scenario("EQ-26", "TR-17")
@pytest.mark.parametrize(
    "happened",
    [
        lambda small: small.see(pod("asks", 4, "q", "n1", priority=9)),
        lambda small: small.see(pod("asks", 4, "q", priority=9, nominated="n1")),
        lambda small: small.see(pod("asks", 4, "q", priority=9, unscheduled="2 Insufficient cpu.")),
        lambda small: small.see(pod("asks", 4, "r", priority=9)),
        lambda small: small.gone(pod("asks", 4, "q")),
        lambda small: small.gone(pod("middle", 8, "q")),
        lambda small: small.see(pod("middle", 8, "q", "n2", priority=5, terminating=True)),
        lambda small: small.see(small_quotas.quota("q", 0, 16)),
        lambda small: small.see(pod("low", 4, "q", "n1", priority=9)),
    ],
    ids=["bound", "nominated", "other", "quota", "deleted", "ended", "terminates", "max", "more important"],
)
def test_an_eviction_for_a_pod_that_needs_it_no_more_is_not_renewed(
    happened: Callable[[scheduling_driver.Cluster], object],
) -> None:
    small = full()
    (found,) = wanted(small) or ()
    happened(small)
    again = renewed(found, small)
    assert again is None or "low" not in [one.name for one in again.pods]


@pytest.mark.parametrize("protects", ["preemptible", "priority", "another quota"])
def test_a_pod_that_the_quota_must_not_evict_stays(protects: str) -> None:
    changes: dict[str, dict[str, object]] = {
        "preemptible": {"labels": {membership.LABEL: "q", membership.PREEMPTIBLE: "false"}},
        "priority": {"priority": 9},
        "another quota": {"labels": {membership.LABEL: "r"}},
    }
    small = full()
    small.see(msgspec.structs.replace(pod("low", 4, "q", "n1"), **changes[protects]))
    found = [one.name for each in wanted(small) or () for one in each.pods]
    assert "low" not in found


def test_a_violated_budget_is_shown_and_its_pod_is_not_evicted() -> None:
    limit = budgets.DisruptionBudget(
        uid="u", namespace="x", name="kept", selector=model.Selector({membership.LABEL: "q"}), allowed=0
    )
    small = full()
    small.see(limit)
    assert wanted(small) == ()
    shown = view(small, "q")["preemption"]
    assert isinstance(shown, dict)
    assert shown["violations"] == 1
    small.see(msgspec.structs.replace(limit, allowed=1))
    assert names(wanted(small)) == [("elastic quota q: pod x/asks", ["low"])]


def test_a_pod_of_several_budgets_is_not_evicted_and_another_one_is() -> None:
    """The Eviction API refuses it, whatever they allow."""
    small = full()
    both = {membership.LABEL: "q", "app": "db"}
    small.see(msgspec.structs.replace(pod("low", 4, "q", "n1"), labels=both))
    for name in ("first", "second"):
        selector = model.Selector({"app": "db"})
        small.see(budgets.DisruptionBudget(uid=name, namespace="x", name=name, selector=selector, allowed=1))
    assert names(wanted(small)) == [("elastic quota q: pod x/asks", ["middle"])]


def test_of_each_quota_the_pod_that_has_waited_longest_and_the_least_important_victim_come_first() -> None:
    small = cluster(
        small_gangs.node("n1", 16),
        small_quotas.quota("q", 0, 8),
        small_quotas.quota("r", 0, 4),
        pod("q1", 4, "q", "n1", priority=2),
        pod("q0", 4, "q", "n1", priority=1),
        pod("r0", 4, "r", "n1"),
        pod("late", 4, "q", priority=9, created="2026-01-03T00:00:00Z"),
        pod("early", 8, "q", priority=5, created="2026-01-02T00:00:00Z"),
        pod("first", 4, "r", priority=5, created="2026-01-01T00:00:00Z"),
    )
    assert names(wanted(small)) == [
        ("elastic quota r: pod x/first", ["r0"]),
        ("elastic quota q: pod x/early", ["q0", "q1"]),
    ]


def test_nothing_is_evicted_for_a_pod_that_another_quota_refuses() -> None:
    small = full()
    amounts = {"cpu": 15 * CORE}
    small.see(namespace_quota.NamespaceQuota(uid="u", namespace="x", name="own", min=amounts, max=amounts))
    assert names(wanted(small)) == []


def test_the_eviction_is_on_a_node_that_all_plugins_admit_the_pod_to() -> None:
    small = cluster(
        *(small_gangs.node(name, 8) for name in ("n1", "n2", "n3")),
        small_quotas.quota("q", 0, 12),
        *(pod(f"low{number}", 4, "q", f"n{number}", priority=number) for number in (1, 2, 3)),
        pod("asks", 4, "q", priority=9),
    )
    assert names(wanted(small)) == [("elastic quota q: pod x/asks", ["low1"])]
    small.plugins = registry.Registry([EVICTING, fake_plugins.Filtering(refused=frozenset(("n1", "n2")))])
    assert names(wanted(small, changes=judged(small))) == [("elastic quota q: pod x/asks", ["low3"])]
    small.plugins = registry.Registry(
        [EVICTING, fake_plugins.Filtering(refused=frozenset(small.snapshot.nodes))]
    )
    assert names(wanted(small, changes=judged(small))) == []


@pytest.mark.scenario("EQ-19", "TR-17")
def test_pods_above_a_runtime_are_evicted_after_two_minutes_the_least_important_first() -> None:
    rules = ElasticQuota(overuse="evict")
    small = cluster(
        *(small_gangs.node(name, 20) for name in ("n1", "n2")),
        small_quotas.quota("q", 20, 40),
        small_quotas.quota("r", 20, 40),
        pod("q-high", 20, "q", "n1", priority=9),
        pod("q-low", 5, "q", "n2", priority=1),
        pod("q-lower", 5, "q", "n2"),
        pod("r0", 15, "r"),
        rules=rules,
    )
    assert names(wanted(small, rules)) == [("elastic quota q: overuse", ["q-lower"])]
    (found,) = wanted(small, rules) or ()
    assert found.after == evictions.OVERUSED == 120
    assert found.message == "evicted: elastic quota q uses more than its runtime in cpu"
    overuse = view(small, "q", rules)["overuse"]
    assert isinstance(overuse, list)
    assert [one["name"] for one in overuse] == ["q-lower"]
    assert renewed(found, small) == found
    small.see(pod("q-lower", 5, "q", "n2", terminating=True))
    assert renewed(found, small) is None
    assert wanted(small, rules) == ()
    assert wanted(small, ElasticQuota()) is None


@pytest.mark.scenario("EQ-19", "TR-17")
@pytest.mark.parametrize(
    ("others", "going"), [((), []), (("more",), ["more"]), (("more", "most"), ["more"])], ids=len
)
def test_above_a_runtime_a_pod_of_several_budgets_stays_and_another_one_goes(
    others: tuple[str, ...], going: list[str]
) -> None:
    """The quota uses 4 more than its max. The Eviction API refuses the least important pod, always."""
    rules = ElasticQuota(runtime=False, overuse="evict")
    both = pod("least", 4, "q", "n1", labels={membership.LABEL: "q", "app": "db"})
    pods = [both, *(pod(name, 4, "q", "n1", priority=at) for at, name in enumerate(others, 1))]
    small = cluster(
        small_gangs.node("n1", 16), small_quotas.quota("q", 0, 4 * len(others)), *pods, rules=rules
    )
    selector = model.Selector({"app": "db"})
    limits = [
        budgets.DisruptionBudget(uid=name, namespace="x", name=name, selector=selector, allowed=1)
        for name in ("first", "second")
    ]
    small.see(limits[0])
    (found,) = wanted(small, rules) or ()
    assert ([one.name for one in found.pods], found.unsupported) == (["least"], ())
    small.see(limits[1])
    (found,) = wanted(small, rules) or ()
    assert ([one.name for one in found.pods], found.unsupported) == (going, (both,))
    assert renewed(found, small) == found
    shown = view(small, "q", rules)["overuse"]
    assert isinstance(shown, list)
    assert [one["name"] for one in shown] == going


def test_operational_events_alone_change_nothing() -> None:
    small = full()
    happened = (events.ShadowGone(name="s"),)
    assert wanted(small, changes=effects.Changes(small.snapshot, happened)) is None


def test_only_two_actions_are_accepted() -> None:
    for argument in ("quota_preemption", "overuse"):
        args = {"ElasticQuota": {argument: "kill"}}
        with pytest.raises(
            registry.ConfigurationRefused, match=f"{argument} is 'kill'; allowed: report, evict"
        ):
            registry_builder.build(IN_TREE, enabled=("ElasticQuota",), weights={}, score_max=10, args=args)


@pytest.mark.parametrize("seed", range(60))
def test_an_eviction_is_found_if_any_set_of_pods_would_do_and_it_is_enough(seed: int) -> None:
    """Compared with all sets of pods that may go, on all nodes."""
    dice = random.Random(seed)
    running = [
        pod(f"p{number}", dice.randint(1, 4), dice.choice("qqr"), f"n{dice.randrange(3)}", dice.randrange(4))
        for number in range(dice.randint(2, 8))
    ]
    used = sum(one.requests["cpu"] for one in running if one.labels[membership.LABEL] == "q")
    most = used // CORE + dice.randrange(4)
    asks = pod("asks", dice.randint(3, 7), "q", priority=3)
    quotas = (small_quotas.quota("q", 0, most), small_quotas.quota("r", 0, 100))
    small = cluster(*(small_gangs.node(f"n{number}", 8) for number in range(3)), *quotas, *running, asks)
    refused = bool(small.filter(asks).refused)
    mine = [one for one in running if one.labels[membership.LABEL] == "q" and one.priority < asks.priority]

    def enough(going: Iterable[model.Pod], node: str) -> bool:
        gone = {one.uid for one in going}
        free = 8 * CORE - sum(
            one.requests["cpu"] for one in running if one.node == node and one.uid not in gone
        )
        left = most * CORE - used + sum(one.requests["cpu"] for one in going)
        return asks.requests["cpu"] <= min(free, left)

    sets = {
        node: [
            going
            for size in range(1, len(mine) + 1)
            for going in itertools.combinations([one for one in mine if one.node == node], size)
            if enough(going, node)
        ]
        for node in small.snapshot.nodes
    }
    found = wanted(small) or ()
    assert bool(found) == (refused and any(sets.values()))
    for one in found:
        (node,) = {pod.node for pod in one.pods}
        assert {pod.uid for pod in one.pods} <= {pod.uid for pod in mine}
        assert enough(one.pods, node)
        for staying in one.pods:
            assert not enough([pod for pod in one.pods if pod is not staying], node)
        fewest = min(max(pod.priority for pod in going) for all_of in sets.values() for going in all_of)
        assert max(pod.priority for pod in one.pods) == fewest
