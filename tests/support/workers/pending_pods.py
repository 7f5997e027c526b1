"""Pods of a policy that wait for a node, and what the API server has of their wake-ups and Events."""

import json

from app.domain import model
from app.kube.writes import pod_conditions
from tests.support.workers import clusters

LABEL = "workload-policy/kosmos.io"


def pending(cluster: clusters.Cluster, name: str, policy: str = "p", *, refused: bool = True) -> model.Pod:
    """A pod of the policy that was refused on all nodes at its first attempt."""
    pod = cluster.pod(name, **{"app": "x", LABEL: policy})
    if refused:
        cluster.refuse(name)
    return pod


def wakeup(cluster: clusters.Cluster, name: str) -> str:
    """The message of the pod's wake-up; empty if it was not woken."""
    pod = json.loads(cluster.client.get(f"/api/v1/namespaces/ns/pods/{name}"))
    messages = {one["type"]: one.get("message", "") for one in pod["status"].get("conditions", [])}
    message: str = messages.get(pod_conditions.CAPACITY_AVAILABLE, "")
    return message


def woken(cluster: clusters.Cluster) -> list[str]:
    found = json.loads(cluster.client.get("/api/v1/namespaces/ns/pods"))["items"]
    return sorted(name for name in (one["metadata"]["name"] for one in found) if wakeup(cluster, name))


def events_of(cluster: clusters.Cluster) -> list[tuple[str, str, str, int]]:
    """(pod, reason, message, count) of every Kubernetes Event."""
    found = json.loads(cluster.client.get("/api/v1/namespaces/ns/events"))["items"]
    return [(one["involvedObject"]["name"], one["reason"], one["message"], one["count"]) for one in found]
