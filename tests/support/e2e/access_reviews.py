"""Asks the API server what a user may do."""

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
