"""Which pending pods are told of room that kube-scheduler cannot see."""

import msgspec
import pytest

from app.domain import events, model, observing
from app.framework import capabilities
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.scenarios import clusters, driving

HOSTS = clusters.HOSTS
KEY = f"{clusters.NAMESPACE}/{clusters.POLICY}"


def pending(*priorities: int) -> list[model.Pod]:
    return [clusters.pod(f"pending-{n}", clusters.REPLICA, priority=p) for n, p in enumerate(priorities)]


def told(
    cluster: driving.Cluster, *batch: events.AnyEvent, plugin: WorkloadPolicy | None = None
) -> capabilities.Room | None:
    """What is announced at the last of the events."""
    room = None
    for event in batch:
        before = cluster.snapshot
        cluster.take(event)
        room = (plugin or WorkloadPolicy()).announce(before, cluster.snapshot, event)
    return room


def edited(cluster: driving.Cluster, policy: model.WorkloadPolicy) -> tuple[events.AnyEvent, ...]:
    return observing.policy(cluster.snapshot.policies.get(policy.key), policy)


def released(pod: model.Pod, node: str) -> events.PlacementReleased:
    return events.PlacementReleased(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, node=node, reason="refused", cause="refused"
    )


def names(room: capabilities.Room | None) -> list[str]:
    return [] if room is None else [pod.name for pod in room.pods]


def test_a_new_required_policy_wakes_as_many_as_it_has_room_for_the_most_important_first() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.pod("runs", clusters.REPLICA, node=HOSTS[0]))
    late = clusters.pod("late", clusters.REPLICA, priority=1, created="2026-02-01T00:00:00Z")
    cluster.see(*pending(0, 1, 5), late)
    room = told(cluster, *edited(cluster, clusters.policy({"host": 4}, required=True)))
    assert names(room) == ["pending-2", "pending-1", "late"]
    assert room is not None
    assert room.message == f"workload policy {KEY} as it is now has room (host 1/4)"


@pytest.mark.scenario("WP-13")
def test_a_raised_quota_wakes_just_two() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 3}, required=True))
    cluster.see(*(clusters.pod(f"runs-{n}", clusters.REPLICA, node=HOSTS[n]) for n in range(3)))
    cluster.see(*pending(0, 0, 0))
    assert told(cluster, *edited(cluster, clusters.policy({"host": 2}, required=True))) is None
    room = told(cluster, *edited(cluster, clusters.policy({"host": 5}, required=True)))
    assert names(room) == ["pending-0", "pending-1"]


def test_a_preferred_policy_wakes_all_but_bounded() -> None:
    cluster = driving.Cluster(*clusters.f6())
    cluster.see(*pending(0, 0, 9))
    bounded = WorkloadPolicy(announced_most=2)
    assert names(told(cluster, *edited(cluster, clusters.policy()))) == [
        "pending-2",
        "pending-0",
        "pending-1",
    ]
    assert names(told(cluster, *edited(cluster, clusters.policy({"host": 1})), plugin=bounded)) == [
        "pending-2",
        "pending-0",
    ]


def test_only_pods_that_the_policy_can_help_are_woken() -> None:
    cluster = driving.Cluster(*clusters.f6())
    cluster.see(
        clusters.pod("stray", {**clusters.REPLICA, "app": "other"}),
        clusters.pod("daemon", clusters.REPLICA, owner="DaemonSet"),
        clusters.pod("elsewhere", clusters.REPLICA, namespace="other"),
        clusters.pod("bound", clusters.REPLICA, node=HOSTS[0]),
        clusters.pod("unlabelled", {"app": clusters.APP}),
        clusters.pod("alias", {"app": clusters.APP, "workload-policy.kosmos.io": clusters.POLICY}),
        clusters.pod(
            "outvoted",
            {"app": clusters.APP, "workload-policy.kosmos.io": clusters.POLICY, clusters.LABEL: "x"},
        ),
    )
    assert names(told(cluster, *edited(cluster, clusters.policy({"host": 9}, required=True)))) == ["alias"]


@pytest.mark.parametrize(("missing", "woken"), [("reject", []), ("ignore", ["pending-0"])])
@pytest.mark.parametrize("broken", [True, False], ids=["invalid", "gone"])
def test_a_policy_that_is_lost_wakes_only_where_that_is_ignored(
    missing: str, woken: list[str], broken: bool
) -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 0}, required=True), *pending(0))
    plugin = WorkloadPolicy(missing_policy="ignore" if missing == "ignore" else "reject")
    gone = events.PolicyGone(namespace=clusters.NAMESPACE, name=clusters.POLICY, uid="u")
    batch = edited(cluster, clusters.policy(errors=("broken",))) if broken else (gone,)
    assert names(told(cluster, *batch, plugin=plugin)) == woken


def test_a_released_promise_wakes_one_other_pod() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 1}, required=True))
    first, second, third = pending(5, 0, 1)
    cluster.see(first, second, third)
    cluster.place(first, HOSTS[0])
    room = told(cluster, released(first, HOSTS[0]))
    assert names(room) == ["pending-2"]
    assert room is not None
    assert room.message == f"workload policy {KEY} has room again (host 0/1)"


def test_a_promised_pod_that_is_deleted_releases_too_but_a_bound_one_is_kube_schedulers_to_see() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 1}, required=True))
    first, second = pending(5, 0)
    cluster.see(first, second)
    gone = events.PodGone(uid=first.uid, namespace=first.namespace, name=first.name)
    cluster.place(first, HOSTS[0])
    assert names(told(cluster, gone)) == ["pending-1"]
    cluster.see(msgspec.structs.replace(first, node=HOSTS[0]))
    assert told(cluster, gone) is None


def test_a_release_that_frees_nothing_wakes_nobody() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 1, "member": 1}, required=True))
    over, first, second = clusters.pod("over", {"app": clusters.APP}), *pending(0, 0)
    cluster.see(over, first, second)
    cluster.place(over, HOSTS[0])
    cluster.see(clusters.pod("runs", clusters.REPLICA, node=HOSTS[1]))
    assert told(cluster, released(over, HOSTS[0])) is None  # host 2/1 before, 1/1 after
    assert told(cluster, released(first, HOSTS[0])) is None  # was not placed at all
    cluster.see(clusters.policy())
    cluster.place(first, HOSTS[0])
    assert told(cluster, released(first, HOSTS[0])) is None  # a preference refused nobody
    assert told(cluster, events.PodSeen(pod=second)) is None


def test_a_release_may_concern_several_policies() -> None:
    wide = clusters.policy({"host": 1}, name="wide", required=True, selector=model.Selector())
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 1}, required=True), wide)
    first, second = pending(0, 0)
    other = clusters.pod("other", {clusters.LABEL: "wide"})
    cluster.see(first, second, other)
    cluster.place(first, HOSTS[0])
    room = told(cluster, released(first, HOSTS[0]))
    assert sorted(names(room)) == ["other", "pending-1"]


# -- enforce: selected -------------------------------------------------------------------------

SELECTED = WorkloadPolicy(enforce="selected")
PLAIN = {"app": clusters.APP}


def test_a_raised_quota_wakes_the_pods_that_it_selects_as_far_as_it_goes() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 0}, required=True))
    daemon = clusters.pod("daemon", clusters.REPLICA, owner="DaemonSet", priority=1)
    cluster.see(daemon, clusters.pod("plain", PLAIN, priority=2), *pending(3, 0), clusters.pod("other"))
    raised = edited(cluster, clusters.policy({"host": 3}, required=True))
    assert names(told(cluster, *raised, plugin=SELECTED)) == ["pending-0", "plain", "daemon"]
    cluster.see(clusters.policy({"host": 0}, required=True))
    assert names(told(cluster, *raised)) == ["pending-0", "pending-1"], "by default only those that name it"


@pytest.mark.parametrize("how", ["gone", "invalid", "preferred", "narrowed"])
def test_a_policy_that_limits_a_pod_no_more_wakes_it(how: str) -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 0}, required=True))
    cluster.see(clusters.pod("plain", PLAIN), *pending(0))
    narrowed = clusters.policy({"host": 0}, required=True, selector=model.Selector(labels={"app": "x"}))
    batch: dict[str, tuple[events.AnyEvent, ...]] = {
        "gone": (events.PolicyGone(namespace=clusters.NAMESPACE, name=clusters.POLICY, uid="u"),),
        "invalid": edited(cluster, clusters.policy(errors=("broken",), required=True)),
        "preferred": edited(cluster, clusters.policy({"host": 0})),
        "narrowed": edited(cluster, narrowed),
    }
    # The pod that names the policy is refused still, unless the policy only prefers.
    expected = ["pending-0", "plain"] if how == "preferred" else ["plain"]
    assert names(told(cluster, *batch[how], plugin=SELECTED)) == expected


def test_a_new_policy_wakes_nobody_whom_none_limited_before() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.pod("plain", PLAIN))
    batch = edited(cluster, clusters.policy({"host": 3}, required=True))
    assert told(cluster, *batch, plugin=SELECTED) is None


def test_a_pod_under_several_policies_is_woken_if_each_has_a_place() -> None:
    wide = clusters.policy({"host": 1}, name="wide", required=True, selector=model.Selector())
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 1}, required=True), wide)
    first, second = clusters.pod("first", PLAIN), clusters.pod("second", PLAIN, priority=1)
    cluster.see(first, second, clusters.pod("third", PLAIN), clusters.pod("fourth"))
    cluster.place(first, HOSTS[0])
    room = told(cluster, released(first, HOSTS[0]), plugin=SELECTED)
    assert names(room) == ["second"]
    assert room is not None
    assert set(room.message.split("; ")) == {
        f"workload policy {KEY} has room again (host 0/1)",
        f"workload policy {clusters.NAMESPACE}/wide has room again (host 0/1)",
    }
    cluster.place(first, HOSTS[0])
    cluster.see(clusters.pod("runs", {"x": "y"}, node=HOSTS[1]))
    assert told(cluster, released(first, HOSTS[0]), plugin=SELECTED) is None  # wide holds 1/1 still
