"""The behaviour of an API server that Topolog relies on: one suite for the simulated and the real one.

Subclass it and define the fixtures `client` (app.kube.client.clients.Client with all rights) and `namespace`
(an existing, empty namespace). The tests leave their objects in that namespace, nodes excepted. Override
`forget` to compact the history; otherwise the tests that need it are skipped.
"""

import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from app.kube import errors
from app.kube.client import clients
from app.kube.objects import decoding
from app.kube.watch import discovery
from app.kube.writes import fencing, pod_conditions, status_patches

Json = dict[str, Any]

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

_numbers = itertools.count()


def pod(name: str, *, node: str = "", **labels: str) -> Json:
    """The smallest pod that a real API server accepts."""
    spec: Json = {"containers": [{"name": "c", "image": "registry.example/app:1"}]}
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def encoded(value: Json) -> bytes:
    return json.dumps(value).encode()


class Watch:
    """A watch as lines, each with a time limit that only a broken server reaches."""

    def __init__(self, client: clients.Client, path: str, version: str, *, seconds: int = 30) -> None:
        parameters = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        self.stream = client.stream(path, parameters, silence=60.0)

    def __iter__(self) -> Iterator[Json]:
        rest = b""
        for piece in self.stream:
            *lines, rest = (rest + piece).split(b"\n")
            yield from map(json.loads, filter(None, lines))

    def objects(self, count: int) -> list[tuple[str, Json]]:
        """The next changes of objects, bookmarks left out."""
        changes = ((line["type"], line["object"]) for line in self if line["type"] != "BOOKMARK")
        return list(itertools.islice(changes, count))

    def close(self) -> None:
        self.stream.close()


class ApiServerContract:
    """The suite."""

    @property
    def labels_are_merged(self) -> bool:
        """Whether the server copies the labels of a Binding to the pod: kube-apiserver from 1.35 on does."""
        return True

    def forget(self, client: clients.Client) -> bool:
        """Compact the history of pods; returns false if that is not possible."""
        return False

    @pytest.fixture
    def pods(self, namespace: str) -> str:
        """The path of the namespace's pods."""
        return f"/api/v1/namespaces/{namespace}/pods"

    def made(self, client: clients.Client, pods: str, **labels: str) -> Json:
        """Create a pod with a unique name."""
        body = pod(f"p{next(_numbers)}-{time.monotonic_ns():x}", **labels)
        found: Json = json.loads(client.post(pods, encoded(body)))
        return found

    # -- objects -----------------------------------------------------------------------------

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

    # -- lists -------------------------------------------------------------------------------

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

    # -- watches -----------------------------------------------------------------------------

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

    def test_a_compacted_page_is_410(self, client: clients.Client, pods: str) -> None:
        for _ in range(3):
            self.made(client, pods)
        token = json.loads(client.get(pods, {"limit": "1"}))["metadata"]["continue"]
        self.made(client, pods)
        if not self.forget(client):
            pytest.skip("this server's history cannot be compacted on request")
        with pytest.raises(errors.Expired):
            client.get(pods, {"limit": "1", "continue": token})

    # -- pods --------------------------------------------------------------------------------

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

    # -- custom objects and their status -------------------------------------------------------

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
            "metadata": {"name": f"c{next(_numbers)}-{time.monotonic_ns():x}"},
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
