"""Generates nodes, workloads and pods for clusters of any size, quickly."""

from collections.abc import Iterator
from typing import Any

import msgspec

from app.simulation.apiserver import objects

Json = dict[str, Any]
Canned = tuple[objects.Key, bytes]
"""Key and body; ``Objects.load`` fills in ``"resourceVersion":"@"``."""

ZONE = "topology.kubernetes.io/zone"
PODS_PER_WORKLOAD = 50

_UID = "%08x-0000-4000-8000-%012x"


def node(name: str, labels: dict[str, str] | None = None, *, cpu: str = "64", memory: str = "256Gi") -> Json:
    """A ready node."""
    capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
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


def nodes(count: int, *, zones: int = 3) -> Iterator[Canned]:
    """Many nodes, distributed evenly over the zones."""
    for number in range(count):
        name = f"node-{number:05}"
        made = node(
            name, {ZONE: f"zone-{number % zones}", "topology.example.com/rack": f"rack-{number // 20:04}"}
        )
        yield ("", name), _canned(made, objects.Resource("nodes", "Node"), _UID % (1, number))


def pods(count: int, *, on: int, namespaces: int = 50) -> Iterator[Canned]:
    """Many running pods of Deployments, spread over the first ``on`` nodes."""
    template = _canned(_running(), objects.Resource("pods", "Pod"), "@uid")
    for number in range(count):
        workload = number // PODS_PER_WORKLOAD
        namespace, name = f"team-{workload % namespaces:03}", f"app-{workload}-7d4b9c6f5-{number:06x}"
        body = template
        for mark, value in (
            (b"@namespace", namespace),
            (b"@name", name),
            (b"@uid", _UID % (2, number)),
            (b"@app", f"app-{workload}"),
            (b"@node", f"node-{number % on:05}"),
            (b"@owner", _UID % (3, workload)),
        ):
            body = body.replace(mark, value.encode())
        yield (namespace, name), body


def _running() -> Json:
    made = pod("@namespace", "@name", {"app": "@app", "pod-template-hash": "7d4b9c6f5"}, node="@node")
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "@app-7d4b9c6f5",
        "uid": "@owner",
        "controller": True,
    }
    made["metadata"] |= {"ownerReferences": [owner], "generateName": "@app-7d4b9c6f5-"}
    made["spec"] |= {"schedulerName": "default-scheduler", "priority": 0, "restartPolicy": "Always"}
    made["spec"]["tolerations"] = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for key in ("not-ready", "unreachable")
    ]
    made["status"] |= {
        "startTime": "2026-01-01T00:00:01Z",
        "qosClass": "Burstable",
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-01-01T00:00:01Z",
            }
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
    }
    return made


def _canned(made: Json, resource: objects.Resource, uid: str) -> bytes:
    metadata = {
        **made["metadata"],
        "uid": uid,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "resourceVersion": "@",
    }
    return msgspec.json.encode({"kind": resource.kind, "apiVersion": "v1", **made, "metadata": metadata})
