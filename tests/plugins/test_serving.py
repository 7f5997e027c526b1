"""The plugins' views of a cluster in motion."""

from typing import Any

from app.framework import capabilities
from app.plugins.job_affinity import serving
from app.plugins.job_affinity.plugin import JobAffinity
from app.plugins.node_label_priority.plugin import NodeLabelPriority
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.scenarios import clusters, driving

HOSTS = clusters.HOSTS


def answered(cluster: driving.Cluster, plugin: capabilities.Serves, path: str, **parameters: str) -> object:
    endpoint = next(endpoint for endpoint in plugin.endpoints() if endpoint.path == path)
    shape(endpoint.handle(cluster.snapshot, parameters), endpoint.example)
    return endpoint.handle(cluster.snapshot, parameters)


def rendered(answer: capabilities.Listed) -> list[object]:
    """All items of a list in order, as pages put together show them."""
    return [answer.item(key) for key in sorted(answer.keys)]


def lines(
    cluster: driving.Cluster, plugin: capabilities.Serves, path: str, **parameters: str
) -> list[dict[str, Any]]:
    answer = answered(cluster, plugin, path, **parameters)
    assert isinstance(answer, capabilities.Listed)
    return [line for line in rendered(answer) if isinstance(line, dict)]


def one(cluster: driving.Cluster, plugin: capabilities.Serves, path: str, name: str) -> dict[str, Any]:
    answer = answered(cluster, plugin, path, namespace=clusters.NAMESPACE, name=name)
    assert isinstance(answer, dict)
    return answer


def shape(answer: object, example: object) -> None:
    """The example in the documentation has the fields of real answers."""
    match answer, example:
        case capabilities.Listed(), list():
            for item in rendered(answer):
                shape(item, example[0])
        case dict(), dict():
            assert list(answer) == list(example)


def policy_view(cluster: driving.Cluster) -> dict[str, Any]:
    return one(cluster, WorkloadPolicy(), "policies/<namespace>/<name>", clusters.POLICY)


def test_a_policy_shows_what_each_domain_has_and_is_about_to_get() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy(required=True, method="Fill"))
    cluster.see(clusters.node("odd", {clusters.KEY: "cloud"}))
    cluster.see(clusters.pod("runs", clusters.REPLICA, node=HOSTS[0]))
    cluster.see(clusters.pod("astray", clusters.REPLICA, node="odd"))
    promised, waits = (clusters.pod(name, clusters.REPLICA) for name in ("promised", "waits"))
    cluster.see(promised, waits)
    cluster.place(promised, HOSTS[1])
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
    path, name = "policies/<namespace>/<name>/quotas", clusters.POLICY
    assert lines(cluster, WorkloadPolicy(), path, namespace=clusters.NAMESPACE, name=name) == [member, host]
    assert shown["unlisted"] == [{"domain": "cloud", "count": 1}]
    assert (shown["valid"], shown["errors"], shown["waiting"]) == (True, [], 1)
    assert shown["labelSelector"] == {"matchLabels": {"app": clusters.APP}, "matchExpressions": []}
    (line,) = lines(cluster, WorkloadPolicy(), "policies")
    assert (line["desired"], line["count"], line["allocationType"]) == (4, 2, "Required")


def test_counted_pods_that_do_not_name_the_policy_are_shown() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 1}, required=True))
    counted = {"app": clusters.APP}
    cluster.see(
        clusters.pod("names-it", clusters.REPLICA, node=HOSTS[0]),
        clusters.pod("unlabelled", counted, node=HOSTS[1]),
        clusters.pod("overlapping", {**counted, clusters.LABEL: "other"}, node=HOSTS[2]),
        clusters.pod("daemon", clusters.REPLICA, node=HOSTS[3], owner="DaemonSet"),
        # None of these is counted.
        clusters.pod("waits", counted),
        clusters.pod("ends", counted, node=HOSTS[1], terminating=True),
        clusters.pod("elsewhere", counted, node=HOSTS[1], namespace="other"),
        clusters.pod("not-selected", node=HOSTS[1]),
        clusters.node("bare"),
        clusters.pod("in-no-domain", counted, node="bare"),
    )
    placed = clusters.pod("placed", counted)
    cluster.place(placed, HOSTS[0])
    shown = policy_view(cluster)
    assert shown["count"] == 5
    assert shown["notNamingCount"] == 4
    assert [tuple(line.values()) for line in shown["notNaming"]] == [
        ("daemon", HOSTS[3], clusters.POLICY, ["DaemonSet"]),
        ("overlapping", HOSTS[2], "other", ["ReplicaSet"]),
        ("placed", HOSTS[0], None, ["ReplicaSet"]),
        ("unlabelled", HOSTS[1], None, ["ReplicaSet"]),
    ]


def test_of_many_counted_pods_that_do_not_name_the_policy_the_first_are_shown() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"host": 1}, required=True))
    cluster.see(*(clusters.pod(f"p{n:02}", {"app": clusters.APP}, node=HOSTS[0]) for n in range(30)))
    shown = policy_view(cluster)
    assert shown["notNamingCount"] == 30
    assert [line["pod"] for line in shown["notNaming"]] == [f"p{n:02}" for n in range(20)]


def test_an_invalid_policy_is_shown_with_its_errors() -> None:
    cluster = driving.Cluster(
        *clusters.f6(), clusters.policy({"host": -1}, errors=("replicas of host is -1",))
    )
    shown = policy_view(cluster)
    assert (shown["valid"], shown["errors"], shown["warnings"]) == (False, ["replicas of host is -1"], [])


def test_warnings_name_what_cannot_work() -> None:
    cluster = driving.Cluster(*clusters.f6(), clusters.policy({"cloud": 2, "host": 1}))
    cluster.see(*(clusters.pod(f"runs-{n}", clusters.REPLICA, node=HOSTS[n]) for n in range(2)))
    cluster.see(clusters.pod("stray", {**clusters.REPLICA, "app": "other"}))
    assert policy_view(cluster)["warnings"] == [
        "no node has the label workload-test=cloud",
        "host holds 2 pods, 1 are desired: nothing is evicted, the number falls as pods end",
        "1 waiting pods do not match the labelSelector: workload-test/stray",
    ]


def test_groups_show_their_pods_and_nodes() -> None:
    group = {"rl-job-group": "job-alpha"}
    cluster = driving.Cluster(*clusters.f6())
    cluster.see(
        clusters.pod("w1", group, node=HOSTS[0]), clusters.pod("w2", group), clusters.pod("w3", group)
    )
    cluster.see(clusters.pod("w4", group, node=HOSTS[1], phase="Succeeded"))
    cluster.see(clusters.pod("none", {"rl-job-group": ""}))
    cluster.place(clusters.pod("w2", group), HOSTS[0])
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
    cluster = driving.Cluster(
        clusters.node("b", {label: "20"}), clusters.node("a", {label: "high"}), clusters.node("c")
    )
    assert [tuple(line.values()) for line in lines(cluster, NodeLabelPriority(), "nodes")] == [
        ("a", True, "high", 0),
        ("b", True, "20", 20),
        ("c", False, None, 0),
    ]


def test_a_large_group_is_counted_and_not_listed_as_a_whole() -> None:
    group = {"rl-job-group": "job-alpha"}
    cluster = driving.Cluster(*clusters.f6())
    cluster.see(*(clusters.pod(f"w{at:04}", group, node=HOSTS[at % 2]) for at in range(serving.SHOWN + 1)))
    shown = one(cluster, JobAffinity(), "groups/<namespace>/<name>", "job-alpha")
    assert [pod["name"] for pod in shown["pods"]] == [f"w{at:04}" for at in range(serving.SHOWN)]
    assert (shown["size"], shown["placed"]) == (serving.SHOWN + 1, serving.SHOWN + 1)
    assert sum(node["pods"] for node in shown["nodes"]) == serving.SHOWN + 1
