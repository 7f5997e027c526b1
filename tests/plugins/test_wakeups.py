"""The pending pods that WorkloadPolicy wakes after events that kube-scheduler does not see."""

import msgspec
import pytest

from app.domain import events, model, observations
from app.framework import effects
from app.plugins.elastic_quota import families
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.workload_policy import limits, logic, policy_model
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support import declared
from tests.support.decisions import call_counts, scheduling_driver, small_clusters, small_quotas

HOSTS = small_clusters.HOSTS
KEY = f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}"


def pending(*priorities: int) -> list[model.Pod]:
    return [
        small_clusters.pod(f"pending-{n}", small_clusters.REPLICA, priority=p)
        for n, p in enumerate(priorities)
    ]


def announced(
    cluster: scheduling_driver.Cluster, *batch: events.AnyEvent, plugin: WorkloadPolicy | None = None
) -> effects.WakePods | None:
    """The capacity that the plugin announces after the last of the events."""
    capacity = None
    for event in batch:
        before = cluster.snapshot
        cluster.take(event)
        capacity = (plugin or WorkloadPolicy()).wake(before, cluster.snapshot, (event,))
    return capacity


def edited(
    cluster: scheduling_driver.Cluster, policy: policy_model.WorkloadPolicy
) -> tuple[events.AnyEvent, ...]:
    return observations.declared(
        declared.POLICIES, cluster.snapshot.get(declared.POLICIES, policy.key), policy
    )


def released(pod: model.Pod, node: str) -> events.PlacementReleased:
    return events.PlacementReleased(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, node=node, reason="refused", cause="refused"
    )


def names(capacity: effects.WakePods | None) -> list[str]:
    return [] if capacity is None else [pod.name for pod in capacity.pods]


def test_a_new_required_policy_wakes_as_many_pods_as_it_admits_most_important_first() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.pod("runs", small_clusters.REPLICA, node=HOSTS[0])
    )
    late = small_clusters.pod("late", small_clusters.REPLICA, priority=1, created="2026-02-01T00:00:00Z")
    cluster.see(*pending(0, 1, 5), late)
    capacity = announced(cluster, *edited(cluster, small_clusters.policy({"host": 4}, required=True)))
    assert names(capacity) == ["pending-2", "pending-1", "late"]
    assert capacity is not None
    assert capacity.message == f"workload policy {KEY} now has capacity (host 1/4)"


@pytest.mark.scenario("WP-13")
def test_a_raised_quota_wakes_just_two() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 3}, required=True)
    )
    cluster.see(*(small_clusters.pod(f"runs-{n}", small_clusters.REPLICA, node=HOSTS[n]) for n in range(3)))
    cluster.see(*pending(0, 0, 0))
    assert announced(cluster, *edited(cluster, small_clusters.policy({"host": 2}, required=True))) is None
    capacity = announced(cluster, *edited(cluster, small_clusters.policy({"host": 5}, required=True)))
    assert names(capacity) == ["pending-0", "pending-1"]


def test_a_preferred_policy_wakes_all_pods_up_to_the_limit() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6())
    cluster.see(*pending(0, 0, 9))
    bounded = WorkloadPolicy(max_woken=2)
    assert names(announced(cluster, *edited(cluster, small_clusters.policy()))) == [
        "pending-2",
        "pending-0",
        "pending-1",
    ]
    assert names(
        announced(cluster, *edited(cluster, small_clusters.policy({"host": 1})), plugin=bounded)
    ) == [
        "pending-2",
        "pending-0",
    ]


def test_only_pods_that_the_policy_can_help_are_woken() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6())
    cluster.see(
        small_clusters.pod("stray", {**small_clusters.REPLICA, "app": "other"}),
        small_clusters.pod("daemon", small_clusters.REPLICA, owner="DaemonSet"),
        small_clusters.pod("elsewhere", small_clusters.REPLICA, namespace="other"),
        small_clusters.pod("bound", small_clusters.REPLICA, node=HOSTS[0]),
        small_clusters.pod("unlabelled", {"app": small_clusters.APP}),
        small_clusters.pod(
            "alias", {"app": small_clusters.APP, "workload-policy.kosmos.io": small_clusters.POLICY}
        ),
        small_clusters.pod(
            "outvoted",
            {
                "app": small_clusters.APP,
                "workload-policy.kosmos.io": small_clusters.POLICY,
                small_clusters.LABEL: "x",
            },
        ),
    )
    assert names(announced(cluster, *edited(cluster, small_clusters.policy({"host": 9}, required=True)))) == [
        "alias"
    ]


@pytest.mark.parametrize(("missing", "woken"), [("reject", []), ("ignore", ["pending-0"])])
@pytest.mark.parametrize("broken", [True, False], ids=["invalid", "gone"])
def test_a_missing_policy_wakes_pods_only_if_it_is_ignored(
    missing: str, woken: list[str], broken: bool
) -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 0}, required=True), *pending(0)
    )
    plugin = WorkloadPolicy(missing_policy="ignore" if missing == "ignore" else "reject")
    gone = declared.POLICIES.gone(namespace=small_clusters.NAMESPACE, name=small_clusters.POLICY, uid="u")
    batch = edited(cluster, small_clusters.policy(errors=("broken",))) if broken else (gone,)
    assert names(announced(cluster, *batch, plugin=plugin)) == woken


def test_a_released_placement_wakes_one_other_pod() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 1}, required=True)
    )
    first, second, third = pending(5, 0, 1)
    cluster.see(first, second, third)
    cluster.place(first, HOSTS[0])
    capacity = announced(cluster, released(first, HOSTS[0]))
    assert names(capacity) == ["pending-2"]
    assert capacity is not None
    assert capacity.message == f"workload policy {KEY} has capacity again (host 0/1)"


def test_the_deletion_of_a_placed_pod_wakes_pods_that_of_a_bound_pod_does_not() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 1}, required=True)
    )
    first, second = pending(5, 0)
    cluster.see(first, second)
    gone = events.PodGone(uid=first.uid, namespace=first.namespace, name=first.name)
    cluster.place(first, HOSTS[0])
    assert names(announced(cluster, gone)) == ["pending-1"]
    cluster.see(msgspec.structs.replace(first, node=HOSTS[0]))
    assert announced(cluster, gone) is None


def test_a_release_that_frees_no_capacity_wakes_no_pod() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 1, "member": 1}, required=True)
    )
    over, first, second = small_clusters.pod("over", {"app": small_clusters.APP}), *pending(0, 0)
    cluster.see(over, first, second)
    cluster.place(over, HOSTS[0])
    cluster.see(small_clusters.pod("runs", small_clusters.REPLICA, node=HOSTS[1]))
    assert announced(cluster, released(over, HOSTS[0])) is None  # host 2/1 before, 1/1 after
    assert announced(cluster, released(first, HOSTS[0])) is None  # was not placed at all
    cluster.see(small_clusters.policy())
    cluster.place(first, HOSTS[0])
    assert announced(cluster, released(first, HOSTS[0])) is None  # a preference refuses no pod
    assert announced(cluster, events.PodSeen(pod=second)) is None


def test_a_release_may_concern_several_policies() -> None:
    wide = small_clusters.policy({"host": 1}, name="wide", required=True, selector=model.Selector())
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 1}, required=True), wide
    )
    first, second = pending(0, 0)
    other = small_clusters.pod("other", {small_clusters.LABEL: "wide"})
    cluster.see(first, second, other)
    cluster.place(first, HOSTS[0])
    capacity = announced(cluster, released(first, HOSTS[0]))
    assert sorted(names(capacity)) == ["other", "pending-1"]


# -- enforce: selected -------------------------------------------------------------------------

SELECTED = WorkloadPolicy(enforce="selected")
PLAIN = {"app": small_clusters.APP}


def test_a_raised_quota_wakes_as_many_selected_pods_as_it_admits() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 0}, required=True)
    )
    daemon = small_clusters.pod("daemon", small_clusters.REPLICA, owner="DaemonSet", priority=1)
    cluster.see(
        daemon, small_clusters.pod("plain", PLAIN, priority=2), *pending(3, 0), small_clusters.pod("other")
    )
    raised = edited(cluster, small_clusters.policy({"host": 3}, required=True))
    assert names(announced(cluster, *raised, plugin=SELECTED)) == ["pending-0", "plain", "daemon"]
    cluster.see(small_clusters.policy({"host": 0}, required=True))
    assert names(announced(cluster, *raised)) == ["pending-0", "pending-1"], (
        "by default only those that name it"
    )


@pytest.mark.parametrize("how", ["gone", "invalid", "preferred", "narrowed"])
def test_a_pod_that_a_policy_stops_limiting_is_woken(how: str) -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 0}, required=True)
    )
    cluster.see(small_clusters.pod("plain", PLAIN), *pending(0))
    narrowed = small_clusters.policy({"host": 0}, required=True, selector=model.Selector(labels={"app": "x"}))
    batch: dict[str, tuple[events.AnyEvent, ...]] = {
        "gone": (
            declared.POLICIES.gone(namespace=small_clusters.NAMESPACE, name=small_clusters.POLICY, uid="u"),
        ),
        "invalid": edited(cluster, small_clusters.policy(errors=("broken",), required=True)),
        "preferred": edited(cluster, small_clusters.policy({"host": 0})),
        "narrowed": edited(cluster, narrowed),
    }
    # The pod that names the policy is still refused, unless the policy is Preferred.
    expected = ["pending-0", "plain"] if how == "preferred" else ["plain"]
    assert names(announced(cluster, *batch[how], plugin=SELECTED)) == expected


def test_a_new_policy_wakes_no_pod_that_was_not_limited_before() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.pod("plain", PLAIN))
    batch = edited(cluster, small_clusters.policy({"host": 3}, required=True))
    assert announced(cluster, *batch, plugin=SELECTED) is None


def test_a_pod_under_several_policies_is_woken_if_each_has_a_place() -> None:
    wide = small_clusters.policy({"host": 1}, name="wide", required=True, selector=model.Selector())
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 1}, required=True), wide
    )
    first, second = small_clusters.pod("first", PLAIN), small_clusters.pod("second", PLAIN, priority=1)
    cluster.see(first, second, small_clusters.pod("third", PLAIN), small_clusters.pod("fourth"))
    cluster.place(first, HOSTS[0])
    capacity = announced(cluster, released(first, HOSTS[0]), plugin=SELECTED)
    assert names(capacity) == ["second"]
    assert capacity is not None
    assert set(capacity.message.split("; ")) == {
        f"workload policy {KEY} has capacity again (host 0/1)",
        f"workload policy {small_clusters.NAMESPACE}/wide has capacity again (host 0/1)",
    }
    cluster.place(first, HOSTS[0])
    cluster.see(small_clusters.pod("runs", {"x": "y"}, node=HOSTS[1]))
    assert announced(cluster, released(first, HOSTS[0]), plugin=SELECTED) is None  # wide holds 1/1 still


# -- bursts --------------------------------------------------------------------------------


def burst(
    cluster: scheduling_driver.Cluster, plugin: WorkloadPolicy | ElasticQuota, placed: list[model.Pod]
) -> list[str]:
    """The pods that are woken for the release of all these at once."""
    before = cluster.snapshot
    released_all = [released(pod, cluster.snapshot.node_of(pod.uid)) for pod in placed]
    cluster.take(*released_all)
    return names(plugin.wake(before, cluster.snapshot, released_all))


def test_a_burst_of_releases_evaluates_the_pods_of_a_policy_as_often_as_one_release() -> None:
    placed = [small_clusters.pod(f"placed-{n}", small_clusters.REPLICA) for n in range(4)]
    looks = []
    for count in (1, 4):
        cluster = scheduling_driver.Cluster(
            *small_clusters.f6(), small_clusters.policy({"host": 4}, required=True), *pending(3, 1, 2, 0)
        )
        cluster.take(*(events.placed(one, HOSTS[0]) for one in placed))
        with call_counts.counted(limits, "limiting") as limiting:
            woken = burst(cluster, WorkloadPolicy(), placed[:count])
        assert woken == ["pending-0", "pending-2", "pending-1", "pending-3"][:count]
        looks.append(limiting.call_count)
    assert looks == [8, 8]


def test_a_burst_of_releases_evaluates_the_pods_that_wait_for_quotas_as_often_as_one_release() -> None:
    placed = [small_quotas.pod(f"placed-{n}", 5, "q") for n in range(4)]
    waiting = [small_quotas.pod(f"waits-{n}", 5, "q", priority=n) for n in range(6)]
    looks = []
    for count in (1, 4):
        cluster = scheduling_driver.Cluster(
            small_quotas.node("n1", 100),
            small_quotas.quota("q", 0, 20),
            *waiting,
            configured=[ElasticQuota()],
        )
        cluster.take(*(events.placed(one, "n1") for one in placed))
        with call_counts.counted(families, "pod_class") as classified:
            assert burst(cluster, ElasticQuota(), placed[:count]) == [f"waits-{5 - n}" for n in range(count)]
        looks.append(classified.call_count)
    assert looks == [6, 6]


def test_the_message_of_a_burst_names_the_first_policies() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6())
    policies = [
        msgspec.structs.replace(
            small_clusters.policy({"host": 1}, required=True),
            name=f"p{n:02}",
            uid=f"p{n:02}",
            selector=model.Selector({logic.LABEL: f"p{n:02}"}),
        )
        for n in range(12)
    ]
    waiting = [small_clusters.pod(one.name, {logic.LABEL: one.name}) for one in policies]
    cluster.see(*waiting)
    before = cluster.snapshot
    happened = [event for policy in policies for event in edited(cluster, policy)]
    cluster.take(*happened)
    found = WorkloadPolicy().wake(before, cluster.snapshot, happened)
    assert names(found) == [one.name for one in policies]
    assert found is not None
    assert found.message.count("now has capacity") == 10
    assert found.message.endswith("; and 2 more")
