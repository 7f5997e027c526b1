"""The chart with real Helm 3 and Helm 4: what both render, what both refuse, and an installation.

The pods of the release run as in tests/e2e/installation/test_installation.py.
"""

import json
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

import app
from tests.e2e import control_plane_builds, go_programs
from tests.support import polling
from tests.support.charts import effects, generated_files, golden, wrong
from tests.support.e2e import clusters, readiness
from tests.support.e2e.nodes import process_kubelets

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
HOME = "topolog-system"
LACKING = process_kubelets.lacking()
MINORS = ("1.34.4", "1.35.4", "1.36.3", "1.37.0")


@pytest.fixture(scope="module", params=go_programs.HELM, ids=lambda major: f"helm{major}")
def program(request: pytest.FixtureRequest) -> pathlib.Path:
    """Helm; each version renders and installs."""
    try:
        return go_programs.HELM[request.param].built()
    except control_plane_builds.GoMissing as missing:
        pytest.skip(str(missing))


def run(*command: str | pathlib.Path, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/proc/nonexistent", **environ}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=environment)


# Rendering


def test_the_chart_has_no_flaw(program: pathlib.Path) -> None:
    for path in sorted(
        [generated_files.CHART / "values.yaml", *(generated_files.CHART / "ci").glob("*.yaml")]
    ):
        done = run(program, "lint", "--strict", generated_files.CHART, "--values", path)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", sorted(golden.cases()))
def test_the_committed_output_is_what_helm_renders(program: pathlib.Path, case: str) -> None:
    text = golden.rendered(program, case)
    assert golden.of_case(case, golden.parsed(text)) == golden.stored(case)
    assert golden.rendered(program, case) == text, "rendering twice gives the same bytes"


@pytest.mark.parametrize("version", MINORS)
def test_kube_scheduler_is_of_the_api_servers_minor_version(program: pathlib.Path, version: str) -> None:
    text = golden.rendered(program, "dev", kubernetes=version)
    minor = version.rpartition(".")[0]
    assert f"registry.k8s.io/kube-scheduler:v{minor}.0\n" in text


@pytest.mark.parametrize("case", sorted(golden.cases()))
def test_nothing_but_that_tag_follows_the_version_or_the_apis_of_the_cluster(
    program: pathlib.Path, case: str
) -> None:
    """The committed output is valid for every version (tests/deploy/test_schemas.py), so all others are."""
    usual = golden.rendered(program, case)
    for version in (one for one in MINORS if one != golden.KUBERNETES):
        tag = f"kube-scheduler:v{version.rpartition('.')[0]}.0\n"
        expected = usual.replace("kube-scheduler:v1.37.0\n", tag)
        assert golden.rendered(program, case, kubernetes=version) == expected
    if "kind: PodMonitor\n" not in usual:
        assert golden.rendered(program, case, apis=()) == usual


def test_another_url_of_the_store_is_in_another_secret(program: pathlib.Path) -> None:
    names = set()
    for password in ("former", "current"):
        further = ["--set", f"store.external.url=redis://topolog:{password}@store.internal:6380/0"]
        found = golden.parsed(golden.rendered(program, "external-url", further=further))
        (name,) = (one["metadata"]["name"] for one in found if one["kind"] == "Secret")
        names.add(name)
    assert len(names) == 2


def test_an_older_kubernetes_is_refused(program: pathlib.Path) -> None:
    done = run(program, "template", "t", generated_files.CHART, "--kube-version", "1.33.0")
    assert done.returncode != 0
    assert "1.34" in done.stderr


def test_monitoring_without_its_operator_is_refused_with_a_sentence(program: pathlib.Path) -> None:
    given = ("--kube-version", "1.37.0", "--set", "monitoring.podMonitor.enabled=true")
    done = run(program, "template", "t", generated_files.CHART, *given)
    assert done.returncode != 0
    assert "need the Prometheus operator" in done.stderr


def test_a_minimum_above_its_maximum_is_refused_with_both_paths(program: pathlib.Path) -> None:
    case = golden.cases()["several-schedulers"]
    given = ("--kube-version", "1.37.0", *case, "--set", "extender.hpa.minReplicas=6")
    done = run(program, "template", "t", generated_files.CHART, *given)
    assert done.returncode != 0
    assert "extender.hpa.minReplicas (6) is above extender.hpa.maxReplicas (5): give" in done.stderr


@pytest.mark.parametrize("mistake", wrong.TABLE, ids=lambda one: json.dumps(one.values))
def test_a_wrong_value_is_refused_with_its_path(
    program: pathlib.Path, mistake: wrong.Wrong, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "values.yaml").write_text(json.dumps(mistake.values))
    given = ("--kube-version", "1.37.0", "--values", tmp_path / "values.yaml")
    done = run(program, "template", "t", generated_files.CHART, *given)
    assert done.returncode != 0
    assert f"at '{mistake.path}'" in done.stderr


def unit_tested(chart: pathlib.Path, suite: effects.Object) -> subprocess.CompletedProcess[str]:
    """helm-unittest, which has Helm 3 in it, with the suite in a copy of the chart."""
    try:
        unittest = go_programs.HELM_UNITTEST.built()
    except control_plane_builds.GoMissing as missing:
        pytest.skip(str(missing))
    (chart / "tests").mkdir()
    (chart / "tests" / "values_test.yaml").write_text(json.dumps(suite))
    return run(unittest, "--strict", chart)


def test_each_value_has_its_effect_and_nothing_else_has_it(tmp_path: pathlib.Path) -> None:
    chart = shutil.copytree(generated_files.CHART, tmp_path / "topolog")
    done = unit_tested(chart, effects.suite())
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{2 * len(effects.effects())} passed" in done.stdout


def test_a_value_that_has_lost_its_effect_is_found(tmp_path: pathlib.Path) -> None:
    chart = shutil.copytree(generated_files.CHART, tmp_path / "topolog")
    template = chart / "templates" / "recorder.yaml"
    template.write_text(template.read_text().replace("{{ .Values.recorder.replicas }}", "1"))
    suite = effects.suite()
    suite["tests"] = [one for one in suite["tests"] if one["it"].startswith("recorder.replicas")]
    done = unit_tested(chart, suite)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout, done.stdout


def test_the_notes_name_the_next_two_commands(program: pathlib.Path) -> None:
    if "v3" in str(program):
        pytest.skip("Helm 3 asks a cluster before it shows notes")
    given = ("--namespace", HOME, "--dry-run=client")
    done = run(program, "install", "topolog", generated_files.CHART, *given)
    assert done.returncode == 0, done.stderr
    assert "kubectl -n topolog-system rollout status deployment/topolog-extender" in done.stdout
    assert "helm test topolog -n topolog-system\n" in done.stdout


def test_the_notes_for_an_existing_kube_scheduler_name_its_configuration(program: pathlib.Path) -> None:
    if "v3" in str(program):
        pytest.skip("Helm 3 asks a cluster before it shows notes")
    profile = generated_files.CHART / "values-existing-scheduler.yaml"
    given = ("--namespace", "elsewhere", "--dry-run=client", "--values", profile)
    done = run(program, "install", "topolog", generated_files.CHART, *given)
    assert done.returncode == 0, done.stderr
    assert "\n  name: topolog-kube-scheduler\n" in done.stdout
    written = "-o jsonpath='{.data.kube-scheduler\\.yaml}' > kube-scheduler.yaml"
    assert f"\n  kubectl -n elsewhere get configmap topolog-kube-scheduler {written}\n" in done.stdout
    # In the notes and in the ConfigMap.
    assert done.stdout.count("urlPrefix: https://topolog-extender.elsewhere.svc\n") == 2
    assert "topolog-system" not in done.stdout


# An installation


@pytest.fixture
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """An empty cluster of one node with a scheduler, like any new one."""
    if LACKING:
        pytest.skip(LACKING)
    with readiness.empty_cluster(binary, "a") as cluster:
        cluster.kubectl("create", "namespace", HOME)
        cluster.kubectl("label", "namespace", HOME, "pod-security.kubernetes.io/enforce=restricted")
        yield cluster


@pytest.fixture
def kubelet(cluster: clusters.Cluster) -> process_kubelets.ProcessKubelet:
    """The kubelet of the release's pods."""
    return cluster.start_process_kubelet(HOME)


def with_version(version: str, folder: pathlib.Path) -> pathlib.Path:
    """The chart under another version: its labels and the tag of its image differ."""
    shutil.copytree(generated_files.CHART, folder)
    chart = folder / "Chart.yaml"
    chart.write_text(chart.read_text().replace(f"ersion: {app.__version__}", f"ersion: {version}"))
    return folder


LEFT = {"secrets", "leases.coordination.k8s.io", "persistentvolumeclaims"}
"""What the processes made, which no release contains: docs/how-to/install.md names it."""
OF_KUBERNETES = {"configmap/kube-root-ca.crt", "serviceaccount/default"}


def kinds_in(cluster: clusters.Cluster, namespace: str) -> set[str]:
    """The kinds of all objects in a namespace, without Events and what every namespace has."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "--namespaced", "-o", "name").split()
    return {
        kind
        for kind in kinds
        if not kind.startswith("events")
        if set(cluster.kubectl("get", kind, "-n", namespace, "-o", "name").split()) - OF_KUBERNETES
    }


def test_install_test_upgrade_and_uninstall(
    program: pathlib.Path,
    cluster: clusters.Cluster,
    kubelet: process_kubelets.ProcessKubelet,
    tmp_path: pathlib.Path,
) -> None:
    """From a chart of another version to this one, with both versions of Helm."""
    config = cluster.kubeconfig()

    def helm_run(*arguments: str) -> str:
        done = run(program, *arguments, "--namespace", HOME, KUBECONFIG=str(config))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def tested() -> None:
        done = run(program, "test", "topolog", "--namespace", HOME, "--timeout=5m", KUBECONFIG=str(config))
        logs = [path.read_text() for path in kubelet.folder.glob("*topolog-test*")]
        assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *logs])
        assert "Succeeded" in done.stdout
        # The API server is outside of the pods' network: the test has asked the extender itself.
        assert any(re.search(r"^ok +R01  extender ", log, re.MULTILINE) for log in logs), logs

    former = with_version("0.0.1", tmp_path / "topolog")
    shown = helm_run("install", "topolog", str(former))
    assert "helm test topolog" in shown
    readiness.await_ready(cluster, within=300)
    tested()
    helm_run("upgrade", "topolog", str(generated_files.CHART), "--set", "config.logging.level=debug")
    readiness.await_ready(cluster, within=300)
    tested()
    released = tmp_path / "released.yaml"
    released.write_text(helm_run("get", "manifest", "topolog") + helm_run("get", "hooks", "topolog"))
    helm_run("uninstall", "topolog")
    polling.eventually(lambda: cluster.pods(HOME) == [], "the pods are gone", within=120, every=0.5)
    left = set(cluster.kubectl("get", "-f", released, "--ignore-not-found", "-o", "name").split())
    kept = {one for one in left if one.startswith("configmap/topolog-")}
    assert left - kept == {"customresourcedefinition.apiextensions.k8s.io/workloadpolicies.kosmos.io"}
    assert kept
    assert kinds_in(cluster, HOME) == LEFT | {"configmaps"}
    helm_run("install", "topolog", str(generated_files.CHART), "--dry-run=server")
    # The definition that was kept is of a release: another one has to take it over.
    again = ("install", "again", str(generated_files.CHART), "--namespace", HOME, "--dry-run=server")
    refused = run(program, *again, KUBECONFIG=str(config))
    assert refused.returncode != 0
    assert "invalid ownership metadata" in refused.stderr
    for option in ("--take-ownership", "--set=crds.install=false"):
        if option != "--take-ownership":
            cluster.kubectl("delete", "configmap", "-n", HOME, "-l", "app.kubernetes.io/part-of=topolog")
            assert kinds_in(cluster, HOME) == LEFT
        done = run(program, *again, option, KUBECONFIG=str(config))
        assert done.returncode == 0, done.stdout + done.stderr
    # The Leases that are left are those of processes that have ended.
    helm_run("install", "topolog", str(generated_files.CHART))
    readiness.await_ready(cluster, within=300)
    readiness.await_led(cluster, kubelet.folder)
    tested()
