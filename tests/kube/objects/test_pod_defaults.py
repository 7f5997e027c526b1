"""The API server's defaults of a pod, in a manifest as people write it."""

import json
from typing import Any

import pytest

from app.domain import model
from app.kube import errors
from app.kube.objects import decoding, pod_defaults

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def decoded(**spec: object) -> model.Pod:
    pod = pod_defaults.defaulted({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec})
    assert pod_defaults.defaulted(pod) == pod
    return decoding.pod(json.dumps(pod).encode())


def container(limits: object = None, requests: object = None, **further: object) -> Json:
    resources = {"limits": limits, "requests": requests}
    return {
        "name": "c",
        "resources": {key: one for key, one in resources.items() if one is not None},
    } | further


@pytest.mark.parametrize("part", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ({GPU: 8, "cpu": "4"}, None, {GPU: 8, "cpu": 4000}),
        ({GPU: 8, "cpu": "4"}, {}, {GPU: 8, "cpu": 4000}),
        ({GPU: 8, "cpu": "4"}, {"cpu": "1"}, {GPU: 8, "cpu": 1000}),
        ({"cpu": "4"}, {"cpu": "0"}, {"cpu": 0}),
        ({"cpu": "4"}, {"memory": "1Ki"}, {"cpu": 4000, "memory": 1024}),
        ({"cpu": None}, {"memory": "1Ki"}, {"memory": 1024}),
        (None, {"memory": "1Ki"}, {"memory": 1024}),
    ],
)
def test_a_container_requests_its_limits_resource_by_resource(
    part: str, limits: Json | None, requests: Json | None, expected: dict[str, int]
) -> None:
    assert decoded(**{part: [container(limits, requests)]}).requests == expected


@pytest.mark.parametrize(
    ("whole", "requests", "expected"),
    [
        ({"limits": {"cpu": "4"}}, None, {"cpu": 4000}),
        ({"limits": {"cpu": "4"}}, {"cpu": "1"}, {"cpu": 1000}),
        ({"limits": {"cpu": "4"}}, {"cpu": "0"}, {"cpu": 0}),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}, {"cpu": "1"}, {"cpu": 3000}),
        ({"limits": {"cpu": "4"}, "requests": {"memory": "2Ki"}}, None, {"cpu": 4000, "memory": 2048}),
        ({"limits": {"hugepages-2Mi": "8Mi"}}, {"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": 2**23}),
        ({"limits": {GPU: 8}}, None, {}),
    ],
)
def test_a_pod_requests_its_limits_of_what_no_container_requests(
    whole: Json, requests: Json | None, expected: dict[str, int]
) -> None:
    """defaultPodRequests: else it requests what the containers do, but for huge pages."""
    assert decoded(containers=[container(requests=requests)], resources=whole).requests == expected
    assert decoded(initContainers=[container(requests=requests)], resources=whole).requests == expected


def test_the_limit_of_a_container_is_a_request_before_that_of_the_pod() -> None:
    found = decoded(containers=[container({"cpu": "1"}), container()], resources={"limits": {"cpu": "4"}})
    assert found.requests == {"cpu": 1000}


@pytest.mark.parametrize(
    ("network", "ports", "expected"),
    [
        (True, [{"containerPort": 80}, {"containerPort": 53, "hostPort": 0, "protocol": "UDP"}], [80, 53]),
        (True, [{"containerPort": 80, "hostPort": 81}], [81]),
        (False, [{"containerPort": 80}, {"containerPort": 53, "hostPort": 54}], [54]),
    ],
)
def test_ports_on_the_network_of_the_node_are_those_of_the_node(
    network: bool, ports: list[Json], expected: list[int]
) -> None:
    for given in (
        {"containers": [container(ports=ports)]},
        {"initContainers": [container(ports=ports, restartPolicy="Always")]},
    ):
        constraints = decoded(hostNetwork=network, **given).constraints
        assert constraints is not None
        assert [port.port for port in constraints.host_ports] == expected


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": {}},
        {"containers": ["c"]},
        {"containers": [{"resources": []}]},
        {"containers": [container({"cpu": "1"}, [])]},
        {"containers": [container(ports={"a": 1})], "hostNetwork": True},
        {"containers": [container(ports=[1])], "hostNetwork": True},
        {"resources": []},
    ],
)
def test_parts_of_another_shape_are_refused_as_without_defaults(spec: Json) -> None:
    with pytest.raises(errors.Undecodable):
        decoded(**spec)


@pytest.mark.parametrize("spec", [None, [], "x"])
def test_a_pod_without_a_specification_is_left_as_it_is(spec: object) -> None:
    pod = {"metadata": {"name": "p"}, "spec": spec}
    assert pod_defaults.defaulted(pod) is pod
