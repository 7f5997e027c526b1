"""A sound cluster: what deploy/ creates, its pods ready, and a store that it has claimed."""

import contextlib
import datetime
import pathlib
import secrets
from collections.abc import Iterator
from typing import Any

import urllib3

from app.doctor.cluster import rights
from app.store.server import connections
from tests.support import declared, manifests
from tests.support.doctor import clusters

Json = dict[str, Any]
HOME = clusters.HOME
COMPONENTS = ("extender", "recorder", "controller", "auditor", "compactor")
PARTS = {
    "topolog-bootstrap-0": ("topolog-bootstrap", "bootstrap"),
    "topolog-valkey-0": ("topolog-valkey", "store"),
}
"""Pods of an installation beside those of the processes: their labels with name and component."""
READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "c", "restartCount": 0}],
}


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@contextlib.contextmanager
def running(folder: pathlib.Path, store_url: str) -> Iterator[clusters.Cluster]:
    """A sound cluster whose log is in that store."""
    with clusters.running(folder) as made:
        made.environ |= {
            "TOPOLOG_STORE_URL": store_url,
            "TOPOLOG_CLUSTER": f"c{secrets.token_hex(6)}",
        }
        claim(made, kubernetes=uid(made), epoch="1")
        for document in manifests.documents(manifests.DEPLOY / "crds" / "kosmos.io_workloadpolicies.yaml"):
            made.add("customresourcedefinitions", document)
        for account in manifests.objects("ServiceAccount", "rbac"):
            made.add("serviceaccounts", account)
        for name, (component, node) in pods().items():
            pod(made, name, component, node)
        for name, (part, component) in PARTS.items():
            pod(made, name, component, "n0", part=part)
        budget = manifests.one("PodDisruptionBudget", "topolog-extender")
        made.add("poddisruptionbudgets", {**budget, "metadata": {**budget["metadata"], "namespace": HOME}})
        for name in ("topolog-recorder", "topolog-controller"):
            lease(made, name)
        for component in COMPONENTS:
            for right in (*rights.EXCESS, rights.EVICT):
                deny(made, f"topolog-{component}", right)
        yield made


def pods() -> dict[str, tuple[str, str]]:
    """The pods of the processes -> which process, and its node."""
    return {
        f"topolog-{component}-{number}": (component, f"n{number}")
        for component in COMPONENTS
        for number in range(2 if component == "extender" else 1)
    }


def deny(cluster: clusters.Cluster, account: str, right: rights.Right) -> None:
    """Deny a right to a service account of Topolog's namespace."""
    user = f"system:serviceaccount:{HOME}:{account}"
    cluster.api.router.reviews.denied.add((user, right.verb, right.group, right.resource))


def uid(cluster: clusters.Cluster) -> str:
    """The UID of kube-system, as the API server shows it."""
    reply = urllib3.request("GET", f"{cluster.api.url}/api/v1/namespaces/kube-system")
    return str(reply.json()["metadata"]["uid"])


def claim(cluster: clusters.Cluster, **fields: str) -> None:
    """Write what a recorder writes when it claims a log."""
    with connections.connect(cluster.environ["TOPOLOG_STORE_URL"]) as client:
        client.hset(declared.names(cluster.environ["TOPOLOG_CLUSTER"]).meta, mapping=dict(fields))


def pod(cluster: clusters.Cluster, name: str, component: str, node: str, *, part: str = "topolog") -> None:
    spec = {"nodeName": node, "priorityClassName": "system-cluster-critical"}
    cluster.add_own_pod(name, component, part=part, serviceAccountName=f"topolog-{component}", **spec)
    cluster.api.objects.change("pods", (HOME, name), lambda one: {**one, "status": READY})


def lease(cluster: clusters.Cluster, name: str, **spec: object) -> None:
    given = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": now(), **spec}
    cluster.add("leases", {"metadata": {"name": name, "namespace": HOME}, "spec": given})
