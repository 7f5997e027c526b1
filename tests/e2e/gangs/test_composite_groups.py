"""Groups inside a CompositePodGroup (alpha in 1.37, off): Topolog refuses them, kube-scheduler places them.

A composite group of two gangs is placed together. Its members name their own gang alone, so an extender that
took that gang for a whole one would give nodes to half of the composite group (decision 44).
"""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, native_groups, native_worlds, workloads

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.since("1.37", "composite groups"),
]

NAMESPACE = "composite"
ALPHA = f"{native_groups.GROUP}/v1alpha3"
HALVES, SIZE = ("left", "right"), 2
WHY = "invalid: spec.parentCompositePodGroupName is job: composite pod groups are not modelled"
WITHOUT = "without-topolog"
PLAIN = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": WITHOUT}],
}


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path, form: native_groups.Form) -> Iterator[clusters.Cluster]:
    """A control plane with the gate of composite groups, and the API version that has them."""
    versions = f"--runtime-config={native_groups.GROUP}/{form.version}=true,{ALPHA}=true"
    gates = {**form.gates, "CompositePodGroup": True}
    with clusters.Cluster(binary, flags=[versions], feature_gates=gates) as made:
        made.start_controller_manager()
        made.start_kubelet()
        yield made


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster, form: native_groups.Form) -> Iterator[installations.Installation]:
    """With a composite group of two gangs of two."""
    with native_worlds.topolog(cluster, NAMESPACE) as installed:
        installed.start_scheduler()
        create_composite(cluster, form, "job", HALVES)
        yield installed


def create_composite(
    cluster: clusters.Cluster, form: native_groups.Form, name: str, children: tuple[str, ...]
) -> None:
    """Create a composite group that needs all of its gangs."""
    body = {
        "apiVersion": ALPHA,
        "kind": "CompositePodGroup",
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"workloadName": "train", "templateName": "top"},
            "schedulingPolicy": {"gang": {"minGroupCount": len(children)}},
        },
    }
    path = f"/apis/{ALPHA}/namespaces/{NAMESPACE}/compositepodgroups?fieldValidation=Strict"
    cluster.api().create(path, body)
    for child in children:
        spec = {
            "parentCompositePodGroupName": name,
            "workloadRef": {"workloadName": "train", "templateName": "workers"},
            "schedulingPolicy": {"gang": {"minCount": SIZE}},
        }
        body = {
            "apiVersion": f"{native_groups.GROUP}/{form.version}",
            "kind": "PodGroup",
            "metadata": {"name": child},
            "spec": spec,
        }
        created = cluster.api().create(f"{form.path(NAMESPACE)}?fieldValidation=Strict", body)
        assert created["spec"]["parentCompositePodGroupName"] == name


def nodes(cluster: clusters.Cluster, *gangs: str) -> list[str]:
    """The nodes of the members of these gangs; an empty text for one that waits."""
    return sorted(pod["spec"].get("nodeName", "") for gang in gangs for pod in of_gang(cluster, gang))


def of_gang(cluster: clusters.Cluster, gang: str) -> list[api_client.Object]:
    return cluster.pods(NAMESPACE, labels=f"gang={gang}")


def test_members_are_refused_with_the_reason_and_a_gang_of_its_own_runs_beside_them(
    cluster: clusters.Cluster, topolog: installations.Installation, form: native_groups.Form
) -> None:
    for number in range(SIZE):
        for half in HALVES:
            native_worlds.add_member(cluster, form, NAMESPACE, half, number)

    def messages() -> list[str]:
        """Of tried members: kube-scheduler ends the attempt of the tree at the first refusal."""
        found = (
            workloads.scheduled(pod).get("message", "") for half in HALVES for pod in of_gang(cluster, half)
        )
        return sorted(filter(None, found))

    polling.eventually(
        lambda: len(messages()) == SIZE * len(HALVES) and any(WHY in one for one in messages()),
        "every member is refused, the first one with the reason",
        within=90,
        seen=messages,
    )
    for half in HALVES:
        shown = topolog.ask(f"/apis/v1/plugins/Coscheduling/gangs/{NAMESPACE}/{half}")
        assert shown["errors"] == [WHY.removeprefix("invalid: ")]
        assert shown["seats"] == []
    form.create(cluster, NAMESPACE, "alone", minimum=SIZE)
    for number in range(SIZE):
        native_worlds.add_member(cluster, form, NAMESPACE, "alone", number)
    polling.eventually(
        lambda: all(nodes(cluster, "alone")) and len(nodes(cluster, "alone")) == SIZE,
        "the gang without a parent runs",
        within=90,
        seen=lambda: nodes(cluster, "alone"),
    )
    assert nodes(cluster, *HALVES) == [""] * SIZE * len(HALVES)
    placed = topolog.ask("/apis/v1/events?type=PlacementsCommitted&limit=100")["items"]
    assert {half for half in HALVES if half in str(placed)} == set()


def test_a_profile_without_the_extender_places_them_together(
    cluster: clusters.Cluster, topolog: installations.Installation, form: native_groups.Form
) -> None:
    cluster.start_scheduler("plain", PLAIN)
    create_composite(cluster, form, "other-job", ("one", "two"))
    for number in range(SIZE):
        for half in ("one", "two"):
            pod = workloads.pod(NAMESPACE, f"{half}-{number}", scheduler=WITHOUT, gang=half)
            form.mark(pod, half)
            cluster.api().create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
    polling.eventually(
        lambda: len(nodes(cluster, "one", "two")) == 2 * SIZE and all(nodes(cluster, "one", "two")),
        "kube-scheduler places the composite group",
        within=90,
        seen=lambda: nodes(cluster, "one", "two"),
    )
    assert nodes(cluster, *HALVES) == [""] * SIZE * len(HALVES)
