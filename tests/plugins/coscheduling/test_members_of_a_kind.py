"""Members that are one kind to all quotas are judged once; all else is as if they were judged one by one."""

import collections
import random
from dataclasses import dataclass

import msgspec
import pytest

from app.domain import model, snapshots, verdicts
from app.framework import capabilities, cycles, pipeline
from app.plugins.coscheduling.planner import capacities, domains, other_plugins
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees import membership
from app.plugins.node_label_priority.plugin import NodeLabelPriority
from app.plugins.workload_policy import logic, policy_model
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support.campaigns import sizes
from tests.support.decisions import call_counts, fake_plugins, small_clusters, small_quotas
from tests.support.decisions.small_gangs import CORE, RACK, Cluster, decided, gang, node, pod

HALL = "hall"
INDEX = "batch.kubernetes.io/job-completion-index"
BOTH = '["x/a", "x/b"]'


def labels(dice: random.Random, at: int) -> dict[str, str]:
    """Of one member of a job: its index is its own."""
    quota = dice.choice(("q", "q", "q", "r", ""))
    found = {
        INDEX: str(at),
        "app": dice.choice("aab"),
        logic.LABEL: dice.choice(("p", "p", "p", "other", "")),
    }
    if dice.random() < 0.1:
        found[membership.PREEMPTIBLE] = "false"
    if quota:
        found[membership.LABEL] = quota
    return {key: value for key, value in found.items() if value}


def policies(dice: random.Random) -> list[policy_model.WorkloadPolicy]:
    """Policies by two labels of nodes, of which each selects some of the members."""
    return [
        small_clusters.policy(
            {domain: dice.randint(0, 8) for domain in dice.sample(domains, dice.randint(1, len(domains)))},
            name=name,
            namespace="x",
            key=key,
            required=dice.random() < 0.8,
            strict=dice.random() < 0.5,
            selector=model.Selector({"app": "a"} if dice.random() < 0.7 else {}),
        )
        for name, key, domains in (("p", RACK, ["r0", "r1"]), ("other", HALL, ["m0", "m1", "m2"]))
        if dice.random() < 0.9
    ]


def members(dice: random.Random, *names: str) -> list[model.Pod]:
    """Gangs of a group; most members of a gang are one kind."""
    found: list[model.Pod] = []
    for name in names:
        count = dice.randint(1, 14)
        least = dice.choice((count, dice.randint(1, count)))
        common, cpu = labels(dice, 0), dice.randint(1, 2)
        groups = {"groups": BOTH} if len(names) > 1 else {}
        mixed, odd = dice.random() < 0.3, dice.choice((0.1, 0.1, 0.5))
        for at, one in enumerate(gang(name, count, cpu, minimum=least, **groups)):
            own = labels(dice, at) if dice.random() < odd else {**common, INDEX: str(at)}
            priority = dice.choice((1, 2)) if mixed else 1
            asked = {"cpu": CORE * (3 - cpu)} if dice.random() < odd else one.requests
            found.append(msgspec.structs.replace(one, labels=own, priority=priority, requests=asked))
    return found


def generated(seed: int) -> tuple[Cluster, list[model.Pod]]:
    """A cluster with quotas or policies, and the members of a group, of which the first may be new."""
    dice = random.Random(seed)
    asked = members(dice, *dice.choice(("a", "ab")))
    sizes = [dice.choice((2, 4, 8)) for _ in range(dice.randint(2, 6))]
    nodes = [
        node(f"n{at}", cores, {RACK: f"r{at % 2}", **({HALL: f"m{at % 3}"} if at < 5 else {})})
        for at, cores in enumerate(sizes)
    ]
    quotas: list[model.DeclaredObject] = [
        *policies(dice),
        small_quotas.quota("t", 8, 30, is_parent=True),
        small_quotas.quota("q", dice.randint(0, 6), dice.randint(6, 24), parent="t"),
        small_quotas.quota("r", dice.randint(0, 2), dice.randint(2, 16), parent="t"),
    ]
    for space in "xz" if dice.random() < 0.4 else "":
        least, most = dice.randint(2, 12) * CORE, dice.randint(4, 24) * CORE
        own = namespace_quota.NamespaceQuota(
            uid=space, namespace=space, name="own", min={"cpu": least}, max={"cpu": most}
        )
        quotas.append(own)
    beside = [
        pod(
            f"p{at}",
            dice.randint(1, 3),
            namespace=dice.choice("xz"),
            node=dice.choice(nodes).name if dice.random() < 0.3 else "",
            labels={membership.LABEL: dice.choice("qr"), "app": "a"} if dice.random() < 0.5 else {},
            nominated=dice.choice(nodes).name if dice.random() < 0.5 else "",
            priority=dice.choice((0, 1, 2)),
        )
        for at in range(dice.randint(0, 5))
    ]
    rules = ElasticQuota(
        check_parents=dice.random() < 0.3,
        guarantee_usage=dice.random() < 0.3,
        strict_resources=dice.random() < 0.2,
    )
    domains = WorkloadPolicy(
        enforce=dice.choice(("named", "selected")), missing_policy=dice.choice(("reject", "ignore"))
    )
    enabled: tuple[capabilities.Plugin, ...] = dice.choice(((rules,), (domains,), (domains, rules)))
    layers = (RACK,) if dice.random() < 0.5 else ()
    seen = asked[1:] if dice.random() < 0.1 else asked
    if dice.random() < 0.2:
        enabled = (*enabled, NodeLabelPriority(scheduler_names=(asked[0].scheduler,), label=HALL))
    return Cluster(*nodes, *quotas, *beside, *seen, beside=enabled, layers=layers), asked


@pytest.mark.parametrize("block", range(8))
def test_the_plan_and_its_commitment_are_those_of_members_judged_one_by_one(block: int) -> None:
    seats, refused, committed = [], 0, 0
    for seed in range(block * 50, block * 50 + sizes.examples(25)):
        small, asked = generated(seed)
        apart, _ = generated(seed)
        apart.plugins.sums = {}
        first = asked[0]
        found = decided(small, first)
        assert found == decided(apart, first), seed
        assert found is not None
        seats.append(len(found.plan.seats))
        refused += found.plan.fitting > 0
        if found.node:
            made = small.commitment(first, found.node)
            assert made == apart.commitment(first, found.node), seed
            committed += len(made.placements) > 1
    assert max(seats) >= 7
    assert committed > 2
    assert refused > 2


def peers(small: Cluster) -> cycles.Peers:
    """The other plugins, for Coscheduling."""
    cycle = cycles.cycle(pod("any"), frozenset(), small.snapshot)
    return pipeline.with_peers(small.plugins, cycle, Coscheduling.name).peers


def test_members_of_one_kind_on_several_nodes_are_judged_apart_by_others() -> None:
    """The first member is alone on its node, and the other two are not."""
    asked = gang("g", 3)
    crowded = fake_plugins.Filtering(crowded=True)
    small = Cluster(node("n0"), node("n1"), *asked, beside=(ElasticQuota(), crowded))
    demands = domains.demands(small.snapshot, (), (), ())
    others = other_plugins.Others(
        peers(small), small.snapshot, asked, demands, lambda: capacities.Capacities(small.snapshot)
    )
    seats = dict(zip([one.uid for one in asked], ("n0", "n1", "n1"), strict=True))
    assert len(others.admitted(seats, (), (), collections.Counter())) < 3


@dataclass(frozen=True, slots=True)
class RefusingUnlike(fake_plugins.Idle):
    """Refuses pods that differ from one in a field, on every node."""

    name: str = "RefusingUnlike"
    field: str = ""
    value: object = None

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        unlike = getattr(cycle.pod, self.field) != self.value
        return verdicts.Refusal("unlike", cycle.candidates) if unlike else None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("constraints", model.Constraints(host_ports=(model.HostPort(80),))),
        ("group", "g"),
        ("gated", True),
        ("preemption_policy", "Never"),
        ("priority", 7),
    ],
)
def test_members_that_differ_are_judged_apart_by_a_plugin_that_does_not_sum(
    field: str, value: object
) -> None:
    first, other = gang("g", 2)
    other = msgspec.structs.replace(other, **{field: value})
    small = Cluster(node("n0"), first, other, beside=(RefusingUnlike(field=field, value=value),))
    demands = domains.demands(small.snapshot, (), (), ())
    pods = (first, other)
    others = other_plugins.Others(
        peers(small), small.snapshot, pods, demands, lambda: capacities.Capacities(small.snapshot)
    )
    assert others.refused(pods) == {first.uid: {"n0"}, other.uid: frozenset()}


def test_pods_are_one_kind_only_where_every_other_plugin_sums() -> None:
    small = Cluster(node("n0"), beside=(ElasticQuota(),))
    one, other = pod("one", labels={INDEX: "1"}), pod("other", labels={INDEX: "2"})
    summed = peers(small).summed
    assert summed(one, small.snapshot) == summed(other, small.snapshot) is not None
    for field, value in (("priority", 1), ("namespace", "y"), ("requests", {"cpu": 2})):
        assert summed(msgspec.structs.replace(one, **{field: value}), small.snapshot) != summed(
            one, small.snapshot
        )
    nominated = msgspec.structs.replace(one, nominated="n0")
    small.see(nominated)
    assert summed(nominated, small.snapshot) is None
    beside = Cluster(node("n0"), beside=(ElasticQuota(), fake_plugins.Classifying()))
    assert peers(beside).summed(one, beside.snapshot) is None


@dataclass(frozen=True, slots=True)
class SumsOf(fake_plugins.Summing):
    """Sums the pods that have a label, which are one class to it."""

    label: str = ""

    def interested(self, pod: model.Pod) -> bool:
        return self.label in pod.labels

    def pod_class(self, pod: model.Pod, snapshot: snapshots.Snapshot) -> bool:
        return True


def test_pods_that_concern_different_plugins_are_not_one_kind() -> None:
    beside = (SumsOf(name="Left", label="left"), SumsOf(name="Right", label="right"))
    small = Cluster(node("n0"), beside=beside)
    one, other = pod("one", labels={"left": ""}), pod("other", labels={"right": ""})
    summed = peers(small).summed
    assert summed(one, small.snapshot) is not None
    assert summed(one, small.snapshot) != summed(other, small.snapshot)


def test_a_refusal_lasts_only_where_limits_do_not_follow_from_use() -> None:
    small, (one, *_) = under_a_quota(2)
    unseen = pod("unseen", labels=one.labels)
    assert ElasticQuota().stays_refused(one, small.snapshot)
    assert not ElasticQuota().stays_refused(unseen, small.snapshot)
    assert not ElasticQuota(guarantee_usage=True).stays_refused(one, small.snapshot)


def under_a_quota(cores: int, *, minimum: int = 40) -> tuple[Cluster, list[model.Pod]]:
    """Forty members of an indexed job, which has a quota of so many cores."""
    asked = [
        msgspec.structs.replace(one, labels={membership.LABEL: "q", INDEX: str(at)})
        for at, one in enumerate(gang("g", 40, minimum=minimum))
    ]
    nodes = [node(f"n{at:02}", 1) for at in range(40)]
    quota = small_quotas.quota("q", cores, cores)
    return Cluster(*nodes, quota, *asked, beside=(ElasticQuota(),)), asked


def test_members_of_one_kind_are_judged_once_on_all_their_nodes() -> None:
    small, asked = under_a_quota(40)
    with call_counts.counted(ElasticQuota, "filter") as judged:
        assert small.planned(asked[0])
    assert judged.call_count <= 4


def test_members_of_one_kind_are_judged_once_when_the_first_is_bound() -> None:
    small, asked = under_a_quota(40)
    node = small.planned(asked[0])
    with call_counts.counted(ElasticQuota, "filter") as judged:
        assert len(small.commitment(asked[0], node).placements) == 40
    # The pod of the call as in filter, and one member for all.
    assert judged.call_count == 2


def test_the_members_that_a_quota_admits_are_found_by_bisection() -> None:
    small, asked = under_a_quota(23)
    with call_counts.counted(ElasticQuota, "filter") as judged:
        found = decided(small, asked[0])
    assert found is not None
    assert (found.plan.fitting, len(found.plan.seats)) == (23, 0)
    assert judged.call_count <= 12


def test_members_that_are_refused_everywhere_are_judged_once() -> None:
    small, asked = under_a_quota(23, minimum=5)
    with call_counts.counted(ElasticQuota, "filter") as judged:
        found = decided(small, asked[0])
    assert found is not None
    assert len(found.plan.seats) == 23
    assert judged.call_count <= 20
