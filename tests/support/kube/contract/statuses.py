"""The contract of statuses: of pods, and of custom objects with and without the subresource."""

import json

import pytest

from app.kube import errors
from app.kube.client import clients
from app.kube.objects import decoding
from app.kube.writes import pod_conditions, status_patches
from tests.support.kube.contract.server_under_test import Json, ServerUnderTest, Watch, encoded, unique

THING_GROUP = "test.topolog.io"
THING: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"things.{THING_GROUP}"},
    "spec": {
        "group": THING_GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
"""A kind without the status subresource."""
POLICY_SPEC: Json = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "x"}},
    "allocationPolicy": [{"name": "a", "replicas": 3}],
    "allocationType": "Required",
    "allocationMethod": "Fill",
}


class Statuses(ServerUnderTest):
    """Only the subresource changes a status, in the version that was read."""

    def test_a_status_patch_adds_a_condition(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        for kind, message in (("a.example/A", "one"), ("a.example/B", "two"), ("a.example/A", "three")):
            condition = {"type": kind, "status": "True", "message": message}
            patch = {"metadata": {"uid": found["metadata"]["uid"]}, "status": {"conditions": [condition]}}
            client.patch(f"{path}/status", encoded(patch), content=clients.STRATEGIC)
        after = json.loads(client.get(path))
        messages = {one["type"]: one["message"] for one in after["status"]["conditions"]}
        assert messages == {"a.example/A": "three", "a.example/B": "two"}
        assert after["spec"] == found["spec"]

    def test_a_status_patch_is_for_one_uid(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        patch = {"metadata": {"uid": "another"}, "status": {"conditions": [{"type": "a", "status": "True"}]}}
        with pytest.raises(errors.ApiError) as refused:
            client.patch(
                f"{pods}/{found['metadata']['name']}/status", encoded(patch), content=clients.STRATEGIC
            )
        assert refused.value.status == 422
        assert "metadata.uid" in refused.value.message

    def test_a_status_patch_is_for_one_version(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path, pod = f"{pods}/{found['metadata']['name']}", decoding.pod(encoded(found))
        before = found["metadata"]["resourceVersion"]
        one = pod_conditions.Condition("a.example/A", "One", "one", "2026-07-01T10:00:00Z")
        pod_conditions.set_condition(client, pod, one, version=before)
        once = json.loads(client.get(path))
        assert once["metadata"]["resourceVersion"] != before
        other = pod_conditions.Condition("a.example/A", "Two", "two", "2026-07-01T10:00:00Z")
        with pytest.raises(errors.ApiError) as refused:
            pod_conditions.set_condition(client, pod, other, version=before)
        assert (refused.value.status, refused.value.reason) == (409, "Conflict")
        assert json.loads(client.get(path)) == once

    @pytest.fixture
    def policies(self, namespace: str) -> str:
        """The path of the namespace's WorkloadPolicies, which have the status subresource."""
        return f"/apis/kosmos.io/v1alpha1/namespaces/{namespace}/workloadpolicies"

    @pytest.fixture
    def things(self, namespace: str) -> str:
        """The path of the namespace's objects of THING, a kind without the status subresource."""
        return f"/apis/{THING_GROUP}/v1/namespaces/{namespace}/things"

    def custom(self, client: clients.Client, path: str, *, kind: str, **more: object) -> Json:
        """Create a custom object with a unique name."""
        group, version = path.split("/")[2:4]
        body = {
            "apiVersion": f"{group}/{version}",
            "kind": kind,
            "metadata": {"name": unique("c")},
            "spec": POLICY_SPEC,
            **more,
        }
        found: Json = json.loads(client.post(path, encoded(body)))
        return found

    def test_only_the_subresource_changes_a_status(self, client: clients.Client, policies: str) -> None:
        made = self.custom(client, policies, kind="WorkloadPolicy", status={"placed": 9})
        path = f"{policies}/{made['metadata']['name']}"
        assert "status" not in made
        client.patch(path, encoded({"status": {"placed": 9}}))
        assert "status" not in json.loads(client.get(path))
        client.patch(f"{path}/status", encoded({"spec": {"topologyKey": "x"}, "status": {"placed": 9}}))
        found = json.loads(client.get(path))
        assert found["status"] == {"placed": 9}
        assert found["spec"] == made["spec"]
        replaced = json.loads(client.put(path, encoded({**found, "status": {"placed": 1}})))
        assert replaced["status"] == {"placed": 9}

    def test_a_generation_counts_specifications(self, client: clients.Client, policies: str) -> None:
        made = self.custom(client, policies, kind="WorkloadPolicy")
        path = f"{policies}/{made['metadata']['name']}"
        assert made["metadata"]["generation"] == 1

        def generation(body: Json, subresource: str = "") -> int:
            found = json.loads(client.patch(f"{path}{subresource}", encoded(body)))
            value: int = found["metadata"]["generation"]
            return value

        assert generation({"status": {"placed": 1}}, "/status") == 1
        assert generation({"metadata": {"labels": {"a": "1"}, "generation": 7}}) == 1
        assert generation({"spec": {"topologyKey": "another"}}) == 2
        assert generation({"spec": {"topologyKey": "another"}}) == 2

    def test_a_status_is_replaced_in_the_version_that_was_read(
        self, client: clients.Client, policies: str
    ) -> None:
        made = self.custom(client, policies, kind="WorkloadPolicy")
        path = f"{policies}/{made['metadata']['name']}"
        first = status_patches.read(client, path)
        assert (first.version, first.generation) == (made["metadata"]["resourceVersion"], 1)
        domains = [{"name": "a", "desired": 3, "placed": 1}]
        second = status_patches.patch(client, path, first, {"placed": 1, "domains": domains})
        assert second.version != first.version
        third = status_patches.patch(client, path, second, {"desired": 3, "domains": []})
        assert json.loads(client.get(path))["status"] == {"desired": 3, "domains": []} == third.status
        with pytest.raises(errors.ApiError) as refused:
            status_patches.patch(client, path, second, {"placed": 5})
        assert (refused.value.status, refused.value.reason) == (409, "Conflict")
        assert status_patches.read(client, path) == third

    def test_the_same_status_is_not_a_new_version(self, client: clients.Client, policies: str) -> None:
        made = self.custom(client, policies, kind="WorkloadPolicy")
        path = f"{policies}/{made['metadata']['name']}"
        once = status_patches.patch(client, path, status_patches.read(client, path), {"placed": 1})
        twice = status_patches.patch(client, path, once, {"placed": 1})
        assert twice.version == once.version

    def test_a_status_is_shown_by_the_watch(self, client: clients.Client, policies: str) -> None:
        made = self.custom(client, policies, kind="WorkloadPolicy")
        path = f"{policies}/{made['metadata']['name']}"
        watch = Watch(client, policies, made["metadata"]["resourceVersion"])
        written = status_patches.patch(client, path, status_patches.read(client, path), {"placed": 1})
        ((change, found),) = watch.objects(1)
        watch.close()
        assert change == "MODIFIED"
        assert (found["status"], found["metadata"]["resourceVersion"]) == ({"placed": 1}, written.version)

    def test_a_status_of_a_missing_object_is_not_found(self, client: clients.Client, policies: str) -> None:
        made = self.custom(client, policies, kind="WorkloadPolicy")
        path = f"{policies}/{made['metadata']['name']}"
        read = status_patches.read(client, path)
        client.delete(path)
        with pytest.raises(errors.ApiError) as refused:
            status_patches.patch(client, path, read, {"placed": 1})
        assert refused.value.status == 404

    def test_a_kind_without_the_subresource_has_no_status(self, client: clients.Client, things: str) -> None:
        """The object exists, and its status is not found: only a second read distinguishes the two cases."""
        made = self.custom(client, things, kind="Thing")
        path = f"{things}/{made['metadata']['name']}"
        read = status_patches.read(client, path)
        with pytest.raises(errors.ApiError) as refused:
            status_patches.patch(client, path, read, {"placed": 1})
        assert refused.value.status == 404
        assert status_patches.read(client, path) == read
