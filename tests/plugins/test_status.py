"""The status of policies: what it shows, and after which events it is computed again."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.framework import effects
from app.plugins.workload_policy import policy_model, status
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support import declared
from tests.support.decisions import scheduling_driver, small_clusters, strategies

KEY = small_clusters.KEY
HOSTS = small_clusters.HOSTS


def reconciled(
    cluster: scheduling_driver.Cluster, changes: effects.Changes, *, plugin: WorkloadPolicy | None = None
) -> list[effects.Effect]:
    return list((plugin or WorkloadPolicy()).reconcile(cluster.snapshot, changes))


def statuses(found: Iterable[effects.Effect]) -> dict[str, dict[str, object]]:
    """Policy -> status."""
    patches = [one for one in found if isinstance(one, effects.PatchStatus)]
    assert all(one.kind == "workloadpolicies" for one in patches)
    return {one.identity: dict(one.status) for one in patches}


def condition(found: dict[str, object], kind: str = "Accepted") -> tuple[str, str, str]:
    conditions = found["conditions"]
    assert isinstance(conditions, list)
    assert [one["type"] for one in conditions] == ["Accepted", "Satisfied"]
    (one,) = (one for one in conditions if one["type"] == kind)
    return one["status"], one["reason"], one["message"]


def satisfied(cluster: scheduling_driver.Cluster) -> tuple[str, str, str]:
    (found,) = statuses(reconciled(cluster, EVERYTHING)).values()
    return condition(found, "Satisfied")


def cluster_of(*policies: policy_model.WorkloadPolicy) -> scheduling_driver.Cluster:
    return scheduling_driver.Cluster(*small_clusters.f6(), *policies)


EVERYTHING = effects.Changes()


def test_a_status_has_the_counts_of_each_domain_beside_its_quota() -> None:
    cluster = cluster_of(small_clusters.policy({"host": 3, "member": 1}, required=True))
    cluster.see(small_clusters.pod("bound", small_clusters.REPLICA, node=HOSTS[0]))
    cluster.place(small_clusters.pod("in-flight", small_clusters.REPLICA), HOSTS[1])
    (found,) = statuses(reconciled(cluster, EVERYTHING)).values()
    assert found == {
        "desired": 4,
        "placed": 2,
        "waiting": 0,
        "domains": [
            {"name": "host", "desired": 3, "placed": 2},
            {"name": "member", "desired": 1, "placed": 0},
        ],
        "moreDomains": 0,
        "conditions": [
            {
                "type": "Accepted",
                "status": "True",
                "reason": "Valid",
                "message": "the quotas limit where pods are placed",
            },
            {
                "type": "Satisfied",
                "status": "True",
                "reason": "AllPlaced",
                "message": "no pod that names the policy waits",
            },
        ],
    }


def test_a_preferred_policy_is_valid_too() -> None:
    (found,) = statuses(reconciled(cluster_of(small_clusters.policy()), EVERYTHING)).values()
    assert condition(found) == ("True", "Valid", "nodes in domains below their quota are preferred")


def test_an_invalid_policy_is_not_accepted_and_has_its_errors() -> None:
    errors = ("spec.topologyKey is missing", "spec.labelSelector is missing")
    (found,) = statuses(reconciled(cluster_of(small_clusters.policy(errors=errors)), EVERYTHING)).values()
    assert found.keys() == {"conditions"}
    assert condition(found) == (
        "False",
        "InvalidSpec",
        "spec.topologyKey is missing; spec.labelSelector is missing",
    )
    assert condition(found, "Satisfied") == ("Unknown", "InvalidSpec", "the specification is invalid")


def test_a_domain_without_nodes_is_named_and_the_others_are_in_force() -> None:
    cluster = cluster_of(small_clusters.policy({"host": 1, "moon": 2}, required=True))
    (found,) = statuses(reconciled(cluster, EVERYTHING)).values()
    assert condition(found) == ("True", "NoSuchDomain", f"no node has the label {KEY}=moon")


def test_a_policy_is_satisfied_while_no_pod_waits() -> None:
    cluster = cluster_of(small_clusters.policy({"host": 1}, required=True))
    cluster.see(*(small_clusters.pod(f"p{at}", small_clusters.REPLICA) for at in range(2)))
    assert satisfied(cluster) == ("False", "Waiting", "2 pods wait")
    (found,) = statuses(reconciled(cluster, EVERYTHING)).values()
    assert (found["waiting"], found["placed"]) == (2, 0)
    cluster.see(small_clusters.pod("p0", small_clusters.REPLICA, node=HOSTS[0]))
    assert satisfied(cluster) == ("False", "Waiting", "1 pod waits")
    cluster.see(small_clusters.pod("p1", small_clusters.REPLICA, node=HOSTS[1]))
    status, reason, message = satisfied(cluster)
    assert (status, reason) == ("False", "Overrun")
    assert message.startswith("host holds 2 pods, 1 are desired: no pod is evicted")
    cluster.see(small_clusters.policy({"host": 2}, required=True))
    assert satisfied(cluster) == ("True", "AllPlaced", "no pod that names the policy waits")


def test_pods_that_the_selector_misses_are_named_where_they_wait() -> None:
    cluster = cluster_of(small_clusters.policy({"host": 1}, required=True))
    missed = {**small_clusters.REPLICA, "app": "other"}
    cluster.see(small_clusters.pod("p0", missed))
    status, reason, message = satisfied(cluster)
    assert (status, reason) == ("False", "Waiting")
    assert (
        message
        == f"1 pod waits; 1 pending pods do not match the labelSelector: {small_clusters.NAMESPACE}/p0"
    )


def test_a_status_has_a_bound() -> None:
    quotas = {f"domain-{at:04}": 1 for at in range(1000)}
    cluster = cluster_of(small_clusters.policy(quotas, required=True))
    (found,) = statuses(reconciled(cluster, EVERYTHING)).values()
    domains = found["domains"]
    assert isinstance(domains, list)
    assert [one["name"] for one in domains] == sorted(quotas)[: status.MAX_DOMAINS]
    assert (found["moreDomains"], found["desired"]) == (1000 - status.MAX_DOMAINS, 1000)
    *_, message = condition(found)
    assert len(message) <= 2_000
    assert message.endswith(" ...")


def test_pods_are_woken_only_if_events_were_missed() -> None:
    cluster = cluster_of(small_clusters.policy({"host": 2}, required=True))
    cluster.see(*(small_clusters.pod(f"p{at}", small_clusters.REPLICA) for at in range(3)))
    assert not [one for one in reconciled(cluster, EVERYTHING) if isinstance(one, effects.WakePods)]
    missed = reconciled(cluster, effects.Changes(missed=True))
    (woken,) = (one for one in missed if isinstance(one, effects.WakePods))
    assert [pod.name for pod in woken.pods] == ["p0", "p1"]
    assert "has capacity (host 0/2)" in woken.message


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (events.PodSeen(pod=small_clusters.pod("p", small_clusters.REPLICA, node=HOSTS[0])), {"p", "q"}),
        (events.PodSeen(pod=small_clusters.pod("p", {}, namespace="empty", node=HOSTS[0])), set()),
        (events.NodeSeen(node=small_clusters.node("new", {KEY: "host"})), {"p", "elsewhere"}),
        (events.NodeSeen(node=small_clusters.node(HOSTS[0], {KEY: "host", "x": "y"})), set()),
        (events.FlagSet(flag=model.Flag(name="v", value="1")), set()),
        (events.ConfigurationApplied(model.Configuration("0a", ("WorkloadPolicy",))), set()),
        (events.ViewsRepaired(by="auditor", counts={}), {"p", "q", "elsewhere"}),
    ],
    ids=[
        "a pod",
        "a pod without policies",
        "a node",
        "another label",
        "a flag",
        "a configuration",
        "repaired counts",
    ],
)
def test_only_policies_that_an_event_concerns_are_computed_again(
    event: events.AnyEvent, expected: set[str]
) -> None:
    cluster = cluster_of(
        small_clusters.policy(name="p"),
        small_clusters.policy(name="q", key="rack"),
        small_clusters.policy(name="elsewhere", namespace="elsewhere"),
    )
    before = cluster.snapshot
    cluster.take(event)
    found = statuses(reconciled(cluster, effects.Changes(before, (event,))))
    assert {identity.partition("/")[2] for identity in found} == expected


@given(strategies.histories, st.integers(0, 60))
def test_no_status_changes_unnoticed(history: list[events.AnyEvent], at: int) -> None:
    """Whatever happens: the status of a policy that is not computed again is the one of before."""
    before = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA, indexed=WorkloadPolicy().indexed()), history[:at]
    )
    after = projections.project_all(before, history[at:])
    changes = effects.Changes(before, tuple(history[at:]))
    found = statuses(WorkloadPolicy().reconcile(after, changes))
    for key, policy in after.all(declared.POLICIES).items():
        if key in found:
            assert found[key] == status.status(after, policy)
        else:
            assert status.status(before, before.all(declared.POLICIES)[key]) == status.status(after, policy)
