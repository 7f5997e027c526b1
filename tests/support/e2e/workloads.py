"""Builds workloads for the tests and reads their status."""

from tests.support import polling
from tests.support.e2e import api_client, clusters

POLICY_LABEL = "workload-policy/kosmos.io"


def policy(
    namespace: str, name: str, key: str, app: str, kind: str = "Required", **replicas: int
) -> api_client.Object:
    """A WorkloadPolicy for the pods with this label `app`."""
    return {
        "apiVersion": "kosmos.io/v1alpha1",
        "kind": "WorkloadPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "topologyKey": key,
            "labelSelector": {"matchLabels": {"app": app}},
            "allocationPolicy": [{"name": each, "replicas": count} for each, count in replicas.items()],
            "allocationType": kind,
        },
    }


def deployment(
    namespace: str,
    name: str,
    replicas: int,
    *,
    policy: str = "",
    app: str = "",
    scheduler: str = "topolog-scheduler",
) -> api_client.Object:
    """A Deployment; its pods carry the label `app` and, if given, that of a policy."""
    labels = {"app": app or name, "of": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels | ({POLICY_LABEL: policy} if policy else {})},
                "spec": spec(scheduler),
            },
        },
    }


def pod(
    namespace: str, name: str, *, scheduler: str = "topolog-scheduler", **labels: str
) -> api_client.Object:
    """A pod without an owner."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec(scheduler),
    }


def spec(scheduler: str, cpu: str = "10m") -> api_client.Object:
    """The specification of a pod."""
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }


def running(cluster: clusters.Cluster, namespace: str, labels: str = "") -> list[api_client.Object]:
    """The running pods that are not terminating."""
    return [
        each
        for each in cluster.pods(namespace, labels=labels)
        if each["status"]["phase"] == "Running" and not each["metadata"].get("deletionTimestamp")
    ]


def pending(cluster: clusters.Cluster, namespace: str, labels: str = "") -> list[api_client.Object]:
    """The pods that have no node."""
    return [each for each in cluster.pods(namespace, labels=labels) if not each["spec"].get("nodeName")]


def refused(cluster: clusters.Cluster, namespace: str, labels: str = "") -> list[api_client.Object]:
    """The pending pods that the scheduler has tried without success."""
    waiting = pending(cluster, namespace, labels)
    return [pod for pod in waiting if scheduled(pod).get("reason") == "Unschedulable"]


def await_placed(
    cluster: clusters.Cluster, namespace: str, labels: str, *, placed: int, waiting: int, within: float
) -> list[api_client.Object]:
    """Wait for so many running pods and so many without a node; return those that run."""

    def numbers() -> tuple[int, int]:
        return len(running(cluster, namespace, labels)), len(pending(cluster, namespace, labels))

    what = f"{placed} pods run and {waiting} wait"
    polling.eventually(lambda: numbers() == (placed, waiting), what, within=within, every=0.5, seen=numbers)
    return running(cluster, namespace, labels)


def name(pod: api_client.Object) -> str:
    """The name of the pod."""
    found: str = pod["metadata"]["name"]
    return found


def scheduled(pod: api_client.Object) -> api_client.Object:
    """The condition PodScheduled of the pod; empty if it has none."""
    conditions = pod["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})
