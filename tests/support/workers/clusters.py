"""A simulated Kubernetes cluster, changed through its API."""

import json
from typing import Any

from app.domain import model
from app.kube.client import clients
from app.kube.objects import decoding
from app.plugins.workload_policy import samples
from app.simulation import populations
from app.simulation.apiserver import apiservers

Json = dict[str, Any]


class Cluster:
    """A cluster, changed by API calls."""

    def __init__(self, server: apiservers.ApiServer, client: clients.Client) -> None:
        self.server = server
        self.client = client

    def node(self, name: str, **labels: str) -> None:
        self.client.post("/api/v1/nodes", json.dumps(populations.node(name, labels)).encode())

    def pod(self, name: str, *, node: str = "", namespace: str = "ns", **labels: str) -> model.Pod:
        body = json.dumps(populations.pod(namespace, name, labels, node=node)).encode()
        return decoding.pod(self.client.post(f"/api/v1/namespaces/{namespace}/pods", body))

    def refuse(self, name: str, message: str = "0/1 nodes are available") -> None:
        """Set the condition that kube-scheduler sets after a failed attempt."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        body = json.dumps({"status": {"conditions": [condition]}}).encode()
        path = f"/api/v1/namespaces/ns/pods/{name}/status"
        self.client.patch(path, body, content=clients.STRATEGIC)

    def policy(
        self, name: str, *, key: str = "zone", app: str = "x", namespace: str = "ns", **quotas: int
    ) -> None:
        spec = {
            "topologyKey": key,
            "labelSelector": {"matchLabels": {"app": app}},
            "allocationPolicy": [
                {"name": domain, "replicas": replicas} for domain, replicas in quotas.items()
            ],
            "allocationType": "Required",
        }
        path = f"/apis/kosmos.io/v1alpha1/namespaces/{namespace}/workloadpolicies"
        self.client.post(path, json.dumps(samples.policy(namespace, name, spec)).encode())

    def patch(self, path: str, change: Json) -> None:
        self.client.patch(path, json.dumps(change).encode())

    def edit_policy(self, name: str, **spec: object) -> None:
        self.patch(f"/apis/kosmos.io/v1alpha1/namespaces/ns/workloadpolicies/{name}", {"spec": spec})

    def label_node(self, name: str, **labels: str | None) -> None:
        self.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    def phase(self, name: str, phase: str) -> None:
        self.patch(f"/api/v1/namespaces/ns/pods/{name}/status", {"status": {"phase": phase}})

    def delete_pod(self, name: str) -> None:
        """With grace if the pod is on a node: then its kubelet has to end it."""
        self.client.delete(f"/api/v1/namespaces/ns/pods/{name}")

    def end_pod(self, name: str) -> None:
        self.client.delete(f"/api/v1/namespaces/ns/pods/{name}", b'{"gracePeriodSeconds":0}')

    def bind(self, name: str, node: str) -> None:
        self.client.post(
            f"/api/v1/namespaces/ns/pods/{name}/binding",
            json.dumps({"metadata": {"name": name}, "target": {"name": node}}).encode(),
        )
