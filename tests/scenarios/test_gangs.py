"""Scenarios of Coscheduling: who may go, and when. Nodes have 8 cores unless stated otherwise."""

from collections.abc import Iterable

import msgspec
import pytest

from app.domain import events, model, projections, snapshots
from app.framework import cycles
from app.plugins.coscheduling import admission, endpoints, gangs, membership, options
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.store.log import codecs
from app.verbs import preempting
from tests.support.decisions import small_quotas
from tests.support.decisions.small_gangs import (
    CORE,
    Cluster,
    gang,
    koordinator,
    native,
    node,
    pod,
    sigs,
)


@pytest.mark.scenario("CS-1")
def test_nothing_goes_before_all_exist_and_the_first_bind_places_all() -> None:
    three = gang("train", 3)
    small = Cluster(node("n1"), node("n2"), *three[:2])
    for one in three[:2]:
        assert small.why(one) == "gang koordinator/x/train: 2 of 3 members exist"
    small.see(three[2])
    nodes = {one.name: small.planned(one) for one in three}
    assert all(nodes.values())
    assert small.placed() == {}
    assert small.commit(three[1], nodes["train1"]) == nodes
    assert small.placed() == nodes
    (own, *others) = sorted(small.snapshot.placements.values(), key=lambda one: one.planned)
    assert not own.planned
    assert all(one.planned for one in others)
    assert own.annotations == {
        "internal.scheduling.koordinator.sh/bind-gang-group-id": "x/train",
        "internal.scheduling.koordinator.sh/bind-gang-member-count": "3",
    }


@pytest.mark.scenario("CS-2")
def test_the_largest_set_goes_that_satisfies_the_minimum() -> None:
    nodes = [node(f"n{number}", 2) for number in range(5)]
    whole = gang("train", 6, 2)
    small = Cluster(*nodes, *whole)
    assert {small.why(one) for one in whole} == {
        "gang koordinator/x/train: no capacity for 6 members together"
    }
    part = gang("train", 6, 2, minimum=5)
    small = Cluster(*nodes, *part)
    placed = {one.name: small.planned(one) for one in part}
    assert placed.pop("train5") == ""
    assert small.why(part[5]) == "gang koordinator/x/train: left out of the plan"
    assert small.commit(part[0], placed["train0"]) == placed
    for one in part[:5]:
        small.run(one, placed[one.name])
    assert small.why(part[5]) == "gang koordinator/x/train: no capacity for 1 member"
    small.see(node("n6", 2))
    assert small.planned(part[5]) == "n6"


@pytest.mark.scenario("CS-3")
def test_the_gang_that_binds_first_is_whole_and_the_other_holds_nothing() -> None:
    a, b = gang("a", 4, 4), gang("b", 4, 4)
    small = Cluster(node("n1"), node("n2"), *a, *b)
    answers = [small.planned(one) for one in (a[0], b[0], a[1], b[1])]
    assert all(answers)
    placed = small.commit(b[1], answers[3])
    assert sorted(placed) == ["b0", "b1", "b2", "b3"]
    assert small.commit(a[0], answers[0]) == {}
    assert small.placed() == placed
    assert small.why(a[2]) == "gang koordinator/x/a: no capacity for 4 members together"


@pytest.mark.scenario("CS-5")
def test_gangs_of_a_group_go_together() -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, groups=both), gang("b", 2, groups=both)
    small = Cluster(node("n1"), *a, b[0])
    assert small.why(a[0]) == "gang koordinator/x/b: 1 of 2 members exist"
    small.see(b[1])
    assert sorted(small.commit(a[0], small.planned(a[0]))) == ["a0", "a1", "b0", "b1"]


@pytest.mark.scenario("CS-5")
@pytest.mark.scenario("CS-16")
@pytest.mark.parametrize("declared", [False, True], ids=["annotations", "PodGroups"])
@pytest.mark.parametrize("ended", ["succeeded", "deleted"])
def test_a_member_that_is_made_again_goes_without_gangs_of_its_group_that_have_ended(
    ended: str, declared: bool
) -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, groups=both), gang("b", 2, groups=both)
    objects = [koordinator(name, 2, options={options.GROUPS: both}) for name in "ab" if declared]
    small = Cluster(node("n1"), *objects, *a, *b)
    placed = small.commit(a[0], "n1")
    for one in (*a, *b):
        small.run(one, placed[one.name])
    for one in b:
        if ended == "succeeded":
            small.see(msgspec.structs.replace(one, node="n1", phase="Succeeded"))
        else:
            small.gone(one)
    small.gone(a[1])
    again = msgspec.structs.replace(a[1], uid="again")
    small.see(again)
    _, plan = endpoints.planned(Coscheduling(), small.snapshot, defined(small, "a"), cycles.ALONE)
    assert plan.seats == {"again": "n1"}
    assert small.commit(again, "n1") == {"a1": "n1"}


@pytest.mark.scenario("CS-5")
def test_a_gang_that_has_ended_waits_for_its_group_when_it_runs_again() -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, groups=both), gang("b", 2, groups=both)
    small = Cluster(node("n1"), *a, *b)
    placed = small.commit(a[0], "n1")
    for one in (*a, *b):
        small.run(one, placed[one.name])
        small.gone(one)
    following = [msgspec.structs.replace(one, uid=f"{one.uid}-2") for one in (*a, *b)]
    small.see(*following[:3])
    assert small.why(following[0]) == "gang koordinator/x/b: 1 of 2 members exist"
    small.see(following[3])
    assert len(small.commit(following[0], "n1")) == 4


@pytest.mark.scenario("CS-5")
def test_a_later_member_leaves_the_node_that_is_held_for_another_gang_of_its_group() -> None:
    both = '["x/a", "x/b"]'
    first, *later = gang("a", 3, minimum=1, groups=both)
    (held,) = gang("b", 1, groups=both)
    held = msgspec.structs.replace(held, priority=10, nominated="n2")
    small = Cluster(*(node(f"n{number}", 1) for number in (1, 2, 3)), first, *later, held)
    small.run(first, "n1")
    shown = endpoints.planned(Coscheduling(), small.snapshot, defined(small, "a"), cycles.ALONE)[1]
    assert shown.seats == {later[0].uid: "n3"}
    assert [small.planned(one) for one in later] == ["n3", ""]
    assert small.filter(later[0]).assumed == ("x/b0",)
    assert small.commit(later[0], "n3") == {"a1": "n3"}
    assert small.planned(held) == "n2"


@pytest.mark.scenario("CS-5")
def test_a_supposed_placement_of_a_member_does_not_part_the_gangs_of_a_group() -> None:
    """Gangs of which no member has been placed have one plan: their nominations are not held beside it."""
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, groups=both), gang("b", 2, groups=both)
    b[0] = msgspec.structs.replace(b[0], nominated="n1")
    small = Cluster(node("n1", 4), *a, *b)
    small.take(events.placed(a[1], "n1"))
    assert small.filter(a[0]).assumed == ()
    assert small.planned(a[0]) == "n1"


@pytest.mark.scenario("CS-5")
def test_later_members_carry_the_id_of_their_group() -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 4, minimum=2, groups=both), gang("b", 1, groups=both)
    small = Cluster(node("n1"), *a[:2], *b)
    placed = small.commit(a[0], "n1")
    for one in (*a[:2], *b):
        small.run(one, placed[one.name])
    small.see(*a[2:])
    made = small.commitment(a[2], "n1")
    ids = {one.annotations[admission.GROUP_ID] for one in made.placements}
    assert ({one.pod.name for one in made.placements}, ids) == ({"a2", "a3"}, {"x/a,x/b"})


def defined(small: Cluster, name: str = "train") -> gangs.Gang:
    found = gangs.find(small.snapshot, membership.GangKey("koordinator", "x", name))
    assert found is not None
    return found


@pytest.mark.scenario("CS-6")
def test_the_oldest_member_that_can_defines_the_gang() -> None:
    first = gang("train", 1, minimum="two")[0]
    second = msgspec.structs.replace(gang("train", 2, minimum=2)[1], created="2026-01-02T00:00:00Z")
    small = Cluster(node("n1"), first)
    assert small.why(first).startswith("gang koordinator/x/train: no member defines")
    small.see(second)
    assert defined(small).minimum == 2
    assert small.planned(first) == "n1"
    small.gone(first)
    small.see(msgspec.structs.replace(first, uid="again"))
    assert defined(small).minimum == 2
    third = msgspec.structs.replace(gang("train", 3, minimum=5)[2], created="2026-01-03T00:00:00Z")
    small.see(third)
    assert (defined(small).minimum, defined(small).conflicts) == (2, ("pod x/train2 has other options",))


@pytest.mark.scenario("CS-7")
def test_the_size_is_the_larger_of_both_forms() -> None:
    four = [pod(f"m{n}", labels={membership.SIGS_LABEL: "g"}, group="g") for n in range(4)]
    small = Cluster(node("n1"), sigs("g", 2), native("g", 4), *four[:3])
    assert small.why(four[0]) == "gang sigs/x/g: 3 of 4 members exist"
    small.see(four[3])
    assert small.planned(four[0]) == "n1"
    small = Cluster(node("n1"), sigs("g", 4), native("g", 2), *four[:3])
    assert small.why(four[0]) == "gang sigs/x/g: 3 of 4 members exist"


@pytest.mark.scenario("CS-14")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_members_of_several_sizes_are_packed_whatever_the_order_of_calls(order: tuple[int, ...]) -> None:
    members = gang("train", 3, 8)
    members[0] = msgspec.structs.replace(members[0], requests={"cpu": 1000})
    small = Cluster(node("n1", 9), node("n2", 8), *members)
    placed = {members[at].name: small.planned(members[at]) for at in order}
    assert placed["train0"] == "n1"
    assert {placed["train1"], placed["train2"]} == {"n1", "n2"}


@pytest.mark.scenario("CS-15")
def test_gated_and_terminating_members_are_not_counted() -> None:
    four = gang("train", 4)
    gated = msgspec.structs.replace(four[3], gated=True)
    small = Cluster(node("n1"), *four[:3], gated)
    assert small.why(four[0]) == "gang koordinator/x/train: 3 of 4 members exist"
    small.see(four[3])
    assert small.planned(four[0]) == "n1"
    small.see(msgspec.structs.replace(four[2], terminating=True))
    assert small.why(four[0]) == "gang koordinator/x/train: 3 of 4 members exist"


@pytest.mark.scenario("CS-15")
@pytest.mark.parametrize("phase", ["Running", "Failed", "Succeeded"])
def test_members_of_a_deleted_run_do_not_let_those_of_the_next_go_alone(phase: str) -> None:
    """A kubelet reports the end of a pod before a deleted one is gone."""
    last = gang("train", 4)
    following = [msgspec.structs.replace(one, uid=f"{one.name}-2") for one in last]
    small = Cluster(node("n1"), *last)
    for one in last:
        small.run(one, "n1")
    small.see(*(msgspec.structs.replace(one, node="n1", phase=phase, terminating=True) for one in last))
    small.see(following[0])
    assert small.why(following[0]) == "gang koordinator/x/train: 1 of 4 members exist"
    assert small.commit(following[0], "n1") == {}
    for one in last:
        small.gone(one)
    small.see(*following[1:])
    assert small.planned(following[0]) == "n1"


def of_job(job: str, pods: Iterable[model.Pod]) -> list[model.Pod]:
    """The pods as the Job creates them; without a Job, as a person does."""
    owners = (model.Owner(kind="Job", name=job, uid=job, controller=True),) if job else ()
    return [msgspec.structs.replace(one, owners=owners) for one in pods]


@pytest.mark.scenario("CS-15")
@pytest.mark.parametrize(("former", "latter"), [("first", "second"), ("first", ""), ("", "second"), ("", "")])
def test_finished_pods_of_an_earlier_run_do_not_let_members_of_the_next_go_alone(
    former: str, latter: str
) -> None:
    """A CronJob keeps the pods of its last Jobs, and gives each of them the name of the same gang."""
    following = of_job(latter, gang("train", 4))
    ended = [
        msgspec.structs.replace(
            one, name=f"last-{one.name}", uid=f"last-{one.uid}", node="n1", phase="Succeeded"
        )
        for one in of_job(former, gang("train", 4))
    ]
    small = Cluster(node("n1", 2), *ended, *following)
    assert [small.planned(one) for one in following] == [""] * 4
    reason = "gang koordinator/x/train: no capacity for 4 members together"
    assert {small.why(one) for one in following} == {reason}
    assert small.commit(following[0], "n1") == {}
    small.see(node("n2", 2))
    assert len(small.commit(following[0], small.planned(following[0]))) == 4


@pytest.mark.scenario("CS-16")
def test_a_member_that_a_job_makes_again_goes_alone_after_the_others_have_ended() -> None:
    four = of_job("first", gang("train", 4))
    small = Cluster(node("n1"), *four)
    placed = small.commit(four[0], "n1")
    for one in four:
        small.run(one, placed[one.name])
    small.see(*(msgspec.structs.replace(one, node="n1", phase="Succeeded") for one in four[:3]))
    small.gone(four[3])
    again = msgspec.structs.replace(four[3], name="again", uid="again")
    small.see(again)
    assert small.planned(again) == "n1"


@pytest.mark.scenario("CS-16")
@pytest.mark.parametrize(
    ("policy", "alone"), [("once-satisfied", True), ("only-waiting", False), ("waiting-and-running", True)]
)
def test_a_member_that_is_made_again_goes_by_the_match_policy(policy: str, alone: bool) -> None:
    four = gang("train", 4, match_policy=policy)
    small = Cluster(node("n1"), *four)
    placed = small.commit(four[0], "n1")
    for one in four:
        small.run(one, placed[one.name])
    small.gone(four[2])
    again = msgspec.structs.replace(four[2], uid="again")
    small.see(again)
    assert bool(small.planned(again)) == alone
    if not alone:
        assert small.why(again) == "gang koordinator/x/train: no capacity for 4 members together"


@pytest.mark.parametrize(
    ("policy", "relied_on"),
    [
        ("once-satisfied", {"train0"}),
        ("only-waiting", set()),
        ("waiting-and-running", {"train0", "train1", "train2"}),
    ],
)
def test_a_plan_of_fewer_than_the_minimum_is_decided_again_when_others_lose_their_places(
    policy: str, relied_on: set[str]
) -> None:
    """Members that permitted it may end between the decision and the append."""
    four = gang("train", 4, match_policy=policy)
    small = Cluster(node("n1"), *four)
    for one in four[:3]:
        small.run(one, "n1")
    if policy == "only-waiting":
        more = msgspec.structs.replace(four[3], name="train4", uid="train4")
        small.see(*(msgspec.structs.replace(more, name=f"train{n}", uid=f"train{n}") for n in range(4, 7)))
    made = small.commitment(four[3], "n1")
    pods = {f"pod:{one.uid}": one.name for one in four[:3]}
    assert {pods[subject] for subject in made.subjects if subject in pods} == relied_on
    for one in four[:3]:
        before = small.snapshot.versions.get(f"pod:{one.uid}")
        small.gone(one)
        assert small.snapshot.versions.get(f"pod:{one.uid}") != before


@pytest.mark.parametrize("place", [0, 1])
def test_a_plan_of_the_whole_gang_relies_on_a_member_with_a_place_only_if_it_defines_the_gang(
    place: int,
) -> None:
    five = gang("train", 5, minimum=2)
    small = Cluster(node("n1"), *five)
    small.run(five[place], "n1")
    made = small.commitment(five[2], "n1")
    assert len(made.placements) == 4
    assert (f"pod:{five[place].uid}" in made.subjects) == (place == 0)


@pytest.mark.scenario("CS-18")
def test_retries_answer_the_seats_of_the_commitment() -> None:
    four = gang("train", 4, 4)
    small = Cluster(*[node(f"n{n}") for n in range(8)], *four)
    placed = small.commit(four[2], small.planned(four[2]))
    small.see(node("n00", 100))
    assert {one.name: small.planned(one) for one in four} == placed
    # Another pod may not take the capacity of a seat.
    unrelated = pod("unrelated", 8)
    assert small.filter(unrelated).refused == set(placed.values())
    assert set(small.filter(unrelated).reasons().values()) == {admission.RESERVED}


@pytest.mark.scenario("CS-19")
def test_a_quota_limits_the_gang_as_a_whole() -> None:
    quota = small_quotas.quota("team", 0, 3)
    named = {"quota.scheduling.koordinator.sh/name": "team"}
    four = [msgspec.structs.replace(one, labels=named) for one in gang("train", 4)]
    small = Cluster(node("n1", 100), quota, *four, beside=(ElasticQuota(),))
    assert {small.why(one) for one in four} == {
        "gang koordinator/x/train: elastic quota team: no capacity in cpu"
    }
    assert small.commit(four[0], "n1") == {}
    smaller = [msgspec.structs.replace(one, labels=named) for one in gang("train", 4, minimum=2)]
    small = Cluster(node("n1", 100), quota, *smaller, beside=(ElasticQuota(),))
    assert len(small.commit(smaller[0], "n1")) == 3


def test_a_plan_does_not_outlive_the_nominated_pod_that_it_was_refused_for() -> None:
    cores = {"cpu": 2 * small_quotas.CORE}
    quota = namespace_quota.NamespaceQuota(uid="q", namespace="x", name="q", min=cores, max=cores)
    two = gang("train", 2)
    first = pod("first", priority=10, nominated="n1")
    small = Cluster(node("n1", 100), quota, *two, first, beside=(ElasticQuota(),))
    assert small.planned(two[0]) == ""
    small.gone(first)
    assert small.planned(two[0]) == "n1"


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


@pytest.mark.scenario("CS-22")
def test_a_gang_beyond_the_limit_is_invalid() -> None:
    many = gang("train", 1_001, minimum=2)
    small = Cluster(node("n1", 2_000), *many)
    assert small.why(many[0]) == (
        "gang koordinator/x/train: invalid: it has more than 1,000 members; no more are placed together"
    )
    small.gone(many[7])
    assert small.planned(many[0])


@pytest.mark.scenario("CS-22")
def test_a_gang_with_devices_is_one_commitment_and_its_replay_gives_the_same_sums() -> None:
    members = [
        msgspec.structs.replace(one, requests={"cpu": 1000, "nvidia.com/gpu": 8})
        for one in gang("train", 200)
    ]
    gpus = {"cpu": 64_000, "pods": 110, "nvidia.com/gpu": 16}
    small = Cluster(*[node(f"n{number:03}", allocatable=gpus) for number in range(100)], *members)
    before = small.snapshot
    made = small.commitment(members[7], small.planned(members[7]))
    committed = events.PlacementsCommitted(placements=made.placements, at="now", claims=made.claims)
    small.take(committed)
    assert len(small.placed()) == 200
    assert {small.snapshot.used(name)["nvidia.com/gpu"] for name in small.snapshot.nodes} == {16}
    replayed = projections.project(before, codecs.decode(codecs.encode(committed)))
    assert replayed.placements == small.snapshot.placements


@pytest.mark.scenario("CS-23")
def test_gangs_of_one_name_in_two_namespaces_are_unrelated() -> None:
    here, there = gang("train", 2), gang("train", 2, namespace="y")
    small = Cluster(node("n1"), *here, there[0])
    assert small.planned(here[0]) == "n1"
    assert small.why(there[0]) == "gang koordinator/y/train: 1 of 2 members exist"
    assert [one.namespace for one in defined(small).waiting] == ["x", "x"]


def test_pods_that_no_gang_concerns_are_not_refused() -> None:
    small = Cluster(node("n1"), native("basic", 0))
    assert not small.filter(pod("plain")).refused
    assert not small.filter(pod("of-basic", group="basic")).refused
    assert small.plugins.concerned(pod("plain"), small.snapshot) == ()


def test_a_pod_group_that_does_not_exist_is_named() -> None:
    one = pod("m", labels={membership.SIGS_LABEL: "absent"})
    assert Cluster(node("n1"), one).why(one) == "gang sigs/x/absent: pod group x/absent not found"


def test_nominated_members_are_planned_as_if_they_were_not() -> None:
    """kube-scheduler nominates members before it binds them; two passes must name one node."""
    four = gang("train", 4, 4)
    small = Cluster(*[node(f"n{n}") for n in range(3)], *four)
    nodes = {one.name: small.planned(one) for one in four}
    for one in four[:3]:
        small.see(msgspec.structs.replace(one, nominated=nodes[one.name]))
    assert {one.name: small.planned(one) for one in four} == nodes


def test_gangs_that_are_placed_together_have_one_plan_whichever_pod_is_asked_about() -> None:
    both = '["x/a", "x/b"]'
    a, b = gang("a", 2, 2, groups=both), gang("b", 3, 2, groups=both)
    small = Cluster(node("n0"), node("n1"), *a, *b)
    planned = [
        {one.pod.name: one.node for one in small.commitment(pod, small.planned(pod)).placements}
        for pod in (*a, *b)
    ]
    assert len(planned[0]) == 5
    assert planned == planned[:1] * 5
    assert [small.planned(pod) for pod in (*a, *b)] == [planned[0][pod.name] for pod in (*a, *b)]


def test_min_resources_of_every_gang_that_is_placed_hold() -> None:
    """Also for a pod of another one: with 5 and 6 cores of 10 free, neither of them is enough."""
    both = '["x/a", "x/b"]'
    a, b = gang("a", 1, groups=both), gang("b", 1, groups=both)
    groups = [
        koordinator(name, 1, options={f"{options.PREFIX}groups": both}, resources={"cpu": cores * CORE})
        for name, cores in (("a", 5), ("b", 6))
    ]
    small = Cluster(node("n0", 10), *groups, *a, *b)
    for one, key in ((a[0], "a"), (b[0], "b")):
        assert small.why(one) == (
            f"gang koordinator/x/{key}: the cluster has too little free for minResources in cpu"
        )
    small.see(koordinator("b", 1, options={f"{options.PREFIX}groups": both}, resources={"cpu": 5 * CORE}))
    assert small.planned(a[0]) == small.planned(b[0]) == "n0"


def test_a_released_seat_is_planned_again() -> None:
    two = gang("train", 2, 8)
    small = Cluster(node("n1"), node("n2"), *two)
    placed = small.commit(two[0], small.planned(two[0]))
    small.run(two[0], placed["train0"])
    released: model.Pod = two[1]
    small.take(
        events.PlacementReleased(
            uid=released.uid,
            namespace="x",
            name=released.name,
            node=placed["train1"],
            reason="",
            cause="unbound",
        )
    )
    assert small.planned(two[1]) == placed["train1"]
