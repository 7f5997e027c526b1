"""Workloads for the tests, as people write them, and how they are looked at."""

from tests.e2e import clients, clusters

POLICY_LABEL = "workload-policy/kosmos.io"


def policy(
    namespace: str, name: str, key: str, app: str, kind: str = "Required", **replicas: int
) -> clients.Object:
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
) -> clients.Object:
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


def pod(namespace: str, name: str, *, scheduler: str = "topolog-scheduler", **labels: str) -> clients.Object:
    """A pod of its own."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec(scheduler),
    }


def spec(scheduler: str, cpu: str = "10m") -> clients.Object:
    """What a pod runs."""
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }


def running(cluster: clusters.Cluster, namespace: str, labels: str = "") -> list[clients.Object]:
    """The pods that run and are not about to end."""
    return [
        each
        for each in cluster.pods(namespace, labels=labels)
        if each["status"]["phase"] == "Running" and not each["metadata"].get("deletionTimestamp")
    ]


def pending(cluster: clusters.Cluster, namespace: str, labels: str = "") -> list[clients.Object]:
    """The pods that have no node."""
    return [each for each in cluster.pods(namespace, labels=labels) if not each["spec"].get("nodeName")]


def name(pod: clients.Object) -> str:
    """Its name."""
    found: str = pod["metadata"]["name"]
    return found


def scheduled(pod: clients.Object) -> clients.Object:
    """Its condition PodScheduled, empty if there is none yet."""
    conditions = pod["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})
