"""`kubectl apply -k` of the overlays dev and ha on an empty cluster, with pods that really run.

API server, controllers, kube-scheduler and kubectl are the real ones, and so is the kube-scheduler in the
pod of the extender. A kubelet for processes (tests/support/e2e/nodes) runs the pods as they are declared: a
network namespace for each pod, a root of read-only mounts, Secrets, ConfigMaps and tokens as files, uid
10001 without capabilities, init containers, probes, restarts, graceful ends.

What a machine without a container runtime cannot show is done in the nearest way: images are programs of
this machine, cluster IPs are proxies in user space, names of Services are in /etc/hosts, and a volume is
bound by hand. NetworkPolicies, seccomp and limits are not applied (in
tests/e2e/deploy/test_deploy_manifests.py the API server admits them).
"""

import pathlib
import shlex
from collections.abc import Iterator

import pytest

from app import exit_codes
from tests.e2e import control_plane_builds, go_programs
from tests.support import how_to_pages, polling
from tests.support.doctor import disclosures, runs
from tests.support.e2e import (
    access_reviews,
    api_client,
    clusters,
    doctor_roles,
    installed_objects,
    readiness,
    shown_texts,
    store_urls,
    workloads,
    workstations,
)
from tests.support.e2e.nodes import privileges, process_kubelets, streaming_servers

LACKING = process_kubelets.lacking()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
HOME = "topolog-system"


@pytest.fixture(scope="module", params=["dev", "ha"])
def overlay(request: pytest.FixtureRequest) -> pathlib.Path:
    """The overlay; each has a cluster of its own."""
    return DEPLOY / "overlays" / str(request.param)


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path, overlay: pathlib.Path) -> Iterator[clusters.Cluster]:
    """An empty cluster of two nodes with a scheduler, like any new one."""
    assert overlay.exists()
    with readiness.empty_cluster(binary, "a", "b") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kubelet(cluster: clusters.Cluster, overlay: pathlib.Path) -> process_kubelets.ProcessKubelet:
    """The installation, applied; its pods run."""
    kubelet = cluster.start_process_kubelet(HOME)
    cluster.kubectl("apply", "-k", overlay)
    return kubelet


def test_all_pods_become_ready(cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet) -> None:
    readiness.await_ready(cluster)


def test_another_apply_changes_nothing(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet, overlay: pathlib.Path
) -> None:
    """kubectl reports some as configured: it compares lists without the API server's defaults."""
    readiness.await_ready(cluster)
    before = installed_objects.generations(cluster)
    secrets = cluster.api().list(f"/api/v1/namespaces/{HOME}/secrets")
    cluster.kubectl("apply", "-k", overlay)
    assert installed_objects.generations(cluster) == before
    assert cluster.api().list(f"/api/v1/namespaces/{HOME}/secrets") == secrets


def test_containers_have_no_privileges(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet
) -> None:
    readiness.await_ready(cluster)
    for pod in kubelet.pods.values():
        for container in pod.containers:
            assert container.process is not None
            found = privileges.of(container.process)
            assert found.users == found.groups == {"10001"}, container.name
            assert found.capabilities == {"0" * 16}
            assert found.no_new_privileges
            assert found.read_only_root
            assert found.writable == privileges.writable_volumes(container.spec), container.name


def test_the_doctor_finds_nothing_wrong_with_the_store(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet
) -> None:
    readiness.await_ready(cluster)
    pod = kubelet.running("recorder")[0]
    found = cluster.api().get(f"/api/v1/namespaces/{HOME}/secrets/topolog-store")
    assert set(found["data"]) >= {"doctor-url", "operator-url"}
    done = kubelet.run(
        pod, "topolog", "doctor", "store", env={"TOPOLOG_STORE_URL": store_urls.url(found, "doctor")}
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_secrets_are_read_and_made_by_bootstrap_alone(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet
) -> None:
    accounts = [
        workloads.name(one) for one in cluster.api().list(f"/api/v1/namespaces/{HOME}/serviceaccounts")
    ]
    assert "topolog-bootstrap" in accounts
    for account in accounts:
        user = cluster.service_account(HOME, account)
        granted = access_reviews.of_secrets(cluster, user, HOME, ("topolog-ca", "topolog-store", "another"))
        own = {(verb, name) for verb in ("get", "update") for name in ("topolog-ca", "topolog-store")}
        made = {("create", name) for name in ("topolog-ca", "topolog-store", "another")}
        assert granted == (own | made if account == "topolog-bootstrap" else set()), account


@pytest.fixture(scope="module")
def reader(cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet) -> str:
    """A user with the roles topolog-doctor and no other one."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    polling.eventually(lambda: cluster.api().find(path), "the service account is there")
    user = cluster.service_account("default", "default")
    doctor_roles.grant(cluster, "reader", f"--user={user}")
    return user


NEWEST = (1, 37)
OUTSIDE = {"cluster": ("--skip", "C05"), "tls": ("--skip", "T06")}


@pytest.mark.parametrize("area", ["cluster", "scheduler", "tls", "policies"])
def test_the_doctor_finds_nothing_wrong_with_a_new_installation(
    cluster: clusters.Cluster,
    kubelet: process_kubelets.ProcessKubelet,
    overlay: pathlib.Path,
    reader: str,
    area: str,
) -> None:
    readiness.await_ready(cluster)
    environ = {"TOPOLOG_KUBE_KUBECONFIG": str(cluster.kubeconfig(reader))}
    # What it asks the store and an extender has to be asked inside the network.
    run = runs.doctor(area, *OUTSIDE.get(area, ()), environ=environ)
    # There is no namespace `monitoring`, which the NetworkPolicies admit.
    known = {"C11": "warning"} if area == "cluster" else {}
    if (overlay.name, area) == ("dev", "cluster"):
        known["C07"] = "warning"
    if area == "scheduler" and control_plane_builds.minor() < NEWEST:
        # The overlays name the newest kube-scheduler; docs/how-to/install.md sets another one.
        known = {"S13": "problem"}
    assert run.wrong() == known, run.text


FORMS = ("text", "table", "wide", "json", "yaml")


def test_the_doctor_discloses_no_secret(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet
) -> None:
    """It reads the certificates, and asks the store by a password, also by one that is refused."""
    readiness.await_ready(cluster)
    secrets = cluster.api().list(f"/api/v1/namespaces/{HOME}/secrets")
    kept = disclosures.parts(secrets)
    (store,) = [one for one in secrets if one["metadata"]["name"] == "topolog-store"]
    right = store_urls.url(store, "doctor")
    other = store_urls.password(store_urls.url(store, "recorder"))
    refused = right.replace(store_urls.password(right), other)
    assert disclosures.disclosed(kept, refused) == ["topolog-store/recorder-url"]
    pod = kubelet.running("recorder")[0]

    def text(url: str, form: str) -> str:
        env = {
            "TOPOLOG_STORE_URL": url,
            "TOPOLOG_LOGGING_LEVEL": "debug",
            "KUBERNETES_SERVICE_HOST": kubelet.api_server,
            "KUBERNETES_SERVICE_PORT": "443",
        }
        done = kubelet.run(pod, "topolog", "doctor", "all", "-o", form, env=env)
        return done.stdout + done.stderr

    asked = {"refused": text(refused, "json"), "without rights": text(right, "json")}
    doctor_roles.grant(cluster, "asking", f"--serviceaccount={HOME}:topolog-recorder")
    asked |= {form: text(right, form) for form in FORMS}
    assert {how: shown for how, found in asked.items() if (shown := disclosures.disclosed(kept, found))} == {}
    assert "the store refuses the credentials" in asked["refused"]
    assert "cannot list resource" in asked["without rights"]
    assert '"T02"' in asked["json"]
    assert "cannot list resource" not in asked["json"]
    doctor_roles.revoke(cluster, "asking")


def test_the_disk_of_the_store_is_enlarged_while_it_runs(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet, overlay: pathlib.Path
) -> None:
    """As docs/how-to/store.md has it, but for the volume itself, which a storage provider enlarges."""
    (block,) = [each for each in how_to_pages.console() if each.page == "store.md" and "orphan" in each.text]
    _, replaced = (shlex.split(line)[1:] for line in block.text.splitlines())
    readiness.await_ready(cluster)
    (former,) = kubelet.running("store")
    text = cluster.kubectl("kustomize", overlay)
    size = "storage: 2Gi" if overlay.name == "dev" else "storage: 4Gi"
    assert text.count(size) == 1
    larger = text.replace(size, "storage: 16Gi")
    refusal = cluster.kubectl("apply", "-f", "-", stdin=larger, refused=True)
    assert 'The StatefulSet "topolog-valkey" is invalid' in refusal
    cluster.kubectl(*replaced)
    cluster.kubectl("apply", "-f", "-", stdin=larger)
    cluster.await_done("-n", HOME, "rollout", "status", "statefulset/topolog-valkey", within=110)
    readiness.await_ready(cluster)
    assert [pod.meta["uid"] for pod in kubelet.running("store")] == [former.meta["uid"]]
    cluster.kubectl(*replaced)
    cluster.kubectl("apply", "-k", overlay)
    readiness.await_ready(cluster)


# From a workstation

WAITING = "pending/default/waits\n"


@pytest.fixture(scope="module")
def workstation(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet, binary: pathlib.Path
) -> Iterator[workstations.Workstation]:
    """A workstation from which ports can be forwarded to the pods."""
    try:
        program = go_programs.STREAMING.built()
    except control_plane_builds.GoMissing as missing:
        pytest.skip(str(missing))
    with streaming_servers.running(cluster, kubelet, program):
        yield workstations.Workstation(cluster, binary)


def test_commands_find_their_server_by_the_kubeconfig_alone(
    cluster: clusters.Cluster, workstation: workstations.Workstation
) -> None:
    readiness.await_ready(cluster)
    cluster.apply(workloads.pod("default", "waits", **{workloads.POLICY_LABEL: "none"}))
    user = workstation.user("viewer", HOME, *workstations.RIGHTS)

    def answer(*command: str, code: int = 0) -> str:
        done = workstation.run(user, *command)
        assert done.returncode == code, done.stderr
        return done.stdout

    assert answer("topolog", "get", "nodes", "-o", "name") == "nodes/n-a\nnodes/n-b\n"
    pending = ("topolog", "get", "pending", "-o", "name")
    polling.eventually(lambda: answer(*pending) == WAITING, "the pod waits", every=0.5)
    assert answer("kubectl", *pending) == WAITING
    assert answer("topolog", "get", "--raw", "/apis/v1/lag", "-o", "jsonpath=$.version")  # of the view
    assert "default/none: not found" in answer("topolog", "simulate", "default/waits", code=1)
    cluster.api().delete("/api/v1/namespaces/default/pods/waits")


@pytest.mark.parametrize(
    ("name", "rules", "reason"),
    [
        ("podless", (workstations.FORWARD, workstations.CERTIFICATE), "refuses to list"),
        ("forwardless", (workstations.PODS, workstations.CERTIFICATE), "pods/portforward"),
        ("secretless", (workstations.PODS, workstations.FORWARD), "topolog-viewer-tls"),
    ],
)
def test_a_user_without_a_right_gets_the_reason(
    cluster: clusters.Cluster,
    workstation: workstations.Workstation,
    name: str,
    rules: tuple[api_client.Object, ...],
    reason: str,
) -> None:
    readiness.await_ready(cluster)
    done = workstation.run(workstation.user(name, HOME, *rules), "topolog", "get", "nodes")
    assert (done.returncode, done.stdout) == (exit_codes.UNREACHABLE, "")
    (line,) = done.stderr.splitlines()
    assert reason in line


def test_the_doctor_asks_an_extender_from_outside(
    cluster: clusters.Cluster, workstation: workstations.Workstation
) -> None:
    readiness.await_ready(cluster)
    run = runs.doctor("tls", environ=workstation.environ("admin"))
    assert run.wrong() == {}, run.text
    assert "T06" in run.right()


# Pods that the installation schedules


def running_of(cluster: clusters.Cluster, name: str) -> list[api_client.Object]:
    return workloads.running(cluster, "default", f"of={name}")


def test_a_required_policy_holds(cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet) -> None:
    readiness.await_ready(cluster)
    cluster.apply(workloads.policy("default", "four", "zone", "four", a=1, b=3))
    cluster.apply(workloads.deployment("default", "four", 6, policy="four"))
    polling.eventually(lambda: len(running_of(cluster, "four")) == 4, "four pods run", within=60)
    waiting = workloads.pending(cluster, "default", "of=four")
    polling.eventually(
        lambda: len(workloads.refused(cluster, "default", "of=four")) == 2,
        "both others are refused",
        within=60,
        seen=lambda: waiting,
    )
    nodes = [pod["spec"]["nodeName"] for pod in running_of(cluster, "four")]
    assert sorted(nodes) == ["n-a", "n-b", "n-b", "n-b"]
    cluster.api().delete("/apis/apps/v1/namespaces/default/deployments/four")


@pytest.mark.parametrize("process", [*readiness.PROCESSES, "store"])
def test_a_rolling_restart_under_load_loses_no_pod(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet, process: str
) -> None:
    readiness.await_ready(cluster)
    name = f"load-{process}"
    cluster.apply(workloads.policy("default", name, "zone", name, a=15, b=25))
    cluster.apply(workloads.deployment("default", name, 5, policy=name))
    kind = "statefulset/topolog-valkey" if process == "store" else f"deployment/topolog-{process}"
    former = {pod.meta["uid"] for pod in kubelet.running(process)}
    cluster.kubectl("-n", HOME, "rollout", "restart", kind)
    for replicas in range(10, 55, 5):  # 50 in the end, of which the policy places 40
        cluster.kubectl("scale", f"deployment/{name}", f"--replicas={replicas}")
    cluster.await_done("-n", HOME, "rollout", "status", kind, within=110)
    workloads.await_placed(cluster, "default", f"of={name}", placed=40, waiting=10, within=120)
    readiness.await_ready(cluster)
    nodes = [pod["spec"]["nodeName"] for pod in running_of(cluster, name)]
    assert (nodes.count("n-a"), nodes.count("n-b"), len(nodes)) == (15, 25, 40)
    assert not former & {pod.meta["uid"] for pod in kubelet.running(process)}
    cluster.api().delete(f"/apis/apps/v1/namespaces/default/deployments/{name}")


def test_a_corrected_template_is_applied_while_bootstrap_fails(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet, overlay: pathlib.Path
) -> None:
    """A first installation with a mistake, and its correction: a Job would refuse the second apply."""
    readiness.await_ready(cluster)
    text = cluster.kubectl("kustomize", overlay)
    cluster.kubectl("apply", "-f", "-", stdin=text.replace("--every=3600", "--evry=3600"))
    polling.eventually(
        lambda: any("CrashLoopBackOff" in str(each) for each in readiness.unready(cluster).values()),
        "the failure is shown",
        within=60,
        seen=lambda: readiness.unready(cluster),
    )
    cluster.kubectl("apply", "-k", overlay)
    readiness.await_ready(cluster)


def test_no_process_was_denied_a_right_or_failed(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet
) -> None:
    """Restarts of containers that waited for the store are permitted."""
    for log in kubelet.folder.glob("*.log"):
        text = log.read_text(errors="replace").lower()
        for word in ("forbidden", "traceback (most recent"):
            assert word not in text, f"{log.name} contains {word}"


def test_no_log_argument_or_event_has_the_contents_of_a_secret(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet
) -> None:
    """After everything above: first starts, restarts, refused connections and a failing bootstrap."""
    readiness.await_ready(cluster)
    kept = disclosures.parts(cluster.api().list(f"/api/v1/namespaces/{HOME}/secrets"))
    shown = shown_texts.of(cluster, kubelet, HOME)
    assert "topolog-store/recorder-url" in kept.values()
    assert {
        where: found for where, text in shown.items() if (found := disclosures.disclosed(kept, text))
    } == {}


def test_removal_leaves_only_the_pods_that_were_placed(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet, overlay: pathlib.Path
) -> None:
    readiness.await_ready(cluster)
    cluster.apply(workloads.deployment("default", "kept", 3))
    polling.eventually(lambda: len(running_of(cluster, "kept")) == 3, "they run", within=60)
    cluster.kubectl("delete", "-k", overlay, "--wait=false")
    api = cluster.api()
    polling.eventually(
        lambda: api.find(f"/api/v1/namespaces/{HOME}") is None,
        "the namespace is gone",
        within=120,
        every=0.5,
        seen=lambda: [workloads.name(pod) for pod in cluster.pods(HOME)],
    )
    assert installed_objects.outside_the_namespace(api) == []
    assert len(running_of(cluster, "kept")) == 3
