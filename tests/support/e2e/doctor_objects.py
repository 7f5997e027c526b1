"""What the tests of the doctor create on a real API server: sound objects, and others that it finds wrong."""

import copy

from app.store.server import acl, connections
from tests.support.e2e import api_client, installations

HOME = installations.HOME
POLICY: api_client.Object = {
    "apiVersion": "kosmos.io/v1alpha1",
    "kind": "WorkloadPolicy",
    "metadata": {"name": "spread", "namespace": "default"},
    "spec": {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "allocationPolicy": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}],
        "allocationType": "Required",
    },
}


def deployment(
    name: str, *, scheduler: str = "topolog-scheduler", labelled: bool = True
) -> api_client.Object:
    labels = {"app": "web", **({"workload-policy/kosmos.io": "spread"} if labelled else {})}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "example/app:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"workload-policy/kosmos.io": "spread"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pod},
    }


def examples() -> api_client.Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "examples", "namespace": HOME},
        "spec": {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "198.51.100.0/24"}}]}]},
    }


def elsewhere() -> api_client.Object:
    made: api_client.Object = copy.deepcopy(POLICY)
    made["metadata"]["name"] = "elsewhere"
    made["spec"]["allocationPolicy"][1]["name"] = "nowhere"
    return made


CREATED: dict[str, tuple[str, list[api_client.Object], dict[str, str]]] = {
    "an address of documentation": ("cluster", [examples()], {"C09": "problem"}),
    "a domain without nodes": ("policies", [elsewhere()], {"P02": "problem"}),
}
"""Mistake -> the area that finds it, the objects that make it, and what is found."""


def permit(made: installations.Installation) -> None:
    """Give the server of the store a memory limit and the users of deploy/store/users.acl."""
    with connections.connect(made.store.url) as client:
        client.config_set("maxmemory", "1gb")
        for line in acl.access_list("default").splitlines():
            _, name, *rules = line.split()
            if name != "default":
                client.execute_command(
                    "ACL", "SETUSER", name, *("nopass" if one == "#PASSWORD" else one for one in rules)
                )
