"""The plugins' views of a cluster in motion."""

from typing import Any

from app.framework import capabilities, views
from app.plugins.job_affinity import endpoints
from app.plugins.job_affinity.plugin import JobAffinity
from app.plugins.node_label_priority.plugin import NodeLabelPriority
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support.decisions import scheduling_driver, small_clusters

HOSTS = small_clusters.HOSTS


def answered(
    cluster: scheduling_driver.Cluster, plugin: capabilities.Shows, path: str, **parameters: str
) -> object:
    endpoint = next(endpoint for endpoint in plugin.shown().endpoints if endpoint.path == path)
    shape(endpoint.handle(cluster.snapshot, parameters), endpoint.example)
    return endpoint.handle(cluster.snapshot, parameters)


def rendered(answer: views.Listed) -> list[object]:
    """All items of a list in order, as its pages show them."""
    return [answer.item(key) for key in sorted(answer.keys)]


def lines(
    cluster: scheduling_driver.Cluster, plugin: capabilities.Shows, path: str, **parameters: str
) -> list[dict[str, Any]]:
    answer = answered(cluster, plugin, path, **parameters)
    assert isinstance(answer, views.Listed)
    return [line for line in rendered(answer) if isinstance(line, dict)]


def one(
    cluster: scheduling_driver.Cluster, plugin: capabilities.Shows, path: str, name: str
) -> dict[str, Any]:
    answer = answered(cluster, plugin, path, namespace=small_clusters.NAMESPACE, name=name)
    assert isinstance(answer, dict)
    return answer


def shape(answer: object, example: object) -> None:
    """Assert that the documented example has the fields of real answers."""
    match answer, example:
        case views.Listed(), list():
            for item in rendered(answer):
                shape(item, example[0])
        case dict(), dict():
            assert list(answer) == list(example)


def policy_view(cluster: scheduling_driver.Cluster) -> dict[str, Any]:
    return one(cluster, WorkloadPolicy(), "policies/<namespace>/<name>", small_clusters.POLICY)


def test_a_policy_shows_placed_and_in_flight_pods_per_domain() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy(required=True, method="Fill")
    )
    cluster.see(small_clusters.node("odd", {small_clusters.KEY: "cloud"}))
    cluster.see(small_clusters.pod("runs", small_clusters.REPLICA, node=HOSTS[0]))
    cluster.see(small_clusters.pod("astray", small_clusters.REPLICA, node="odd"))
    placed, waits = (small_clusters.pod(name, small_clusters.REPLICA) for name in ("placed", "waits"))
    cluster.see(placed, waits)
    cluster.place(placed, HOSTS[1])
    shown = policy_view(cluster)
    host = {"domain": "host", "desired": 3, "placed": 1, "inFlight": 1, "free": 1, "percent": 66, "nodes": 4}
    member = {
        "domain": "member",
        "desired": 1,
        "placed": 0,
        "inFlight": 0,
        "free": 1,
        "percent": 0,
        "nodes": 2,
    }
    assert shown["domains"] == [member, host]
    path, name = "policies/<namespace>/<name>/quotas", small_clusters.POLICY
    assert lines(cluster, WorkloadPolicy(), path, namespace=small_clusters.NAMESPACE, name=name) == [
        member,
        host,
    ]
    assert shown["unlisted"] == [{"domain": "cloud", "count": 1}]
    assert (shown["valid"], shown["errors"], shown["waiting"]) == (True, [], 1)
    assert shown["labelSelector"] == {"matchLabels": {"app": small_clusters.APP}, "matchExpressions": []}
    (line,) = lines(cluster, WorkloadPolicy(), "policies")
    assert (line["desired"], line["count"], line["allocationType"]) == (4, 2, "Required")


def test_counted_pods_that_do_not_name_the_policy_are_shown() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 1}, required=True)
    )
    counted = {"app": small_clusters.APP}
    cluster.see(
        small_clusters.pod("names-it", small_clusters.REPLICA, node=HOSTS[0]),
        small_clusters.pod("unlabelled", counted, node=HOSTS[1]),
        small_clusters.pod("overlapping", {**counted, small_clusters.LABEL: "other"}, node=HOSTS[2]),
        small_clusters.pod("daemon", small_clusters.REPLICA, node=HOSTS[3], owner="DaemonSet"),
        # These pods are not counted.
        small_clusters.pod("waits", counted),
        small_clusters.pod("ends", counted, node=HOSTS[1], terminating=True),
        small_clusters.pod("elsewhere", counted, node=HOSTS[1], namespace="other"),
        small_clusters.pod("not-selected", node=HOSTS[1]),
        small_clusters.node("bare"),
        small_clusters.pod("in-no-domain", counted, node="bare"),
    )
    placed = small_clusters.pod("placed", counted)
    cluster.place(placed, HOSTS[0])
    shown = policy_view(cluster)
    assert shown["count"] == 5
    assert shown["notNamingCount"] == 4
    assert [tuple(line.values()) for line in shown["notNaming"]] == [
        ("daemon", HOSTS[3], small_clusters.POLICY, ["DaemonSet"]),
        ("overlapping", HOSTS[2], "other", ["ReplicaSet"]),
        ("placed", HOSTS[0], None, ["ReplicaSet"]),
        ("unlabelled", HOSTS[1], None, ["ReplicaSet"]),
    ]


def test_only_the_first_counted_pods_that_do_not_name_the_policy_are_shown() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 1}, required=True)
    )
    cluster.see(
        *(small_clusters.pod(f"p{n:02}", {"app": small_clusters.APP}, node=HOSTS[0]) for n in range(30))
    )
    shown = policy_view(cluster)
    assert shown["notNamingCount"] == 30
    assert [line["pod"] for line in shown["notNaming"]] == [f"p{n:02}" for n in range(20)]


def test_an_invalid_policy_is_shown_with_its_errors() -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": -1}, errors=("replicas of host is -1",))
    )
    shown = policy_view(cluster)
    assert (shown["valid"], shown["errors"], shown["warnings"]) == (False, ["replicas of host is -1"], [])


def test_warnings_name_policies_that_cannot_work() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy({"cloud": 2, "host": 1}))
    cluster.see(*(small_clusters.pod(f"runs-{n}", small_clusters.REPLICA, node=HOSTS[n]) for n in range(2)))
    cluster.see(small_clusters.pod("stray", {**small_clusters.REPLICA, "app": "other"}))
    assert policy_view(cluster)["warnings"] == [
        "no node has the label workload-test=cloud",
        "host holds 2 pods, 1 are desired: no pod is evicted, the number falls as pods end",
        "1 pending pods do not match the labelSelector: workload-test/stray",
    ]


def test_groups_show_their_pods_and_nodes() -> None:
    group = {"rl-job-group": "job-alpha"}
    cluster = scheduling_driver.Cluster(*small_clusters.f6())
    cluster.see(
        small_clusters.pod("w1", group, node=HOSTS[0]),
        small_clusters.pod("w2", group),
        small_clusters.pod("w3", group),
    )
    cluster.see(small_clusters.pod("w4", group, node=HOSTS[1], phase="Succeeded"))
    cluster.see(small_clusters.pod("none", {"rl-job-group": ""}))
    cluster.place(small_clusters.pod("w2", group), HOSTS[0])
    (line,) = lines(cluster, JobAffinity(), "groups")
    assert line["nodes"] == [{"name": HOSTS[0], "pods": 2}]
    assert (line["size"], line["placed"], line["inFlight"], line["waiting"]) == (4, 1, 1, 1)
    shown = one(cluster, JobAffinity(), "groups/<namespace>/<name>", "job-alpha")
    states = {pod["name"]: (pod["node"], pod["state"]) for pod in shown["pods"]}
    assert states == {
        "w1": (HOSTS[0], "placed"),
        "w2": (HOSTS[0], "inFlight"),
        "w3": (None, "waiting"),
        "w4": (HOSTS[1], "ending"),
    }


def test_nodes_show_their_label_and_score() -> None:
    label = "priority.lixueduan.com"
    cluster = scheduling_driver.Cluster(
        small_clusters.node("b", {label: "20"}),
        small_clusters.node("a", {label: "high"}),
        small_clusters.node("c"),
    )
    assert [tuple(line.values()) for line in lines(cluster, NodeLabelPriority(), "nodes")] == [
        ("a", True, "high", 0),
        ("b", True, "20", 20),
        ("c", False, None, 0),
    ]


def test_a_large_group_is_counted_and_not_listed_as_a_whole() -> None:
    group = {"rl-job-group": "job-alpha"}
    cluster = scheduling_driver.Cluster(*small_clusters.f6())
    cluster.see(
        *(small_clusters.pod(f"w{at:04}", group, node=HOSTS[at % 2]) for at in range(endpoints.SHOWN + 1))
    )
    shown = one(cluster, JobAffinity(), "groups/<namespace>/<name>", "job-alpha")
    assert [pod["name"] for pod in shown["pods"]] == [f"w{at:04}" for at in range(endpoints.SHOWN)]
    assert (shown["size"], shown["placed"]) == (endpoints.SHOWN + 1, endpoints.SHOWN + 1)
    assert sum(node["pods"] for node in shown["nodes"]) == endpoints.SHOWN + 1
