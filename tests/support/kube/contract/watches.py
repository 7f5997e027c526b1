"""The contract of watches: what they show, where they resume, and how they end."""

import json

import pytest

from app.kube.client import clients
from tests.support.kube.contract.server_under_test import ServerUnderTest, Watch, encoded, pod


class Watches(ServerUnderTest):
    """The changes after a version."""

    def test_a_watch_shows_what_comes_after_its_version(self, client: clients.Client, pods: str) -> None:
        before = self.made(client, pods)
        version = json.loads(client.get(pods))["metadata"]["resourceVersion"]
        path = f"{pods}/{before['metadata']['name']}"
        client.patch(path, encoded({"metadata": {"labels": {"a": "1"}}}))
        watch = Watch(client, pods, version)
        client.delete(path)
        changes = watch.objects(3)
        watch.close()
        assert [kind for kind, _ in changes] == ["MODIFIED", "MODIFIED", "DELETED"]
        assert "deletionTimestamp" in changes[1][1]["metadata"]
        assert {found["metadata"]["uid"] for _, found in changes} == {before["metadata"]["uid"]}
        versions = [int(found["metadata"]["resourceVersion"]) for _, found in changes]
        assert int(version) < versions[0] < versions[1] < versions[2]

    def test_a_recreated_object_is_another_object(self, client: clients.Client, pods: str) -> None:
        before = self.made(client, pods)
        name = before["metadata"]["name"]
        watch = Watch(client, pods, before["metadata"]["resourceVersion"])
        client.delete(f"{pods}/{name}")
        after = json.loads(client.post(pods, encoded(pod(name))))
        changes = watch.objects(3)
        watch.close()
        assert [kind for kind, _ in changes] == ["MODIFIED", "DELETED", "ADDED"]
        assert changes[1][1]["metadata"]["uid"] == before["metadata"]["uid"]
        assert changes[2][1]["metadata"]["uid"] == after["metadata"]["uid"]
        assert after["metadata"]["uid"] != before["metadata"]["uid"]

    def test_a_watch_ends_at_its_timeout(self, client: clients.Client, pods: str) -> None:
        version = json.loads(client.get(pods))["metadata"]["resourceVersion"]
        assert all(line["type"] == "BOOKMARK" for line in Watch(client, pods, version, seconds=1))

    def test_a_watch_from_a_version_of_the_future_is_silent(self, client: clients.Client, pods: str) -> None:
        version = int(json.loads(client.get(pods))["metadata"]["resourceVersion"])
        watch = Watch(client, pods, str(version + 10**6), seconds=3)
        self.made(client, pods)
        assert list(watch) == []

    def test_a_bookmark_is_a_version_to_resume_from(self, client: clients.Client, pods: str) -> None:
        version = json.loads(client.get(pods))["metadata"]["resourceVersion"]
        watch = Watch(client, pods, version, seconds=3)
        # The real server sends a bookmark only after a change, shortly before the timeout.
        made = int(self.made(client, pods)["metadata"]["resourceVersion"])
        added, *marks = list(watch)
        assert added["type"] == "ADDED"
        assert marks
        assert {line["type"] for line in marks} == {"BOOKMARK"}
        resume = marks[-1]["object"]["metadata"]["resourceVersion"]
        assert int(resume) >= made
        again = Watch(client, pods, resume, seconds=1)
        assert all(line["type"] == "BOOKMARK" for line in again), "no change is repeated"

    def test_a_compacted_version_is_410(self, client: clients.Client, pods: str) -> None:
        version = json.loads(client.get(pods))["metadata"]["resourceVersion"]
        self.made(client, pods)
        if not self.forget(client):
            pytest.skip("this server's history cannot be compacted on request")
        lines = list(Watch(client, pods, version))
        assert [line["type"] for line in lines] == ["ERROR"]
        assert (lines[0]["object"]["code"], lines[0]["object"]["reason"]) == (410, "Expired")
