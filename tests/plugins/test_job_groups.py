"""JobAffinity's groups over time and on the map of the cluster."""

from app.framework import views
from app.plugins.job_affinity.plugin import JobAffinity
from tests.support.decisions import scheduling_driver, small_clusters

SHOWN = JobAffinity().shown()
PODS = (
    small_clusters.pod("a-0", {"rl-job-group": "a"}, node="n1"),
    small_clusters.pod("a-1", {"rl-job-group": "a"}, node="n1"),
    small_clusters.pod("a-2", {"rl-job-group": "a"}, node="n2"),
    small_clusters.pod("a-3", {"rl-job-group": "a"}),
    small_clusters.pod("a-4", {"rl-job-group": "a"}, node="n3", phase="Succeeded"),
    small_clusters.pod("a-0", {"rl-job-group": "a"}, namespace="other", node="n3"),
    small_clusters.pod("b-0", {"rl-job-group": "b"}),
    small_clusters.pod("c-0", {"rl-job-group": ""}, node="n3"),
)
SPACE = small_clusters.NAMESPACE


def small() -> scheduling_driver.Cluster:
    nodes = (small_clusters.node(name) for name in ("n1", "n2", "n3"))
    return scheduling_driver.Cluster(*nodes, *PODS, configured=[JobAffinity()])


def test_a_group_is_followed_by_its_pods() -> None:
    (followed,), snapshot = SHOWN.followed, small().snapshot
    view = {one.path: one for one in SHOWN.endpoints}[followed.table.path]
    listed = view.handle(snapshot, {})
    assert isinstance(listed, views.Listed)
    items = [listed.item(key) for key in listed.keys]
    assert followed.named_by == "namespace+name"
    names = {"{namespace}/{name}".format(**item) for item in items if isinstance(item, dict)}
    assert {name: followed.numbers(snapshot, name) for name in names} == {
        f"{SPACE}/a": {"pods": 5, "with a node": 3, "waiting": 1},
        f"{SPACE}/b": {"pods": 1, "with a node": 0, "waiting": 1},
        "other/a": {"pods": 1, "with a node": 1, "waiting": 0},
    }
    assert followed.numbers(snapshot, f"{SPACE}/none") == followed.numbers(snapshot, "a") == {}


def test_the_nodes_of_a_group_are_a_colour_of_the_map() -> None:
    (painted,), snapshot = SHOWN.painted, small().snapshot
    assert list(painted.names(snapshot)) == sorted([f"{SPACE}/a", "other/a"])
    labels = [label for label, _ in painted.classes]
    found = {node: labels[at] for node, at in painted.nodes(snapshot, f"{SPACE}/a").items()}
    assert found == {"n1": "several pods of the group", "n2": "a pod of the group"}
    assert painted.nodes(snapshot, f"{SPACE}/b") == painted.nodes(snapshot, f"{SPACE}/none") == {}
