"""The constraints of a pod's specification: what fitting reads, and what it names as not applied."""

import json
from typing import Any

import pytest

from app.domain import model
from app.kube import errors
from app.kube.objects import bounds, decoding

Json = dict[str, Any]

STANDARD = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]


def constraints(**spec: object) -> model.Constraints:
    metadata = {"name": "p", "namespace": "ns", "uid": "u"}
    found = decoding.pod(json.dumps({"metadata": metadata, "spec": spec}).encode()).constraints
    assert found is not None
    return found


def affinity(**parts: object) -> model.Constraints:
    return constraints(tolerations=STANDARD, affinity=parts)


def test_the_tolerations_of_every_pod_are_the_standard_ones() -> None:
    assert constraints(tolerations=STANDARD) is model.STANDARD


def test_pods_of_a_template_share_their_constraints() -> None:
    spec = {"nodeSelector": {"disk": "ssd"}, "tolerations": STANDARD}
    assert constraints(**spec) is constraints(**spec)


def test_tolerations() -> None:
    found = constraints(
        tolerations=[
            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
            {"operator": "Exists", "tolerationSeconds": 30},
        ]
    )
    assert found.tolerations == (
        model.Toleration("dedicated", "Equal", "gpu", "NoSchedule"),
        model.Toleration("", "Exists", "", ""),
    )


def test_required_node_affinity() -> None:
    found = affinity(
        nodeAffinity={
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["16"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                    {},
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
        }
    )
    assert found.node_terms == (
        model.NodeTerm(expressions=(model.Requirement("cores", "Gt", ("16",)),)),
        model.NodeTerm(fields=(model.Requirement("metadata.name", "In", ("n1",)),)),
        model.NodeTerm(),
    )


def test_preferences_refuse_no_node() -> None:
    preferred: Json = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    found = affinity(nodeAffinity=preferred, podAffinity=preferred, podAntiAffinity=preferred)
    assert found is model.STANDARD


def test_host_ports_of_containers_that_run_together() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]
    named = [{"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]
    found = constraints(
        tolerations=STANDARD,
        containers=[{"name": "a", "ports": ports}, {"name": "b"}],
        initContainers=[
            {"name": "s", "restartPolicy": "Always", "ports": named},
            {"name": "i", "ports": [{"containerPort": 1, "hostPort": 1}]},
        ],
    )
    assert found.host_ports == (model.HostPort(8080), model.HostPort(53, "UDP", "10.0.0.1"))
    any_address = [{"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0"}]
    found = constraints(containers=[{"name": "a", "ports": any_address}])
    assert found.host_ports == (model.HostPort(80),)


def test_required_pod_affinity() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {
            "matchLabels": {"app": "db"},
            "matchExpressions": [{"key": "tier", "operator": "Exists"}],
        },
        "namespaces": ["data"],
    }
    found = affinity(
        podAffinity={
            "requiredDuringSchedulingIgnoredDuringExecution": [
                term,
                {"topologyKey": "rack", "namespaceSelector": {}},
            ]
        }
    )
    selector = model.Selector({"app": "db"}, (model.Requirement("tier", "Exists"),))
    assert found.pod_affinity == (
        model.PodTerm("zone", selector, ("data",)),
        model.PodTerm("rack", any_namespace=True),
    )
    assert found.others == ("podAffinity",)


@pytest.mark.parametrize(
    ("spec", "others"),
    [
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]
                    }
                }
            },
            ("podAntiAffinity",),
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
            ("topologySpreadConstraints",),
        ),
        ({"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}, ()),
        (
            {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}, {"name": "e"}]},
            ("volumes",),
        ),
        ({"volumes": [{"name": "t", "projected": {"sources": []}}, {"name": "c", "configMap": {}}]}, ()),
        ({"resourceClaims": [{"name": "gpu"}]}, ("resourceClaims",)),
    ],
)
def test_rules_that_are_not_applied_are_named(spec: Json, others: tuple[str, ...]) -> None:
    assert constraints(**spec).others == others


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": {"key": "x"}},
        {"nodeSelector": {"a": 1}},
        {"affinity": {"nodeAffinity": []}},
        {"containers": [{"name": "a", "ports": [{"hostPort": "80"}]}]},
        {"tolerations": [{"key": "x" * bounds.CONSTRAINTS}]},
    ],
)
def test_invalid_constraints_make_the_pod_undecodable(spec: Json) -> None:
    with pytest.raises(errors.Undecodable):
        constraints(**spec)
