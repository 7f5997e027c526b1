"""Scenarios of gangs in preemption: their members as victims, and gangs that preempt."""

from collections.abc import Iterable

import msgspec
import pytest

from app.domain import events, model, projections, snapshots
from app.framework import cycles
from app.plugins.coscheduling import options
from app.verbs import preempting
from tests.support.decisions.small_gangs import Cluster, gang, koordinator, node, pod


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
    answer = preempting.judge(small.plugins, cycles.cycle(asking, frozenset(offer), small.snapshot), offer)
    assert answer.kept.keys() == {"n1"}
    assert set(answer.dropped.values()) == {"gang koordinator/x/apart: 1 of 2 members would be left"}
    some = {"n1": [one.uid for one in together[:2]]}
    answer = preempting.judge(small.plugins, cycles.cycle(asking, frozenset(some), small.snapshot), some)
    assert answer.dropped == {"n1": "gang koordinator/x/together: 1 of 3 members would be left"}


def crowded(count: int) -> tuple[Cluster, list[model.Pod], list[model.Pod]]:
    """Two full nodes, what runs there, and a more important gang whose members need a node each."""
    running = [pod(f"running{n}", 8, node=f"n{n}") for n in range(2)]
    members = [msgspec.structs.replace(one, priority=10) for one in gang("train", count, 8)]
    return Cluster(node("n0"), node("n1"), *running, *members), running, members


def kept(small: Cluster, asking: model.Pod, *victims: model.Pod) -> set[str]:
    """The nodes that preempt keeps, of those of the victims."""
    offer = {victim.node: (victim.uid,) for victim in victims}
    base = cycles.cycle(asking, frozenset(offer), small.snapshot)
    return set(preempting.judge(small.plugins, base, offer).kept)


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
