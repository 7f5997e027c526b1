"""Scenarios of gangs in preemption: their members as victims, and gangs that preempt."""

import itertools
import json
from collections.abc import Iterable

import msgspec
import pytest

from app.domain import events, model, projections, snapshots
from app.framework import cycles
from app.plugins.coscheduling import options
from app.verbs.preemption import offers
from tests.support.decisions.small_gangs import ZONE, Cluster, gang, koordinator, node, pod


@pytest.mark.scenario("CS-20")
def test_a_preemption_does_not_break_up_a_gang() -> None:
    running = [
        msgspec.structs.replace(one, node=f"n{n}", phase="Running") for n, one in enumerate(gang("g", 4, 8))
    ]
    plain = pod("plain", 8, node="n4")
    small = Cluster(*[node(f"n{n}") for n in range(5)], *running, plain)
    asking = pod("asking", 8, priority=10)
    assert small.veto(asking, "n1", running[1]) == "gang koordinator/x/g: 3 of 4 members would be left"
    assert small.veto(asking, "n4", plain) is None
    allowed = koordinator("g", 4, options={options.VICTIMS: "allow"})
    small.see(allowed)
    assert small.veto(asking, "n1", running[1]) is None


@pytest.mark.scenario("CS-20")
def test_a_preemption_does_not_break_up_a_gang_whose_binds_are_under_way() -> None:
    four = gang("g", 4, 8)
    small = Cluster(*[node(f"n{n}") for n in range(4)], *four)
    placed = small.commit(four[0], small.planned(four[0]))
    for one in four[:2]:
        small.run(one, placed[one.name])
    victim = small.snapshot.pods[four[1].uid]
    reason = small.veto(pod("asking", 8, priority=10), victim.node, victim)
    assert reason == "gang koordinator/x/g: 3 of 4 members would be left"


@pytest.mark.scenario("CS-20")
def test_a_preemption_does_not_rely_on_a_member_that_may_never_be_bound() -> None:
    three = [pod(f"m{number}", 8, gang="g") for number in range(3)]
    small = Cluster(*[node(f"n{n}") for n in range(3)], koordinator("g", 2), *three)
    placed = small.commit(three[0], small.planned(three[0]))
    for one in three[:2]:
        small.run(one, placed[one.name])
    bound, unbound = (small.snapshot.pods[one.uid] for one in three[1:])
    asking = pod("asking", 8, priority=10)
    reason = "gang koordinator/x/g: 1 of 2 members would be left bound"
    assert small.veto(asking, placed["m1"], bound) == reason
    assert small.veto(asking, placed["m2"], unbound) is None
    small.run(three[2], placed["m2"])
    assert small.veto(asking, placed["m1"], bound) is None


@pytest.mark.scenario("PR-20")
@pytest.mark.scenario("PR-39")
def test_preempt_keeps_a_node_on_which_a_whole_gang_would_go() -> None:
    nodes = [node("n1", 24), node("n2"), node("n3")]
    together = [pod(f"t{number}", 8, node="n1", gang="together") for number in range(3)]
    apart = [pod(f"a{number}", 4, node=f"n{number + 2}", gang="apart") for number in range(2)]
    definitions = koordinator("together", 3), koordinator("apart", 2)
    small = Cluster(*nodes, *definitions, *together, *apart)
    asking = pod("asking", 8, priority=10)
    offer = {"n1": [one.uid for one in together], "n2": [apart[0].uid], "n3": [apart[1].uid]}
    answer = offers.judge(small.plugins, cycles.cycle(asking, frozenset(offer), small.snapshot), offer)
    assert answer.kept.keys() == {"n1"}
    assert set(answer.dropped.values()) == {"gang koordinator/x/apart: 1 of 2 members would be left"}
    some = {"n1": [one.uid for one in together[:2]]}
    answer = offers.judge(small.plugins, cycles.cycle(asking, frozenset(some), small.snapshot), some)
    assert answer.dropped == {"n1": "gang koordinator/x/together: 1 of 3 members would be left"}


def crowded(count: int) -> tuple[Cluster, list[model.Pod], list[model.Pod]]:
    """Two full nodes, what runs there, and a more important gang whose members need a node each."""
    running = [pod(f"running{n}", 8, node=f"n{n}") for n in range(2)]
    members = [msgspec.structs.replace(one, priority=10) for one in gang("train", count, 8)]
    return Cluster(node("n0"), node("n1"), *running, *members), running, members


def judged(small: Cluster, asking: model.Pod, *victims: model.Pod) -> offers.PreemptAnswer:
    """The answer to preempt with the nodes of the victims."""
    offer = {victim.node: (victim.uid,) for victim in victims}
    base = cycles.cycle(asking, frozenset(offer), small.snapshot)
    return offers.judge(small.plugins, base, offer)


def kept(small: Cluster, asking: model.Pod, *victims: model.Pod) -> set[str]:
    """The nodes that preempt keeps, of those of the victims."""
    return set(judged(small, asking, *victims).kept)


def test_a_gang_preempts_on_several_nodes_one_member_after_another() -> None:
    small, running, members = crowded(2)
    assert kept(small, members[0], *running) == {"n0", "n1"}
    evicted, left = running
    small.gone(evicted)
    small.see(msgspec.structs.replace(members[0], nominated=evicted.node))
    assert kept(small, members[1], left) == {left.node}
    small.gone(left)
    small.see(msgspec.structs.replace(members[1], nominated=left.node))
    assert small.commit(members[0], small.planned(members[0])).keys() == {"train0", "train1"}


def test_no_pod_is_evicted_for_a_gang_that_would_still_not_fit() -> None:
    small, running, members = crowded(3)
    assert kept(small, members[0], *running) == set()
    small, running, members = crowded(2)
    assert kept(small, members[0], running[0]) == set()


def important(*members: model.Pod, **changed: object) -> list[model.Pod]:
    return [msgspec.structs.replace(one, priority=10, **changed) for one in members]


def test_no_pod_is_evicted_for_a_gang_that_needs_pods_gone_that_have_to_stay() -> None:
    """One member of an elastic gang may go, but not two, and none of a gang that needs all its members."""
    elastic = [
        msgspec.structs.replace(one, node=f"n{n}", phase="Running")
        for n, one in enumerate(gang("elastic", 4, 8, minimum=3))
    ]
    nodes = [node(f"n{n}") for n in range(5)]
    members = important(*gang("train", 2, 8))
    small = Cluster(*nodes[:4], *elastic, *members)
    assert kept(small, members[0], *elastic) == set()
    plain = pod("plain", 8, node="n4")
    small.see(nodes[4], plain)
    # Two may go: the plain one, and any one of the gang.
    assert kept(small, members[0], *elastic, plain) == {f"n{n}" for n in range(5)}
    whole = [
        msgspec.structs.replace(one, node=f"n{n}", phase="Running")
        for n, one in enumerate(gang("whole", 2, 8))
    ]
    small = Cluster(*nodes[:2], nodes[4], *whole, plain, *members)
    assert kept(small, members[0], *whole, plain) == set()


@pytest.mark.parametrize("worker", [{"priority": 0}, {"priority": 100, "preemption_policy": "Never"}])
def test_no_pod_is_evicted_for_a_member_whose_companion_cannot_evict(worker: dict[str, object]) -> None:
    running = [pod(f"running{n}", 8, node=f"n{n}", priority=50) for n in range(3)]
    first, second = gang("train", 2, 8)
    launcher = msgspec.structs.replace(first, priority=100)
    other = msgspec.structs.replace(second, **worker)
    small = Cluster(node("n0"), node("n1"), *running[:2], launcher, other)
    assert kept(small, launcher, *running[:2]) == set()
    small.see(node("n2"))
    assert kept(small, launcher, *running[:2]) == {"n0", "n1"}, "its companion needs no eviction"


def test_what_members_of_several_priorities_evict_may_go_together() -> None:
    first, second = gang("train", 2, 8)
    launcher = msgspec.structs.replace(first, priority=100)
    worker = msgspec.structs.replace(second, priority=20)
    elastic = [
        msgspec.structs.replace(one, node=f"n{at}", phase="Running", priority=priority)
        for at, (one, priority) in enumerate(
            zip(gang("elastic", 4, 8, minimum=3), (50, 10, 200, 200), strict=True)
        )
    ]
    nodes = [node(f"n{at}") for at in range(5)]
    small = Cluster(*nodes[:4], *elastic, launcher, worker)
    assert kept(small, launcher, elastic[0], elastic[1]) == set()
    plain = pod("plain", 8, node="n0", priority=50)
    moved = msgspec.structs.replace(elastic[0], node="n4")
    small = Cluster(*nodes, plain, moved, *elastic[1:], launcher, worker)
    assert kept(small, launcher, plain, elastic[1]) == {"n0"}, "the worker evicts on the other one"


def test_a_victim_that_runs_elsewhere_frees_nothing_for_the_gang() -> None:
    small, running, members = crowded(2)
    offer = {"n0": (running[0].uid,), "n2": (running[1].uid,)}
    small.see(node("n2", 0))
    base = cycles.cycle(members[0], frozenset(offer), small.snapshot)
    assert set(offers.judge(small.plugins, base, offer).kept) == set()


def full(count: int) -> tuple[Cluster, list[model.Pod]]:
    """So many full nodes in zone a."""
    names = [f"a{number:03}" for number in range(count)]
    running = [pod(f"on-{name}", 8, node=name) for name in names]
    return Cluster(*(node(name, labels={ZONE: "a"}) for name in names), *running), running


@pytest.mark.scenario("PR-52")
def test_a_gang_preempts_on_more_nodes_than_kube_scheduler_offers_one_member() -> None:
    small, running = full(130)
    members = important(*gang("train", 120, 8))
    small.see(*members)
    assert kept(small, members[0], *running[:100]) == {one.node for one in running[:100]}
    # Equally important pods have their nominated node: each evicts again after its pause.
    again = [msgspec.structs.replace(one, nominated="a129") for one in members]
    small.gone(running[129])
    small.see(*again, pod("important", 8, node="a129", priority=10))
    assert kept(small, again[0], *running[:100]) == {one.node for one in running[:100]}
    # Fewer are all that kube-scheduler has found: on others it would evict no pod.
    assert kept(small, members[0], *running[:99]) == set()
    offer = {one.node: (one.uid,) for one in running[:99]}
    base = cycles.cycle(members[0], frozenset(small.snapshot.nodes), small.snapshot)
    assert not offers.judge(small.plugins, base, offer).kept, "also if the cycle has other nodes, too"
    more = important(*gang("train", 131, 8))
    small, running = full(130)
    small.see(*more)
    assert kept(small, more[0], *running[:100]) == set()


@pytest.mark.scenario("PR-52")
def test_a_gang_evicts_pods_in_one_of_the_domains_that_it_may_not_leave() -> None:
    small, (first, *in_a) = full(101)
    names = [f"b{number:03}" for number in range(101)]
    # In zone b the evictions would do less harm.
    in_b = [pod(f"on-{name}", 8, node=name, priority=-5) for name in names]
    rules = {"gatherStrategy": [{"layer": ZONE, "strategy": "MustGather"}]}
    members = important(*gang("train", 2, 8, network_topology_spec=json.dumps(rules)))
    small.see(*(node(name, labels={ZONE: "b"}) for name in names), *in_b, *members)
    small.see(pod("unrelated", 0, nominated="b000"))
    assert len(kept(small, members[0], first, *in_a)) == 101
    evicted = msgspec.structs.replace(first, terminating=True, disrupted=True, preempted=True)
    small.see(evicted, msgspec.structs.replace(members[0], nominated="a000"))
    assert kept(small, members[1], *in_a[:2], *in_b[:2]) == {"a001", "a002"}
    reason = "gang koordinator/x/train: pods are evicted for its members in a"
    assert set(judged(small, members[1], *in_b).dropped.values()) == {reason}
    assert kept(small, members[1], *in_b[:2]) == {"b000", "b001"}, "a complete offer has no node in a"
    for one in in_a:
        small.gone(one)
        small.see(pod(f"important-{one.node}", 8, node=one.node, priority=10))
    assert len(kept(small, members[1], *in_b)) == len(in_b), "the gang does not fit in a any more"


@pytest.mark.scenario("PR-52")
def test_what_one_domain_needs_is_not_spent_on_another() -> None:
    """One member of an elastic gang may go: in the zone where the other node can be freed, too."""
    elastic = [
        msgspec.structs.replace(one, node=f"{zone}0", phase="Running")
        for one, zone in zip(gang("elastic", 3, 8, minimum=2), "abc", strict=True)
    ]
    plain = pod("plain", 8, node="b1", priority=5)
    stay = [pod(f"stays-{zone}", 8, node=f"{zone}1", priority=10) for zone in "ac"]
    nodes = [node(f"{zone}{at}", labels={ZONE: zone}) for zone in "abc" for at in range(2)]
    rules = {"gatherStrategy": [{"layer": ZONE, "strategy": "MustGather"}]}
    members = important(*gang("train", 2, 8, network_topology_spec=json.dumps(rules)))
    small = Cluster(*nodes, *elastic, plain, *stay, *members)
    assert kept(small, members[0], *elastic, plain) == {"b0"}
    small.gone(elastic[1])
    assert kept(small, members[1], elastic[0], elastic[2], plain) == {"b1"}


def test_a_gang_that_needs_very_many_pods_gone_preempts() -> None:
    names = [f"n{number:02}" for number in range(60)]
    running = {name: [pod(f"{name}-{at}", 1, node=name) for at in range(30)] for name in names}
    members = important(*gang("train", 50, 30))
    small = Cluster(*(node(name, 30) for name in names), *itertools.chain(*running.values()), *members)
    offer = {name: tuple(one.uid for one in each) for name, each in running.items()}
    base = cycles.cycle(members[0], frozenset(offer), small.snapshot)
    assert offers.judge(small.plugins, base, offer).kept.keys() == set(names)


def test_members_that_come_by_multiples_preempt_for_one_another() -> None:
    rule = {"layer": ZONE, "strategy": "MustGather", "podCountMultiple": 2}
    members = gang("train", 4, 8, minimum=1, network_topology_spec=json.dumps({"gatherStrategy": [rule]}))
    placed = [
        msgspec.structs.replace(one, node=f"n{at}", phase="Running", priority=10)
        for at, one in enumerate(members[:2])
    ]
    running = [pod(f"runs{at}", 8, node=f"n{at}") for at in (2, 3)]
    small = Cluster(*(node(f"n{at}", labels={ZONE: "z"}) for at in range(4)), *placed, *running)
    waiting = important(*members[2:])
    small.see(*waiting)
    assert kept(small, waiting[0], *running) == {"n2", "n3"}
    assert kept(small, waiting[0], running[0]) == set()


@pytest.mark.parametrize("last", [{"priority": 20}, {"priority": 60, "preemption_policy": "Never"}])
def test_no_pod_is_evicted_if_too_few_members_may_evict(last: dict[str, object]) -> None:
    running = [pod(f"runs{at}", 8, node=f"n{at}", priority=50) for at in range(3)]
    launcher, worker, other = gang("train", 3, 8)
    launcher = msgspec.structs.replace(launcher, priority=100)
    worker = msgspec.structs.replace(worker, priority=60)
    other = msgspec.structs.replace(other, **last)
    nodes, members = [node(f"n{at}") for at in range(3)], [launcher, worker, other]
    small = Cluster(*nodes, *running, *members)
    assert kept(small, launcher, *running) == set()
    less = pod("less", 8, node="n2", priority=10)
    small = Cluster(*nodes, *running[:2], less, *members)
    assert bool(kept(small, launcher, *running[:2], less)) == ("preemption_policy" not in last)
    small.see(node("n3"))
    assert kept(small, launcher, *running[:2]) == {"n0", "n1"}, "the last one needs no eviction"


@pytest.mark.scenario("PR-45")
def test_the_work_of_preempt_grows_with_the_victims_and_not_with_their_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"n{number}" for number in range(30)]
    running = [pod(f"on-{name}", 8, node=name) for name in names]
    members = [msgspec.structs.replace(one, priority=10) for one in gang("train", 31, 8)]
    small = Cluster(*map(node, names), *running, *members)
    gone: list[events.AnyEvent] = []
    fold = projections.project_all

    def counting(snapshot: snapshots.Snapshot, happened: Iterable[events.AnyEvent]) -> snapshots.Snapshot:
        batch = tuple(happened)
        gone.extend(one for one in batch if isinstance(one, events.PodGone))
        return fold(snapshot, batch)

    monkeypatch.setattr(projections, "project_all", counting)
    assert kept(small, members[0], *running) == set()
    assert len(gone) == 2 * len(running)
