"""Decoding Kubernetes JSON into the model: every field that scheduling depends on, and invalid objects."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from app.domain import model
from app.kube import errors
from app.kube.objects import bounds, decoding, interning
from app.kube.watch import kinds

Json = dict[str, Any]

# As kube-scheduler 1.37 sends a pod on its second attempt.
FROM_SCHEDULER = """{"metadata":{"name":"a1","namespace":"default",
"uid":"27553b30-e61e-45e7-b076-381dec2ab71f",
"resourceVersion":"226","generation":1,"creationTimestamp":"2026-11-21T09:32:43Z"},"spec":{"containers":[{"name":"c",
"image":"registry.example/app:1","resources":{"requests":{"cpu":"100m"}},"imagePullPolicy":"IfNotPresent"}],
"restartPolicy":"Always","dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler",
"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Pending",
"conditions":[{"type":"PodScheduled","observedGeneration":1,"status":"False","lastProbeTime":null,
"reason":"Unschedulable","message":"0/5 nodes are available: 5 quota."}],"qosClass":"Burstable"}}"""


def pod(**parts: Json | list[Json]) -> model.Pod:
    given = parts.pop("metadata", {})
    assert isinstance(given, dict)
    metadata = {"name": "p", "namespace": "ns", "uid": "u"} | given
    return decoding.pod(json.dumps({"metadata": metadata, **parts}).encode())


def containers(*requests: Json) -> list[Json]:
    return [{"name": f"c{at}", "resources": {"requests": one}} for at, one in enumerate(requests)]


def test_a_pod_as_the_scheduler_sends_it() -> None:
    assert decoding.pod(FROM_SCHEDULER.encode()) == model.Pod(
        uid="27553b30-e61e-45e7-b076-381dec2ab71f",
        namespace="default",
        name="a1",
        requests={"cpu": 100},
        created="2026-11-21T09:32:43Z",
        unscheduled="0/5 nodes are available: 5 quota.",
        constraints=model.Constraints(tolerations=model.STANDARD_TOLERATIONS[:1]),
    )


def test_bytes_and_raw_mean_the_same() -> None:
    raw = msgspec.json.decode(b'{"Pod":%s}' % FROM_SCHEDULER.encode(), type=dict[str, msgspec.Raw])["Pod"]
    assert decoding.pod(raw) == decoding.pod(FROM_SCHEDULER.encode())


@pytest.fixture
def reading() -> Iterator[None]:
    """One annotation is kept, as if a plugin read it."""
    decoding.keep(frozenset(("read.example/a",)))
    yield
    decoding.keep(frozenset())


@pytest.mark.usefixtures("reading")
def test_everything_that_the_model_holds() -> None:
    found = pod(
        metadata={
            "labels": {"app": "x"},
            "annotations": {"read.example/a": "1", "topolog.io/unread": "2"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "o", "controller": True}
            ],
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-02T00:00:00Z",
        },
        spec={
            "nodeName": "n",
            "priority": 7,
            "preemptionPolicy": "Never",
            "schedulerName": "mine",
            "schedulingGates": [{"name": "g"}],
            "nodeSelector": {"disk": "ssd"},
        },
        status={
            "phase": "Running",
            "startTime": "2026-01-01T00:00:05Z",
            "nominatedNodeName": "m",
            "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
                {"type": "PodScheduled", "status": "True", "message": "y"},
            ],
        },
    )
    assert found == model.Pod(
        uid="u",
        namespace="ns",
        name="p",
        labels={"app": "x"},
        annotations={"read.example/a": "1"},
        owners=(model.Owner("DaemonSet", "d", "o", True),),
        node="n",
        nominated="m",
        phase="Running",
        terminating=True,
        gated=True,
        priority=7,
        preemption_policy="Never",
        scheduler="mine",
        created="2026-01-01T00:00:00Z",
        started="2026-01-01T00:00:05Z",
        disrupted=True,
        preempted=True,
        constraints=model.Constraints(tolerations=(), node_selector={"disk": "ssd"}),
    )


def test_null_is_absent() -> None:
    found = pod(
        metadata={"labels": None, "annotations": None, "ownerReferences": None, "creationTimestamp": None},
        spec={
            "containers": None,
            "nodeName": None,
            "schedulingGates": None,
            "overhead": None,
            "priority": None,
            "tolerations": None,
            "nodeSelector": None,
            "affinity": None,
            "topologySpreadConstraints": None,
            "resourceClaims": None,
            "volumes": None,
        },
        status={"conditions": None, "nominatedNodeName": None, "phase": None},
    )
    bare = model.Constraints(tolerations=())
    assert found == model.Pod(uid="u", namespace="ns", name="p", constraints=bare)


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param(
            {"containers": containers({"cpu": "1"}, {"cpu": "500m", "memory": "1Gi"})},
            {"cpu": 1500, "memory": 2**30},
            id="containers run together",
        ),
        pytest.param(
            {
                "containers": containers({"cpu": "1"}),
                "initContainers": containers({"cpu": "3"}, {"cpu": "2"}),
            },
            {"cpu": 3000},
            id="init containers run one by one",
        ),
        pytest.param(
            {
                "containers": containers({"cpu": "1"}),
                "initContainers": [
                    {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
                    *containers({"cpu": "2"}),
                ],
            },
            {"cpu": 2500},
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {
                "containers": containers({"cpu": "2"}),
                "initContainers": [
                    *containers({"cpu": "2"}),
                    {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                ],
            },
            {"cpu": 3000},
            id="sidecars run beside the containers",
        ),
        pytest.param(
            {"containers": containers({"cpu": "1"}), "overhead": {"cpu": "250m", "memory": "1Ki"}},
            {"cpu": 1250, "memory": 1024},
            id="overhead comes on top",
        ),
        pytest.param(
            {
                "containers": containers({"cpu": "1", "example.com/gpu": "2"}),
                "resources": {"requests": {"cpu": "4"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": 5000, "example.com/gpu": 2},
            id="pod-level requests take precedence",
        ),
        pytest.param({"containers": [{"name": "c"}]}, {}, id="nothing"),
    ],
)
def test_effective_requests(spec: Json, requests: dict[str, int]) -> None:
    assert pod(spec=spec).requests == requests


def test_equal_parts_are_kept_once() -> None:
    parts = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers({"cpu": "1"})}}
    one, other = pod(**json.loads(json.dumps(parts))), pod(**json.loads(json.dumps(parts)))
    assert one.labels is other.labels
    assert one.requests is other.requests


@pytest.mark.usefixtures("reading")
def test_a_node() -> None:
    body = {
        "metadata": {
            "name": "n",
            "uid": "u",
            "labels": {"zone": "a"},
            "annotations": {"read.example/a": "1", "topolog.io/unread": "2"},
        },
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": None}]},
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "1Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}],
            "images": [{"names": ["a"], "sizeBytes": 5}],
        },
    }
    assert decoding.node(json.dumps(body).encode()) == model.Node(
        name="n",
        uid="u",
        labels={"zone": "a"},
        annotations={"read.example/a": "1"},
        taints=(model.Taint("k", "NoSchedule"),),
        allocatable={"cpu": 3920, "memory": 2**30, "pods": 110},
        unschedulable=True,
        ready=True,
    )


BAD = [
    pytest.param({"metadata": {"labels": {"a": 1}}}, id="label that is a number"),
    pytest.param({"metadata": {"labels": {"a": "x\ny"}}}, id="newline in a label"),
    pytest.param({"metadata": {"labels": {"a\x00": "x"}}}, id="NUL in a label key"),
    pytest.param({"metadata": {"labels": {"a": "x" * 64}}}, id="label that is too long"),
    pytest.param({"metadata": {"labels": {f"l{n}": "x" * 60 for n in range(4_000)}}}, id="4,000 labels"),
    pytest.param({"spec": {"nodeName": "n" * 10_000}}, id="endless name of the node"),
    pytest.param({"metadata": {"name": "a b"}}, id="space in the name"),
    pytest.param({"metadata": {"name": "a\n"}}, id="newline behind the name"),
    pytest.param({"metadata": {"uid": "{x}"}}, id="brace in the uid"),
    pytest.param({"metadata": {"uid": ""}}, id="no uid"),
    pytest.param({"metadata": {"name": "x" * 300}}, id="endless name"),
    pytest.param({"spec": {"containers": containers({"cpu": "much"})}}, id="invalid quantity"),
    pytest.param({"spec": {"priority": "high"}}, id="priority that is a text"),
    pytest.param({"spec": []}, id="specification that is a list"),
]


@pytest.mark.parametrize("parts", BAD)
def test_an_undecodable_pod_is_reported_by_name(parts: Json) -> None:
    with pytest.raises(errors.Undecodable) as refused:
        pod(**json.loads(json.dumps(parts)))
    assert refused.value.kind == "pods"
    assert "\n" not in refused.value.name
    assert refused.value.reason


def test_an_annotation_that_no_plugin_reads_costs_nothing() -> None:
    assert pod(metadata={"annotations": {"topolog.io/a": "x" * 250_000}}) == pod()


OVERSIZED = [
    pytest.param({"labels": {f"l{n}": "x" * 60 for n in range(4_000)}}, {}, "labels", id="labels"),
    pytest.param({"annotations": {"read.example/a": "x" * 10_000}}, {}, "annotations", id="annotations"),
    pytest.param(
        {"ownerReferences": [{"kind": "Job", "name": f"o{n}", "uid": "u" * 36} for n in range(1_000)]},
        {},
        "owners",
        id="owners",
    ),
    pytest.param(
        {}, {"containers": containers({f"r{n}.example/x": "1" for n in range(1_000)})}, "resources", id="many"
    ),
    pytest.param(
        {},
        {"containers": containers(*({f"r{n}.example/x": "1"} for n in range(1_000)))},
        "resources",
        id="one each",
    ),
]


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(("metadata", "spec", "part"), OVERSIZED)
def test_a_pod_that_is_too_large_is_refused_with_the_part_and_the_limit(
    metadata: Json, spec: Json, part: str
) -> None:
    with pytest.raises(errors.Oversized, match=rf"its {part} have \d+ characters; the limit is \d+"):
        pod(metadata=metadata, spec=spec)


def test_a_node_with_more_labels_than_a_pod_may_have_is_kept() -> None:
    labels = {f"feature.node.kubernetes.io/{n:04}": "true" for n in range(1_000)}
    body = {"metadata": {"name": "n", "uid": "u", "labels": labels}}
    assert decoding.node(json.dumps(body).encode()).labels == labels
    body["metadata"]["labels"] = {f"feature.node.kubernetes.io/{n:04}": "true" for n in range(3_000)}
    with pytest.raises(errors.Oversized, match="labels"):
        decoding.node(json.dumps(body).encode())


def test_the_message_of_a_condition_is_shortened() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "m" * 30_000}
    assert len(pod(status={"conditions": [condition]}).unscheduled) == bounds.MESSAGE


def test_the_table_of_shared_values_is_bounded_by_weight() -> None:
    made: list[str] = []

    def make(text: str) -> str:
        made.append(text[0])
        return text

    shared = interning.Shared(make, weigh=len, max_weight=100)
    for text in ("a" * 40, "b" * 40, "a" * 40, "c" * 40, "a" * 40):
        shared(text)
    assert made == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b'{"metadata":{}}', b"\xff", b'{"a":' * 5000, b"NaN"]
)
def test_a_body_that_is_not_an_object_is_undecodable(body: bytes) -> None:
    with pytest.raises(errors.Undecodable):
        decoding.pod(body)


@pytest.mark.parametrize("parts", BAD)
def test_one_bad_item_does_not_fail_the_list(parts: Json) -> None:
    def item(name: str, more: Json) -> Json:
        metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}"} | more.get("metadata", {})
        return {**more, "metadata": metadata}

    items = [item("one", {}), item("bad", json.loads(json.dumps(parts))), item("two", {})]
    page = kinds.PODS.page(
        json.dumps({"metadata": {"resourceVersion": "5", "continue": "c"}, "items": items}).encode()
    )
    assert [one.object.name for one in page.observed] == ["one", "two"]
    assert [bad.kind for bad in page.undecodable] == ["pods"]
    assert (page.version, page.continuation) == ("5", "c")


def test_a_page_that_is_not_a_list_is_undecodable() -> None:
    with pytest.raises(errors.Undecodable):
        kinds.PODS.page(b'{"kind":"Status"}')


@pytest.mark.parametrize(
    ("spec", "group"),
    [
        ({"schedulingGroup": {"podGroupName": "g"}}, "g"),
        ({"schedulingGroup": {}}, ""),
        ({"workloadRef": {"name": "train", "podGroup": "workers"}}, "train/workers"),
        ({"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "0"}}, "w/g/0"),
        ({"workloadRef": {"name": "w"}}, ""),
        ({}, ""),
    ],
)
def test_the_group_of_a_pod_in_the_forms_of_all_versions(spec: Json, group: str) -> None:
    assert pod(spec=spec).group == group
