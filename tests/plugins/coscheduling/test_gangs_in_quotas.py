"""A group of gangs in a tree of quotas: any member may be bound first, and no quota exceeds its limit."""

import random
from collections.abc import Iterator

import msgspec
import pytest

from app.domain import events, model, verdicts
from app.framework import cycles, effects, pipeline
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota import quota_model
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees import membership, runtimes, usage
from tests.support.campaigns import sizes
from tests.support.decisions import fake_plugins, small_quotas
from tests.support.decisions.small_gangs import CORE, Cluster, gang, koordinator, node, pod

GPU = "nvidia.com/gpu"


def amounts(dice: random.Random, cpu: int, gpu: int) -> dict[str, int]:
    """Of cpu, and often of a resource whose unit is large."""
    return {"cpu": cpu * CORE, **({GPU: gpu} if gpu else {})}


def tree(dice: random.Random) -> Iterator[quota_model.Quota]:
    """Two quotas below the root, and two below one of them; at times the default quota as an object."""
    with_gpu = dice.random() < 0.7

    def one(
        name: str, low: tuple[int, int], high: tuple[int, int], parent: str = "", *, above: bool = False
    ) -> quota_model.Quota:
        least, most = dice.randint(*low), dice.randint(*high)
        gpu = (min(least, 6), most) if with_gpu else (0, 0)
        made = small_quotas.quota(name, weight=dice.choice((None, 1, 3)), parent=parent, is_parent=above)
        return msgspec.structs.replace(
            made,
            min=amounts(dice, least, gpu[0]),
            max=amounts(dice, most, gpu[1]),
            lends=dice.random() < 0.8,
        )

    yield one("q", (0, 6), (6, 24))
    yield one("t", (2, 12), (12, 30), above=True)
    yield one("r", (0, 2), (2, 16), "t")
    yield one("s", (0, 2), (2, 16), "t")
    if dice.random() < 0.3:
        yield one(quota_model.DEFAULT, (0, 0), (2, 16))


def labels(dice: random.Random) -> dict[str, str]:
    """Of a pod in one of the quotas, or in none of them."""
    name = dice.choice(("", "", "q", "r", "s"))
    firm = {membership.PREEMPTIBLE: "false"} if dice.random() < 0.1 else {}
    return {membership.LABEL: name, **firm} if name else {}


def generated(seed: int) -> tuple[Cluster, list[model.Pod]]:
    """A cluster, and the members of the group."""
    dice = random.Random(seed)
    nodes = [
        node(f"n{at}", dice.choice((4, 8)), allocatable=amounts(dice, dice.choice((4, 8)), 8) | {"pods": 110})
        for at in range(dice.randint(3, 6))
    ]
    names = "abc"[: dice.randint(1, 3)]
    groups = "[" + ", ".join(f'"x/{name}"' for name in names) + "]"
    members: list[model.Pod] = []
    for name in names:
        count, own = dice.randint(1, 4), labels(dice)
        match = dice.choice(("once-satisfied", "waiting-and-running"))
        least = dice.randint(1, count)
        for one in gang(name, count, 1, minimum=least, groups=groups, match_policy=match):
            mine = labels(dice) if dice.random() < 0.2 else own
            requests = amounts(dice, dice.randint(1, 3), dice.randint(0, 2))
            members.append(msgspec.structs.replace(one, labels=mine, requests=requests))
    beside = [
        pod(
            f"p{at}",
            node=dice.choice(nodes).name if dice.random() < 0.3 else "",
            labels=labels(dice),
            requests=amounts(dice, dice.randint(1, 6), dice.randint(0, 4)),
        )
        for at in range(dice.randint(0, 6))
    ]
    rules = ElasticQuota(check_parents=dice.random() < 0.4, guarantee_usage=dice.random() < 0.2)
    return Cluster(*nodes, *tree(dice), *beside, *members, beside=(rules,)), members


def over(small: Cluster, rules: runtimes.RuntimeRules) -> set[tuple[str, str]]:
    """The quotas that use more than their runtime, with the resource."""
    grown, counts = usage.forest(small.snapshot), small.snapshot.counts
    found = usage.of_tree(small.snapshot, "", rules).runtimes
    return {
        (name, resource)
        for name in found.tree.names
        for resource, limit in found.runtime(name).items()
        if counts.get(f"quota||{name}|{resource}", 0) > limit and name in grown.quotas
    }


def carried_out(seed: int) -> int:
    """How many members are placed, whichever of them is bound first; 0 if the group is refused."""
    small, members = generated(seed)
    before = small.snapshot
    (quotas,) = (one for one in small.plugins.plugins if isinstance(one, ElasticQuota))
    rules = runtimes.RuntimeRules(guarantee=quotas.guarantee_usage)
    exceeded = over(small, rules)
    planned = {one.uid: target for one in members if (target := small.planned(one))}
    orders = random.Random(seed)
    for first in [one for one in members if one.uid in planned]:
        small.snapshot = before
        assert not small.filter(first, [planned[first.uid]]).refused
        made = small.commitment(first, planned[first.uid])
        placed = small.commit(first, planned[first.uid])
        assert placed == {one.name: planned[one.uid] for one in members if one.uid in planned}
        assert all(small.snapshot.counts.get(key, 0) <= top for key, top in made.ceilings.items())
        rest = [one for one in members if one.uid in planned]
        for one in orders.sample(rest, len(rest)):
            assert small.planned(one) == planned[one.uid]
            small.run(one, planned[one.uid])
        used = {(name, resource) for name, resource in over(small, rules) - exceeded}
        names = {membership.of(one, usage.forest(small.snapshot)).name for one in rest}
        assert not {name for name, _ in used} & names
    return len(planned)


@pytest.mark.parametrize("block", range(8))
def test_whichever_member_is_bound_first_the_whole_plan_is_committed(block: int) -> None:
    placed = [carried_out(seed) for seed in range(block * 40, block * 40 + sizes.examples(20))]
    assert max(placed) >= 4
    assert min(placed) == 0


def labelled(members: list[model.Pod], quota: str) -> list[model.Pod]:
    return [msgspec.structs.replace(one, labels={membership.LABEL: quota}) for one in members]


BOTH = '["x/a", "x/b"]'


def test_members_without_a_quota_do_not_lower_the_limit_below_what_the_others_use() -> None:
    """4 of 10 cores are used by no quota then: 6 are left, of which s is guaranteed 5."""
    beside = small_quotas.quota("q", 0, 10), small_quotas.quota("s", 5, 10)
    free, limited = gang("b", 4, groups=BOTH), labelled(gang("a", 3, groups=BOTH), "q")
    lent = pod("p", 5, labels={membership.LABEL: "s"})
    small = Cluster(node("n1", 10), *beside, lent, *free, *limited, beside=(ElasticQuota(),))
    assert all(small.why(one).endswith(": elastic quota q: no capacity in cpu") for one in (*free, *limited))
    small.gone(lent)
    for first in (free[0], limited[0]):
        before = small.snapshot
        assert len(small.commit(first, small.planned(first))) == 7
        small.snapshot = before


def test_members_beyond_the_minimum_leave_the_quota_to_those_that_are_needed() -> None:
    both = [*gang("a", 4, minimum=2, groups=BOTH), *gang("b", 2, groups=BOTH)]
    members = labelled(both, "q")
    small = Cluster(node("n1", 10), small_quotas.quota("q", 4, 4), *members, beside=(ElasticQuota(),))
    placed = small.commit(members[0], small.planned(members[0]))
    assert sorted(placed) == ["a0", "a1", "b0", "b1"]


def test_the_quota_of_a_member_that_is_not_needed_is_no_reason() -> None:
    """The minimum lacks capacity; the third member would be left out."""
    *needed, last = gang("g", 3, 8, minimum=2)
    members = [*labelled(needed, "q"), *labelled([last], "full")]
    quotas = small_quotas.quota("q", 0, 100), small_quotas.quota("full", 0, 4)
    small = Cluster(node("n0", 8), node("n1", 4), *quotas, *members, beside=(ElasticQuota(runtime=False),))
    assert small.why(needed[0]) == "gang koordinator/x/g: no capacity for 2 members together"
    small.see(*labelled(needed[:1], "full"))
    assert small.why(needed[1]) == "gang koordinator/x/g: elastic quota full: no capacity in cpu"


def test_a_member_with_a_seat_is_kept_there_whatever_its_quota_has_left() -> None:
    """Others may request more between the binds of two members."""
    beside = small_quotas.quota("q", 0, 10), small_quotas.quota("s", 8, 10)
    first, second = labelled(gang("g", 2, 3), "q")
    small = Cluster(node("n1", 10), node("n2", 1), *beside, first, second, beside=(ElasticQuota(),))
    assert len(small.commit(first, small.planned(first))) == 2
    small.run(first, "n1")
    small.see(pod("p", 8, labels={membership.LABEL: "s"}))
    assert small.filter(second).kept == {"n1"}
    assert small.filter(second).refusals[0].nodes == {"n2"}
    assert not small.filter(second, ["n2"]).kept


def reconciled(small: Cluster, *happened: events.AnyEvent, missed: bool = False) -> tuple[str, ...]:
    """What the controller posts and wakes; without events for everything there is."""
    before = small.snapshot if happened else None
    small.take(*happened)
    peers = pipeline.peers(small.plugins, Coscheduling.name)
    changes = effects.Changes(before, happened, missed=missed, peers=peers)
    found = list(Coscheduling().reconcile(small.snapshot, changes))
    posted = [f"{one.about.key}: {one.message}" for one in found if isinstance(one, effects.PostEvent)]
    return (*posted, *(one.message for one in found if isinstance(one, effects.WakePods)))


@pytest.mark.scenario("CS-19")
def test_a_gang_that_only_its_quota_refuses_has_an_event_and_wakes_once_it_fits_there() -> None:
    """The node has capacity for 6 more pods, and the quota for 3 of 4."""
    others = [pod(f"p{at}", 1, labels={membership.LABEL: "team"}, node="n1") for at in range(2)]
    members = labelled(gang("train", 4), "team")
    small = Cluster(
        node("n1", 8),
        small_quotas.quota("team", 0, 5),
        koordinator("train", 4),
        *others,
        *members,
        beside=(ElasticQuota(),),
    )
    reason = "gang koordinator/x/train: elastic quota team: no capacity in cpu"
    assert small.why(members[0]) == reason
    assert reconciled(small, missed=True) == (f"x/train: {reason}",)
    unseen = msgspec.structs.replace(members[0], unscheduled="0/1 nodes are available")
    assert reconciled(small, events.PodSeen(pod=unseen)) == (f"x/train: {reason}",)
    assert reconciled(small, events.PodGone(uid="uid-x-other", namespace="x", name="other")) == ()
    gone = events.PodGone(uid=others[0].uid, namespace="x", name=others[0].name)
    assert reconciled(small, gone) == ("gang koordinator/x/train has capacity for 4 members",)
    assert reconciled(small, missed=True) == ("gang koordinator/x/train has capacity for 4 members",)


def test_a_node_that_another_plugin_refuses_does_not_keep_a_gang_waiting() -> None:
    """The plan by capacity alone would use n1."""
    members = gang("train", 2, 4)
    elsewhere = fake_plugins.Filtering(refused=frozenset(("n1",)))
    small = Cluster(node("n1", 8), node("n2", 8), *members, beside=(elsewhere,))
    assert reconciled(small, missed=True) == ("gang koordinator/x/train has capacity for 2 members",)


def test_a_nomination_of_a_member_does_not_count_in_the_quota_of_its_namespace() -> None:
    cores = {"cpu": 2 * CORE}
    quota = namespace_quota.NamespaceQuota(uid="q", namespace="x", name="q", min=cores, max=cores)
    *needed, last = gang("train", 3, minimum=2)
    nominated = msgspec.structs.replace(last, requests=cores, nominated="n1")
    small = Cluster(node("n1", 4), quota, *needed, nominated, beside=(ElasticQuota(),))
    assert [small.planned(one) for one in needed] == ["n1", "n1"]
    assert reconciled(small, missed=True) == ("gang koordinator/x/train has capacity for 2 members",)


def test_a_refusal_by_a_quota_is_found_without_a_search_for_other_nodes() -> None:
    """A quota refuses each node alike: the other members need not be asked about."""
    members = labelled(gang("g", 40), "q")
    small = Cluster(node("n1", 40), small_quotas.quota("q", 4, 4), *members, beside=(Asked(),))
    assert small.why(members[0]) == "gang koordinator/x/g: elastic quota q: no capacity in cpu"
    assert Asked.times < 60


class Asked(ElasticQuota):
    """Counts how often it filters."""

    times: int = 0

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        Asked.times += 1
        return super().filter(cycle)
