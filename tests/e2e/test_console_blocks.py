"""Every block of commands in READMEs, tutorial and how-tos that needs a cluster, run as it is written.

There are four kinds of pages: those that install (an empty cluster, whose pods run as processes), the one
that replaces the store of such an installation, the README and the tutorial (a clone and an empty cluster,
beside which `topolog up` runs), and all others (an installation that is there). The README is of the first
kind, too, for its block that installs. A kubelet for processes serves no logs: `kubectl logs` shows its
files. The installation that is there has no pods: a forwarded port is that of the process.
tests/cli/questions/test_console_blocks.py runs the pages that need no cluster.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from app.provisioning import decisions
from tests.e2e import go_programs
from tests.support import child_processes, console_sessions, how_to_pages, polling
from tests.support.e2e import (
    api_client,
    clusters,
    elastic_quotas,
    installations,
    kube_schedulers,
    prometheus_operator,
    readiness,
    workloads,
)
from tests.support.e2e.nodes import networks, outside_server, process_kubelets

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

LACKING = process_kubelets.lacking()
HOME = "topolog-system"
ROOT = how_to_pages.ROOT
DEPLOY = ROOT / "deploy"
PAGES = how_to_pages.sessions(cluster=True)
TUTORIAL = "tutorial.md"
REPLACING = "replace-the-store.md"
PASSWORDS = "replace-the-passwords.md"
"""Needs a load; tests/e2e/test_store_passwords.py runs it."""
INSTALLING = sorted(
    page
    for page, blocks in PAGES.items()
    if page != REPLACING and any("-k deploy/overlays" in each.text for each in blocks)
)
README = "README.md"
OTHERS = sorted(PAGES.keys() - {*INSTALLING, REPLACING, PASSWORDS, README, TUTORIAL})


def session(
    folder: pathlib.Path, cluster: clusters.Cluster, binary: pathlib.Path, **environ: str
) -> console_sessions.Session:
    """A folder with the files of a checkout, kubectl with its plugin, and the kubeconfig of an admin."""
    home = folder / "home"
    (home / ".kube").mkdir(parents=True)
    shutil.copy(cluster.kubeconfig(), home / ".kube" / "config")
    made = console_sessions.Session(
        folder, HOME=str(home), BROWSER="true", **{"XDG_STATE_HOME": str(folder / "state"), **environ}
    )
    made.environ.pop("KUBECONFIG", None)
    logs = cluster.folder / f"pods-{HOME}"
    made.add(
        "kubectl",
        f"""case " $* " in
*" port-forward "*) exit 0 ;;
*" logs deployment/"*) for last; do :; done; exec cat {logs}/"${{last#deployment/}}"-*.log ;;
esac
exec {binary} kubectl "$@" """,
    )
    made.add("kubectl-topolog", 'exec topolog "$@"')
    shutil.copytree(DEPLOY, made.work / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
    return made


# An installation that is there


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """An installation with all processes, a pod that waits, and the objects that the pages name."""
    cluster.add_nodes("n1", "n2", labels={"zone": "a"})
    for name in ("quotas", "shop"):
        cluster.add_namespace(name)
    prometheus_operator.define(cluster)
    elastic_quotas.define(cluster)
    cluster.kubectl("apply", "-f", "-", stdin=how_to_pages.blocks("quotas.md", "yaml")[0])
    scheduler = DEPLOY / "scheduler" / "kube-scheduler-service.yaml"
    cluster.kubectl("-n", "kube-system", "create", "configmap", "kube-scheduler", f"--from-file={scheduler}")
    with installations.Installation(cluster, whole=True, PLUGINS_ENABLED="*,ElasticQuota") as made:
        # Another CA would sign what `topolog bootstrap` makes, and it replaces none but its own.
        pair = (f"--cert={made.tls / 'ca.crt'}", f"--key={made.tls / 'ca.key'}")
        cluster.kubectl("-n", HOME, "create", "secret", "tls", "topolog-ca", *pair)
        mark = [f"{key}={value}" for key, value in decisions.LABELS.items()]
        cluster.kubectl("-n", HOME, "label", "secret", "topolog-ca", *mark)
        yield made


@pytest.fixture(scope="module")
def scheduler(cluster: clusters.Cluster, topolog: installations.Installation) -> kube_schedulers.Scheduler:
    """kube-scheduler, which has placed one of many pods."""
    running = topolog.start_scheduler()
    cluster.apply(policy(1), workloads.deployment("shop", "web", 100, policy="spread"))
    polling.eventually(lambda: topolog.ask("/apis/v1/pending")["items"], "a pod waits", within=60)
    return running


def policy(places: int) -> dict[str, object]:
    return workloads.policy("shop", "spread", "zone", "web", a=places)


@pytest.fixture(scope="module")
def view(topolog: installations.Installation) -> installations.Part:
    """The process of the dashboard."""
    return topolog.start_view()


@pytest.mark.parametrize("page", OTHERS)
def test_the_commands_of_a_page_run(
    page: str,
    cluster: clusters.Cluster,
    topolog: installations.Installation,
    scheduler: kube_schedulers.Scheduler,
    view: installations.Part,
    binary: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    made = session(
        tmp_path,
        cluster,
        binary,
        TOPOLOG_STORE_URL=topolog.store.url,
        TOPOLOG_CLIENT_URL=f"https://127.0.0.1:{topolog.extenders[0].port}",
        TOPOLOG_CLIENT_VIEW_URL=f"https://127.0.0.1:{view.port}",
        TOPOLOG_CLIENT_CERT=str(topolog.tls / "viewer.crt"),
        TOPOLOG_CLIENT_KEY=str(topolog.tls / "viewer.key"),
        TOPOLOG_CLIENT_CA=str(topolog.tls / "ca.crt"),
    )
    shutil.copy(topolog.tls / "server.crt", made.work)
    shown = [*how_to_pages.blocks(page, "json"), ""][0]
    (made.work / "cluster.json").write_text(shown)
    names = {
        "https://127.0.0.1:10259": scheduler.url,
        "41200": "1",
    }

    def live() -> None:
        cluster.apply(policy(len(workloads.running(cluster, "shop")) + 1))

    made.run(PAGES[page], names, live=live)


# Pages that install


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
@pytest.mark.parametrize("page", INSTALLING)
@pytest.mark.parametrize("helm", [False, True], ids=["kubectl", "helm"])
def test_the_commands_of_an_installation_run(
    page: str, helm: bool, binary: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Those of Helm in a cluster of their own, because only one of both may install there."""
    blocks = [block for block in PAGES[page] if ("helm" in block.text) == helm]
    if page == README:
        blocks = [block for block in blocks if "kubectl" in block.text]
    if blocks:
        with readiness.empty_cluster(binary, "a", "b") as empty:
            made = session(tmp_path, empty, binary)
            if helm:
                helm_program = go_programs.HELM[max(go_programs.HELM)].built()
                made.add("helm", f'exec {helm_program} "$@"')
            empty.start_process_kubelet(HOME)
            made.run(blocks, {})


# The page that replaces the store


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_the_commands_that_replace_the_store_run(binary: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A policy holds over both stores, and the events that follow are in the new one."""
    with readiness.empty_cluster(binary, "a", "b") as cluster, contextlib.ExitStack() as ending:
        kubelet = cluster.start_process_kubelet(HOME)
        cluster.kubectl("apply", "-k", DEPLOY / "overlays" / "dev")
        readiness.await_ready(cluster)
        cluster.apply(workloads.policy("default", "two", "zone", "web", a=1, b=1))
        cluster.apply(workloads.deployment("default", "web", 1, policy="two"))
        polling.eventually(lambda: len(placed(cluster)) == 1, "one pod runs", within=60)
        made = session(tmp_path, cluster, binary)
        users, *rest = PAGES[REPLACING]
        names = {"store.example": str(networks.GATEWAY)}
        made.run([users], names)
        server = outside_server.OutsideServer(kubelet, tmp_path / "server", made.work / "users.acl")
        ending.callback(server.stop)
        server.start()
        made.run(rest, names)
        urls = dict(line.split("=", 1) for line in (made.work / "topolog-store.env").read_text().split())
        log = (urls["doctor-url"], "topolog:{production}:log")
        assert "PodSeen" in (listed := server.types(*log))
        assert "PlacementsCommitted" not in listed
        assert [workloads.name(one) for one in stateful(cluster)] == []
        cluster.kubectl("scale", "deployment/web", "--replicas=4")
        polling.eventually(
            lambda: (len(placed(cluster)), len(refused(cluster))) == (2, 2),
            "two pods run and two are refused",
            within=90,
        )
        assert sorted(pod["spec"]["nodeName"] for pod in placed(cluster)) == ["n-a", "n-b"]
        assert server.types(*log).count("PlacementsCommitted") == 1


def placed(cluster: clusters.Cluster) -> list[api_client.Object]:
    return workloads.running(cluster, "default", "of=web")


def refused(cluster: clusters.Cluster) -> list[api_client.Object]:
    waiting = workloads.pending(cluster, "default", "of=web")
    return [pod for pod in waiting if workloads.scheduled(pod).get("reason") == "Unschedulable"]


def stateful(cluster: clusters.Cluster) -> list[api_client.Object]:
    """What remains of a store in the cluster."""
    api = cluster.api()
    return [
        *api.list(f"/apis/apps/v1/namespaces/{HOME}/statefulsets"),
        *api.list(f"/api/v1/namespaces/{HOME}/persistentvolumeclaims"),
    ]


# The README, and the tutorial that continues it


@pytest.fixture
def beside(binary: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[console_sessions.Session]:
    """A session beside a cluster with a policy and a pod, for a `topolog up` on free ports."""
    with clusters.Cluster(binary) as empty:
        empty.start_controller_manager()
        empty.add_nodes("n1", labels={"topology.kubernetes.io/zone": "zone-a"})
        empty.kubectl("apply", "-f", DEPLOY / "crds" / "kosmos.io_workloadpolicies.yaml")
        empty.kubectl("wait", "--for=condition=established", "crd/workloadpolicies.kosmos.io")
        (spread,) = how_to_pages.fenced(ROOT / "docs" / TUTORIAL, "yaml")
        empty.kubectl("apply", "-f", "-", stdin=spread)
        empty.apply(workloads.pod("default", "web-1", app="web", **{workloads.POLICY_LABEL: "spread"}))
        port, health = child_processes.free_port(row=2), child_processes.free_port(row=8)
        yield session(
            tmp_path,
            empty,
            binary,
            TOPOLOG_SERVER_PORT=str(port),
            TOPOLOG_SERVER_HEALTH_PORT=str(health),
            TOPOLOG_CLIENT_URL=f"https://127.0.0.1:{port}",
            PIP_CACHE_DIR=os.environ.get("PIP_CACHE_DIR", str(pathlib.Path.home() / ".cache" / "pip")),
        )


NAMES = {".venv/bin/topolog up": "topolog up"}  # the one that is left running


def test_the_commands_of_the_tutorial_run(beside: console_sessions.Session) -> None:
    names = {
        "REPOSITORY": str(ROOT),
        "NAME-OF-THIS-MACHINE": "localhost",
        "NAME-OF-A-POD": "web-1",
    }
    beside.run(PAGES[TUTORIAL], NAMES | names)


def test_the_commands_of_the_readme_run_in_a_clone(beside: console_sessions.Session) -> None:
    shutil.rmtree(beside.work)
    subprocess.run(["git", "clone", "--quiet", ROOT, beside.work], check=True)
    (beside.work / "cluster.json").write_text('{"pod": {"name": "web-1"}, "nodes": [{"name": "n1"}]}')
    names = {
        "ns/name": "default/spread",
        "ns/pod": "default/web-1",
        "-f FILE": "-f deploy/scheduler/kube-scheduler-service.yaml",
        "score FILE": "score cluster.json",
        "2026-07-01T10:00:00Z": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
    }
    blocks = [block for block in PAGES[README] if "kubectl" not in block.text]
    output = beside.run(blocks, NAMES | names)
    assert "as expected" in output, "the summary of the demo"
