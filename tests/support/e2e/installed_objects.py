"""The objects of an installation: those that the processes run as, and those that belong to no namespace."""

from tests.support.e2e import api_client, clusters, installations


def generations(cluster: clusters.Cluster) -> list[tuple[str, int]]:
    """uid and generation of each object that a change of the manifests would change."""
    return [
        (one["metadata"]["uid"], one["metadata"].get("generation", 0))
        for path in (
            f"/apis/apps/v1/namespaces/{installations.HOME}/deployments",
            f"/apis/apps/v1/namespaces/{installations.HOME}/replicasets",
            f"/apis/apps/v1/namespaces/{installations.HOME}/statefulsets",
            f"/apis/networking.k8s.io/v1/namespaces/{installations.HOME}/networkpolicies",
            f"/apis/policy/v1/namespaces/{installations.HOME}/poddisruptionbudgets",
        )
        for one in cluster.api().list(path)
    ]


def outside_the_namespace(api: api_client.Api) -> list[str]:
    """The names of those that are not deleted with the namespace."""
    return [
        each["metadata"]["name"]
        for path in (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        )
        for each in api.list(path)
        if "topolog" in each["metadata"]["name"] or "kosmos" in each["metadata"]["name"]
    ]
