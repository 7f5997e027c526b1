"""Koordinator's ElasticQuotas in a cluster."""

import contextlib
import json
import pathlib
from collections.abc import Iterator

from tests.support.e2e import api_client, clusters, installations

LABEL = "quota.scheduling.koordinator.sh/name"
RESOURCE = "elasticquotas.scheduling.sigs.k8s.io"
_ROOT = pathlib.Path(__file__).parents[3]
_MANIFEST = _ROOT / "tests" / "e2e" / "manifests" / "elasticquotas.yaml"
_RIGHTS = _ROOT / "deploy" / "components" / "evictions" / "rbac.yaml"


def define(cluster: clusters.Cluster) -> None:
    """Create their definition, and wait until it is served."""
    cluster.kubectl("apply", "-f", _MANIFEST)
    cluster.await_done("wait", "--for=condition=established", f"crd/{RESOURCE}")


def quota(namespace: str, name: str, *, least: int, most: int) -> api_client.Object:
    """A quota in cores."""
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"min": {"cpu": str(least)}, "max": {"cpu": str(most)}},
    }


@contextlib.contextmanager
def evicting(cluster: clusters.Cluster, namespace: str, **args: str) -> Iterator[installations.Installation]:
    """Topolog with ElasticQuota and the right to evict, a namespace, and a node of 16 cores; no scheduler."""
    define(cluster)
    cluster.kubectl("apply", "-f", _RIGHTS)
    with installations.Installation(
        cluster, PLUGINS_ENABLED="*,ElasticQuota", PLUGINS_ARGS=json.dumps({"ElasticQuota": args})
    ) as installed:
        cluster.add_namespace(namespace)
        cluster.add_nodes("n1", capacity={"cpu": "16", "memory": "64Gi", "pods": "110"})
        yield installed
