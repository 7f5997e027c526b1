"""Preemptions while the victims of earlier ones are still there: as many pods are evicted as are needed."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, pod_watches, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MANIFESTS = Path(__file__).parents[1] / "manifests"
KINDS = (
    "podgroups.scheduling.x-k8s.io",
    "namespacequotas/elasticquotas.scheduling.x-k8s.io",
    "elasticquotas.scheduling.sigs.k8s.io",
)
"""Custom resource definitions, after the manifest if that is named otherwise."""
PRIORITIES = {"low": 1, "high": 1000, "highest": 5000}
SETTLED = 3.0
"""Seconds in which kube-scheduler tries the pods again that it is going to."""


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    args = json.dumps({"ElasticQuota": {"reclaim": True}})
    for kind in KINDS:
        name = kind.rpartition("/")[2]
        manifest = kind.replace("/", ".").partition(".")[0]
        cluster.kubectl("apply", "-f", MANIFESTS / f"{manifest}.yaml")
        cluster.await_done("wait", "--for=condition=established", f"crd/{name}")
    with installations.Installation(
        cluster, PLUGINS_ENABLED="*,ElasticQuota,Coscheduling", PLUGINS_ARGS=args
    ) as installed:
        for name, value in PRIORITIES.items():
            priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
            cluster.apply({**priority, "metadata": {"name": name}})
        installed.start_scheduler()
        yield installed


def pod(
    namespace: str,
    name: str,
    priority: str,
    *,
    pool: str = "",
    node: str = "",
    labels: api_client.Object | None = None,
) -> api_client.Object:
    """A pod of one core for the nodes of a pool, or one that runs on ``node``."""
    made = workloads.pod(namespace, name, **(labels or {}))
    made["spec"] |= {
        "nodeSelector": {"pool": pool} if pool else {},
        "priorityClassName": priority,
        "containers": workloads.spec("", cpu="1")["containers"],
        "terminationGracePeriodSeconds": 60,
    }
    if node:
        made["spec"]["nodeName"] = node
    return made


class Scene:
    """Full nodes of one pool, in a namespace of the same name."""

    def __init__(self, cluster: clusters.Cluster, name: str, *, nodes: int, cores: int = 1) -> None:
        assert cluster.kubelet is not None
        self.cluster, self.name, self.kubelet = cluster, name, cluster.kubelet
        self.nodes = [f"{name}-{number}" for number in range(nodes)]
        cluster.add_namespace(name)
        capacity = {"cpu": str(cores), "memory": "8Gi", "pods": "10"}
        cluster.add_nodes(*self.nodes, labels={"pool": name}, capacity=capacity)
        self.fill("low", "low")

    def fill(self, name: str, priority: str, namespace: str = "") -> None:
        """One pod for each node, which does not end when it is deleted."""
        namespace = namespace or self.name
        for number, node in enumerate(self.nodes):
            path = f"/api/v1/namespaces/{namespace}/pods"
            self.cluster.api().create(path, pod(namespace, f"{name}-{number}", priority, node=node))
        polling.eventually(
            lambda: len(workloads.running(self.cluster, namespace)) >= len(self.nodes), "they run"
        )
        for number in range(len(self.nodes)):
            self.kubelet.ignore(namespace, f"{name}-{number}")

    def arrive(self, topolog: installations.Installation, *pods: api_client.Object) -> None:
        """Create the pods, for which the nodes are available once all of them are recorded."""
        self.cluster.kubectl("cordon", *self.nodes)
        self.cluster.apply(*pods)
        for made in pods:
            path = f"/apis/v1/pods/{made['metadata']['namespace']}/{made['metadata']['name']}"
            polling.eventually(functools.partial(topolog.find, path), f"{path} is recorded")
        self.cluster.kubectl("uncordon", *self.nodes)

    def terminating(self, namespace: str = "") -> set[str]:
        pods = self.cluster.pods(namespace or self.name)
        return {workloads.name(each) for each in pods if each["metadata"].get("deletionTimestamp")}

    def evicts(self, number: int, namespace: str = "") -> set[str]:
        """Wait until as many pods terminate, and check that no more do."""
        polling.eventually(
            lambda: len(self.terminating(namespace)) >= number,
            f"{number} are evicted",
            seen=lambda: self.terminating(namespace),
        )
        polling.throughout(
            lambda: len(self.terminating(namespace)) == number, "no further eviction", during=SETTLED
        )
        return self.terminating(namespace)

    def ends(self, name: str, namespace: str = "") -> None:
        """The pod is gone at last."""
        namespace = namespace or self.name
        self.kubelet.attend(namespace, name)
        polling.eventually(lambda: name not in self.terminating(namespace), f"{name} is gone")

    def runs(self, *names: str, namespace: str = "") -> None:
        def running() -> set[str]:
            return {workloads.name(each) for each in workloads.running(self.cluster, namespace or self.name)}

        polling.eventually(lambda: set(names) <= running(), f"{names} run", within=30, seen=running)


@pytest.mark.scenario("PR-48")
def test_a_burst_of_preemptors_evicts_for_those_that_fit(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    scene = Scene(cluster, "burst", nodes=6)
    cluster.apply(workloads.policy("burst", "p", "pool", "app", burst=1))
    labels = {"app": "app", workloads.POLICY_LABEL: "p"}
    burst = [pod("burst", f"vip-{number}", "high", pool="burst", labels=labels) for number in range(5)]
    scene.arrive(topolog, *burst)
    (victim,) = scene.evicts(1)
    scene.ends(victim)
    # A placement counts before its Binding.
    polling.eventually(
        lambda: len(workloads.pending(cluster, "burst")) == 4,
        "one has a node",
        seen=lambda: workloads.pending(cluster, "burst"),
    )
    assert topolog.quotas("burst", "p") == {"burst": 1}
    assert not scene.terminating()


@pytest.mark.scenario("PR-49")
def test_a_gang_evicts_no_more_pods_than_it_has_members(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    scene = Scene(cluster, "gang", nodes=5)
    cluster.apply(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"namespace": "gang", "name": "train"},
            "spec": {"minMember": 2},
        }
    )
    labels = {"scheduling.x-k8s.io/pod-group": "train"}
    members = [pod("gang", f"member-{number}", "high", pool="gang", labels=labels) for number in range(2)]
    scene.arrive(topolog, *members)
    for victim in sorted(scene.evicts(2)):
        scene.ends(victim)
        polling.throughout(lambda: len(scene.terminating()) <= 1, "no further eviction", during=SETTLED)
    scene.runs("member-0", "member-1")
    assert len(workloads.running(cluster, "gang")) == 5


class Evictions(pod_watches.PodWatch):
    """Which pods of a Deployment were ever deleted."""

    def __init__(self, cluster: clusters.Cluster, namespace: str) -> None:
        super().__init__(cluster.api(), namespace)
        self.uids: set[str] = set()

    def see(self, pod: api_client.Object, node: str) -> None:
        if "ownerReferences" in pod["metadata"] and "deletionTimestamp" in pod["metadata"]:
            self.uids.add(pod["metadata"]["uid"])


@pytest.mark.scenario("PR-49")
@pytest.mark.parametrize(("nodes", "used", "evicted"), [(3, 3, 3), (3, 2, 2), (5, 4, 2)])
def test_a_gang_starts_where_the_pods_that_it_evicts_are_created_again(
    cluster: clusters.Cluster, topolog: installations.Installation, nodes: int, used: int, evicted: int
) -> None:
    """They would take its nodes while the last of them terminate, and be evicted without end."""
    assert cluster.kubelet is not None
    name = f"again{nodes}{used}"
    cluster.add_namespace(name)
    capacity = {"cpu": "1", "memory": "8Gi", "pods": "10"}
    cluster.add_nodes(*[f"{name}-{at}" for at in range(nodes)], labels={"pool": name}, capacity=capacity)
    made = workloads.deployment(name, "low", used)
    made["spec"]["template"]["spec"] = pod(name, "", "low", pool=name)["spec"]
    cluster.apply(made)
    polling.eventually(lambda: len(workloads.running(cluster, name)) == used, "they run", within=60)
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 3}}
    cluster.apply({**group, "metadata": {"namespace": name, "name": "train"}})
    cluster.kubelet.grace = 2.0
    try:
        with Evictions(cluster, name) as evictions:
            labels = {"scheduling.x-k8s.io/pod-group": "train"}
            members = [pod(name, f"member-{at}", "high", pool=name, labels=labels) for at in range(3)]
            cluster.apply(*members)
            polling.eventually(
                lambda: len(workloads.running(cluster, name, "scheduling.x-k8s.io/pod-group=train")) == 3,
                "the gang runs",
                within=90,
                seen=lambda: (evictions.uids, workloads.pending(cluster, name)),
            )
    finally:
        cluster.kubelet.grace = 0.0
    # kube-scheduler may use one grant for another node than the plan has.
    assert evicted <= len(evictions.uids) <= evicted + 1


@pytest.mark.scenario("PR-49", "EQ-25")
def test_no_more_is_reclaimed_than_is_lent(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """Two namespaces are guaranteed a core each, and one of them uses both."""
    scene = Scene(cluster, "free", nodes=2, cores=2)
    for namespace in ("owner", "borrower"):
        cluster.add_namespace(namespace)
        cluster.apply(
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "ElasticQuota",
                "metadata": {"name": "quota", "namespace": namespace},
                "spec": {"min": {"cpu": "1"}, "max": {"cpu": "2"}},
            }
        )
    scene.fill("lent", "highest", namespace="borrower")
    scene.arrive(topolog, pod("owner", "asking", "high", pool="free"))
    (low,) = scene.evicts(1)
    (lent,) = scene.evicts(1, "borrower")
    # The node has capacity first, and the quota has not.
    scene.ends(low)
    polling.throughout(
        lambda: (scene.terminating(), scene.terminating("borrower")) == (set(), {lent}),
        "no further eviction",
        during=SETTLED,
    )
    scene.ends(lent, "borrower")
    scene.runs("asking", namespace="owner")
    assert len(workloads.running(cluster, "borrower")) == 1
