import collections

import msgspec

from app.domain import events, projections, snapshots
from app.plugins.workload_policy import policy_counts
from tests.bench.data import bench_cluster
from tests.support import declared

NODES, PODS = 1_000, 3_000


def snapshot() -> snapshots.Snapshot:
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA), bench_cluster.facts(NODES, PODS))


def test_the_cluster_has_what_was_asked_for() -> None:
    found = snapshot()
    assert (len(found.nodes), len(found.pods), len(found.all(declared.POLICIES))) == (NODES, PODS, 2)
    assert set(found.listed) == set(declared.SCHEMA.names)


def test_half_of_the_racks_of_the_policy_half_are_full_and_none_of_the_policy_free() -> None:
    found = snapshot()
    full = collections.Counter(
        policy.name
        for policy in found.all(declared.POLICIES).values()
        for domain in policy.allocations
        if found.counts[policy_counts.key(policy, domain.name)] >= domain.replicas
    )
    assert full == {bench_cluster.HALF: bench_cluster.RACKS // 2}


def test_what_the_client_expects_to_be_refused_is_in_full_racks() -> None:
    found = snapshot()
    policy = found.all(declared.POLICIES)[f"{bench_cluster.NAMESPACE}/{bench_cluster.HALF}"]
    refused = [
        node
        for node in found.nodes.values()
        if policy_counts.count(found, policy, node.labels[bench_cluster.RACK])
        >= (policy.desired(node.labels[bench_cluster.RACK]) or 0)
    ]
    assert len(refused) == bench_cluster.refused(bench_cluster.HALF, NODES) == NODES // 2
    assert bench_cluster.refused(bench_cluster.FREE, NODES) == 0


def test_any_run_of_nodes_is_refused_by_half() -> None:
    assert bench_cluster.refused(bench_cluster.HALF, 500) == 250


def test_no_uid_and_no_name_is_given_twice() -> None:
    pods = [event.pod for event in bench_cluster.facts(NODES, PODS) if isinstance(event, events.PodSeen)]
    assert len({pod.uid for pod in pods}) == len({pod.key for pod in pods}) == PODS
    names = [each["name"] for each in msgspec.json.decode(bench_cluster.listing(NODES))]
    assert len(set(names)) == NODES
    assert 40 <= sum(map(len, names)) / NODES <= 44
