"""The overlays as they are applied, rendered without kubectl, and rules that hold for each of them."""

import fractions
import os
import pathlib
import re
from collections.abc import Iterable, Iterator

import pytest
import yaml

from app import settings
from tests.support import api_schema, how_to_pages, kustomizations, manifests

HOME = "topolog-system"
COMPLETE = [name for name in manifests.OVERLAYS if name != "sidecar"]
"""The overlays that need nothing but kubectl."""
PLACEHOLDERS = r"192\.0\.2\.|198\.51\.100\.|203\.0\.113\.|example|REPLACE|CHANGEME|TODO|PASSWORD|<[a-zA-Z]+>"
BYTES = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def identity(one: manifests.Object) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


@pytest.mark.skipif(manifests.KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_kubectl_renders_the_same(name: str) -> None:
    rendered = manifests.rendered(manifests.DEPLOY / "overlays" / name)
    ours = {identity(one): manifests.in_order(one) for one in manifests.overlay(name)}
    assert {identity(one): manifests.in_order(one) for one in rendered} == ours
    assert len(ours) == len(rendered) == len(manifests.overlay(name))


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_nothing_has_to_be_filled_in(name: str) -> None:
    objects = [one for one in manifests.overlay(name) if one["kind"] != "CustomResourceDefinition"]
    text = yaml.safe_dump_all(objects)
    assert re.findall(PLACEHOLDERS, text) == []


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_every_field_is_one_of_the_api(name: str) -> None:
    found = [problem for one in manifests.overlay(name) for problem in api_schema.problems(one)]
    assert found == []


def test_a_misspelled_field_is_found() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "spec": {"minAvailabel": 1, "selector": {"matchLabels": [1]}},
    }
    assert api_schema.problems(budget) == [
        "PodDisruptionBudget.spec: minAvailabel is not a field of it",
        "PodDisruptionBudget.spec.selector.matchLabels: an object is expected",
    ]


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_every_object_is_in_the_namespace(name: str) -> None:
    elsewhere = {
        identity(one)
        for one in manifests.overlay(name)
        if "namespace" in one["metadata"] and one["metadata"]["namespace"] != HOME
    }
    reader = ("RoleBinding", "kube-system", "topolog-scheduler-authentication-reader")
    assert elsewhere == ({reader} if name != "existing-scheduler" else set())


def references(name: str) -> Iterator[tuple[str, str]]:
    """(kind, name) of every Secret, ConfigMap and ServiceAccount that a pod of the overlay needs."""
    for one in manifests.in_overlay(name, *manifests.WORKLOADS).values():
        pod = one["spec"]["template"]["spec"]
        if "serviceAccountName" in pod:
            yield "ServiceAccount", pod["serviceAccountName"]
        for volume in pod["volumes"]:
            if "configMap" in volume:
                yield "ConfigMap", volume["configMap"]["name"]
            if "secret" in volume:
                yield "Secret", volume["secret"]["secretName"]
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            for source in container.get("envFrom", []):
                yield "ConfigMap", source["configMapRef"]["name"]
            for each in container.get("env", []):
                if "valueFrom" in each:
                    yield "Secret", each["valueFrom"]["secretKeyRef"]["name"]


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_what_pods_need_is_there_or_made_by_bootstrap(name: str) -> None:
    missing = {
        (kind, called) for kind, called in references(name) if called not in manifests.in_overlay(name, kind)
    }
    assert {kind for kind, _ in missing} == {"Secret"}
    if name in COMPLETE:
        role = manifests.in_overlay(name, "Role")["topolog-bootstrap"]
        assert {called for _, called in missing} <= set(role["rules"][1]["resourceNames"])
    else:
        page = (manifests.DEPLOY / "README.md").read_text()
        assert [called for _, called in missing if f"| `{called}` |" not in page] == []


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_every_selector_selects_pods(name: str) -> None:
    labels = [
        one["spec"]["template"]["metadata"]["labels"]
        for one in manifests.in_overlay(name, *manifests.WORKLOADS).values()
    ]
    for one in manifests.overlay(name):
        spec = one.get("spec", {})
        match one["kind"]:
            case "Service":
                selector = spec["selector"]
            case "PodDisruptionBudget":
                selector = spec["selector"]["matchLabels"]
            case "NetworkPolicy":
                selector = spec["podSelector"]["matchLabels"]
            case _:
                continue
        assert any(selector.items() <= each.items() for each in labels), identity(one)


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_every_pod_is_under_a_network_policy(name: str) -> None:
    policies = manifests.in_overlay(name, "NetworkPolicy").values()
    for one in manifests.in_overlay(name, *manifests.WORKLOADS).values():
        labels = one["spec"]["template"]["metadata"]["labels"]
        directions = {
            direction
            for policy in policies
            if policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
            for direction in policy["spec"]["policyTypes"]
        }
        assert directions == {"Ingress", "Egress"}, one["metadata"]["name"]


def test_a_pod_of_a_workload_is_not_preempted_by_one_that_it_places() -> None:
    classes = {name.partition("/")[2]: pod.get("priorityClassName") for name, pod in manifests.pods()}
    assert classes.pop("topolog-view") is None, "scheduling does not need it"
    assert set(classes.values()) == {"system-cluster-critical"}


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_a_quota_for_the_priority_class_of_the_pods_limits_nothing(name: str) -> None:
    """tests/e2e/deploy/test_deploy_manifests.py has a cluster that requires it."""
    (quota,) = manifests.in_overlay(name, "ResourceQuota").values()
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert (scope["scopeName"], scope["operator"]) == ("PriorityClass", "In")
    assert scope["values"] == ["system-cluster-critical"]
    # A quota of CPU or memory would refuse pods without requests.
    assert quota["spec"]["hard"].keys() == {"pods"}
    workloads = manifests.in_overlay(name, *manifests.WORKLOADS).values()
    assert int(quota["spec"]["hard"]["pods"]) > 20 * sum(one["spec"]["replicas"] for one in workloads)


def test_mounted_volumes_and_probed_ports_exist() -> None:
    for name, pod in manifests.pods():
        claims = ["data"] if name.endswith("/topolog-valkey") else []
        volumes = {*(each["name"] for each in pod["volumes"]), *claims}
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert {each["name"] for each in container.get("volumeMounts", [])} <= volumes, name
            ports = {each["name"] for each in container.get("ports", [])}
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                probe = container.get(kind, {})
                assert {
                    each["port"] for key, each in probe.items() if key.endswith(("Get", "Socket"))
                } <= ports


# Sizes


def amount(text: str) -> fractions.Fraction:
    """A quantity of CPU in cores, or of memory in bytes."""
    found = re.fullmatch(r"(\d+)(m|[KMG]i|)", text)
    assert found, text
    number = fractions.Fraction(found[1])
    return number / 1000 if found[2] == "m" else number * BYTES[found[2]]


def requested(pods: Iterable[tuple[manifests.Object, int]], resource: str) -> fractions.Fraction:
    """What pods request: the containers together, or the largest init container if that is more."""
    total = fractions.Fraction(0)
    for pod, replicas in pods:
        running = [amount(each["resources"]["requests"][resource]) for each in pod["containers"]]
        before = [amount(each["resources"]["requests"][resource]) for each in pod.get("initContainers", [])]
        total += max([sum(running, fractions.Fraction(0)), *before]) * replicas
    return total


def test_dev_requests_what_is_stated_of_it() -> None:
    workloads = manifests.in_overlay("dev", *manifests.WORKLOADS).values()
    pods = [(one["spec"]["template"]["spec"], one["spec"]["replicas"]) for one in workloads]
    files = (f"deploy/{each}/kustomization.yaml" for each in ("components/small", "overlays/dev"))
    for name in ("README.md", "deploy/README.md", "docs/how-to/install.md", *files):
        stated = re.findall(
            r"(half a|[\d.]+) CPU(?:,| and) ([\d.]+) GiB", (manifests.DEPLOY.parent / name).read_text()
        )
        assert stated == [("half a", "1")], name
    for number, asked in ((0.5, requested(pods, "cpu")), (1, requested(pods, "memory") / 2**30)):
        assert 0 <= number - asked < fractions.Fraction(1, 10)
    assert {one["spec"]["replicas"] for one in workloads} == {1}
    # One node has to suffice.
    assert [pod for pod, _ in pods if "affinity" in pod or "topologySpreadConstraints" in pod] == []


def test_the_page_states_what_ha_requests() -> None:
    page = (manifests.DEPLOY.parent / "docs" / "how-to" / "install-ha.md").read_text()
    stated = re.search(r"together, ([\d.]+) CPU and ([\d.]+) GiB", page)
    assert stated
    workloads = manifests.in_overlay("ha", *manifests.WORKLOADS).values()
    pods = [(one["spec"]["template"]["spec"], one["spec"]["replicas"]) for one in workloads]
    for number, asked in zip(
        stated.groups(), (requested(pods, "cpu"), requested(pods, "memory") / 2**30), strict=True
    ):
        assert 0 <= fractions.Fraction(number) - asked < fractions.Fraction(1, 10)


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_a_pod_that_is_not_ready_blocks_no_drain(name: str) -> None:
    """By default it does while too few others are ready, and the only pod of its budget always."""
    budgets = manifests.in_overlay(name, "PodDisruptionBudget")
    assert budgets
    policies = {each: one["spec"].get("unhealthyPodEvictionPolicy") for each, one in budgets.items()}
    assert set(policies.values()) == {"AlwaysAllow"}, policies


@pytest.mark.parametrize("name", ["ha", "existing-scheduler"])
def test_two_nodes_suffice_and_a_drain_leaves_one_of_each(name: str) -> None:
    deployments = manifests.in_overlay(name, "Deployment")
    budgets = manifests.in_overlay(name, "PodDisruptionBudget")
    for process in ("extender", "recorder", "controller"):
        one = deployments[f"topolog-{process}"]
        assert one["spec"]["replicas"] == 2
        budget = budgets[f"topolog-{process}"]["spec"]
        assert budget["minAvailable"] == 1
        assert budget["selector"]["matchLabels"] == one["spec"]["selector"]["matchLabels"]
    extender = deployments["topolog-extender"]["spec"]["template"]["spec"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" in extender["affinity"]["podAntiAffinity"]
    (spread,) = extender["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == (
        "topology.kubernetes.io/zone",
        "ScheduleAnyway",
    )


def kustomization_of_the_guide(folder: pathlib.Path, further: str = "") -> pathlib.Path:
    """Write the one of docs/how-to/install.md that merges settings, and what is added to it."""
    (shown,) = [each for each in how_to_pages.blocks("install.md", "yaml") if "behavior: merge" in each]
    text = shown.replace("topolog/deploy", os.path.relpath(manifests.DEPLOY, folder))
    (folder / "kustomization.yaml").write_text(text + further)
    return folder


def settings_of(objects: list[manifests.Object]) -> dict[str, str]:
    """The data of the only ConfigMap of settings."""
    (found,) = [
        one["data"]
        for one in objects
        if one["kind"] == "ConfigMap" and one["metadata"]["name"].startswith("topolog-")
        if "TOPOLOG_CLUSTER" in one["data"]
    ]
    return dict(found)


def test_the_settings_of_the_guide_are_those_of_the_processes(tmp_path: pathlib.Path) -> None:
    """docs/how-to/install.md, in a kustomization beside a checkout."""
    rendered = kustomizations.render(kustomization_of_the_guide(tmp_path))
    read = settings.load(None, settings_of(rendered))
    assert (read.logging.level, read.plugins.enabled) == ("warning", ("*", "Coscheduling"))
    assert read.plugins.args == {"WorkloadPolicy": {"enforce": "selected"}}
    usual = manifests.in_overlay("dev", *manifests.WORKLOADS)
    restarted = {
        one["metadata"]["name"]
        for one in rendered
        if one["kind"] in manifests.WORKLOADS
        and one["spec"]["template"] != usual[one["metadata"]["name"]]["spec"]["template"]
    }
    assert restarted == usual.keys() - {"topolog-valkey"}, "the page states which pods restart"


# The bundled store


@pytest.mark.parametrize("name", COMPLETE)
def test_the_bundled_store_is_durable_and_bounded(name: str) -> None:
    store = manifests.in_overlay(name, "StatefulSet")["topolog-valkey"]
    (server,) = store["spec"]["template"]["spec"]["containers"]
    path, flag, most = server["args"]
    assert flag == "--maxmemory"
    # A rewrite of the append-only file may need as much memory again.
    assert amount(most.replace("mb", "Mi")) * 2 <= amount(server["resources"]["limits"]["memory"])
    mounts = {each["name"]: each["mountPath"] for each in server["volumeMounts"]}
    assert path == f"{mounts['config']}/valkey.conf"
    volumes = {each["name"]: each for each in store["spec"]["template"]["spec"]["volumes"]}
    settings = manifests.in_overlay(name, "ConfigMap")[volumes["config"]["configMap"]["name"]]["data"]
    lines = [line.split(maxsplit=1) for line in settings["valkey.conf"].splitlines()]
    given = {line[0]: line[1] for line in lines if line and not line[0].startswith("#")}
    assert given["appendonly"] == "yes"
    assert given["maxmemory-policy"] == "noeviction"
    assert given["dir"] == mounts["data"]
    assert given["aclfile"] == f"{mounts['users']}/users.acl"
    (claim,) = store["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    # The access list is made of the hashes, in the volume that the server reads it from.
    (users,) = store["spec"]["template"]["spec"]["initContainers"]
    assert f"--to={given['aclfile']}" in users["args"]
    hashes = {each["name"]: each["mountPath"] for each in users["volumeMounts"]}["hashes"]
    assert f"--hashes={hashes}" in users["args"]


def store_pod(objects: list[manifests.Object]) -> manifests.Object:
    """The specification of the bundled store's pod."""
    (store,) = [one for one in objects if one["kind"] == "StatefulSet"]
    return dict(store["spec"]["template"]["spec"])


def users_of(objects: list[manifests.Object]) -> manifests.Object:
    """The init container that writes the access list of the bundled store."""
    (users,) = store_pod(objects)["initContainers"]
    return dict(users)


@pytest.mark.parametrize("name", COMPLETE)
def test_the_bundled_store_has_the_settings_of_its_access_list_and_no_others(name: str) -> None:
    """It does not start if its init container refuses a setting."""
    users = users_of(manifests.overlay(name))
    assert "envFrom" not in users
    given = {each["name"]: each["value"] for each in users["env"]}
    assert given == {"TOPOLOG_CLUSTER": settings_of(manifests.overlay(name))["TOPOLOG_CLUSTER"]}


@pytest.mark.parametrize(
    ("setting", "expected", "arguments"),
    [
        ("TOPOLOG_STORE_PLACEMENTS", ("default", "fsync"), ["--appendfsync", "always"]),
        ("TOPOLOG_CLUSTER", ("production", "acknowledged"), []),
    ],
)
def test_the_patches_of_the_guide_give_the_store_the_settings_of_the_processes(
    tmp_path: pathlib.Path, setting: str, expected: tuple[str, str], arguments: list[str]
) -> None:
    """docs/how-to/install.md: its access list, and whether it syncs before it replies."""
    shown = [each for each in how_to_pages.blocks("install.md", "yaml") if each.startswith("patches:")]
    (patch,) = [each for each in shown if setting in each]
    rendered = kustomizations.render(kustomization_of_the_guide(tmp_path, patch))
    pod = store_pod(rendered)
    read = settings.load(None, {each["name"]: each["value"] for each in users_of(rendered)["env"]})
    assert (read.cluster, read.store.placements) == expected
    usual = store_pod(manifests.overlay("dev"))["containers"][0]["args"]
    assert pod["containers"][0]["args"] == [*usual, *arguments]
    if manifests.KUBECTL:
        assert manifests.in_order(store_pod(manifests.rendered(tmp_path))) == manifests.in_order(pod)


@pytest.mark.parametrize("name", COMPLETE)
def test_only_the_processes_reach_the_bundled_store(name: str) -> None:
    policy = manifests.in_overlay(name, "NetworkPolicy")["topolog-valkey"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy
    (rule,) = policy["ingress"]
    (source,) = rule["from"]
    assert source == {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "topolog"}}}


def test_the_patch_of_the_guide_adds_a_scheduler_that_calls_the_extender(tmp_path: pathlib.Path) -> None:
    """docs/how-to/quotas.md, in a kustomization beside a checkout."""
    (patch,) = [each for each in how_to_pages.blocks("quotas.md", "yaml") if each.startswith("patches:")]
    base = os.path.relpath(manifests.DEPLOY / "overlays" / "dev", tmp_path)
    (tmp_path / "kustomization.yaml").write_text(f"resources: [{base}]\n{patch}")
    usual = {identity(one): one for one in manifests.overlay("dev")}
    found = {identity(one): one for one in kustomizations.render(tmp_path)}
    (changed,) = [name for name, one in found.items() if one != usual[name]]
    assert (len(found), changed) == (len(usual), ("ConfigMap", HOME, "topolog-admission"))
    assert found[changed]["data"]["schedulerNames"] == "topolog-scheduler,default-scheduler"
