"""The shipped ClusterRoles on a real API server: editors of a namespace edit its policies, and no quotas."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.doctor import runs
from tests.support.e2e import api_client, clusters, component_flags

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
HOME = "topolog-system"
AGGREGATOR = "clusterrole-aggregation-controller"
TEAM = "team-a"
POLICIES = ("kosmos.io", "workloadpolicies")
QUOTAS = ("scheduling.sigs.k8s.io", "elasticquotas")
READ = frozenset(("get", "list", "watch"))
WRITE = frozenset(("create", "update", "patch", "delete"))
EVERY = READ | WRITE | {"deletecollection"}
EXPECTED: dict[str, dict[tuple[str, str], frozenset[str]]] = {
    "view": {POLICIES: READ, QUOTAS: READ},
    "edit": {POLICIES: READ | WRITE, QUOTAS: READ},
    "admin": {POLICIES: EVERY, QUOTAS: READ},
    "topolog-quota-admin": {POLICIES: frozenset(), QUOTAS: EVERY},
    "topolog-doctor": {POLICIES: READ - {"watch"}, QUOTAS: READ - {"watch"}},
}


@pytest.fixture(scope="module")
def plane(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A cluster with the roles, the definitions and a namespace of a team."""
    with clusters.Cluster(binary) as cluster:
        cluster.start_controller_manager((*component_flags.CONTROLLERS, AGGREGATOR))
        cluster.add_namespace(HOME)
        cluster.add_namespace(TEAM)
        for folder in ("crds", "roles"):
            cluster.kubectl("apply", "-k", DEPLOY / folder)
        yield cluster


def user_with(plane: clusters.Cluster, role: str, *, everywhere: bool = False) -> str:
    """A user who has a ClusterRole in the namespace of the team, or in the cluster."""
    name = f"{role}-{'all' if everywhere else 'own'}"
    plane.kubectl("-n", TEAM, "create", "serviceaccount", name)
    kind = ["clusterrolebinding"] if everywhere else ["-n", TEAM, "rolebinding"]
    at = kind.index("clusterrolebinding" if everywhere else "rolebinding")
    arguments = [*kind[:at], "create", kind[at], name, f"--clusterrole={role}"]
    plane.kubectl(*arguments, f"--serviceaccount={TEAM}:{name}")
    return f"system:serviceaccount:{TEAM}:{name}"


def allowed(plane: clusters.Cluster, user: str, group: str, resource: str) -> frozenset[str]:
    """The verbs that the API server's own authorizer allows in the namespace of the team."""
    found = set()
    for verb in EVERY:
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": TEAM}
        review: api_client.Object = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        answer = plane.api().create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        if answer["status"]["allowed"]:
            found.add(verb)
    return frozenset(found)


@pytest.mark.parametrize("role", EXPECTED)
def test_each_role_has_exactly_its_permissions(plane: clusters.Cluster, role: str) -> None:
    user = user_with(plane, role)

    def seen() -> dict[tuple[str, str], frozenset[str]]:
        return {each: allowed(plane, user, *each) for each in (POLICIES, QUOTAS)}

    # The controller of Kubernetes aggregates the roles after they are created.
    polling.eventually(lambda: seen() == EXPECTED[role], "the roles are aggregated", within=60, seen=seen)


def test_the_doctors_role_lets_it_see_everything_and_change_nothing(plane: clusters.Cluster) -> None:
    user = user_with(plane, "topolog-doctor", everywhere=True)
    plane.kubectl(
        *("-n", HOME, "create", "rolebinding", "topolog-doctor", "--role=topolog-doctor"),
        f"--serviceaccount={TEAM}:topolog-doctor-all",
    )
    plane.service_account(TEAM, "topolog-doctor-all")
    given = {"TOPOLOG_KUBE_KUBECONFIG": str(plane.kubeconfig(user))}

    def refused() -> list[str]:
        checks = [
            one
            for area in ("cluster", "policies", "scheduler")
            for one in runs.doctor(area, environ=given).checks
        ]
        return [one["seen"] for one in checks if "refuses" in one["seen"]]

    polling.eventually(lambda: not refused(), "the permissions are in force", within=60, seen=refused)
    run = runs.doctor("cluster", environ=given)
    assert {one["verdict"] for one in run.of("C01")} == {"ok"}
    assert run.of("C12") == []
    for verb, resource in (("create", "pods"), ("delete", "pods"), ("get", "secrets"), ("patch", "nodes")):
        answer = plane.kubectl("auth", "can-i", verb, resource, "-n", TEAM, identity=user, refused=True)
        assert answer is not None


def test_an_editor_may_apply_a_policy(plane: clusters.Cluster) -> None:
    user_with(plane, "edit", everywhere=True)
    editor = plane.service_account(TEAM, "edit-all")
    policy = """
apiVersion: kosmos.io/v1alpha1
kind: WorkloadPolicy
metadata: {name: spread, namespace: team-a}
spec:
  topologyKey: zone
  labelSelector: {matchLabels: {app: web}}
  allocationPolicy: [{name: a, replicas: 1}]
"""

    def applied() -> bool:
        try:
            plane.kubectl("apply", "-f", "-", identity=editor, stdin=policy)
        except AssertionError:
            return False
        return True

    polling.eventually(applied, "the permission is in force", within=60)
