"""The contract of evictions: a PodDisruptionBudget is honoured, and several of one pod are not supported."""

import json

from app.kube.client import clients
from app.kube.objects import decoding
from app.kube.writes import evictions
from tests.support.kube.contract.server_under_test import Json, ServerUnderTest, encoded, unique


class Evictions(ServerUnderTest):
    """A refusal because of budgets is reported, and the pod stays."""

    def bound(self, client: clients.Client, pods: str, *, budgets: int, phase: str = "Running") -> Json:
        """A pod on a node, which runs there, with so many budgets that allow no disruption."""
        app = unique("a")
        found = self.made(client, pods, app=app)
        path = f"{pods}/{found['metadata']['name']}"
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": found["metadata"]["name"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        }
        client.post(f"{path}/binding", encoded(binding))
        client.patch(f"{path}/status", encoded({"status": {"phase": phase}}), content=clients.STRATEGIC)
        for _ in range(budgets):
            budget = {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": unique("b")},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}},
            }
            root = pods.removeprefix("/api/v1").removesuffix("/pods")
            client.post(f"/apis/policy/v1{root}/poddisruptionbudgets", encoded(budget))
        bound: Json = json.loads(client.get(path))
        return bound

    def test_a_pod_without_a_budget_is_evicted_with_grace(self, client: clients.Client, pods: str) -> None:
        found = self.bound(client, pods, budgets=0)
        assert evictions.evict(client, decoding.pod(encoded(found))) == ""
        path = f"{pods}/{found['metadata']['name']}"
        assert json.loads(client.get(path))["metadata"]["deletionTimestamp"]

    def test_a_budget_without_disruptions_keeps_its_pod(self, client: clients.Client, pods: str) -> None:
        found = self.bound(client, pods, budgets=1)
        why = evictions.evict(client, decoding.pod(encoded(found)))
        assert "it would violate the pod's disruption budget" in why
        assert json.loads(client.get(f"{pods}/{found['metadata']['name']}")) == found

    def test_several_budgets_of_a_pod_are_not_supported(self, client: clients.Client, pods: str) -> None:
        found = self.bound(client, pods, budgets=2)
        why = evictions.evict(client, decoding.pod(encoded(found)))
        assert "more than one PodDisruptionBudget" in why
        assert json.loads(client.get(f"{pods}/{found['metadata']['name']}")) == found

    def test_budgets_do_not_keep_a_pod_that_has_not_started(self, client: clients.Client, pods: str) -> None:
        found = self.bound(client, pods, budgets=2, phase="Pending")
        assert evictions.evict(client, decoding.pod(encoded(found))) == ""
        path = f"{pods}/{found['metadata']['name']}"
        assert json.loads(client.get(path))["metadata"]["deletionTimestamp"]
