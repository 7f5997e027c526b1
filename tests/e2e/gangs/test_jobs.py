"""The pods of a job are placed together; pods without a job label are left to the scheduler alone."""

import pathlib

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MANIFESTS = pathlib.Path(__file__).parents[1] / "manifests"
NODES = tuple(f"worker-{number}" for number in range(6))


@pytest.fixture(scope="module", autouse=True)
def furnished(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    """Nodes that are all alike."""
    cluster.add_nodes(*NODES)
    cluster.add_namespace("training")
    topolog.start_scheduler()


@pytest.mark.scenario("RL-1", "RL-6")
def test_a_job_of_eight_lands_together(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.kubectl("apply", "-f", MANIFESTS / "rl-job.yaml")
    pods = polling.eventually(
        lambda: found if len(found := workloads.running(cluster, "training")) == 8 else [], "eight run"
    )
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 1

    def recorded() -> api_client.Object:
        found = topolog.find("/apis/v1/plugins/JobAffinity/groups/training/job-alpha") or {}
        return found if found.get("placed") == 8 else {}

    # The record follows the cluster by some milliseconds.
    group = polling.eventually(recorded, "eight are recorded")
    assert (group["size"], len(group["nodes"])) == (8, 1)
    cluster.await_done("-n", "training", "delete", "job/rl-worker")
    polling.eventually(lambda: not cluster.pods("training"), "its pods are gone", within=60)


@pytest.mark.scenario("RL-3")
def test_unlabelled_pods_are_untouched(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.apply(workloads.deployment("training", "web", 12))
    cluster.await_done("-n", "training", "rollout", "status", "deployment/web")
    # The scheduler's own preferences spread them, as without an extender.
    nodes = [pod["spec"]["nodeName"] for pod in workloads.running(cluster, "training")]
    assert {nodes.count(node) for node in NODES} == {2}
    for pod in workloads.running(cluster, "training"):
        calls = [line for line in topolog.extenders[0].calls() if line["pod"].endswith(workloads.name(pod))]
        assert {line["outcome"] for line in calls} <= {"kept", "scored", "bound"}
        assert {line["kept"] for line in calls if line["verb"] == "filter"} == {len(NODES)}
