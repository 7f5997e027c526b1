"""The component of ``topolog view``: rights, ports and requests of its one process."""

from app import settings
from app.store.server import acl
from tests.support import manifests

FOLDER = "components/view"


def test_it_has_no_token_and_the_user_that_cannot_append() -> None:
    pod = manifests.one("Deployment", "topolog-view", FOLDER)["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    account = pod["serviceAccountName"]
    assert manifests.one("ServiceAccount", account, FOLDER)["automountServiceAccountToken"] is False
    subjects = [
        subject["name"]
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for binding in manifests.objects(kind)
        for subject in binding["subjects"]
    ]
    assert account not in subjects
    (container,) = pod["containers"]
    given = {each["name"]: each for each in container["env"]}
    key = given["TOPOLOG_STORE_URL"]["valueFrom"]["secretKeyRef"]["key"]
    (role,) = [role for role in acl.ROLES if f"{role.name}-url" == key]
    assert "append" not in role.functions
    assert {"xadd", "set", "unlink"} & set(role.granted) == set()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_its_ports_are_those_of_the_settings() -> None:
    deployment = manifests.one("Deployment", "topolog-view", FOLDER)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    defaults = {each.name: each.default for each in settings.describe()}
    assert defaults["view.port"] == 0
    assert ports == {"https": int(str(defaults["server.port"])) + 1, "health": defaults["server.health_port"]}
    service = manifests.one("Service", "topolog-view", FOLDER)["spec"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"] == labels


def test_it_is_small_and_probed_without_a_certificate() -> None:
    deployment = manifests.one("Deployment", "topolog-view", FOLDER)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "25m", "memory": "80Mi"}
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert {probe["port"] for probe in probes} == {"health"}
