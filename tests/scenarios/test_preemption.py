"""Scenarios of preemption: vetoes and nominated pods under a Required policy of host 3, member 1."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
import pytest

from app.domain import events, model, projections, snapshots, verdicts
from app.framework import capabilities, cycles, registry
from app.plugins.workload_policy import plugin, policy_counts
from tests.support.decisions import commitments, scheduling_driver, small_clusters

N1, N2, N3, N4 = small_clusters.HOSTS
MEMBER = small_clusters.MEMBERS[0]
POLICY = small_clusters.policy(required=True)


def preemptor(priority: int = 10, nominated: str = "") -> model.Pod:
    return small_clusters.pod("p", small_clusters.REPLICA, priority=priority, nominated=nominated)


def host_pods(count: int) -> list[model.Pod]:
    """Counted pods, one on each of the first host nodes."""
    return [
        small_clusters.pod(f"host-{n}", small_clusters.REPLICA, node=small_clusters.HOSTS[n])
        for n in range(count)
    ]


def full(*more: scheduling_driver.Thing) -> scheduling_driver.Cluster:
    """Host 3/3 on the first three host nodes, and unrelated pods of low priority on every node."""
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), POLICY, *host_pods(3), *more)
    cluster.see(
        *(small_clusters.pod(f"unrelated-{name}", node=name) for name in (*small_clusters.HOSTS, MEMBER))
    )
    return cluster


def on(cluster: scheduling_driver.Cluster, name: str) -> model.Pod:
    pod = cluster.snapshot.pod_named(small_clusters.NAMESPACE, name)
    assert pod is not None
    return pod


@pytest.mark.scenario("PR-2")
def test_a_pod_without_policy_or_group_may_preempt_anywhere() -> None:
    cluster = full()
    plain = small_clusters.pod("plain", priority=10)
    assert cluster.veto(plain, N1, on(cluster, f"unrelated-{N1}")) is None


@pytest.mark.scenario("PR-3")
def test_a_counted_victim_frees_capacity() -> None:
    cluster = full()
    assert cluster.veto(preemptor(), N1, on(cluster, "host-0")) is None


@pytest.mark.scenario("PR-4")
def test_an_unrelated_victim_frees_no_capacity() -> None:
    cluster = full()
    reason = cluster.veto(preemptor(), N1, on(cluster, f"unrelated-{N1}"))
    assert reason is not None
    assert reason.endswith("no capacity on these nodes (member 0/1, host 3/3)")


@pytest.mark.scenario("PR-5")
def test_only_the_fitting_nodes_are_left() -> None:
    cluster = full(small_clusters.pod("member-0", small_clusters.REPLICA, node=MEMBER))
    offer = {N1: "host-0", N2: f"unrelated-{N2}", N4: f"unrelated-{N4}", MEMBER: "member-0"}
    kept = {
        node for node, victim in offer.items() if cluster.veto(preemptor(), node, on(cluster, victim)) is None
    }
    assert kept == {N1, MEMBER}
    none = {node for node in (N2, N4) if cluster.veto(preemptor(), node, on(cluster, offer[node])) is None}
    assert none == set()


@pytest.mark.scenario("PR-6")
def test_a_terminating_victim_is_not_subtracted_twice() -> None:
    cluster = full()
    ending = small_clusters.pod("ending", small_clusters.REPLICA, node=N4, terminating=True)
    cluster.see(ending)
    assert cluster.count(POLICY, "host") == 3
    assert cluster.veto(preemptor(), N4, ending) is not None
    cluster.see(*(msgspec.structs.replace(pod, terminating=True) for pod in host_pods(3)))
    cycle = cycles.cycle(preemptor(), frozenset((N1,)), cluster.snapshot)
    assert policy_counts.count(cycles.without(cycle, [*host_pods(3), ending]).snapshot, POLICY, "host") == 0


@pytest.mark.parametrize(
    ("theirs", "refused"),
    [
        pytest.param(11, True, marks=pytest.mark.scenario("PR-7")),
        pytest.param(10, True, marks=pytest.mark.scenario("PR-8")),
        pytest.param(9, False, marks=pytest.mark.scenario("PR-9")),
    ],
)
def test_nominated_pods_of_at_least_equal_priority_hold_their_place(theirs: int, refused: bool) -> None:
    nominee = small_clusters.pod("n", small_clusters.REPLICA, priority=theirs, nominated=N4)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), POLICY, *host_pods(2), nominee)
    trace = cluster.filter(preemptor())
    assert trace.refused == (frozenset(small_clusters.HOSTS) if refused else frozenset())
    assert trace.assumed == (("workload-test/n",) if refused else ())
    if refused:
        (reason,) = set(trace.reasons().values())
        assert reason.endswith("workload-policy-test: no capacity on these nodes (member 0/1, host 3/3)")


@pytest.mark.scenario("PR-10")
def test_a_pod_is_not_refused_because_of_its_own_placement() -> None:
    mine = preemptor(nominated=N4)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), POLICY, *host_pods(2), mine)
    assert frozenset(small_clusters.HOSTS) <= cluster.filter(mine).kept
    cluster.place(mine, N4)
    assert frozenset(small_clusters.HOSTS) <= cluster.filter(mine).kept
    cluster.see(msgspec.structs.replace(mine, node=N4))
    assert cluster.count(POLICY, "host") == 3
    assert frozenset(small_clusters.HOSTS) <= cluster.filter(mine).kept


@pytest.mark.scenario("PR-11")
def test_a_nominated_pod_counts_once_at_every_stage() -> None:
    nominee = small_clusters.pod("n", small_clusters.REPLICA, priority=20, nominated=N4)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), POLICY, *host_pods(1), nominee)
    assert frozenset(small_clusters.HOSTS) <= cluster.filter(preemptor()).kept  # 1 + 1 of 3
    cluster.place(nominee, N4)
    assert frozenset(small_clusters.HOSTS) <= cluster.filter(preemptor()).kept
    assert cluster.filter(preemptor()).assumed == ()
    cluster.see(msgspec.structs.replace(nominee, node=N4))
    assert cluster.count(POLICY, "host") == 2
    assert frozenset(small_clusters.HOSTS) <= cluster.filter(preemptor()).kept


@pytest.mark.scenario("PR-12")
def test_a_nomination_that_moves_or_ends_takes_its_count_along() -> None:
    nominee = small_clusters.pod("n", small_clusters.REPLICA, priority=20, nominated=N4)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), POLICY, *host_pods(2), nominee)
    assert cluster.filter(preemptor()).kept == frozenset(small_clusters.MEMBERS)
    cluster.see(msgspec.structs.replace(nominee, nominated=MEMBER))
    assert cluster.filter(preemptor()).kept == frozenset(small_clusters.HOSTS)
    cluster.see(msgspec.structs.replace(nominee, nominated=""))
    assert cluster.filter(preemptor()).kept == frozenset(cluster.snapshot.nodes)
    cluster.see(nominee)
    cluster.gone(nominee)
    assert cluster.filter(preemptor()).kept == frozenset(cluster.snapshot.nodes)


@pytest.mark.scenario("PR-13")
@pytest.mark.parametrize("where", ["unlabelled", "unlisted", "unknown"])
def test_a_nomination_where_the_policy_does_not_reach_changes_nothing(where: str) -> None:
    nodes = [
        small_clusters.node("unlabelled"),
        small_clusters.node("unlisted", {small_clusters.KEY: "cloud"}),
    ]
    nominee = small_clusters.pod("n", small_clusters.REPLICA, priority=20, nominated=where)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), *nodes, POLICY, *host_pods(2))
    before = cluster.filter(preemptor(), small_clusters.HOSTS)
    cluster.see(nominee)
    after = cluster.filter(preemptor(), small_clusters.HOSTS)
    assert (before.kept, after.kept) == (frozenset(small_clusters.HOSTS), frozenset(small_clusters.HOSTS))


@dataclass(frozen=True, slots=True)
class NextToSibling:
    """A hard group: only nodes that hold another pod of the group."""

    name: ClassVar[str] = "NextToSibling"

    def interested(self, pod: model.Pod) -> bool:
        return "group" in pod.labels

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        near = {
            node
            for node in cycle.candidates
            if any(
                other.labels.get("group") == cycle.pod.labels["group"] for other in cycle.snapshot.on(node)
            )
        }
        return verdicts.Refusal("no sibling here", cycle.candidates - near)


@pytest.mark.scenario("PR-14")
def test_a_sibling_that_is_only_nominated_does_not_admit_a_node() -> None:
    sibling = small_clusters.pod("sibling", {"group": "g"}, priority=20, nominated=N1)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), sibling, configured=[NextToSibling()])
    pod = small_clusters.pod("p", {"group": "g"})
    assert cluster.filter(pod).kept == frozenset()
    cluster.place(sibling, N1)
    assert cluster.filter(pod).kept == {N1}


@dataclass(slots=True)
class Interrupting:
    """Lets events arrive in the middle of a decision, before the next plugin reads."""

    cluster: scheduling_driver.Cluster
    arriving: list[events.AnyEvent]
    name: str = field(default="Interrupting")

    def interested(self, pod: model.Pod) -> bool:
        return True

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        while self.arriving:
            self.cluster.take(self.arriving.pop())
        return None


@pytest.mark.scenario("PR-21")
def test_events_during_a_decision_do_not_affect_it() -> None:
    nominee = small_clusters.pod("n", small_clusters.REPLICA, priority=20, nominated=N4)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), POLICY, *host_pods(2), nominee)
    # Bound instead of nominated: counts and nominations change together.
    bound = events.PodSeen(pod=msgspec.structs.replace(nominee, node=MEMBER, nominated=""))
    before = cluster.filter(preemptor())
    cluster.plugins = registry.Registry([Interrupting(cluster, [bound]), plugin.WorkloadPolicy()])
    during = cluster.filter(preemptor())
    cluster.plugins = registry.Registry([plugin.WorkloadPolicy()])
    after = cluster.filter(preemptor())
    assert before.kept == during.kept == frozenset(small_clusters.MEMBERS)
    assert (during.position, during.reasons()) == (before.position, before.reasons())
    assert after.kept == frozenset(small_clusters.HOSTS)
    assert after.position.offset == before.position.offset + 1


@pytest.mark.scenario("PR-22")
def test_dry_runs_change_nothing_and_are_independent() -> None:
    nominee = small_clusters.pod("n", small_clusters.REPLICA, priority=20, nominated=N4)
    cluster = full(nominee)
    cluster.place(nominee, MEMBER)
    before = dump(cluster.snapshot)
    asked = [(preemptor(), N1, on(cluster, "host-0")), (preemptor(30), N2, on(cluster, f"unrelated-{N2}"))]
    alone = [cluster.veto(*question) for question in asked]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda question: cluster.veto(*question), asked * 50))
    assert together == alone * 50
    assert dump(cluster.snapshot) == before


@pytest.mark.scenario("PR-22")
def test_a_dry_run_keeps_its_position() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), POLICY)
    mine = preemptor()
    cluster.see(mine)
    cluster.place(mine, N1)
    assert cluster.filter(mine).position == cluster.snapshot.position
    base = cycles.cycle(mine, frozenset(small_clusters.HOSTS), cluster.snapshot)
    assert cycles.without(base, host_pods(1)).snapshot.position == cluster.snapshot.position


def dump(snapshot: snapshots.Snapshot) -> Mapping[str, object]:
    """All contents of the snapshot."""
    maps = ("nodes", "pods", "placements", "versions", "counts", "names", "waiting", "nominated")
    spelled = {
        name: sorted((key, repr(value)) for key, value in getattr(snapshot, name).items()) for name in maps
    }
    residents = {node: sorted(pods) for node, pods in snapshot.residents.items()}
    objects = {kind: repr(sorted(held.items())) for kind, held in snapshot.objects.kinds.items()}
    return {**spelled, "objects": objects, "residents": residents, "position": str(snapshot.position)}


def test_a_plugin_may_veto_to_protect_a_victim() -> None:
    @dataclass(frozen=True, slots=True)
    class Guardian:
        name: ClassVar[str] = "Guardian"

        def interested(self, pod: model.Pod) -> bool:
            return False

        def veto(self, cycle: cycles.Cycle, node: model.NodeName, victims: Iterable[model.Pod]) -> str | None:
            return "a gang would break" if any("gang" in victim.labels for victim in victims) else None

    assert isinstance(Guardian(), capabilities.Preempts)
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), configured=[Guardian()])
    member, other = small_clusters.pod("m", {"gang": "g"}, node=N1), small_clusters.pod("o", node=N1)
    assert cluster.veto(small_clusters.pod("p", priority=5), N1, member) == "a gang would break"
    assert cluster.veto(small_clusters.pod("p", priority=5), N1, other) is None


def test_the_claim_of_a_required_policy_is_a_ceiling() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.node("odd"), POLICY)
    mine = preemptor()
    key = f"{POLICY.key}|{POLICY.topology_key}=host"
    claimed = commitments.of(cluster.plugins, cycles.cycle(mine, frozenset((N1,)), cluster.snapshot), N1)
    assert claimed.ceilings == {key: 3}
    assert f"policy:{POLICY.key}" in claimed.subjects
    assert {f"pod:{mine.uid}", f"node:{N1}", f"policies:{small_clusters.NAMESPACE}"} <= set(claimed.subjects)
    after = projections.Projection(cluster.snapshot)
    after.apply(events.placed(mine, N1))
    assert after.increments == {key: 1}
    cluster.see(small_clusters.policy())
    soft = commitments.of(cluster.plugins, cycles.cycle(mine, frozenset((N1,)), cluster.snapshot), N1)
    assert soft.ceilings == {}
