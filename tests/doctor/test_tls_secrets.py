"""``topolog doctor tls`` on the Secrets of a cluster, and on the pods that mount them."""

import base64
import datetime
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from app.serving.tls import certificate_issuer
from app.simulation.apiserver import faults
from tests.support import manifests
from tests.support.doctor import clusters, runs

Json = dict[str, Any]
HOST = "topolog-extender.topolog-system.svc"
DAY, HOUR = datetime.timedelta(days=1), datetime.timedelta(hours=1)
# Nothing listens at the default address of the extender, or on this port.
AWAY = ("--server", "https://127.0.0.1:9", "--skip", "T06")
UNSEEN = {"T01": "unsure", "T02": "unsure", "T03": "unsure", "T05": "unsure"}
BROKEN = {"T02": "problem", "T03": "unsure"}


@pytest.fixture
def made(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory that `topolog certs` wrote."""
    certificate_issuer.issue(tmp_path / "tls", [HOST])
    return tmp_path / "tls"


@pytest.fixture
def cluster(tmp_path: pathlib.Path, made: pathlib.Path) -> Iterator[clusters.Cluster]:
    with clusters.running(tmp_path) as found:
        for secret, name in (("topolog-tls", "server"), ("topolog-scheduler-tls", "scheduler")):
            pems = ((made / file).read_bytes() for file in (f"{name}.crt", f"{name}.key", "ca.crt"))
            found.add_certificate(*pems, name=secret)
        start(found, datetime.datetime.now(datetime.UTC))
        yield found


def rfc3339(at: datetime.datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def start(
    cluster: clusters.Cluster, at: datetime.datetime, *, pod_at: datetime.datetime | None = None
) -> None:
    """Start an extender with kube-scheduler beside it; ``pod_at``: when the kubelet accepted the pod."""
    stop(cluster)
    names = {"tls": "topolog-scheduler-tls", "server": "topolog-tls"}
    volumes = [
        {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}
        for name, secret in names.items()
    ]
    mount = {"name": "tls", "mountPath": "/etc/topolog/scheduler-tls"}
    containers = [
        {"name": "extender", "image": "i"},
        {"name": "kube-scheduler", "image": "i", "volumeMounts": [mount]},
    ]
    cluster.add_own_pod("topolog-extender-a", volumes=volumes, containers=containers)
    key = (clusters.HOME, "topolog-extender-a")
    starts = {"extender": at - 9 * DAY, "kube-scheduler": at}
    status = {
        "phase": "Running",
        "startTime": rfc3339(pod_at or at),
        "containerStatuses": [
            {"name": name, "state": {"running": {"startedAt": rfc3339(when)}}}
            for name, when in starts.items()
        ],
    }
    cluster.api.objects.change("pods", key, lambda pod: {**pod, "status": status})


def with_status(status: Json, pod: Json) -> Json:
    return {**pod, "status": status}


def stop(cluster: clusters.Cluster) -> None:
    """End what `start` has started."""
    if "topolog-extender-a" in {pod["metadata"]["name"] for pod in cluster.api.objects.all("pods")}:
        cluster.api.objects.remove("pods", (clusters.HOME, "topolog-extender-a"))


def created(cluster: clusters.Cluster, at: datetime.datetime) -> None:
    """The Secret of kube-scheduler was created then; its CA is of now, unless `aged` has made it older."""
    key = (clusters.HOME, "topolog-scheduler-tls")
    cluster.api.objects.change(
        "secrets",
        key,
        lambda one: {**one, "metadata": {**one["metadata"], "creationTimestamp": rfc3339(at)}},
    )


RIGHT = {"T01", "T02", "T03", "T04", "T05"}
"""Checks of Secrets that sound ones pass."""


def test_the_secrets_of_a_cluster_are_checked(cluster: clusters.Cluster, made: pathlib.Path) -> None:
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert (run.wrong(), run.code) == ({}, 0)
    assert run.right() == RIGHT
    for line in (made / "scheduler.key").read_text().splitlines()[1:-1]:
        assert line not in run.text


@pytest.mark.parametrize(
    ("file", "days", "wrong"),
    [("server", 365, {}), ("server", 5, {"T01": "warning"}), ("viewer", 365, {"T02": "problem"})],
)
def test_the_certificate_of_the_store_is_checked_where_there_is_one(
    cluster: clusters.Cluster, tmp_path: pathlib.Path, file: str, days: int, wrong: dict[str, str]
) -> None:
    certificate_issuer.issue(tmp_path / "store", ["topolog-valkey"], days=days)
    files = (f"{file}.crt", f"{file}.key", "ca.crt")
    pems = ((tmp_path / "store" / each).read_bytes() for each in files)
    cluster.add_certificate(*pems, name="topolog-valkey-tls")
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert run.wrong() == wrong
    assert "Secret topolog-system/topolog-valkey-tls" in run.text


def test_a_certificate_without_the_name_of_the_view_is_found(
    cluster: clusters.Cluster, tmp_path: pathlib.Path
) -> None:
    cluster.add("services", manifests.one("Service", "topolog-view", "components/view"))
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert run.wrong() == {"T02": "warning"}
    assert f"lacks the name topolog-view.{clusters.HOME}.svc" in run.text
    names = [f"topolog-{name}.{clusters.HOME}.svc" for name in ("extender", "view")]
    certificate_issuer.issue(tmp_path / "both", names)
    for secret, name in (("topolog-tls", "server"), ("topolog-scheduler-tls", "scheduler")):
        files = (f"{name}.crt", f"{name}.key", "ca.crt")
        pems = ((tmp_path / "both" / file).read_bytes() for file in files)
        cluster.api.objects.remove("secrets", (clusters.HOME, secret))
        cluster.add_certificate(*pems, name=secret)
    start(cluster, datetime.datetime.now(datetime.UTC))
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == {}


def test_a_scheduler_that_was_started_before_its_ca_is_found(cluster: clusters.Cluster) -> None:
    start(cluster, datetime.datetime.now(datetime.UTC) - 9 * DAY)
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == {"T04": "warning"}


@pytest.mark.parametrize(("minutes", "wrong"), [(-3, {"T04": "warning"}), (1, {"T04": "warning"}), (3, {})])
def test_a_scheduler_has_a_ca_when_the_kubelet_has_updated_its_files(
    cluster: clusters.Cluster, minutes: int, wrong: dict[str, str]
) -> None:
    """A CA begins five minutes before it is created, which is now; the Secret is older."""
    now = datetime.datetime.now(datetime.UTC)
    created(cluster, now - 30 * DAY)
    start(cluster, now + datetime.timedelta(minutes=minutes))
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == wrong


def test_a_scheduler_that_was_started_again_in_its_pod_is_right(cluster: clusters.Cluster) -> None:
    now = datetime.datetime.now(datetime.UTC)
    created(cluster, now - 30 * DAY)
    start(cluster, now + datetime.timedelta(minutes=3), pod_at=now - 20 * DAY)
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == {}


@pytest.mark.parametrize(("seconds", "wrong"), [(2, {}), (-180, {"T04": "warning"})])
def test_a_scheduler_of_a_new_installation_has_the_ca_of_its_secret(
    cluster: clusters.Cluster, seconds: int, wrong: dict[str, str]
) -> None:
    """Secret and CA are created together, and the container starts when the Secret exists."""
    start(cluster, datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds))
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == wrong


@pytest.fixture
def aged(cluster: clusters.Cluster, tmp_path: pathlib.Path) -> clusters.Cluster:
    """The CA was made 30 days ago, and the Secret of kube-scheduler again an hour ago."""
    now = datetime.datetime.now(datetime.UTC)
    authority = certificate_issuer.new_authority(now - 30 * DAY, 3650)
    pem = base64.b64encode(authority.certificate_pem()).decode()
    cluster.change("secrets", clusters.HOME, "topolog-scheduler-tls", **{"ca.crt": pem})
    created(cluster, now - HOUR)
    return cluster


@pytest.mark.parametrize(
    ("ago", "verdict"),
    [(40 * DAY, "warning"), (30 * DAY, "unsure"), (DAY, "unsure"), (2 * HOUR, "unsure"), (HOUR / 2, "ok")],
)
def test_a_secret_that_was_made_again_does_not_show_which_ca_was_read_before(
    aged: clusters.Cluster, ago: datetime.timedelta, verdict: str
) -> None:
    start(aged, datetime.datetime.now(datetime.UTC) - ago)
    (found,) = runs.doctor("tls", *AWAY, environ=aged.environ).of("T04")
    assert found["verdict"] == verdict
    if verdict == "unsure":
        assert "which CA its files had at the start is not seen" in found["seen"]
        assert found["fix"].startswith("if the Secret of that time had another CA: kubectl ")


def test_a_scheduler_with_files_on_its_node_is_unsure(cluster: clusters.Cluster) -> None:
    """As a static pod, into which the files of the Secret were copied."""
    stop(cluster)
    mirror = {"kubernetes.io/config.mirror": "a"}
    cluster.add_scheduler("kube-scheduler-n1", namespace="kube-system", hostNetwork=True)
    running = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}
    status = {"phase": "Running", "containerStatuses": [{"name": "kube-scheduler", "state": running}]}
    cluster.api.objects.change(
        "pods",
        ("kube-system", "kube-scheduler-n1"),
        lambda pod: {**pod, "metadata": {**pod["metadata"], "annotations": mirror}, "status": status},
    )
    (found,) = runs.doctor("tls", *AWAY, environ=cluster.environ).of("T04")
    assert (found["verdict"], found["subject"]) == ("unsure", "pod kube-system/kube-scheduler-n1")
    assert found["seen"].startswith("kube-scheduler started at 2026-01-02T03:04:05Z;")
    assert found["fix"].startswith("on node n1 compare ")
    assert "move the manifest of pod kube-scheduler-n1 out of the kubelet's directory" in found["fix"]


@pytest.mark.parametrize(
    ("days", "wrong"), [(0, {}), (-9, {"T04": "warning"})], ids=["after its CA", "before its CA"]
)
def test_the_start_of_a_scheduler_with_a_projected_volume_is_seen(
    cluster: clusters.Cluster, days: int, wrong: dict[str, str]
) -> None:
    start(cluster, datetime.datetime.now(datetime.UTC) + days * DAY)
    projected = {"defaultMode": 0o440, "sources": [{"configMap": {}}, {"secret": {"name": SECRET}}]}
    server = {"name": "server", "secret": {"secretName": "topolog-tls", "defaultMode": 0o440}}
    volumes = [server, {"name": "tls", "projected": projected}]
    cluster.change("pods", clusters.HOME, "topolog-extender-a", volumes=volumes)
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == wrong


def test_a_scheduler_that_mounts_its_secret_and_does_not_run_is_unsure(cluster: clusters.Cluster) -> None:
    """Those of the cluster that do not mount it are other ones."""
    waiting = {"name": "kube-scheduler", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    running = {"name": "kube-scheduler", "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
    cluster.add_scheduler("kube-scheduler-n1", namespace="kube-system", hostNetwork=True)
    for key, one in (
        ((clusters.HOME, "topolog-extender-a"), waiting),
        (("kube-system", "kube-scheduler-n1"), running),
    ):
        status = {"phase": "Running", "containerStatuses": [one]}
        cluster.api.objects.change("pods", key, functools.partial(with_status, status))
    (result,) = runs.doctor("tls", *AWAY, environ=cluster.environ).of("T04")
    assert (result["verdict"], result["subject"]) == ("unsure", f"pod {clusters.HOME}/topolog-extender-a")
    assert result["seen"] == f"the container that mounts Secret {clusters.HOME}/{SECRET} does not run"
    assert "describe pod topolog-extender-a" in result["fix"]


def test_without_a_kube_scheduler_in_a_pod_its_ca_is_unsure(cluster: clusters.Cluster) -> None:
    stop(cluster)
    (found,) = runs.doctor("tls", *AWAY, environ=cluster.environ).of("T04")
    assert (found["verdict"], found["subject"]) == ("unsure", "kube-scheduler")


def test_without_the_secret_of_kube_scheduler_its_ca_is_unsure(cluster: clusters.Cluster) -> None:
    cluster.api.objects.remove("secrets", (clusters.HOME, "topolog-scheduler-tls"))
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert run.wrong() == {**UNSEEN, "T04": "unsure"}


def test_without_the_right_to_a_secret_the_role_that_grants_it_is_named(cluster: clusters.Cluster) -> None:
    cluster.api.faults.add(
        faults.FaultKind.FAIL, lambda request: "secrets" in request.path.split("/"), status=403, times=1000
    )
    found = runs.doctor("tls", *AWAY, environ=cluster.environ).of("T02")
    assert {one["verdict"] for one in found} == {"unsure"}
    assert all("the Role of that name in Topolog's namespace" in one["fix"] for one in found)


SECRET = "topolog-scheduler-tls"
KEY = {"key": "tls.key", "path": "tls.key"}
CA = {"key": "ca.crt", "path": "ca.crt"}
VOLUMES: dict[str, tuple[Json, str]] = {
    "by default": ({"secret": {"secretName": SECRET}}, "warning"),
    "readable by others": ({"secret": {"secretName": SECRET, "defaultMode": 0o444}}, "warning"),
    "readable by its owner": ({"secret": {"secretName": SECRET, "defaultMode": 0o400}}, "ok"),
    "one file by others": (
        {"secret": {"secretName": SECRET, "defaultMode": 0o400, "items": [{**KEY, "mode": 0o404}, CA]}},
        "warning",
    ),
    "one file by its owner": (
        {"secret": {"secretName": SECRET, "items": [{**KEY, "mode": 0o400}, CA]}},
        "ok",
    ),
    "no key": ({"secret": {"secretName": SECRET, "items": [CA]}}, "unsure"),
    "projected": ({"projected": {"sources": [{"secret": {"name": SECRET}}, {"configMap": {}}]}}, "warning"),
    "projected to its owner": (
        {"projected": {"defaultMode": 0o400, "sources": [{"secret": {"name": SECRET}}]}},
        "ok",
    ),
    "another Secret": ({"secret": {"secretName": "another"}}, "unsure"),
}


@pytest.mark.parametrize("name", VOLUMES)
def test_the_mode_of_a_key_is_that_of_the_volumes_of_its_secret(cluster: clusters.Cluster, name: str) -> None:
    source, verdict = VOLUMES[name]
    server = {"name": "server", "secret": {"secretName": "topolog-tls", "defaultMode": 0o440}}
    volumes = [server, {"name": "tls", **source}]
    cluster.change("pods", clusters.HOME, "topolog-extender-a", volumes=volumes)
    found = runs.doctor("tls", *AWAY, environ=cluster.environ).of("T05")
    verdicts = {one["subject"].partition(",")[0]: one["verdict"] for one in found}
    assert verdicts == {"extender": "ok", "kube-scheduler": verdict}


def test_a_readable_key_is_named_with_its_pod(cluster: clusters.Cluster) -> None:
    volume = {"name": "tls", "secret": {"secretName": SECRET}}
    cluster.change("pods", clusters.HOME, "topolog-extender-a", volumes=[volume])
    ((seen, fix),) = [
        (one["seen"], one["fix"])
        for one in runs.doctor("tls", *AWAY, environ=cluster.environ).of("T05")
        if one["verdict"] == "warning"
    ]
    pod = f"{clusters.HOME}/topolog-extender-a"
    assert seen == f"readable by every user of a container: tls.key in volume tls of pod {pod} (0644)"
    assert "securityContext.fsGroup" in fix


def test_without_the_right_to_pods_modes_and_starts_are_unsure(cluster: clusters.Cluster) -> None:
    cluster.api.faults.add(
        faults.FaultKind.FAIL, lambda request: "pods" in request.path.split("/"), status=403, times=1000
    )
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert run.wrong() == {"T04": "unsure", "T05": "unsure"}
    runs.refused(run, "pods")


def test_the_fix_of_a_secret_names_it(cluster: clusters.Cluster) -> None:
    cluster.api.objects.change(
        "secrets", (clusters.HOME, "topolog-tls"), lambda one: {**one, "data": {"tls.crt": "%%%"}}
    )
    (found,) = [one["fix"] for one in runs.doctor("tls", *AWAY, environ=cluster.environ).of("T02")][:1]
    assert found.startswith(f"kubectl -n {clusters.HOME} delete secret topolog-tls; ")


def test_a_secret_that_is_missing_or_incomplete_is_found(cluster: clusters.Cluster) -> None:
    cluster.api.objects.change(
        "secrets", (clusters.HOME, "topolog-tls"), lambda one: {**one, "data": {"tls.crt": "%%%"}}
    )
    assert runs.doctor("tls", *AWAY, environ=cluster.environ).wrong() == BROKEN
    cluster.api.objects.remove("secrets", (clusters.HOME, "topolog-tls"))
    run = runs.doctor("tls", *AWAY, environ=cluster.environ)
    assert run.wrong() == UNSEEN
    assert "topolog certs" in run.of("T02")[0]["fix"] or "deploy" in run.of("T02")[0]["fix"]
