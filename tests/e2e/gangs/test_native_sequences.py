"""What kube-scheduler's own gangs ask of an extender, and what Topolog answers, sequence by sequence.

tests/e2e/gangs/test_native_gangs.py has gangs with a topology key. Two zones have 6 GPUs each; a member
requests one, and a gang has 4.
"""

import pathlib
import time
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, workloads
from tests.support.e2e.gang_calls import await_logged_binds, binds, calls, kept, pods_in_log, shown
from tests.support.e2e.gang_pods import (
    CAPACITY,
    GPU,
    GPUS,
    NAMESPACE,
    NATIVE,
    PODS,
    SIGS,
    SIZE,
    STRICT,
    V1BETA1,
    ZONE,
    add_members,
    add_pod,
    await_bound,
    await_whole,
    create_group,
    create_sigs_group,
    nodes,
    remove,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.since("1.37", "PodGroups in scheduling.k8s.io/v1beta1"),
]

MANIFESTS = pathlib.Path(__file__).parents[1] / "manifests"


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A control plane with the gates of gangs."""
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    flags = [f"--runtime-config={V1BETA1}=true"]
    with clusters.Cluster(binary, flags=flags, feature_gates=gates) as made:
        made.start_controller_manager()
        made.start_kubelet()
        yield made


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    cluster.kubectl("apply", "-f", MANIFESTS / "podgroups.yaml")
    cluster.await_done("wait", "--for=condition=established", "crd/podgroups.scheduling.x-k8s.io")
    with installations.Installation(cluster, PLUGINS_ENABLED="*,Coscheduling") as installed:
        cluster.add_namespace(NAMESPACE)
        capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: str(GPUS)}
        for zone in "ab":
            cluster.add_nodes(f"{zone}1", f"{zone}2", labels={ZONE: zone}, capacity=capacity)
        for name, value in (("high", 1000), ("low", 1)):
            cluster.apply(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }
            )
        installed.start_scheduler()
        yield installed


@pytest.fixture(autouse=True)
def emptied(cluster: clusters.Cluster, topolog: installations.Installation) -> Iterator[None]:
    """No pod is left for the next test."""
    yield
    remove(cluster, *(workloads.name(pod) for pod in cluster.pods(NAMESPACE)))
    polling.eventually(lambda: not pods_in_log(topolog), "they are gone from the log, too", within=30)


@pytest.mark.scenario("CS-1")
def test_a_gang_is_asked_for_once_it_is_complete_and_all_filters_precede_all_binds(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": SIZE}}}
    cluster.api().create(
        f"{NATIVE}/workloads{STRICT}",
        {
            "apiVersion": V1BETA1,
            "kind": "Workload",
            "metadata": {"name": "train"},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
                "podGroupTemplates": [template | {"disruptionMode": {"all": {}}}],
            },
        },
    )
    reference = {"workloadName": "train", "templateName": "workers"}
    create_group(cluster, "plain", workloadRef=reference, disruptionMode={"all": {}})
    add_members(cluster, "plain", range(SIZE - 1))
    polling.throughout(lambda: not calls(topolog, "plain"), "nothing is asked", during=2.0)
    add_members(cluster, "plain", [SIZE - 1])
    await_whole(cluster, "plain")
    await_logged_binds(topolog, "plain")
    last = kept(topolog, "plain")[-2 * SIZE :]
    assert set(last[:SIZE]) == {f"f{number}" for number in range(SIZE)}
    assert set(last[SIZE:]) == {f"b{number}" for number in range(SIZE)}
    assert "prioritize" not in {call["verb"] for call in calls(topolog, "plain")}
    found = shown(topolog, "plain")
    assert (found["family"], found["gangFrom"]) == ("native", "GangFromNative")


@pytest.mark.scenario("CS-2")
def test_a_gang_that_does_not_fit_holds_nothing_until_its_minimum_is_lowered(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    create_group(cluster, "large", schedulingPolicy={"gang": {"minCount": CAPACITY + 1}})
    add_members(cluster, "large", range(CAPACITY + 1))
    polling.eventually(lambda: calls(topolog, "large"), "it is asked for", within=60)
    polling.throughout(lambda: not nodes(cluster, "large"), "no member is bound", during=5.0)
    assert kept(topolog, "large") == []
    # kube-scheduler goes on to the next member only while the minimum is available.
    assert len({call["pod"] for call in calls(topolog, "large")}) == 1
    missing = f"{CAPACITY} of 13 seats in the cluster; {GPU} 1 of 13 missing"
    assert shown(topolog, "large")["missing"] == missing
    group = cluster.api().get(f"{NATIVE}/podgroups/large")
    (condition,) = group["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    change = {"spec": {"schedulingPolicy": {"gang": {"minCount": CAPACITY}}}}
    cluster.api().patch(f"{NATIVE}/podgroups/large", change)
    await_whole(cluster, "large", CAPACITY, within=180)


@pytest.mark.scenario("CS-17")
def test_in_each_attempt_one_zone_is_kept_whichever_is_offered_first(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    key = {"topology": [{"key": ZONE}]}
    create_group(cluster, "zonal", schedulingConstraints=key)
    add_members(cluster, "zonal")
    await_whole(cluster, "zonal")
    await_logged_binds(topolog, "zonal")
    found = [call for call in calls(topolog, "zonal") if call["verb"] == "filter"]
    # The nodes of one zone are offered at a time, or the nominated node alone.
    assert max(call["candidates"] for call in found) == 2
    assert sorted(kept(topolog, "zonal")[-SIZE:]) == [f"b{number}" for number in range(SIZE)]
    assert "prioritize" not in {call["verb"] for call in calls(topolog, "zonal")}


def test_while_the_extender_is_away_no_member_is_bound(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    extender = topolog.extenders[0]
    extender.process.kill()
    try:
        create_group(cluster, "orphaned")
        add_members(cluster, "orphaned")
        polling.throughout(lambda: not nodes(cluster, "orphaned"), "no member is bound", during=5.0)
    finally:
        extender.start()
    await_whole(cluster, "orphaned")


@pytest.mark.scenario("CS-4")
def test_a_binding_that_the_api_server_refuses_is_tried_slowly_and_healed(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """kube-scheduler itself tries such a member again without a pause: hundreds of times a second."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-binding"}}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "request.name != 'refused-3'"}],
    }
    binding = {"policyName": "no-binding", "validationActions": ["Deny"]}
    cluster.apply(
        policy | {"kind": "ValidatingAdmissionPolicy", "spec": spec},
        policy | {"kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    )

    def effective() -> bool:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "refused-3"},
            "target": {"name": "a1"},
        }
        try:
            cluster.api().create(f"{PODS}/refused-3/binding", body)
        except api_client.ApiError as error:
            return error.status != 404
        return False

    polling.eventually(effective, "the policy is in force", within=30)
    create_group(cluster, "refused")
    add_members(cluster, "refused")
    await_whole(cluster, "refused", SIZE - 1)
    began, before = time.monotonic(), binds(topolog, "refused")
    polling.throughout(lambda: len(nodes(cluster, "refused")) == SIZE - 1, "it stays refused", during=6.0)
    tried, elapsed = binds(topolog, "refused") - before, time.monotonic() - began
    assert 1 <= tried <= 2 * elapsed, (tried, elapsed)
    # Meanwhile it is reported: by Topolog with the gang, and by kube-scheduler with the pod.
    assert shown(topolog, "refused")["state"] in ("ready", "placed")
    assert any("no-binding" in text for text in cluster.events(NAMESPACE, "refused-3"))
    cluster.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "no-binding")
    await_whole(cluster, "refused", within=60)


def test_a_gang_preempts_as_many_pods_as_it_has_members(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """kube-scheduler asks filter as if less important pods were gone, and does not call preempt."""
    for number in range(CAPACITY):
        add_pod(cluster, f"low-{number}", priority="low", gang="low")
    await_whole(cluster, "low", CAPACITY)
    create_group(cluster, "important", priorityClassName="high")
    add_members(cluster, "important", priority="high")
    await_whole(cluster, "important", within=120)
    assert len(nodes(cluster, "low")) == CAPACITY - SIZE
    assert "preempt" not in {call["verb"] for call in calls(topolog, "important")}


def test_a_gang_evicts_no_pod_in_vain(cluster: clusters.Cluster, topolog: installations.Installation) -> None:
    low = GPUS
    for number in range(CAPACITY):
        kind = "low" if number < low else "high"
        add_pod(cluster, f"{kind}er-{number}", priority=kind, gang=kind)
    await_bound(cluster, "low", low)
    await_whole(cluster, "high", CAPACITY - low)
    create_group(cluster, "patient", priorityClassName="high")
    add_members(cluster, "patient", priority="high")
    polling.eventually(lambda: calls(topolog, "patient"), "it is asked for", within=60)
    polling.throughout(lambda: len(nodes(cluster, "low")) == low, "no pod is evicted", during=5.0)
    assert nodes(cluster, "patient") == []
    assert {call["verb"] for call in calls(topolog, "patient")} == {"filter"}
    remove(cluster, f"higher-{CAPACITY - 1}")
    await_bound(cluster, "patient", within=120)
    assert nodes(cluster, "low") == []


def test_a_gang_breaks_up_no_other_gang_unless_that_allows_it(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    for name in ("one", "two", "three"):
        create_sigs_group(cluster, name)
        add_members(cluster, name, native=False, sigs=True, priority="low")
        await_bound(cluster, name)
    create_group(cluster, "considerate", priorityClassName="high")
    add_members(cluster, "considerate", priority="high")
    polling.eventually(lambda: calls(topolog, "considerate"), "it is asked for", within=60)
    whole = {name: SIZE for name in ("one", "two", "three")}

    def running() -> dict[str, int]:
        return {name: len(nodes(cluster, name)) for name in whole}

    polling.throughout(lambda: running() == whole, "no member is evicted", during=5.0)
    for name in whole:
        allowed = {"metadata": {"annotations": {"topolog.io/gang-victims": "allow"}}}
        cluster.api().patch(f"{SIGS}/{name}", allowed)
    await_bound(cluster, "considerate", within=120)
    assert sum(running().values()) == CAPACITY - SIZE


def test_a_pod_preempts_others_rather_than_a_group_that_is_disrupted_as_a_whole(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """kube-scheduler lists all members of such a group as victims of each of their nodes."""
    policy = {"gang": {"minCount": GPUS * 2}}
    create_group(
        cluster, "whole", schedulingPolicy=policy, disruptionMode={"all": {}}, priorityClassName="low"
    )
    add_members(cluster, "whole", range(GPUS * 2), priority="low")
    await_whole(cluster, "whole", GPUS * 2)
    for number in range(GPUS * 2):
        add_pod(cluster, f"single-{number}", priority="low", gang="single")
    await_whole(cluster, "single", GPUS * 2)
    add_pod(cluster, "urgent-0", priority="high", gang="urgent")
    await_whole(cluster, "urgent", 1)
    assert len(nodes(cluster, "whole")) == GPUS * 2
    assert len(nodes(cluster, "single")) == GPUS * 2 - 1
    (asked,) = [call for call in calls(topolog, "urgent") if call["verb"] == "preempt"][:1]
    assert asked["kept"] < asked["candidates"]


@pytest.mark.scenario("CS-16")
def test_later_members_join_their_gang_and_one_that_is_made_again_goes_alone(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    create_group(cluster, "growing", schedulingConstraints={"topology": [{"key": ZONE}]})
    add_members(cluster, "growing")
    await_whole(cluster, "growing")
    zone = nodes(cluster, "growing")[0][0]
    add_members(cluster, "growing", [SIZE])
    await_whole(cluster, "growing", SIZE + 1)
    remove(cluster, "growing-1", "growing-2")
    add_members(cluster, "growing", [1])
    await_whole(cluster, "growing", SIZE)
    assert {node[0] for node in nodes(cluster, "growing")} == {zone}


def test_a_gang_of_ours_without_a_native_group_is_not_affected_by_the_gates(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    create_sigs_group(cluster, "ours")
    add_members(cluster, "ours", range(SIZE - 1), native=False, sigs=True)
    polling.throughout(lambda: not nodes(cluster, "ours"), "an incomplete gang waits", during=3.0)
    add_members(cluster, "ours", [SIZE - 1], native=False, sigs=True)
    await_whole(cluster, "ours")


@pytest.mark.scenario("CS-7")
def test_a_group_that_kube_scheduler_does_not_hold_together_is_placed_whole_by_ours(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """A group with the policy ``basic`` is not a gang for kube-scheduler; the sigs' PodGroup makes it one."""
    create_group(cluster, "both", schedulingPolicy={"basic": {}})
    create_sigs_group(cluster, "both")
    add_members(cluster, "both", range(SIZE - 1), sigs=True)
    polling.eventually(lambda: calls(topolog, "both"), "members are asked for", within=60)
    polling.throughout(lambda: not nodes(cluster, "both"), "an incomplete gang waits", during=3.0)
    add_members(cluster, "both", [SIZE - 1], sigs=True)
    await_whole(cluster, "both")
