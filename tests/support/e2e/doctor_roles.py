"""Gives users the roles of deploy/roles that the doctor reads a cluster with."""

from tests.support.e2e import clusters, installations


def grant(cluster: clusters.Cluster, name: str, subject: str) -> None:
    """Bind the roles; ``subject``: as kubectl takes it, such as ``--user=NAME``."""
    cluster.kubectl("create", "clusterrolebinding", name, "--clusterrole=topolog-doctor", subject)
    cluster.kubectl("-n", installations.HOME, "create", "rolebinding", name, "--role=topolog-doctor", subject)


def revoke(cluster: clusters.Cluster, name: str) -> None:
    """Delete both bindings."""
    cluster.kubectl("delete", "clusterrolebinding", name)
    cluster.kubectl("-n", installations.HOME, "delete", "rolebinding", name)
