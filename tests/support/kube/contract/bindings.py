"""The contract of Bindings: what they require of the pod, what they write, and what fences them."""

import json
from collections.abc import Mapping

import pytest

from app.kube import errors
from app.kube.client import clients
from app.kube.objects import decoding
from app.kube.writes import fencing, pod_conditions
from tests.support.kube.contract.server_under_test import Json, ServerUnderTest, Watch, encoded


class Bindings(ServerUnderTest):
    """A pod gets a node once, in the version that was read."""

    def binding(
        self, found: Json, node: str, *, uid: str = "", version: str = "", **written: Mapping[str, str]
    ) -> bytes:
        metadata = {"name": found["metadata"]["name"], "uid": uid or found["metadata"]["uid"], **written}
        return encoded(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": metadata | ({"resourceVersion": version} if version else {}),
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
        )

    def test_a_pod_is_bound_once(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        client.post(f"{path}/binding", self.binding(found, "node-1"))
        assert json.loads(client.get(path))["spec"]["nodeName"] == "node-1"
        for node in ("node-1", "node-2"):
            with pytest.raises(errors.ApiError) as refused:
                client.post(f"{path}/binding", self.binding(found, node))
            assert refused.value.status == 409
            assert 'is already assigned to node "node-1"' in refused.value.message

    def test_a_binding_is_for_one_uid(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        with pytest.raises(errors.ApiError) as refused:
            client.post(f"{path}/binding", self.binding(found, "node-1", uid="another"))
        assert refused.value.status == 409
        assert "Precondition failed: UID in precondition: another" in refused.value.message
        assert "nodeName" not in json.loads(client.get(path))["spec"]

    def test_a_binding_is_for_one_version(self, client: clients.Client, pods: str) -> None:
        """Any write to the pod fences it, a status patch too; the current version is accepted."""
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        before = found["metadata"]["resourceVersion"]
        condition = {"type": "a.example/A", "status": "True"}
        patch = encoded({"status": {"conditions": [condition]}})
        client.patch(f"{path}/status", patch, content=clients.STRATEGIC)
        now = json.loads(client.get(path))["metadata"]["resourceVersion"]
        assert now != before
        with pytest.raises(errors.ApiError) as refused:
            client.post(f"{path}/binding", self.binding(found, "node-1", version=before))
        assert (refused.value.status, refused.value.reason) == (409, "Conflict")
        why = f"ResourceVersion in precondition: {before}, ResourceVersion in object meta: {now}"
        assert f"Precondition failed: {why}" in refused.value.message
        assert "nodeName" not in json.loads(client.get(path))["spec"]
        client.post(f"{path}/binding?timeout=3500ms", self.binding(found, "node-1", version=now))
        assert json.loads(client.get(path))["spec"]["nodeName"] == "node-1"

    def test_a_binding_writes_annotations_and_labels_with_the_node(
        self, client: clients.Client, pods: str
    ) -> None:
        """In one change, which a watch shows at once; existing keys are overwritten, others are kept."""
        found = self.made(client, pods, both="theirs", kept="theirs")
        path = f"{pods}/{found['metadata']['name']}"
        annotations = {"a.example/both": "theirs", "a.example/kept": "theirs"}
        patched = json.loads(client.patch(path, encoded({"metadata": {"annotations": annotations}})))
        watch = Watch(client, pods, patched["metadata"]["resourceVersion"])
        body = self.binding(
            found,
            "node-1",
            version=patched["metadata"]["resourceVersion"],
            annotations={"a.example/both": "ours", "a.example/new": '{"gpu":[0]}'},
            labels={"both": "ours", "new": "ours"},
        )
        client.post(f"{path}/binding", body)
        ((_, seen),) = watch.objects(1)
        watch.close()
        assert seen == json.loads(client.get(path))
        assert seen["spec"]["nodeName"] == "node-1"
        expected = {"a.example/both": "ours", "a.example/kept": "theirs", "a.example/new": '{"gpu":[0]}'}
        assert expected.items() <= seen["metadata"]["annotations"].items()
        if self.labels_are_merged:
            labels = {"both": "ours", "kept": "theirs", "new": "ours"}
        else:
            labels = {"both": "theirs", "kept": "theirs"}
        assert {key: seen["metadata"]["labels"].get(key) for key in ("both", "kept", "new")} == {
            "new": None,
            **labels,
        }

    def test_a_refused_binding_writes_nothing(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        new = {"new": "1"}
        for uid, version in (("another", ""), ("", "1")):
            body = self.binding(found, "node-1", uid=uid, version=version, annotations=new, labels=new)
            with pytest.raises(errors.ApiError) as refused:
                client.post(f"{path}/binding", body)
            assert refused.value.status == 409
            assert json.loads(client.get(path)) == found
        client.post(f"{path}/binding", self.binding(found, "node-1"))
        bound = json.loads(client.get(path))
        for node in ("node-1", "node-2"):
            with pytest.raises(errors.ApiError):
                client.post(f"{path}/binding", self.binding(found, node, annotations=new, labels=new))
        assert json.loads(client.get(path)) == bound

    def test_the_uid_the_version_and_the_node_are_compared_in_this_order(
        self, client: clients.Client, pods: str
    ) -> None:
        """The first that does not match gives the reason of the refusal."""
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        client.post(f"{path}/binding", self.binding(found, "node-1"))
        now = json.loads(client.get(path))["metadata"]["resourceVersion"]
        for uid, version, why in (
            ("another", "1", "UID in precondition: another"),
            (found["metadata"]["uid"], "1", "ResourceVersion in precondition: 1"),
            (found["metadata"]["uid"], now, 'is already assigned to node "node-1"'),
        ):
            with pytest.raises(errors.ApiError) as refused:
                client.post(f"{path}/binding", self.binding(found, "node-2", uid=uid, version=version))
            assert refused.value.status == 409
            assert why in refused.value.message

    def test_a_binding_may_carry_64_kib_of_annotations(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        written = {"a.example/large": "x" * (64 * 1024 - 15)}
        client.post(f"{path}/binding", self.binding(found, "node-1", annotations=written))
        assert written.items() <= json.loads(client.get(path))["metadata"]["annotations"].items()

    def test_a_binding_for_one_version_is_carried_out_once(self, client: clients.Client, pods: str) -> None:
        """A repetition is refused, because the first Binding changed the pod."""
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        body = self.binding(found, "node-1", version=found["metadata"]["resourceVersion"])
        answer = json.loads(client.post(f"{path}/binding", body))
        assert (answer["kind"], answer["status"]) == ("Status", "Success")
        with pytest.raises(errors.ApiError) as refused:
            client.post(f"{path}/binding", body)
        assert refused.value.status == 409

    def test_a_refusal_is_a_status_of_its_code(self, client: clients.Client, pods: str) -> None:
        """The status shows that the reply is from the API server itself."""
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        for body in (self.binding(found, "node-1", uid="another"), b"{}"):
            with pytest.raises(errors.ApiError) as refused:
                client.post(f"{path}/binding", body)
            assert refused.value.original
        with pytest.raises(errors.ApiError) as missing:
            client.get(f"{pods}/missing")
        assert (missing.value.status, missing.value.original) == (404, True)

    def test_a_pod_on_a_node_ends_with_grace(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        client.post(f"{path}/binding", self.binding(found, "node-1"))
        client.delete(path)
        assert json.loads(client.get(path))["metadata"]["deletionTimestamp"]
        client.delete(path, encoded({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}))
        with pytest.raises(errors.ApiError) as refused:
            client.get(path)
        assert refused.value.status == 404

    def test_a_status_patch_without_a_change_fences_nothing(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path, pod = f"{pods}/{found['metadata']['name']}", decoding.pod(encoded(found))
        same = pod_conditions.Condition("a.example/A", "One", "one", "2026-07-01T10:00:00Z")
        pod_conditions.set_condition(client, pod, same)
        once = json.loads(client.get(path))["metadata"]["resourceVersion"]
        pod_conditions.set_condition(client, pod, same, version=once)
        assert json.loads(client.get(path))["metadata"]["resourceVersion"] == once
        client.post(f"{path}/binding", self.binding(found, "node-1", version=once))
        assert json.loads(client.get(path))["spec"]["nodeName"] == "node-1"

    def test_a_fenced_binding_is_refused_however_often_it_is_fenced(
        self, client: clients.Client, pods: str
    ) -> None:
        """Each fence is a change, also of a pod that was fenced within the same second."""
        found = self.made(client, pods)
        path, pod = f"{pods}/{found['metadata']['name']}", decoding.pod(encoded(found))
        fencer = fencing.ApiFencer(client, now=lambda: "2026-07-01T10:00:00Z")
        versions = [found["metadata"]["resourceVersion"]]
        for _ in range(3):
            assert fencer.fence(pod, "node-1", versions[-1])
            versions.append(json.loads(client.get(path))["metadata"]["resourceVersion"])
        assert len(set(versions)) == 4
        for version in versions[:-1]:
            assert not fencer.fence(pod, "node-1", version)
            with pytest.raises(errors.ApiError) as refused:
                client.post(f"{path}/binding", self.binding(found, "node-1", version=version))
            assert (refused.value.status, refused.value.reason) == (409, "Conflict")
        assert json.loads(client.get(path))["metadata"]["resourceVersion"] == versions[-1]
        client.post(f"{path}/binding", self.binding(found, "node-1", version=versions[-1]))

    def test_a_bound_or_missing_pod_is_not_fenced(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path, pod = f"{pods}/{found['metadata']['name']}", decoding.pod(encoded(found))
        fencer = fencing.ApiFencer(client, now=lambda: "2026-07-01T10:00:00Z")
        before = found["metadata"]["resourceVersion"]
        client.post(f"{path}/binding", self.binding(found, "node-1", version=before))
        bound = json.loads(client.get(path))
        assert not fencer.fence(pod, "node-1", before)
        assert json.loads(client.get(path)) == bound
        client.delete(path, encoded({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}))
        assert not fencer.fence(pod, "node-1", before)
        again = json.loads(client.post(pods, encoded({**found, "metadata": {"name": pod.name}})))
        assert not fencer.fence(pod, "node-1", again["metadata"]["resourceVersion"])
        assert json.loads(client.get(path)) == again
