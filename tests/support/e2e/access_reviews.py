"""Asks the API server what a user may do."""

from collections.abc import Iterable

from tests.support.e2e import clusters


def allowed(cluster: clusters.Cluster, user: str, **attributes: str) -> bool:
    """Whether the user may do it; ``attributes``: those of a resource, as `verb` and `namespace`."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    found: bool = cluster.api(user).create(path, review)["status"]["allowed"]
    return found


def of_secrets(
    cluster: clusters.Cluster, user: str, namespace: str, names: Iterable[str]
) -> set[tuple[str, str]]:
    """What the user may do with Secrets of these names: verb and name."""
    return {
        (verb, name)
        for verb in ("get", "update", "create", "list", "watch", "delete")
        for name in names
        # A create request has no name.
        if allowed(
            cluster,
            user,
            verb=verb,
            resource="secrets",
            namespace=namespace,
            name="" if verb == "create" else name,
        )
    }
