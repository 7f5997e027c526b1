"""The contract of objects: their versions, how they are replaced and deleted, and their lists."""

import json
import re

import pytest

from app.kube import errors
from app.kube.client import clients
from app.kube.watch import discovery
from tests.support.kube.contract.server_under_test import ServerUnderTest, encoded, pod


class Objects(ServerUnderTest):
    """What is served, and how objects are created, read, changed and listed."""

    def test_the_version_is_that_of_a_release(self, client: clients.Client) -> None:
        version = json.loads(client.get("/version"))["gitVersion"]
        assert re.fullmatch(r"v1\.\d+\.\d+.*", version)

    def test_a_question_about_a_permission_is_answered(self, client: clients.Client) -> None:
        attributes = {"verb": "list", "resource": "pods", "namespace": "default"}
        for kind, spec in (
            ("SelfSubjectAccessReview", {"resourceAttributes": attributes}),
            (
                "SubjectAccessReview",
                {"resourceAttributes": attributes, "user": "u", "groups": ["system:masters"]},
            ),
        ):
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
            path = f"/apis/authorization.k8s.io/v1/{kind.lower()}s"
            assert json.loads(client.post(path, encoded(review)))["status"]["allowed"] is True
            with pytest.raises(errors.ApiError) as caught:
                client.post(path, encoded({**review, "kind": "Pod"}))
            assert caught.value.status == 400

    def test_discovery_shows_what_is_served(self, client: clients.Client) -> None:
        for path, served in (
            ("/api/v1/pods", True),
            ("/apis/policy/v1/poddisruptionbudgets", True),
            ("/apis/policy/v1/nothings", False),
            ("/apis/policy/v9/poddisruptionbudgets", False),
            ("/apis/nothing.example/v1/nothings", False),
        ):
            assert discovery.serves(client, path) is served, path
            if not served:
                with pytest.raises(errors.ApiError) as refused:
                    client.get(path)
                assert refused.value.status == 404

    def test_a_created_object_has_uid_version_and_time(self, client: clients.Client, pods: str) -> None:
        metadata = self.made(client, pods)["metadata"]
        assert metadata["uid"]
        assert metadata["resourceVersion"].isdigit()
        assert metadata["creationTimestamp"].endswith("Z")

    def test_a_name_is_taken_once(self, client: clients.Client, pods: str) -> None:
        name = self.made(client, pods)["metadata"]["name"]
        with pytest.raises(errors.ApiError) as refused:
            client.post(pods, encoded(pod(name)))
        assert (refused.value.status, refused.value.reason) == (409, "AlreadyExists")

    def test_a_missing_object_is_not_found(self, client: clients.Client, pods: str) -> None:
        for read in (f"{pods}/none", "/apis/unknown.example/v1/things"):
            with pytest.raises(errors.ApiError) as refused:
                client.get(read)
            assert refused.value.status == 404

    def test_an_old_version_cannot_be_replaced(self, client: clients.Client, pods: str) -> None:
        before = self.made(client, pods)
        path = f"{pods}/{before['metadata']['name']}"
        client.patch(path, encoded({"metadata": {"labels": {"a": "1"}}}))
        with pytest.raises(errors.ApiError) as refused:
            client.put(path, encoded(before))
        assert (refused.value.status, refused.value.reason) == (409, "Conflict")
        assert "the object has been modified" in refused.value.message

    def test_the_same_content_is_not_a_new_version(self, client: clients.Client, pods: str) -> None:
        path = f"{pods}/{self.made(client, pods)['metadata']['name']}"
        patch = encoded({"metadata": {"labels": {"a": "1"}}})
        once, twice = json.loads(client.patch(path, patch)), json.loads(client.patch(path, patch))
        assert once["metadata"]["resourceVersion"] == twice["metadata"]["resourceVersion"]

    def test_a_replacement_is_for_one_uid(self, client: clients.Client, pods: str) -> None:
        found = self.made(client, pods)
        path = f"{pods}/{found['metadata']['name']}"
        with pytest.raises(errors.ApiError) as refused:
            client.put(path, encoded(found | {"metadata": found["metadata"] | {"uid": "another"}}))
        assert (refused.value.status, refused.value.reason) == (409, "Conflict")

    def test_a_deletion_is_for_one_uid(self, client: clients.Client, pods: str) -> None:
        path = f"{pods}/{self.made(client, pods)['metadata']['name']}"
        with pytest.raises(errors.ApiError) as refused:
            client.delete(path, encoded({"preconditions": {"uid": "another"}}))
        assert (refused.value.status, refused.value.reason) == (409, "Conflict")
        assert client.get(path)

    def test_an_event_about_a_pod_is_stored(self, client: clients.Client, namespace: str, pods: str) -> None:
        found = self.made(client, pods)["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{found['name']}.1", "namespace": namespace},
            "involvedObject": {
                "kind": "Pod",
                "namespace": namespace,
                "name": found["name"],
                "uid": found["uid"],
            },
            "reason": "Tried",
            "message": "a message",
            "type": "Normal",
        }
        client.post(f"/api/v1/namespaces/{namespace}/events", encoded(body))
        kept = json.loads(client.get(f"/api/v1/namespaces/{namespace}/events/{found['name']}.1"))
        assert kept["message"] == "a message"

    def test_pages_show_one_moment(self, client: clients.Client, pods: str) -> None:
        mine = {self.made(client, pods)["metadata"]["name"] for _ in range(5)}
        first = json.loads(client.get(pods, {"limit": "2"}))
        assert len(first["items"]) == 2
        later = self.made(client, pods)["metadata"]["name"]
        names = {item["metadata"]["name"] for item in first["items"]}
        token = first["metadata"]["continue"]
        while token:
            page = json.loads(client.get(pods, {"limit": "2", "continue": token}))
            assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
            names |= {item["metadata"]["name"] for item in page["items"]}
            token = page["metadata"].get("continue", "")
        assert mine <= names
        assert later not in names

    def test_a_compacted_page_is_410(self, client: clients.Client, pods: str) -> None:
        for _ in range(3):
            self.made(client, pods)
        token = json.loads(client.get(pods, {"limit": "1"}))["metadata"]["continue"]
        self.made(client, pods)
        if not self.forget(client):
            pytest.skip("this server's history cannot be compacted on request")
        with pytest.raises(errors.Expired):
            client.get(pods, {"limit": "1", "continue": token})
