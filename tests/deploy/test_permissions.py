"""The permissions that the manifests grant, against the complete list of those that processes need."""

import pytest

from app.provisioning import authorities, certificates, store_access
from tests.support import manifests

# The complete list of permissions of all processes.
READ = ["get", "list", "watch"]
SECRETS = [
    authorities.SECRET,
    certificates.SERVER,
    *certificates.CLIENTS,
    store_access.URLS,
    store_access.HASHES,
    certificates.STORE,
]
ALLOWED = {
    ("ClusterRole", "topolog-recorder"): [
        ([""], ["nodes", "pods"], READ),
        (["kosmos.io"], ["workloadpolicies"], READ),
        (["policy"], ["poddisruptionbudgets"], READ),
        (["scheduling.sigs.k8s.io"], ["elasticquotas", "podgroups"], READ),
        (["scheduling.x-k8s.io"], ["elasticquotas", "podgroups"], READ),
        (["scheduling.k8s.io"], ["podgroups", "workloads"], READ),
        (["scheduling.koordinator.sh"], ["clusternetworktopologies"], READ),
        ([""], ["namespaces"], ["get"], ["kube-system"]),
        ([], ["/apis", "/apis/*"], ["get"]),
    ],
    ("Role", "topolog-recorder"): [
        (["coordination.k8s.io"], ["leases"], ["create"]),
        (["coordination.k8s.io"], ["leases"], ["get", "update"], ["topolog-recorder"]),
    ],
    ("ClusterRole", "topolog-controller"): [
        ([""], ["pods"], READ),
        ([""], ["pods/status"], ["patch"]),
        (["", "events.k8s.io"], ["events"], ["create", "patch"]),
        (["kosmos.io"], ["workloadpolicies"], ["get"]),
        (["kosmos.io"], ["workloadpolicies/status"], ["patch"]),
        (["scheduling.sigs.k8s.io", "scheduling.x-k8s.io"], ["elasticquotas"], ["get"]),
        (["scheduling.sigs.k8s.io", "scheduling.x-k8s.io"], ["elasticquotas/status"], ["patch"]),
        (["scheduling.sigs.k8s.io", "scheduling.x-k8s.io"], ["podgroups"], ["get"]),
        (["scheduling.sigs.k8s.io", "scheduling.x-k8s.io"], ["podgroups/status"], ["patch"]),
        ([""], ["namespaces"], ["get"], ["kube-system"]),
    ],
    ("Role", "topolog-controller"): [
        (["coordination.k8s.io"], ["leases"], ["create"]),
        (["coordination.k8s.io"], ["leases"], ["get", "update"], ["topolog-controller"]),
    ],
    ("ClusterRole", "topolog-quota-annotations"): [
        (["scheduling.sigs.k8s.io"], ["elasticquotas"], ["patch"]),
    ],
    ("ClusterRole", "topolog-evictions"): [
        ([""], ["pods/eviction"], ["create"]),
    ],
    ("ClusterRole", "topolog-compactor"): [
        ([""], ["namespaces"], ["get"], ["kube-system"]),
    ],
    ("ClusterRole", "topolog-auditor"): [
        ([""], ["nodes", "pods"], ["get", "list"]),
        (["kosmos.io"], ["workloadpolicies"], ["get", "list"]),
        (["policy"], ["poddisruptionbudgets"], ["get", "list"]),
        (["scheduling.sigs.k8s.io"], ["elasticquotas", "podgroups"], ["get", "list"]),
        (["scheduling.x-k8s.io"], ["elasticquotas", "podgroups"], ["get", "list"]),
        (["scheduling.k8s.io"], ["podgroups", "workloads"], ["get", "list"]),
        (["scheduling.koordinator.sh"], ["clusternetworktopologies"], ["get", "list"]),
        ([""], ["namespaces"], ["get"], ["kube-system"]),
        ([], ["/apis", "/apis/*"], ["get"]),
    ],
    ("ClusterRole", "topolog-extender"): [
        ([""], ["pods"], ["get"]),
        ([""], ["pods/binding"], ["create"]),
        ([""], ["namespaces"], ["get"], ["kube-system"]),
    ],
    ("Role", "topolog-bootstrap"): [
        ([""], ["secrets"], ["create"]),
        ([""], ["secrets"], ["get", "update"], SECRETS),
    ],
    ("Role", "topolog-scheduler"): [
        (["coordination.k8s.io"], ["leases"], ["create"]),
        (["coordination.k8s.io"], ["leases"], ["get", "update"], ["topolog-scheduler"]),
    ],
}
# Roles of components, beside the one with the name of the process.
FURTHER = {
    ("ClusterRole", "topolog-quota-annotations"): "topolog-controller",
    ("ClusterRole", "topolog-evictions"): "topolog-controller",
}
# Roles of deploy/roles, which no process has.
FOR_PEOPLE = {"topolog-view", "topolog-edit", "topolog-admin", "topolog-quota-admin", "topolog-doctor"}
# Roles of Kubernetes that are bound to the sidecar's scheduler.
BORROWED = {
    ("ClusterRole", "system:kube-scheduler", "topolog-scheduler"),
    ("ClusterRole", "system:volume-scheduler", "topolog-scheduler"),
    ("Role", "extension-apiserver-authentication-reader", "topolog-scheduler"),
}


@pytest.mark.scenario("LX-13")
def test_permissions_are_exactly_those_of_the_list() -> None:
    found = {
        (kind, role["metadata"]["name"]): [
            (
                rule.get("apiGroups", []),
                rule.get("resources") or rule["nonResourceURLs"],
                rule["verbs"],
                *([rule["resourceNames"]] if "resourceNames" in rule else []),
            )
            for rule in role["rules"]
        ]
        for kind in ("ClusterRole", "Role")
        for role in manifests.objects(kind)
        if role["metadata"]["name"] not in FOR_PEOPLE
    }
    assert found == ALLOWED


def test_roles_for_people_grant_no_secret_and_no_change_but_of_policies_and_quotas() -> None:
    """What each one has is tested on a real API server (tests/e2e/deploy/test_roles.py)."""
    reading = {"get", "list", "watch"}
    found = [role for role in manifests.objects("ClusterRole", "roles") if role["rules"]]
    assert {role["metadata"]["name"] for role in found} == FOR_PEOPLE
    for role in found:
        for rule in role["rules"]:
            if "nonResourceURLs" in rule:
                assert {*rule["nonResourceURLs"]} <= {"/configz", "/metrics", "/version"}
                assert rule["verbs"] == ["get"]
                continue
            assert "secrets" not in rule["resources"]
            if not set(rule["verbs"]) <= reading:
                allowed = {"workloadpolicies", "elasticquotas", "subjectaccessreviews"}
                assert set(rule["resources"]) <= allowed, role["metadata"]["name"]


def test_the_doctor_reaches_pods_and_reads_secrets_in_its_own_namespace_alone() -> None:
    granted = {
        kind: {
            resource
            for role in manifests.objects(kind, "roles")
            if role["metadata"]["name"] == "topolog-doctor"
            for rule in role["rules"]
            for resource in rule.get("resources", [])
        }
        for kind in ("ClusterRole", "Role")
    }
    assert granted["Role"] == {"pods/proxy", "secrets"}
    assert not granted["Role"] & granted["ClusterRole"]


@pytest.mark.scenario("LX-13")
def test_each_process_has_only_its_permissions() -> None:
    found = {
        (binding["roleRef"]["kind"], binding["roleRef"]["name"], subject["name"])
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for binding in manifests.objects(kind)
        for subject in binding["subjects"]
    }
    assert found == {(*role, FURTHER.get(role, role[1])) for role in ALLOWED} | BORROWED


def test_every_account_exists_and_is_used() -> None:
    accounts = {each["metadata"]["name"] for each in manifests.objects("ServiceAccount")}
    used = {pod.get("serviceAccountName") for _, pod in manifests.pods()}
    assert used == {*accounts, None}  # None: the server of the store, which has no token
