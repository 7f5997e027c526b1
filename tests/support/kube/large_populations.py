"""Generates nodes, workloads and pods for clusters of any size, quickly."""

from collections.abc import Iterator

import msgspec

from app.simulation import populations
from app.simulation.apiserver import objects
from app.simulation.populations import Json

Canned = tuple[objects.Key, bytes]
"""Key and body; ``Objects.load`` fills in ``"resourceVersion":"@"``."""

PODS_PER_WORKLOAD = 50
_UID = "%08x-0000-4000-8000-%012x"


def nodes(count: int) -> Iterator[Canned]:
    """Many nodes, distributed evenly over three zones."""
    for number in range(count):
        name = f"node-{number:05}"
        zone, rack = f"zone-{number % 3}", f"rack-{number // 20:04}"
        made = populations.node(name, {populations.ZONE: zone, "topology.example.com/rack": rack})
        yield ("", name), _canned(made, objects.Resource("nodes", "Node"), _UID % (1, number))


def pods(count: int, *, on: int) -> Iterator[Canned]:
    """Many running pods of Deployments, spread over the first ``on`` nodes."""
    template = _canned(_running(), objects.Resource("pods", "Pod"), "@uid")
    for number in range(count):
        workload = number // PODS_PER_WORKLOAD
        namespace, name = f"team-{workload % 50:03}", f"app-{workload}-7d4b9c6f5-{number:06x}"
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
    labels = {"app": "@app", "pod-template-hash": "7d4b9c6f5"}
    made = populations.pod("@namespace", "@name", labels, node="@node")
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
