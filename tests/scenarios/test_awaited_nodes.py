"""The nodes that a gang awaits, for which pods are evicted, are reserved against less important pods."""

import msgspec
import pytest

from app.domain import model
from app.framework import cycles, pipeline
from app.plugins.coscheduling import admission
from app.plugins.coscheduling import plugin as coscheduling
from app.verbs.preemption import offers
from tests.support.decisions.small_gangs import Cluster, gang, native, node, pod

FULL, FREE, SPARE = "n0", "n1", "n2"


def preempting(*more: model.Node | model.Pod, members: int = 2) -> tuple[Cluster, model.Pod, list[model.Pod]]:
    """A gang whose members need a node each: of two, one is free, and the pod on the other is evicted."""
    victim = pod("victim", 8, node=FULL, terminating=True, disrupted=True, preempted=True)
    first, *others = [msgspec.structs.replace(one, priority=10) for one in gang("train", members, 8)]
    pods = [msgspec.structs.replace(first, nominated=FULL), *others]
    return Cluster(node(FULL), node(FREE), victim, *pods, *more), victim, pods


def refused(small: Cluster, one: model.Pod, *nodes: str) -> set[str]:
    trace = small.filter(one, nodes, offered=True)
    assert {refusal.reason for refusal in trace.refusals} <= {admission.RESERVED}
    return set(trace.refused)


@pytest.mark.scenario("PR-49")
def test_less_important_pods_get_no_node_that_the_gang_awaits() -> None:
    small, victim, members = preempting()
    assert refused(small, pod("low", 8), FREE) == {FREE}
    assert refused(small, pod("low", 8, priority=9), FREE) == {FREE}
    small.gone(victim)
    assert refused(small, pod("low", 8), FULL, FREE) == {FULL, FREE}
    # All others are decided about by kube-scheduler.
    assert refused(small, pod("equal", 8, priority=10), FREE) == set()
    assert refused(small, pod("high", 8, priority=11), FULL, FREE) == set()
    assert small.commit(members[1], FREE) == {"train0": FULL, "train1": FREE}


@pytest.mark.scenario("PR-49")
def test_one_nomination_reserves_the_nodes_of_members_that_have_lost_theirs() -> None:
    """kube-scheduler clears a nomination while the victims of another member terminate."""
    small, victim, members = preempting()
    small.gone(victim)
    small.see(members[1], msgspec.structs.replace(members[0], nominated=""))
    assert refused(small, pod("low", 8), FULL, FREE) == set()
    small.see(msgspec.structs.replace(members[1], nominated=FREE))
    assert refused(small, pod("low", 8), FULL, FREE) == {FULL, FREE}


@pytest.mark.scenario("PR-49")
def test_a_free_node_is_reserved_also_while_a_member_has_no_victim_yet() -> None:
    runs = pod("runs", 8, node=SPARE)
    small, _, _ = preempting(node(SPARE), runs, members=3)
    assert refused(small, pod("low", 8), FREE) == {FREE}
    runs = pod("runs", 8, node=SPARE, priority=10)
    small, _, _ = preempting(node(SPARE), runs, members=3)
    assert refused(small, pod("low", 8), FREE) == set(), "no eviction would help the gang"


def test_pods_that_are_evicted_already_are_no_further_harm() -> None:
    """The plan has their node, and not that of a pod that is even less important."""
    least = pod("least", 8, node=SPARE, priority=-5)
    small, _, _ = preempting(node(SPARE), least)
    assert refused(small, pod("low", 8), FREE, SPARE) == {FREE}


def test_no_pod_is_decided_without_the_state_meanwhile() -> None:
    small, _, members = preempting()
    rules, low = coscheduling.Coscheduling(), pod("low", 8)
    assert rules.concerned(low, small.snapshot)
    assert not rules.soft(low, small.snapshot)
    small.see(msgspec.structs.replace(members[0], nominated=""))
    assert not rules.concerned(low, small.snapshot)


@pytest.mark.scenario("PR-49")
def test_capacity_beside_the_gang_is_not_reserved() -> None:
    small, victim, _ = preempting(node(SPARE, 24))
    small.gone(victim)  # Both members are planned on the large node.
    assert refused(small, pod("low", 8), FREE, SPARE) == set()
    assert refused(small, pod("larger", 9), SPARE) == {SPARE}
    assert refused(small, pod("nothing", 0), FULL, FREE, SPARE) == set()


def test_a_gang_that_cannot_start_by_evictions_reserves_nothing() -> None:
    small, _, members = preempting()
    important = pod("important", 8, node=FREE, priority=10)
    small.see(important)
    assert refused(small, pod("low", 1), FULL) == set()
    small.gone(important)
    small.gone(members[1])
    assert refused(small, pod("low", 8), FREE) == set()


@pytest.mark.scenario("PR-49")
def test_a_less_important_gang_is_not_planned_on_them() -> None:
    small, victim, members = preempting(node(SPARE))
    small.gone(victim)
    less = [msgspec.structs.replace(one, priority=5) for one in gang("less", 2, 8)]
    small.see(*less)
    assert refused(small, less[0], FREE, SPARE) == {FREE, SPARE}
    for one in members:
        small.gone(one)
    assert small.planned(less[0])


def test_kube_scheduler_nominates_the_members_of_its_own_gangs_itself() -> None:
    small, victim, members = preempting()
    small.gone(victim)
    small.see(native("train", 2))
    for one in members:
        small.see(msgspec.structs.replace(one, annotations={}, group="train"))
    assert refused(small, pod("low", 8), FREE) == set()


def test_the_class_of_other_pods_has_their_priority() -> None:
    small, _, _ = preempting()
    rules = coscheduling.Coscheduling()
    low, high = pod("low", 8), pod("high", 8, priority=11)
    classes = {rules.pod_class(one, small.snapshot) for one in (low, pod("same", 8), high)}
    assert len(classes) == 2


@pytest.mark.scenario("PR-53")
def test_nothing_is_reserved_if_no_member_can_evict_what_is_missing() -> None:
    runs = pod("runs", 8, node=SPARE)
    small, _, members = preempting(node(SPARE), runs, members=3)
    never = [msgspec.structs.replace(one, preemption_policy="Never") for one in members[1:]]
    small.see(*never)
    assert refused(small, pod("low", 8), FREE) == set()
    small, victim, members = preempting(node(SPARE), runs, members=3)
    nominated = [
        msgspec.structs.replace(one, nominated=name)
        for one, name in zip(members, (FULL, FREE, SPARE), strict=True)
    ]
    small.see(*nominated[:2])
    assert refused(small, pod("low", 8), FREE) == {FREE}
    # An equally important pod has the node of the third. All members have evicted, and may not for now.
    small.see(nominated[2])
    assert refused(small, pod("low", 8), FREE) == set()
    small.gone(runs)
    small.gone(victim)
    assert refused(small, pod("low", 8), FULL, FREE, SPARE) == {FULL, FREE, SPARE}


@pytest.mark.scenario("PR-53")
def test_a_nomination_for_a_node_that_is_gone_reserves_nothing() -> None:
    small, _, members = preempting(node(SPARE), pod("runs", 8, node=SPARE))
    small.see(msgspec.structs.replace(members[0], nominated="ghost"))
    assert refused(small, pod("low", 8), FREE) == set()


@pytest.mark.scenario("PR-53")
def test_the_gang_of_another_scheduler_reserves_nothing() -> None:
    small, victim, members = preempting()
    small.gone(victim)
    other = [msgspec.structs.replace(one, scheduler="koord-scheduler") for one in members]
    small.see(*other)
    assert refused(small, pod("low", 8), FULL, FREE) == set()
    assert refused(small, pod("beside", 8, scheduler="koord-scheduler"), FULL, FREE) == {FULL, FREE}


@pytest.mark.scenario("PR-49")
def test_no_pod_evicts_others_for_a_node_that_a_gang_then_takes() -> None:
    """Also if it is offered several: without all of their pods, the gang would have other nodes."""
    running = [pod(f"runs{number}", 8, node=f"m{number}") for number in range(4)]
    nodes = [node(one.node) for one in running]
    small, _, _ = preempting(*nodes, *running)
    asking, offer = pod("asks", 8, priority=5), {one.node: (one.uid,) for one in running}
    base = cycles.cycle(asking, frozenset(offer), small.snapshot)
    for node_name in offers.judge(small.plugins, base, offer).kept:
        after = cycles.without(base, [one for one in running if one.node == node_name])
        assert pipeline.run_filter(small.plugins, after).kept >= {node_name}
    small.see(pod("on-free", 8, node=FREE))
    base = cycles.cycle(asking, frozenset(offer), small.snapshot)
    assert offers.judge(small.plugins, base, offer).kept.keys() == set()


@pytest.mark.scenario("PR-49")
def test_the_victims_of_gangs_that_are_planned_together_are_all_awaited() -> None:
    groups, names = {"groups": '["x/one", "x/other"]'}, [f"n{at}" for at in range(5)]
    pods = [
        msgspec.structs.replace(one, priority=10)
        for name, size in (("one", 2), ("other", 3))
        for one in gang(name, size, 8, **groups)
    ]
    victims = [
        pod(f"victim{at}", 8, node=name, terminating=True, disrupted=True, preempted=True)
        for at, name in enumerate(names[:4])
    ]
    nominated = [
        msgspec.structs.replace(one, nominated=name) for one, name in zip(pods[:4], names[:4], strict=True)
    ]
    small = Cluster(*map(node, names), *victims, *nominated, pods[4])
    assert refused(small, pod("low", 8), "n4") == {"n4"}
