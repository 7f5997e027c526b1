"""Pods with which a quota exceeds its runtime are evicted, so that the pods of another quota run."""

import json
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, elastic_quotas, installations, pod_watches, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

NAMESPACE = "overusing"
VIEW = "/apis/v1/plugins/ElasticQuota/quotas"
BUDGET = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/train"


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """Two quotas that share a node of 16 cores: 4 of research, 12 of products."""
    with elastic_quotas.evicting(cluster, NAMESPACE, overuse="evict") as installed:
        cluster.apply(
            elastic_quotas.quota(NAMESPACE, "research", least=4, most=16),
            elastic_quotas.quota(NAMESPACE, "products", least=12, most=16),
        )
        installed.start_scheduler()
        yield installed


def team(name: str, quota: str, replicas: int) -> api_client.Object:
    """A Deployment of pods of 4 cores."""
    made = workloads.deployment(NAMESPACE, name, replicas)
    template = made["spec"]["template"]
    template["metadata"]["labels"][elastic_quotas.LABEL] = quota
    template["spec"] = workloads.spec("topolog-scheduler", cpu="4")
    return made


def budget(least: int) -> api_client.Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "train", "namespace": NAMESPACE},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "train"}}},
    }


class Trainers(pod_watches.PodWatch):
    """How many pods of train have run at least, and the reasons for which they ended."""

    def __init__(self, cluster: clusters.Cluster, expected: int) -> None:
        super().__init__(cluster.api(), NAMESPACE)
        self._running: set[str] = set()
        self._all = False
        self._expected = expected
        self.least = expected
        self.reasons: dict[str, str] = {}

    def see(self, pod: api_client.Object, node: str) -> None:
        meta = pod["metadata"]
        if meta["labels"]["app"] != "train":
            return
        if node:
            self._running.add(meta["uid"])
        else:
            self._running.discard(meta["uid"])
        self._all |= len(self._running) == self._expected
        if self._all:
            self.least = min(self.least, len(self._running))
        if meta.get("deletionTimestamp"):
            found = (one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget")
            self.reasons[meta["name"]] = next((one["reason"] for one in found), "")


def running(cluster: clusters.Cluster, app: str) -> int:
    return len(workloads.running(cluster, NAMESPACE, f"app={app}"))


def attempts(topolog: installations.Installation) -> int:
    """Evictions that a budget refused. Equal Events are posted once in a while."""
    log = topolog.controller.process.log.read_text(errors="replace")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return sum(one["event"] == "not evicted" and "disruption budget" in one["reason"] for one in lines)


@pytest.mark.scenario("TR-17")
def test_pods_above_a_runtime_are_evicted_as_fast_as_their_budget_allows(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.apply(team("train", "research", 4), budget(3))
    polling.eventually(lambda: running(cluster, "train") == 4, "research borrows", within=60)

    def allowed() -> int:
        found = cluster.api().get(BUDGET).get("status", {})
        return int(found.get("disruptionsAllowed", 0))

    polling.eventually(lambda: allowed() == 1, "the budget counts the pods", within=60, seen=allowed)
    with Trainers(cluster, 4) as trainers:
        cluster.apply(team("web", "products", 3))

        def over() -> api_client.Object:
            found: api_client.Object = topolog.ask(f"{VIEW}/research")["overuse"]
            return found

        polling.eventually(lambda: bool(over()), "research uses more than its runtime", within=60, seen=over)
        # The first eviction after two minutes of overuse; the budget allows no second one.
        polling.eventually(lambda: running(cluster, "web") == 1, "one pod is evicted", within=240)

        def refused() -> int:
            return attempts(topolog)

        polling.eventually(lambda: refused() >= 2, "it is tried again", within=90, seen=refused)
        path = f"/api/v1/namespaces/{NAMESPACE}/events"
        assert cluster.api().list(path, fields="reason=TopologEvictionRefused")
        assert (running(cluster, "train"), running(cluster, "web")) == (3, 1)
        trainers.catch_up()
        assert trainers.least == 3
        assert set(trainers.reasons.values()) == {"EvictionByEvictionAPI"}

        cluster.apply(budget(1))
        polling.eventually(lambda: running(cluster, "web") == 3, "products has its share", within=120)
        polling.eventually(lambda: not over(), "research is within its runtime", within=30, seen=over)
    # No more than that, no other way, and what replaces the evicted pods does not take their place.
    assert trainers.least == running(cluster, "train") == 1
    assert list(trainers.reasons.values()) == ["EvictionByEvictionAPI"] * 3
    assert len(workloads.pending(cluster, NAMESPACE, "app=train")) == 3
    message = "evicted: elastic quota research uses more than its runtime in cpu"

    def posted() -> list[list[str]]:
        return [cluster.events(NAMESPACE, name, reason="TopologEvicted") for name in trainers.reasons]

    polling.eventually(lambda: posted() == [[message]] * 3, "each has its Event", within=30, seen=posted)
