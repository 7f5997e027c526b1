"""``topolog doctor cluster``: NetworkPolicies that close the health ports to scrapers elsewhere."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from app.simulation.apiserver import faults
from tests.support import manifests
from tests.support.doctor import clusters, runs

Json = dict[str, Any]
HOME = clusters.HOME
SHIPPED = manifests.DEPLOY / "components" / "networkpolicies" / "networkpolicies.yaml"
ANYWHERE: list[Json] = [{"namespaceSelector": {}}]
NEIGHBOURS: list[Json] = [{"podSelector": {}}]
NAME = "kubernetes.io/metadata.name"
"""The label that the API server gives every namespace."""


def of_namespace(name: str) -> list[Json]:
    return [{"namespaceSelector": {"matchLabels": {NAME: name}}}]


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A recorder and an extender, and a namespace `monitoring` beside theirs."""
    with clusters.running(tmp_path) as made:
        for name in (HOME, "monitoring"):
            made.add("namespaces", {"metadata": {"name": name, "labels": {NAME: name}}})
        for name in ("recorder", "extender"):
            container = {"name": name, "image": "a", "ports": [{"name": "health", "containerPort": 9001}]}
            made.add_own_pod(f"topolog-{name}", name, containers=[container])
        yield made


def policy(name: str = "a", **spec: object) -> Json:
    return {
        "metadata": {"name": name, "namespace": HOME},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], **spec},
    }


def admitting(peers: list[Json] | None = None, **port: object) -> Json:
    """A rule for one port, or for all; without peers for all."""
    return {**({"from": peers} if peers else {}), **({"ports": [port]} if port else {})}


def component(name: str, operator: str = "In") -> Json:
    return {
        "matchExpressions": [{"key": "app.kubernetes.io/component", "operator": operator, "values": [name]}]
    }


def examined(cluster: clusters.Cluster, policies: list[Json]) -> list[Json]:
    for one in policies:
        cluster.add("networkpolicies", one)
    return runs.doctor("cluster", environ=cluster.environ).of("C11")


WRONG = {"C11": "warning"}
BOTH = "topolog-extender, topolog-recorder"
HEALTH = [admitting(port="health")]
CLOSED: dict[str, tuple[list[Json], str, dict[str, str]]] = {
    "no rule": ([policy()], BOTH, WRONG),
    "no types": ([policy(policyTypes=None)], BOTH, WRONG),
    "its own namespace only": ([policy(ingress=[admitting(NEIGHBOURS)])], BOTH, WRONG),
    "its own namespace by its name": ([policy(ingress=[admitting(of_namespace(HOME))])], BOTH, WRONG),
    "a namespace that does not exist": (
        [policy(ingress=[admitting(of_namespace("observability"), port="health")])],
        BOTH,
        WRONG,
    ),
    "a label that no namespace has": (
        [policy(ingress=[admitting([{"namespaceSelector": {"matchLabels": {"team": "seen"}}}])])],
        BOTH,
        WRONG,
    ),
    "another port": ([policy(ingress=[admitting(port="https")])], BOTH, WRONG),
    "another number": ([policy(ingress=[admitting(port=8081)])], BOTH, WRONG),
    "other numbers": ([policy(ingress=[admitting(port=8000, endPort=9000)])], BOTH, WRONG),
    "another protocol": ([policy(ingress=[admitting(port=9001, protocol="UDP")])], BOTH, WRONG),
    "one process": ([policy(podSelector=component("recorder"))], "topolog-recorder", WRONG),
    "all but one": (
        [policy(), policy("b", podSelector=component("recorder", "NotIn"), ingress=HEALTH)],
        "topolog-recorder",
        WRONG,
    ),
}


@pytest.mark.parametrize("name", CLOSED)
def test_health_ports_that_are_closed_are_found(cluster: clusters.Cluster, name: str) -> None:
    policies, pods, wrong = CLOSED[name]
    (found,) = examined(cluster, policies)
    assert {found["id"]: found["verdict"]} == wrong
    assert found["seen"] == f"no other namespace of this cluster is admitted by a to {pods}"
    assert "networkPolicy.monitoringNamespace" in found["fix"]


OPEN: dict[str, list[Json]] = {
    "no policy": [],
    "that of deploy": manifests.documents(SHIPPED),
    "one of other pods": [policy(podSelector={"matchLabels": {"app": "shop"}})],
    "one of outgoing connections": [policy(policyTypes=["Egress"])],
    "any peer and port": [policy(ingress=[{}])],
    "any port of another namespace": [policy(ingress=[admitting(ANYWHERE)])],
    "a namespace by its name": [policy(ingress=[admitting(of_namespace("monitoring"), port="health")])],
    "one of two namespaces": [
        policy(ingress=[admitting([*of_namespace("observability"), *of_namespace("monitoring")])])
    ],
    "addresses": [policy(ingress=[admitting([{"ipBlock": {"cidr": "10.0.0.0/8"}}], port="health")])],
    "the number": [policy(ingress=[admitting(ANYWHERE, port=9001)])],
    "numbers": [policy(ingress=[admitting(ANYWHERE, port=9000, endPort=9002)])],
    "any port of TCP": [policy(ingress=[admitting(ANYWHERE, protocol="TCP")])],
    "another policy": [policy(), policy("b", ingress=[admitting(ANYWHERE, port="health")])],
}


@pytest.mark.parametrize("name", OPEN)
def test_health_ports_that_are_open_are_right(cluster: clusters.Cluster, name: str) -> None:
    assert [one["verdict"] for one in examined(cluster, OPEN[name])] == ["ok"]


def test_without_pods_there_is_no_port_to_close(cluster: clusters.Cluster) -> None:
    for name in ("recorder", "extender"):
        cluster.api.objects.remove("pods", (HOME, f"topolog-{name}"))
    assert examined(cluster, [policy()]) == []


@pytest.mark.parametrize(("policies", "verdict"), [([policy()], "unsure"), ([], "ok")])
def test_namespaces_that_may_not_be_listed_leave_policies_unsure(
    cluster: clusters.Cluster, policies: list[Json], verdict: str
) -> None:
    cluster.api.faults.add(
        faults.FaultKind.FAIL, lambda request: request.path == "/api/v1/namespaces", status=403, times=1000
    )
    (found,) = examined(cluster, policies)
    assert found["verdict"] == verdict
    if verdict == "unsure":
        assert "/api/v1/namespaces" in found["seen"]
        assert "topolog-doctor" in found["fix"]
