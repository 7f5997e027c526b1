"""Koordinator's ElasticQuotas in a cluster."""

import pathlib

from tests.support.e2e import api_client, clusters

LABEL = "quota.scheduling.koordinator.sh/name"
RESOURCE = "elasticquotas.scheduling.sigs.k8s.io"
_MANIFEST = pathlib.Path(__file__).parents[2] / "e2e" / "manifests" / "elasticquotas.yaml"


def define(cluster: clusters.Cluster) -> None:
    """Create their definition, and wait until it is served."""
    cluster.kubectl("apply", "-f", _MANIFEST)
    cluster.kubectl("wait", "--for=condition=established", f"crd/{RESOURCE}")


def quota(namespace: str, name: str, *, least: int, most: int) -> api_client.Object:
    """A quota in cores."""
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"min": {"cpu": str(least)}, "max": {"cpu": str(most)}},
    }
