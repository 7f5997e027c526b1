"""The shipped ValidatingAdmissionPolicies on a real API server: pods that escape a quota are warned of.

With `Deny` in the bindings they are refused.
"""

import contextlib
import pathlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from tests.support import polling
from tests.support.e2e import api_client, clusters, component_flags

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
HOME = "topolog-system"
TYPE_CHECKER = "validatingadmissionpolicy-status-controller"
"""The controller that checks the types of expressions."""
LABEL = "workload-policy/kosmos.io"
ALIAS = "workload-policy.kosmos.io"
QUOTA = "quota.scheduling.koordinator.sh/name"
ESCAPES = "escapes its quota"
PODS_ESCAPE = "escape their quota"
NONE_APPLIES = "no quota applies"


@pytest.fixture(scope="module")
def plane(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A cluster with the policies; the API server enforces them some moments after they are created."""
    with clusters.Cluster(binary) as cluster:
        cluster.start_controller_manager((*component_flags.CONTROLLERS, TYPE_CHECKER))
        cluster.add_namespace(HOME)
        cluster.kubectl("apply", "-k", DEPLOY / "admission")
        for made in (pod("probe", {LABEL: "x"}), deployment("probe", {LABEL: "x"})):
            polling.eventually(
                partial(warned, cluster, made, dry=True), "the policies are in force", within=60
            )
        yield cluster


def pod(name: str, labels: dict[str, str] | None = None, **spec: object) -> api_client.Object:
    container = {"name": "c", "image": "registry.example/app:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }


def deployment(
    name: str, labels: dict[str, str], own: dict[str, str] | None = None, **spec: object
) -> api_client.Object:
    template = pod(name, {"app": name, **labels}, **spec)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": own or {}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": template["metadata"] | {"name": ""}, "spec": template["spec"]},
        },
    }


def stateful_set(name: str, labels: dict[str, str]) -> api_client.Object:
    return {**deployment(name, labels), "kind": "StatefulSet"}


def job(name: str, labels: dict[str, str], **spec: object) -> api_client.Object:
    made = deployment(name, labels, None, restartPolicy="Never", **spec)
    template = made["spec"]["template"]
    return {**made, "apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": True, "template": template}}


def cron_job(
    name: str,
    labels: dict[str, str],
    own: dict[str, str] | None = None,
    of_jobs: dict[str, str] | None = None,
    **spec: object,
) -> api_client.Object:
    made = job(name, labels, **spec)
    template = {"metadata": {"labels": of_jobs or {}}, "spec": made["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "default", "labels": own or {}},
        "spec": {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": template},
    }


def warned(cluster: clusters.Cluster, made: api_client.Object, *, dry: bool = False) -> str:
    """The warnings that `kubectl apply` shows; empty without one."""
    strict = ["apply", "--warnings-as-errors", "-f", "-"]
    text = yaml.safe_dump(made)
    arguments = [*strict, "--dry-run=server"] if dry else strict
    try:
        cluster.kubectl(*arguments, stdin=text)
    except AssertionError as failed:
        shown = str(failed)
        # The object is accepted: kubectl's exit code is that of --warnings-as-errors.
        assert "warning" in shown.lower(), shown
        assert "denied" not in shown, shown
        return shown
    return ""


def by_topolog(**more: object) -> dict[str, Any]:
    return {"schedulerName": "topolog-scheduler", **more}


CASES: dict[str, tuple[api_client.Object, str]] = {
    "no-label": (pod("no-label"), ""),
    "asks": (pod("asks", {LABEL: "spread"}, **by_topolog()), ""),
    "other-scheduler": (pod("other-scheduler", {LABEL: "spread"}), ESCAPES),
    "other-alias": (pod("other-alias", {ALIAS: "spread"}), ESCAPES),
    "other-quota": (pod("other-quota", {QUOTA: "team-a"}), ESCAPES),
    "quota-asks": (pod("quota-asks", {QUOTA: "team-a"}, **by_topolog()), ""),
    "node-name": (pod("node-name", {LABEL: "spread"}, **by_topolog(nodeName="n1")), "Remove spec.nodeName"),
    "node-name-only": (pod("node-name-only", {"app": "x"}, nodeName="n1"), ""),
    "template-asks": (deployment("template-asks", {LABEL: "spread"}, **by_topolog()), ""),
    "template-other": (deployment("template-other", {LABEL: "spread"}), PODS_ESCAPE),
    "template-node": (
        deployment("template-node", {LABEL: "spread"}, **by_topolog(nodeName="n1")),
        "Remove spec.template.spec.nodeName",
    ),
    "label-above": (deployment("label-above", {}, {LABEL: "spread"}), NONE_APPLIES),
    "label-on-both": (deployment("label-on-both", {LABEL: "s"}, {LABEL: "s"}, **by_topolog()), ""),
    "no-labels": (deployment("no-labels", {}), ""),
    "job-asks": (job("job-asks", {LABEL: "spread"}, **by_topolog()), ""),
    "job-other": (job("job-other", {QUOTA: "team-a"}), PODS_ESCAPE),
    "cron-job-asks": (
        cron_job("cron-job-asks", {LABEL: "s"}, {LABEL: "s"}, {LABEL: "s"}, **by_topolog()),
        "",
    ),
    "cron-job-other": (
        cron_job("cron-job-other", {QUOTA: "team-a"}),
        f"{PODS_ESCAPE}. Set spec.jobTemplate.spec.template.spec.schedulerName to topolog-scheduler",
    ),
    "cron-job-node": (
        cron_job("cron-job-node", {LABEL: "spread"}, **by_topolog(nodeName="n1")),
        "Remove spec.jobTemplate.spec.template.spec.nodeName",
    ),
    "cron-job-label-above": (
        cron_job("cron-job-label-above", {}, {LABEL: "spread"}),
        f"{NONE_APPLIES} to them. Set it in spec.jobTemplate.spec.template.metadata.labels",
    ),
    "cron-job-label-of-jobs": (
        cron_job("cron-job-label-of-jobs", {}, None, {LABEL: "spread"}),
        NONE_APPLIES,
    ),
    "cron-job-no-labels": (cron_job("cron-job-no-labels", {}), ""),
}


PATHS = {
    "Pod": "/api/v1",
    "Deployment": "/apis/apps/v1",
    "Job": "/apis/batch/v1",
    "CronJob": "/apis/batch/v1",
}


@pytest.mark.parametrize("name", CASES)
def test_who_escapes_is_warned_and_nothing_is_refused(plane: clusters.Cluster, name: str) -> None:
    made, expected = CASES[name]
    seen = warned(plane, made)
    assert expected in seen if expected else not seen
    if expected == ESCAPES:
        assert "Set spec.schedulerName to topolog-scheduler" in seen
        assert "default-scheduler" in seen
    path = f"{PATHS[made['kind']]}/namespaces/default/{made['kind'].lower()}s/{name}"
    assert plane.api().get(path)["metadata"]["name"] == name


def test_a_change_that_lets_pods_escape_is_warned_of(plane: clusters.Cluster) -> None:
    assert not warned(plane, deployment("changed", {LABEL: "spread"}, **by_topolog()))
    assert PODS_ESCAPE in warned(plane, deployment("changed", {LABEL: "spread"}, schedulerName="other"))


def test_pods_of_a_daemonset_and_exempt_namespaces_are_not_warned_of(plane: clusters.Cluster) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1"}
    of_daemonset = pod("agent-1", {LABEL: "spread"})
    of_daemonset["metadata"]["ownerReferences"] = [owner]
    assert not warned(plane, of_daemonset)
    exempt = {"metadata": {"name": "exempt", "labels": {"topolog.io/admission": "ignore"}}}
    plane.api().create("/api/v1/namespaces", exempt)
    inside = pod("free", {LABEL: "spread"})
    inside["metadata"]["namespace"] = "exempt"
    polling.eventually(lambda: not warned(plane, inside, dry=True), "the namespace is exempt", within=30)


def test_the_schedulers_are_those_of_the_parameters(plane: clusters.Cluster) -> None:
    path = f"/api/v1/namespaces/{HOME}/configmaps/topolog-admission"
    usual = plane.api().get(path)["data"]["schedulerNames"]
    plane.api().patch(path, {"data": {"schedulerNames": "topolog-scheduler, default-scheduler"}})
    try:
        polling.eventually(
            lambda: not warned(plane, pod("by-default", {LABEL: "spread"}), dry=True),
            "it asks, too",
            within=30,
        )
    finally:
        plane.api().patch(path, {"data": {"schedulerNames": usual}})
    polling.eventually(
        lambda: warned(plane, pod("by-default", {LABEL: "spread"}), dry=True), "as before", within=30
    )


BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
ESCAPING = (pod("escaping", {LABEL: "x"}), deployment("escaping", {LABEL: "x"}))


@contextlib.contextmanager
def denial(plane: clusters.Cluster) -> Iterator[None]:
    """Both bindings refuse, as docs/how-to/quotas.md and the chart have it."""
    paths = [f"{BINDINGS}/topolog-escaping-{kind}" for kind in ("pods", "templates")]

    def act(actions: list[str]) -> None:
        for path in paths:
            plane.api().patch(path, {"spec": {"validationActions": actions}})

    act(["Deny", "Audit"])
    for made in ESCAPING:
        polling.eventually(partial(denied, plane, made), "it is refused", within=60)
    try:
        yield
    finally:
        act(["Warn", "Audit"])
    for made in ESCAPING:
        polling.eventually(partial(accepted, plane, made), "it is accepted again", within=60)
        polling.eventually(partial(warned, plane, made, dry=True), "it is warned of again", within=60)


@pytest.fixture
def denying(plane: clusters.Cluster) -> Iterator[clusters.Cluster]:
    with denial(plane):
        yield plane


def denied(cluster: clusters.Cluster, made: api_client.Object) -> str:
    """Why `kubectl apply` is refused; empty if it is not. Nothing is created."""
    try:
        return cluster.kubectl(
            "apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(made), refused=True
        )
    except AssertionError:
        return ""


def accepted(cluster: clusters.Cluster, made: api_client.Object) -> bool:
    return not denied(cluster, made)


def test_who_escapes_is_refused_by_deny(denying: clusters.Cluster) -> None:
    for name, (made, expected) in CASES.items():
        another = {**made, "metadata": {**made["metadata"], "name": f"denied-{name}"}}
        seen = denied(denying, another)
        assert (expected in seen and "denied request" in seen) if expected else not seen, (name, seen)


EXISTING = (
    deployment("existing", {LABEL: "x"}),
    deployment("existing-above", {}, {LABEL: "x"}),
    stateful_set("existing", {LABEL: "x"}),
    job("existing", {LABEL: "x"}),
    cron_job("existing", {LABEL: "x"}),
    cron_job("existing-above", {}, None, {LABEL: "x"}),
)


def test_deny_refuses_no_change_of_an_earlier_object_that_leaves_its_template_alone(
    plane: clusters.Cluster,
) -> None:
    names = [f"{made['kind'].lower()}/{made['metadata']['name']}" for made in EXISTING]
    for made in EXISTING:
        assert warned(plane, made)
    with denial(plane):
        plane.kubectl("annotate", *names, "example.org/note=kept")
        plane.kubectl("label", *names, "example.org/team=web")
        # The garbage collector removes the finalizer by an update once the dependents are gone.
        plane.kubectl("delete", *names, "--cascade=foreground", "--timeout=50s")


def test_deny_refuses_a_change_by_which_pods_escape(plane: clusters.Cluster) -> None:
    assert warned(plane, deployment("restarted", {LABEL: "x"}))
    assert not warned(plane, deployment("labelled", {}))
    with denial(plane):
        seen = plane.kubectl("rollout", "restart", "deployment/restarted", refused=True)
        assert PODS_ESCAPE in seen
        seen = plane.kubectl("label", "deployment/labelled", f"{LABEL}=x", refused=True)
        assert NONE_APPLIES in seen


def test_nothing_is_refused_while_the_parameters_are_missing(denying: clusters.Cluster) -> None:
    denying.api().delete(f"/api/v1/namespaces/{HOME}/configmaps/topolog-admission")
    try:
        for made in ESCAPING:
            polling.eventually(partial(accepted, denying, made), "it is accepted", within=60)
    finally:
        denying.kubectl("apply", "-f", DEPLOY / "admission" / "settings.yaml")
    for made in ESCAPING:
        polling.eventually(partial(denied, denying, made), "it is refused again", within=60)


def test_the_api_server_finds_no_mistake_in_the_expressions(plane: clusters.Cluster) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    names = {"topolog-escaping-pods", "topolog-escaping-templates"}

    def checked() -> list[api_client.Object]:
        found = [one for one in plane.api().get(path)["items"] if one["metadata"]["name"] in names]
        return [one for one in found if "typeChecking" in one.get("status", {})]

    polling.eventually(lambda: len(checked()) == len(names), "the expressions were checked", within=60)
    assert [one["status"]["typeChecking"].get("expressionWarnings") for one in checked()] == [None, None]
