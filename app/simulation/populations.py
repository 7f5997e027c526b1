"""Nodes and pods as JSON, for the demo and for tests."""

from typing import Any

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


def node(name: str, labels: dict[str, str] | None = None, *, cpu: str = "64") -> Json:
    """A ready node."""
    capacity = {"cpu": cpu, "memory": "256Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(
    namespace: str, name: str, labels: dict[str, str] | None = None, *, node: str = "", cpu: str = "100m"
) -> Json:
    """A pending pod, or a pod that runs on ``node``."""
    spec: Json = {
        "containers": [
            {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
        ]
    }
    status: Json = {"phase": "Pending"}
    if node:
        spec["nodeName"] = node
        status = {"phase": "Running"}
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels or {}},
        "spec": spec,
        "status": status,
    }
