import collections

import msgspec

from app.domain import events, projecting, snapshots
from app.plugins.workload_policy import counting
from tests.bench import populating
from tests.support import declared

NODES, PODS = 1_000, 3_000


def snapshot() -> snapshots.Snapshot:
    return projecting.project_all(snapshots.empty(schema=declared.SCHEMA), populating.facts(NODES, PODS))


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
        if found.counts[counting.key(policy, domain.name)] >= domain.replicas
    )
    assert full == {populating.HALF: populating.RACKS // 2}


def test_what_the_client_expects_to_be_refused_is_what_stands_in_full_racks() -> None:
    found = snapshot()
    policy = found.all(declared.POLICIES)[f"{populating.NAMESPACE}/{populating.HALF}"]
    refused = [
        node
        for node in found.nodes.values()
        if counting.count(found, policy, node.labels[populating.RACK])
        >= (policy.desired(node.labels[populating.RACK]) or 0)
    ]
    assert len(refused) == populating.refused(populating.HALF, NODES) == NODES // 2
    assert populating.refused(populating.FREE, NODES) == 0


def test_any_run_of_nodes_is_refused_by_half() -> None:
    assert populating.refused(populating.HALF, 500) == 250


def test_no_uid_and_no_name_is_given_twice() -> None:
    pods = [event.pod for event in populating.facts(NODES, PODS) if isinstance(event, events.PodSeen)]
    assert len({pod.uid for pod in pods}) == len({pod.key for pod in pods}) == PODS
    names = [each["name"] for each in msgspec.json.decode(populating.listing(NODES))]
    assert len(set(names)) == NODES
    assert 40 <= sum(map(len, names)) / NODES <= 44
