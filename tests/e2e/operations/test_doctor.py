"""The doctor on a real control plane: what it reads of kube-scheduler, and of the API server."""

import base64
import pathlib
import re
from collections.abc import Iterator

import pytest
import yaml

from app.serving.tls import certificate_issuer
from app.store import keys
from app.store.server import connections
from tests.e2e import control_plane_builds
from tests.support import polling
from tests.support.doctor import runs
from tests.support.e2e import api_client, clusters, doctor_objects, installations, kube_schedulers

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
SERVICE = "topolog-extender.topolog-system.svc"


@pytest.fixture(scope="module")
def plane(cluster: clusters.Cluster) -> clusters.Cluster:
    """The cluster, with certificates in its folder."""
    certificate_issuer.issue(cluster.folder / "tls", [SERVICE])
    return cluster


def configuration(plane: clusters.Cluster, name: str) -> api_client.Object:
    tls = plane.folder / "tls"
    return kube_schedulers.configuration(
        DEPLOY / "scheduler" / "kube-scheduler-service.yaml",
        ca=tls / "ca.crt",
        certificate=tls / "scheduler.crt",
        key=tls / "scheduler.key",
        scheduler_name=name,
    )


def asked(plane: clusters.Cluster, running: kube_schedulers.Scheduler, *arguments: str) -> runs.Run:
    """The doctor's answer about a running kube-scheduler, by the file that it was started with."""
    return runs.doctor(
        "scheduler",
        "--configz",
        running.url,
        "--server-cert",
        str(plane.folder / "tls" / "server.crt"),
        *arguments,
        environ={"TOPOLOG_KUBE_KUBECONFIG": str(plane.kubeconfig())},
    )


def test_a_running_kube_scheduler_is_read_and_compared_with_its_file(plane: clusters.Cluster) -> None:
    running = plane.start_scheduler("right", configuration(plane, "right"))
    file = plane.folder / "scheduler-right.yaml"
    run = asked(plane, running, "--file", str(file))
    assert (run.wrong(), run.code) == ({}, 0)
    assert "S14" in {one["id"] for one in run.checks}
    file.write_text(file.read_text().replace("weight: 100", "weight: 90"))
    run = asked(plane, running, "--file", str(file))
    assert run.wrong() == {"S14": "problem"}
    assert "weight" in run.of("S14")[0]["seen"]


def test_mistakes_of_a_running_kube_scheduler_are_found(plane: clusters.Cluster) -> None:
    config = configuration(plane, "wrong")
    key = (plane.folder / "tls" / "scheduler.key").read_bytes()
    config["percentageOfNodesToScore"] = 10
    entry = config["extenders"][0]
    entry |= {"ignorable": True, "httpTimeout": "1s", "nodeCacheCapable": False, "weight": 1}
    del entry["bindVerb"], entry["preemptVerb"], entry["tlsConfig"]["keyFile"]
    entry["tlsConfig"] |= {"keyData": base64.b64encode(key).decode(), "serverName": "other.example"}
    running = plane.start_scheduler("wrong", config)
    run = asked(plane, running, "--file", str(plane.folder / "scheduler-wrong.yaml"))
    assert run.wrong() == {
        "S02": "warning",
        "S03": "problem",
        "S04": "problem",
        "S05": "warning",
        "S06": "problem",
        "S07": "warning",
        "S08": "warning",
        "S09": "problem",
        "S10": "warning",
    }
    assert base64.b64encode(key).decode()[:40] not in run.text


def test_a_kube_scheduler_that_refuses_the_caller_is_unsure(plane: clusters.Cluster) -> None:
    running = plane.start_scheduler("refusing", configuration(plane, "refusing"))
    run = runs.doctor(
        "scheduler",
        "--configz",
        running.url,
        "--file",
        str(plane.folder / "scheduler-refusing.yaml"),
        "--server-cert",
        str(plane.folder / "tls" / "server.crt"),
        environ={"TOPOLOG_KUBE_KUBECONFIG": str(plane.kubeconfig("kube-controller-manager"))},
    )
    assert run.wrong() == {"S14": "unsure"}


# -- a whole installation -----------------------------------------------------------------------

HOME = installations.HOME


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """All processes, and beside them what the overlay creates: pods that the kubelet reports as running."""
    cluster.add_nodes("n1", labels={"zone": "a"})
    cluster.add_nodes("n2", labels={"zone": "b"})
    cluster.add_namespace("monitoring")  # Which the NetworkPolicies admit.
    plain = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster.start_scheduler("default", plain)
    with installations.Installation(cluster, whole=True) as made:
        for secret, name in (("topolog-tls", "server"), ("topolog-scheduler-tls", "scheduler")):
            files = (
                f"--from-file=tls.crt={made.tls / f'{name}.crt'}",
                f"--from-file=tls.key={made.tls / f'{name}.key'}",
            )
            authority = f"--from-file=ca.crt={made.tls / 'ca.crt'}"
            cluster.kubectl("-n", HOME, "create", "secret", "generic", secret, *files, authority)
        # As install.md describes: kube-scheduler has the version of the cluster.
        rendered = cluster.kubectl("kustomize", DEPLOY / "overlays" / "sidecar")
        image = f"kube-scheduler:v{control_plane_builds.selected()}"
        cluster.kubectl("apply", "-f", "-", stdin=re.sub(r"kube-scheduler:v[\d.]+", image, rendered))
        for name in ("recorder", "controller", "auditor", "compactor", "extender"):
            cluster.await_done("-n", HOME, "rollout", "status", f"deployment/topolog-{name}")
        doctor_objects.permit(made)
        made.start_scheduler()
        cluster.apply(doctor_objects.POLICY, doctor_objects.deployment("web"))
        cluster.await_done("rollout", "status", "deployment/web")
        yield made


def everything(
    cluster: clusters.Cluster,
    topolog: installations.Installation,
    area: str = "all",
    *more: str,
    **environ: str,
) -> runs.Run:
    named = [part for one in topolog.parts for part in ("--process", f"http://127.0.0.1:{one.health}")]
    given = {
        "TOPOLOG_STORE_URL": topolog.store.url,
        "TOPOLOG_KUBE_KUBECONFIG": str(cluster.kubeconfig()),
        "TOPOLOG_CLIENT_URL": f"https://127.0.0.1:{topolog.extenders[0].port}",
        "TOPOLOG_CLIENT_CERT": str(topolog.tls / "viewer.crt"),
        "TOPOLOG_CLIENT_KEY": str(topolog.tls / "viewer.key"),
        "TOPOLOG_CLIENT_CA": str(topolog.tls / "ca.crt"),
    }
    return runs.doctor(area, *(named if area in ("all", "run") else ()), *more, environ=given | environ)


def test_a_healthy_installation_has_nothing_wrong(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    made: list[runs.Run] = []

    def sound() -> bool:
        made.append(everything(cluster, topolog))
        return not made[-1].wrong()

    polling.eventually(sound, "the auditor has compared everything", within=60, seen=lambda: made[-1].wrong())
    run = made[-1]
    assert run.code == 0
    assert {one["id"][0] for one in run.checks} == {"S", "C", "T", "R", "P", "Q"}
    for name in ("server", "scheduler", "viewer"):
        for line in (topolog.tls / f"{name}.key").read_text().splitlines()[1:-1]:
            assert line not in run.text


def test_missing_permissions_are_found(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """Extenders beside a kube-scheduler have its account, and no other rights than it has."""
    roles = "/apis/rbac.authorization.k8s.io/v1"
    binding = f"{roles}/clusterrolebindings/topolog-scheduler"
    compactor = f"{roles}/clusterroles/topolog-compactor"
    subjects, rules = cluster.api().get(binding)["subjects"], cluster.api().get(compactor)["rules"]

    def wrong() -> dict[str, str]:
        return everything(cluster, topolog, "cluster").wrong()

    try:
        cluster.api().patch(binding, {"subjects": []})
        polling.eventually(lambda: wrong() == {"C02": "problem"}, "the binding is missing", seen=wrong)
        found = everything(cluster, topolog, "cluster").of("C02")
        lacking = "may not get pods, create pods/binding, get namespaces kube-system"
        assert [one["seen"] for one in found if one["verdict"] != "ok"] == [lacking]
        cluster.api().patch(binding, {"subjects": subjects})
        cluster.api().patch(compactor, {"rules": [*rules, SECRETS]})
        polling.eventually(lambda: wrong() == {"C03": "warning"}, "too much is found", seen=wrong)
    finally:
        cluster.api().patch(binding, {"subjects": subjects})
        cluster.api().patch(compactor, {"rules": rules})
    polling.eventually(lambda: wrong() == {}, "the roles are as before", seen=wrong)


def test_a_hardened_cluster_needs_the_discovery_of_deploy(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1"
    usual, recorder = (
        f"{roles}/clusterrolebindings/system:discovery",
        f"{roles}/clusterroles/topolog-recorder",
    )
    subjects, rules = cluster.api().get(usual)["subjects"], cluster.api().get(recorder)["rules"]

    def seen() -> list[str]:
        found = everything(cluster, topolog, "cluster").checks
        return [f"{one['id']} {one['seen']}" for one in found if one["verdict"] != "ok"]

    try:
        cluster.api().patch(usual, {"subjects": []})
        cluster.api().patch(recorder, {"rules": [one for one in rules if "nonResourceURLs" not in one]})
        lacking = ["C02 may not get /apis, get /apis/*"]
        polling.eventually(lambda: seen() == lacking, "discovery is forbidden", seen=seen)
        cluster.api().patch(recorder, {"rules": rules})
        polling.eventually(lambda: seen() == [], "deploy/rbac grants it", seen=seen)
    finally:
        cluster.api().patch(usual, {"subjects": subjects})
        cluster.api().patch(recorder, {"rules": rules})


SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}


def test_pods_that_escape_are_found(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    cluster.apply(doctor_objects.deployment("escaping", scheduler="default-scheduler"))
    cluster.apply(doctor_objects.deployment("bare", labelled=False))
    cluster.await_done("rollout", "status", "deployment/escaping")
    wrong = everything(cluster, topolog, "policies").wrong()
    # They count, so that more pods than desired are in the domains.
    assert wrong == {"P03": "problem", "P04": "problem", "P08": "warning"}
    cluster.kubectl("delete", "deployment", "escaping", "bare")
    polling.eventually(
        lambda: everything(cluster, topolog, "policies").wrong() == {}, "they are gone", within=30
    )


# What is created here, and what is then wrong. Each is found by requests to the real API server.


@pytest.mark.parametrize("name", doctor_objects.CREATED)
def test_what_is_created_in_the_cluster_is_found(
    cluster: clusters.Cluster, topolog: installations.Installation, name: str
) -> None:
    area, objects, expected = doctor_objects.CREATED[name]
    assert everything(cluster, topolog, area).wrong() == {}
    cluster.apply(*objects)
    try:
        found(cluster, topolog, area, expected)
    finally:
        deleted(cluster, objects)


def found(
    cluster: clusters.Cluster, topolog: installations.Installation, area: str, expected: dict[str, str]
) -> None:
    def wrong() -> dict[str, str]:
        return everything(cluster, topolog, area).wrong()

    polling.eventually(lambda: wrong() == expected, f"{expected} is found", within=60, seen=wrong)


def deleted(cluster: clusters.Cluster, objects: list[api_client.Object]) -> None:
    text = yaml.safe_dump_all(objects)
    cluster.kubectl("delete", "--wait", "--grace-period=1", "-f", "-", stdin=text)


def test_a_budget_that_is_missing_is_found(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    path = f"/apis/policy/v1/namespaces/{HOME}/poddisruptionbudgets/topolog-extender"
    budget = cluster.api().get(path)
    cluster.api().delete(path)
    try:
        found(cluster, topolog, "cluster", {"C07": "warning"})
    finally:
        budget["metadata"] = {"name": "topolog-extender", "namespace": HOME}
        cluster.apply(budget)


def test_certificates_that_do_not_fit_are_found(
    cluster: clusters.Cluster, topolog: installations.Installation, tmp_path: pathlib.Path
) -> None:
    other = certificate_issuer.issue(tmp_path / "other", [SERVICE]).directory

    def replaced(secret: str, key: str, file: str) -> dict[str, str]:
        path = f"/api/v1/namespaces/{HOME}/secrets/{secret}"
        former = cluster.api().get(path)["data"][key]
        encoded = base64.b64encode((other / file).read_bytes()).decode()
        cluster.api().patch(path, {"data": {key: encoded}})
        try:
            return everything(cluster, topolog, "tls", "--skip", "T06").wrong()
        finally:
            cluster.api().patch(path, {"data": {key: former}})

    assert replaced("topolog-tls", "tls.key", "server.key") == {"T02": "problem"}
    assert replaced("topolog-scheduler-tls", "ca.crt", "ca.crt") == {"T03": "problem"}


def test_a_log_of_another_cluster_is_found(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    with connections.connect(topolog.store.url) as client:
        client.hset(keys.Keys("other").meta, mapping={"kubernetes": "12345678-1234-1234-1234-123456789012"})
    run = everything(cluster, topolog, "cluster", TOPOLOG_CLUSTER="other")
    assert run.wrong()["C05"] == "problem"
    own = cluster.api().get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert own in run.of("C05")[0]["seen"]


def test_a_cluster_that_is_not_ready_for_an_installation_is_found(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    given = {"TOPOLOG_KUBE_KUBECONFIG": str(cluster.kubeconfig("admin"))}
    run = runs.doctor("cluster", "--pre", environ=given)
    assert run.wrong() == {"C13": "warning", "C14": "problem"}
    account = cluster.service_account(HOME, "topolog-compactor")
    given = {"TOPOLOG_KUBE_KUBECONFIG": str(cluster.kubeconfig(account))}
    assert runs.doctor("cluster", "--pre", environ=given).wrong()["C12"] == "problem"


def test_a_process_that_is_missing_is_found(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    ports = [one.health for one in topolog.parts]
    named = [part for port in ports[1:] for part in ("--process", f"http://127.0.0.1:{port}")]
    environ = {"TOPOLOG_STORE_URL": topolog.store.url, "TOPOLOG_CLIENT_URL": "https://127.0.0.1:9"}
    run = runs.doctor("run", *named, environ=environ)
    missing = [one["subject"] for one in run.of("R02") if one["verdict"] == "problem"]
    assert len(missing) == 1
    assert len([one for one in run.of("R01") if one["verdict"] == "ok"]) == len(ports) - 1


REFUSED: dict[str, dict[str, set[str]]] = {
    "cluster": {
        "list serviceaccounts": {"C02", "C03", "C10"},
        "get customresourcedefinitions": {"C04"},
        "list pods": {"C06", "C07", "C11"},
        "get leases": {"C08"},
        "list networkpolicies": {"C09"},
        "store.url is not set": {"C05"},
    },
    "policies": {"list nodes": {f"P{number:02}" for number in range(1, 9)}},
    "scheduler": {"list pods": {f"S{number:02}" for number in (1, 2, 3, 4, 7, *range(11, 16), 19)}},
}
"""Area -> the right that is missing, by its verb and resource -> the checks that need it."""


def test_a_user_without_rights_is_unsure_of_everything(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    cluster.kubectl("create", "serviceaccount", "without-rights", "-n", HOME)
    user = cluster.service_account(HOME, "without-rights")
    given = {"TOPOLOG_KUBE_KUBECONFIG": str(cluster.kubeconfig(user))}
    for area, expected in REFUSED.items():
        named = ("--server", "https://127.0.0.1:9") if area == "scheduler" else ()
        run = runs.doctor(area, *named, environ=given)
        assert set(run.wrong().values()) == {"unsure"}, (area, run.wrong())
        assert refused(run) == expected
        assert "topolog-doctor" in run.text


def refused(run: runs.Run) -> dict[str, set[str]]:
    """Right that an unsure result names, by verb and resource, else what it has seen -> the checks."""
    found: dict[str, set[str]] = {}
    for one in run.checks:
        if one["verdict"] == "unsure":
            right = re.search(r'refuses to (\w+) /\S+: .* cannot \1 resource "(\w+)"', one["seen"])
            found.setdefault(f"{right[1]} {right[2]}" if right else one["seen"], set()).add(one["id"])
    return found


def test_the_role_of_the_doctor_is_enough_to_ask_a_kube_scheduler(
    plane: clusters.Cluster, topolog: installations.Installation
) -> None:
    plane.kubectl("apply", "-f", DEPLOY / "roles" / "doctor.yaml")
    plane.kubectl("-n", "default", "create", "serviceaccount", "asking")
    granted = "--serviceaccount=default:asking"
    plane.kubectl("create", "clusterrolebinding", "asking", "--clusterrole=topolog-doctor", granted)
    running = plane.start_scheduler("readable", configuration(plane, "readable"))
    run = runs.doctor(
        *("scheduler", "--configz", running.url),
        environ={
            "TOPOLOG_KUBE_KUBECONFIG": str(plane.kubeconfig(plane.service_account("default", "asking")))
        },
    )
    # Without its file, S14 has nothing to compare with; what was asked was answered.
    assert {one["verdict"] for one in run.of("S03")} == {"ok"}
    if control_plane_builds.minor() >= (1, 35):
        assert {(one["verdict"], one["seen"][:3]) for one in run.of("S19")} == {("ok", "off")}
