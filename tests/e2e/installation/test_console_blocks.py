"""Every block of commands in READMEs, tutorial and how-tos that needs a cluster, run as it is written.

There are three kinds of pages: those that install (an empty cluster, whose pods run as processes), the one
that replaces the store of such an installation, and all others (an installation that is there). The README
is of the first kind, too, for its block that installs. The installation that is there has no pods: a
forwarded port is that of the process. tests/e2e/installation/test_readme.py runs the rest of the README and
the tutorial, and tests/cli/questions/test_console_blocks.py the pages that need no cluster.
"""

import contextlib
import pathlib
import shutil
from collections.abc import Iterator

import pytest

from app.provisioning import decisions
from tests.e2e import go_programs
from tests.support import how_to_pages, polling
from tests.support.e2e import (
    api_client,
    clusters,
    elastic_quotas,
    installations,
    kube_schedulers,
    page_sessions,
    prometheus_operator,
    readiness,
    workloads,
)
from tests.support.e2e.nodes import networks, outside_server, process_kubelets

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

LACKING = process_kubelets.lacking()
HOME = page_sessions.HOME
DEPLOY = page_sessions.DEPLOY
PAGES = how_to_pages.sessions(cluster=True)
TUTORIAL = "tutorial.md"
REPLACING = "replace-the-store.md"
PASSWORDS = "replace-the-passwords.md"
"""Needs a load; tests/e2e/installation/test_store_passwords.py runs it."""
INSTALLING = sorted(
    page
    for page, blocks in PAGES.items()
    if page != REPLACING and any("-k deploy/overlays" in each.text for each in blocks)
)
README = "README.md"
OTHERS = sorted(PAGES.keys() - {*INSTALLING, REPLACING, PASSWORDS, README, TUTORIAL})


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
    made = page_sessions.opened(
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
            made = page_sessions.opened(tmp_path, empty, binary)
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
        made = page_sessions.opened(tmp_path, cluster, binary)
        users = [block for block in PAGES[REPLACING] if "hashes" in block.text]
        rest = [block for block in PAGES[REPLACING] if block not in users]
        names = {"store.example": str(networks.GATEWAY)}
        made.run(users, names)
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
    return workloads.refused(cluster, "default", "of=web")


def stateful(cluster: clusters.Cluster) -> list[api_client.Object]:
    """What remains of a store in the cluster."""
    api = cluster.api()
    return [
        *api.list(f"/apis/apps/v1/namespaces/{HOME}/statefulsets"),
        *api.list(f"/api/v1/namespaces/{HOME}/persistentvolumeclaims"),
    ]
