"""What a decision reads: its cost follows the nodes and pods that it is about."""

from unittest import mock

import pytest

from app.domain import selectors, snapshots, topology
from app.domain.fold import node_sums
from app.framework import cycles, pipeline, plans, registry
from app.plugins.preemption_rules import plugin as preemption_rules
from app.plugins.workload_policy import plugin as workload_policy
from app.plugins.workload_policy import policy_counts, policy_model
from app.verbs.preemption import offers
from tests.support.decisions import crowded_nodes, scheduling_driver, small_clusters


@pytest.mark.parametrize(
    ("name", "refused"), [(small_clusters.MEMBERS[0], True), (small_clusters.HOSTS[0], False)]
)
def test_a_decision_about_one_node_reads_no_domain(name: str, refused: bool) -> None:
    plugins = registry.Registry([workload_policy.WorkloadPolicy()])
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"member": 0, "host": 3}, required=True)
    )
    asking = small_clusters.pod("asking", small_clusters.REPLICA)
    cycle = cycles.cycle(asking, frozenset((name,)), cluster.snapshot)
    with mock.patch.object(topology.Column, "__getitem__", side_effect=AssertionError("a domain was read")):
        assert bool(pipeline.run_filter(plugins, cycle).refusals) is refused


def test_a_bind_reads_the_count_of_its_own_domain_alone() -> None:
    plugins = registry.Registry([workload_policy.WorkloadPolicy()])
    quotas = {"host": 3, **{f"domain-{number}": 1 for number in range(50)}}
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy(quotas, required=True))
    asking, node = small_clusters.pod("asking", small_clusters.REPLICA), small_clusters.HOSTS[0]
    cycle = cycles.cycle(asking, frozenset((node,)), cluster.snapshot)
    searched = AssertionError("the domains of the policy were searched")
    with (
        mock.patch.object(policy_counts, "listed", side_effect=searched),
        mock.patch.object(policy_model.WorkloadPolicy, "desired", side_effect=searched),
    ):
        assert not pipeline.run_filter(plugins, cycle).refusals
        made = plans.commitment(plugins, cycle, node)
    assert isinstance(made, plans.Commitment)
    assert list(made.ceilings.values()) == [3]


def test_the_pods_of_a_node_are_examined_once() -> None:
    plugins = registry.Registry([preemption_rules.PreemptionRules()])
    database = crowded_nodes.pod("database", 10, node="n1", start=2, labels={"app": "db"})
    server = crowded_nodes.pod(
        "server", 20, node="n1", start=1, needs={"app": "db"}, near="kubernetes.io/hostname"
    )
    snapshot = crowded_nodes.world(crowded_nodes.node("n1"), database, server)
    base = cycles.cycle(crowded_nodes.pod("p", 50), frozenset(("n1",)), snapshot)
    answers = [offers.judge(plugins, base, {"n1": ["database"]})]
    with mock.patch.object(node_sums, "attached", side_effect=AssertionError("a pod was examined again")):
        answers.append(offers.judge(plugins, base, {"n1": ["database"]}))
    assert [answer.kept["n1"].uids for answer in answers] == [("server", "database")] * 2


def test_the_pods_of_a_zone_are_not_compared_with_a_term_for_each_node() -> None:
    """Pairs of which each is apart, as of tenants: no other pod meets the term of a server."""
    plugins = registry.Registry([preemption_rules.PreemptionRules()])
    names = [f"n{number}" for number in range(20)]
    nodes = [crowded_nodes.node(name, labels={"zone": "a"}) for name in names]
    pods = []
    for name in names:
        pair = {"app": "db", "tenant": name}
        pods += [
            crowded_nodes.pod(f"database-{name}", 10, node=name, start=2, labels=pair),
            crowded_nodes.pod(f"server-{name}", 20, node=name, start=1, needs=pair, near="zone"),
            *(crowded_nodes.pod(f"{number}-{name}", 10, node=name) for number in range(20)),
        ]
    base = cycles.cycle(crowded_nodes.pod("p", 50), frozenset(names), crowded_nodes.world(*nodes, *pods))
    offer = {name: [f"database-{name}"] for name in names}
    with mock.patch.object(selectors, "matches", side_effect=selectors.matches) as compared:
        answer = offers.judge(plugins, base, offer)
    assert {name: kept.uids for name, kept in answer.kept.items()} == {
        name: (f"server-{name}", f"database-{name}") for name in names
    }
    assert compared.call_count <= 5 * len(names)


def test_no_pod_outside_the_topology_domain_of_a_dependent_is_read() -> None:
    plugins = registry.Registry([preemption_rules.PreemptionRules()])
    nodes = [crowded_nodes.node(f"n{number}", labels={"rack": str(number // 2)}) for number in range(20)]
    database = crowded_nodes.pod("database", 10, node="n1", start=2, labels={"app": "db"})
    server = crowded_nodes.pod("server", 20, node="n1", start=1, needs={"app": "db"}, near="rack")
    others = [crowded_nodes.pod(f"other-{one.name}", 10, node=one.name) for one in nodes]
    snapshot = crowded_nodes.world(*nodes, database, server, *others)
    base = cycles.cycle(crowded_nodes.pod("p", 50), frozenset(("n1",)), snapshot)
    read = snapshots.Snapshot.pod
    with mock.patch.object(snapshots.Snapshot, "pod", autospec=True, side_effect=read) as reads:
        answer = offers.judge(plugins, base, {"n1": ["database"]})
    assert answer.kept["n1"].uids == ("server", "database")
    assert {call.args[1] for call in reads.call_args_list} <= {"database", "server", "other-n0", "other-n1"}
