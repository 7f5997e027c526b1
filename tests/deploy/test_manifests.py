"""Checks of the manifests in deploy/, without an API server; tests/e2e applies them to one."""

import json
import os
import pathlib
import re

import pytest

from app import settings
from tests.support import manifests
from tests.support.monitoring import installations

ROOT = manifests.DEPLOY.parent

CONTAINERS = [pytest.param(each, id=name) for name, each in manifests.containers()]
SERVING = [
    pytest.param(each, id=name)
    for name, each in manifests.containers()
    if "httpGet" in each.get("readinessProbe", {})
]
OF_TOPOLOG = [
    pytest.param(each, id=name)
    for name, each in manifests.containers()
    if manifests.is_ours(each) and "env" in each
]
CONNECTING = [
    pytest.param(each, id=name)
    for name, each in manifests.containers()
    if manifests.is_ours(each) and "env" in each and each["name"] != "users"
]
"""Those that have a user of the store; the init container of the bundled one writes its access list."""
PODS = [pytest.param(pod, id=name) for name, pod in manifests.pods()]
DEPLOYMENTS = [
    pytest.param(each, id=each["metadata"]["name"]) for each in manifests.objects("Deployment", "base")
]
FILES = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in manifests.files()]


@pytest.mark.scenario("RL-11")
@pytest.mark.parametrize("path", FILES)
def test_every_file_parses(path: pathlib.Path) -> None:
    for each in manifests.documents(path):
        assert each["apiVersion"]
        assert each["kind"]
        assert each["kind"] in manifests.NO_OBJECTS or each["metadata"]["name"]


@pytest.mark.parametrize("path", FILES)
def test_every_file_is_used(path: pathlib.Path) -> None:
    kustomizations = [each for each in manifests.files() if each.name == "kustomization.yaml"]
    used = {
        (each.parent / str(name).rpartition("=")[2]).resolve()
        for each in kustomizations
        for document in manifests.documents(each)
        for name in (
            document.get("resources", [])
            + [patch["path"] for patch in document.get("patches", []) if "path" in patch]
            + [name for made in document.get("configMapGenerator", []) for name in made.get("files", [])]
        )
    }
    schedulers = manifests.DEPLOY / "scheduler"
    assert path in used or path in kustomizations or path.parent == schedulers


# Pods


@pytest.mark.scenario("RL-11")
def test_two_extenders_never_share_a_node() -> None:
    extender = manifests.one("Deployment", "topolog-extender")
    assert extender["spec"]["replicas"] == 2
    pod = extender["spec"]["template"]
    (term,) = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    # On two nodes a third pod could not be scheduled during an update.
    assert extender["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize("part", ["recorder", "controller"])
def test_workers_have_a_standby_and_permission_for_their_lease(part: str) -> None:
    worker = manifests.one("Deployment", f"topolog-{part}")
    assert worker["spec"]["replicas"] == 2
    # The new replica is on standby before the old one releases its Lease.
    assert worker["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pod = worker["spec"]["template"]
    (term,) = pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    labels = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert labels.items() <= pod["metadata"]["labels"].items()
    defaults = {each.name: each.default for each in settings.describe()}
    role = manifests.one("Role", f"topolog-{part}", "rbac")
    assert role["rules"][1]["resourceNames"] == [defaults[f"election.{part}"]]
    assert defaults["election.namespace"] == ""  # the pod's namespace, which has the Role


@pytest.mark.scenario("RL-11")
def test_a_drain_leaves_one_extender() -> None:
    budget = manifests.one("PodDisruptionBudget", "topolog-extender")["spec"]
    labels = manifests.one("Deployment", "topolog-extender")["spec"]["template"]["metadata"]["labels"]
    assert budget["minAvailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_a_deployment_selects_only_its_pods(deployment: manifests.Object) -> None:
    spec = deployment["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == deployment["metadata"]["labels"]


@pytest.mark.scenario("RL-11")
@pytest.mark.parametrize("container", SERVING)
def test_probes_need_no_certificate(container: manifests.Object) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    (name,) = {probe["port"] for probe in probes.values()}
    if manifests.is_ours(container):
        assert (name, ports[name]) == ("health", 8081)
        assert all("scheme" not in probe for probe in probes.values())
    else:  # kube-scheduler serves its health without authentication, but over TLS
        assert (name, ports[name]) == ("scheduler", 10259)
        assert {probe["scheme"] for probe in probes.values()} == {"HTTPS"}


def test_ports_match_the_settings() -> None:
    defaults = {each.name: each.default for each in settings.describe()}
    extender = dict(manifests.containers())["dev/topolog-extender/extender"]
    ports = {port["name"]: port["containerPort"] for port in extender["ports"]}
    assert ports == {"https": defaults["server.port"], "health": defaults["server.health_port"]}


@pytest.mark.scenario("RL-11")
@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_have_no_privileges(container: manifests.Object) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("pod", PODS)
def test_pods_run_as_non_root(pod: manifests.Object) -> None:
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert (security["runAsUser"], security["runAsGroup"]) == (10001, 10001)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
    assert all("hostPath" not in volume for volume in pod["volumes"])
    # Service variables such as TOPOLOG_EXTENDER_PORT are not settings.
    assert pod["enableServiceLinks"] is False


# Settings and secrets


@pytest.mark.scenario("RL-11")
@pytest.mark.parametrize("container", CONNECTING)
def test_secrets_come_from_secrets(container: manifests.Object) -> None:
    given = {each["name"]: each for each in container["env"]}
    reference = given["TOPOLOG_STORE_URL"]["valueFrom"]["secretKeyRef"]  # the URL contains a password
    assert reference["name"] == "topolog-store"
    user = "migrator" if container["name"] == "migrate" else container["name"]
    assert reference["key"] == f"{user}-url"
    secret = {each.env for each in settings.describe() if each.rule.secret} | {"TOPOLOG_STORE_URL"}
    assert not [name for name, each in given.items() if name in secret and "value" in each]
    assert not secret & manifests.settings().keys()


@pytest.mark.parametrize("container", OF_TOPOLOG)
def test_only_known_settings_are_set(container: manifests.Object) -> None:
    known = {each.env for each in settings.describe()}
    assert {each["name"] for each in container["env"]} <= known
    assert "TOPOLOG_CLUSTER" in manifests.settings()
    assert manifests.settings().keys() <= known


def settings_of(objects: list[manifests.Object]) -> tuple[str, dict[str, str]]:
    """Name and data of the only ConfigMap of settings."""
    (found,) = [
        each
        for each in objects
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("topolog-")
        if "TOPOLOG_CLUSTER" in each["data"]
    ]
    return found["metadata"]["name"], found["data"]


def sources(objects: list[manifests.Object]) -> dict[str, set[str]]:
    """Deployment -> the ConfigMaps that its containers get variables from."""
    return {
        each["metadata"]["name"]: {
            source["configMapRef"]["name"]
            for container in each["spec"]["template"]["spec"]["containers"]
            + each["spec"]["template"]["spec"].get("initContainers", [])
            for source in container.get("envFrom", [])
        }
        for each in objects
        if each["kind"] == "Deployment"
    }


@pytest.mark.skipif(manifests.KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize("folder", [f"overlays/{name}" for name in manifests.OVERLAYS])
def test_a_changed_setting_restarts_every_process(tmp_path: pathlib.Path, folder: str) -> None:
    before = manifests.rendered(manifests.DEPLOY / folder)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(manifests.DEPLOY / folder, tmp_path)],
        "configMapGenerator": [
            {
                "name": "topolog",
                "namespace": "topolog-system",
                "behavior": "merge",
                "literals": ["TOPOLOG_CLUSTER=production", "TOPOLOG_LOGGING_LEVEL=debug"],
            }
        ],
    }
    (tmp_path / "kustomization.yaml").write_text(json.dumps(kustomization))
    after = manifests.rendered(tmp_path)
    former, name = settings_of(before)[0], settings_of(after)[0]
    assert settings_of(after)[1] == {
        **settings_of(before)[1],
        "TOPOLOG_CLUSTER": "production",
        "TOPOLOG_LOGGING_LEVEL": "debug",
    }
    assert name != former
    everywhere = {f"topolog-{part}" for part in (*installations.COMMANDS, "extender")}
    if folder != "overlays/sidecar":
        everywhere |= {"topolog-bootstrap", "topolog-view"}
    assert sources(before) == {key: {former} for key in everywhere}
    assert sources(after) == {key: {name} for key in everywhere}
    stores = [[each for each in found if each["kind"] == "StatefulSet"] for found in (before, after)]
    assert stores[0] == stores[1], "a setting that is misspelt would end a store that runs"
    leases = [each["rules"] for each in before if each["kind"] == "Role"]
    assert leases == [each["rules"] for each in after if each["kind"] == "Role"]


def test_the_manifests_contain_no_secret() -> None:
    assert manifests.objects("Secret") == []


def test_tls_settings_match_the_mounted_files() -> None:
    extender = dict(manifests.containers())["dev/topolog-extender/extender"]
    (mounted,) = [each["mountPath"] for each in extender["volumeMounts"] if each["name"] == "tls"]
    set_to = {each["name"]: each["value"] for each in extender["env"] if "value" in each}
    assert set_to == {
        "TOPOLOG_TLS_CERT": f"{mounted}/tls.crt",
        "TOPOLOG_TLS_KEY": f"{mounted}/tls.key",
        "TOPOLOG_TLS_CA": f"{mounted}/ca.crt",
    }


# kube-scheduler


@pytest.mark.scenario("LX-13")
@pytest.mark.parametrize("variant", ["service", "sidecar", "managed"])
def test_kube_scheduler_calls_the_extender(variant: str) -> None:
    (config,) = manifests.documents(manifests.DEPLOY / "scheduler" / f"kube-scheduler-{variant}.yaml")
    assert config["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert config["kind"] == "KubeSchedulerConfiguration"
    assert config["percentageOfNodesToScore"] == 100
    (extender,) = config["extenders"]
    _check_extender(extender)
    assert extender["httpTimeout"] == "5s"
    assert ("managedResources" in extender) == (variant == "managed")


@pytest.mark.scenario("LX-13")
def test_a_kube_scheduler_before_1_23_calls_the_extender() -> None:
    policy = json.loads((manifests.DEPLOY / "scheduler" / "scheduler-policy.json").read_text())
    assert (policy["kind"], policy["apiVersion"]) == ("Policy", "v1")
    (extender,) = policy["extenders"]
    _check_extender(extender)
    assert extender["httpTimeout"] == 5_000_000_000
    assert extender["urlPrefix"].endswith("/api")


def _check_extender(extender: manifests.Object) -> None:
    verbs = {name: extender[f"{name}Verb"] for name in ("filter", "prioritize", "bind", "preempt")}
    assert verbs == {name: name for name in verbs}
    assert extender["urlPrefix"].startswith("https://")  # enableHTTPS alone is not enough
    assert extender["enableHTTPS"] is True
    assert extender["nodeCacheCapable"] is True
    assert extender["ignorable"] is False
    assert extender["weight"] > 0
    tls = extender["tlsConfig"]
    assert tls.pop("insecure", False) is False
    # Inline data would appear in the scheduler's log and never be reloaded.
    assert tls.keys() == {"serverName", "caFile", "certFile", "keyFile"}


@pytest.mark.scenario("LX-13")
def test_the_sidecar_is_in_the_extenders_pod() -> None:
    patch = manifests.one("Deployment", "topolog-extender", "components/sidecar")
    pod = patch["spec"]["template"]["spec"]
    (scheduler,) = pod["containers"]
    assert scheduler["command"] == ["kube-scheduler"]
    (config,) = manifests.documents(manifests.DEPLOY / "scheduler" / "kube-scheduler-sidecar.yaml")
    (extender,) = config["extenders"]
    assert extender["urlPrefix"] == "https://127.0.0.1:8443"
    mounts = {each["name"]: each["mountPath"] for each in scheduler["volumeMounts"]}
    assert {
        pathlib.PurePath(extender["tlsConfig"][f"{name}File"]).parent for name in ("ca", "cert", "key")
    } == {pathlib.PurePath(mounts["scheduler-tls"])}
    assert f"--config={mounts['scheduler']}/kube-scheduler.yaml" in scheduler["args"]
    # The Role permits the configured Lease.
    role = manifests.one("Role", "topolog-scheduler", "components/sidecar")
    assert role["rules"][1]["resourceNames"] == [config["leaderElection"]["resourceName"]]
    assert role["metadata"]["namespace"] == config["leaderElection"]["resourceNamespace"]


# Networks


def test_every_pod_denies_all_traffic_except_the_named_ports() -> None:
    whole = manifests.one("NetworkPolicy", "topolog", "components/networkpolicies")["spec"]
    assert whole["policyTypes"] == ["Ingress", "Egress"]
    for deployment in manifests.objects("Deployment", "base"):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert whole["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = manifests.one("NetworkPolicy", "topolog-extender", "overlays")["spec"]["ingress"]
    assert [each["port"] for each in rule["ports"]] == ["https"]
    assert "from" not in rule, "with Cilium, no block of addresses matches a kube-scheduler on a node"


@pytest.mark.parametrize("name", ["topolog-extender", "topolog-health"])
def test_services_target_named_ports(name: str) -> None:
    service = manifests.one("Service", name)["spec"]
    reached = [
        container
        for deployment in manifests.objects("Deployment", "base")
        if service["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
        for container in deployment["spec"]["template"]["spec"]["containers"]
    ]
    assert reached
    for container in reached:
        ports = {each["name"] for each in container["ports"]}
        assert {each["targetPort"] for each in service["ports"]} <= ports


def test_every_port_forward_that_is_shown_names_a_port_of_the_service() -> None:
    shown = re.compile(r"port-forward[\s\"]+service/([\w-]+) (\d+):?(\d*)")
    found = [
        (path.relative_to(ROOT).as_posix(), *match)
        for path in [*(ROOT / "app").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
        for match in shown.findall(path.read_text())
    ]
    assert {path for path, *_ in found} >= {"docs/how-to/certificates.md", "app/doctor/tls/examination.py"}
    services = [each for each in manifests.overlay("dev") if each["kind"] == "Service"]
    ports = {(each["metadata"]["name"], one["port"]) for each in services for one in each["spec"]["ports"]}
    for path, name, local, port in found:
        assert (name, int(port or local)) in ports, path
