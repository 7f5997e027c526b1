"""Gangs with a real kube-scheduler and PodGroups of the sigs: whole or not at all, each in one rack.

40 nodes in 5 racks have 3 GPUs each, which is capacity for 15 gangs of 8; each rack holds exactly 3. The pods
of 20 gangs are created in any order.
"""

import json
import pathlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.support import polling
from tests.support.e2e import (
    api_client,
    clusters,
    gang_witness,
    installations,
    kube_schedulers,
    workloads,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MANIFESTS = pathlib.Path(__file__).parents[1] / "manifests"
NAMESPACE, LABEL, RACK, GPU = "gangs", "scheduling.x-k8s.io/pod-group", "rack", "example.com/gpu"
GANGS, SIZE, CAPACITY = 20, 8, 15
RACKS, NODES, GPUS = 5, 8, 3
WINDOW = 15.0
"""Seconds for which calls are counted."""
IN_PART = 10.0
"""Seconds within which a gang that is bound in part is bound whole."""
BOTH = ("topolog-scheduler", "other-scheduler")


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """Two extenders with Coscheduling; the definition of PodGroups appears after they have started."""
    args = json.dumps({"Coscheduling": {"layers": [RACK]}})
    with installations.Installation(
        cluster, replicas=2, whole=True, PLUGINS_ENABLED="*,ElasticQuota,Coscheduling", PLUGINS_ARGS=args
    ) as installed:
        for name in ("podgroups.scheduling.x-k8s.io", "elasticquotas.scheduling.sigs.k8s.io"):
            cluster.kubectl("apply", "-f", MANIFESTS / f"{name.partition('.')[0]}.yaml")
            cluster.await_done("wait", "--for=condition=established", f"crd/{name}")
        cluster.add_namespace(NAMESPACE)
        capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: str(GPUS)}
        for rack in range(RACKS):
            names = [f"r{rack}-n{number}" for number in range(NODES)]
            cluster.add_nodes(*names, labels={RACK: f"r{rack}"}, capacity=capacity)
        yield installed


@pytest.fixture(scope="module", autouse=True)
def scheduler(topolog: installations.Installation) -> kube_schedulers.Scheduler:
    return topolog.start_scheduler()


@pytest.fixture(scope="module")
def other(topolog: installations.Installation) -> kube_schedulers.Scheduler:
    """Another scheduler, which calls the other extender."""
    return topolog.start_scheduler("other-scheduler", extender=1)


def gang_of(pod: api_client.Object) -> str:
    found: str = pod["metadata"]["labels"][LABEL]
    return found


def create_gangs(
    cluster: clusters.Cluster,
    names: list[str],
    dice: random.Random,
    *,
    namespace: str = NAMESPACE,
    schedulers: tuple[str, ...] = ("topolog-scheduler",),
) -> None:
    """``schedulers``: each gang is of one of them, by turns."""
    for name in names:
        cluster.api().create(
            f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups",
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": name},
                "spec": {"minMember": SIZE},
            },
        )
    of = {name: schedulers[at % len(schedulers)] for at, name in enumerate(names)}
    pods = [(name, number) for name in names for number in range(SIZE)]
    dice.shuffle(pods)
    for name, number in pods:
        pod = workloads.pod(namespace, f"{name}-{number}", scheduler=of[name])
        pod["metadata"]["labels"] = {LABEL: name}
        (container,) = pod["spec"]["containers"]
        container["resources"] = {"requests": {"cpu": "1", GPU: "1"}, "limits": {GPU: "1"}}
        cluster.api().create(f"/api/v1/namespaces/{namespace}/pods", pod)


def bound(cluster: clusters.Cluster, namespace: str = NAMESPACE) -> dict[str, list[str]]:
    """Gang -> nodes of its members, by the API server."""
    found: dict[str, list[str]] = {}
    for pod in cluster.pods(namespace):
        if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp"):
            found.setdefault(gang_of(pod), []).append(pod["spec"]["nodeName"])
    return found


def assert_whole(cluster: clusters.Cluster, namespace: str = NAMESPACE) -> None:
    """Every gang runs whole or not at all, in one rack, and no node has more than it has GPUs."""
    found = bound(cluster, namespace)
    assert {len(nodes) for nodes in found.values()} == {SIZE}
    assert {len({node.partition("-")[0] for node in nodes}) for nodes in found.values()} == {1}
    used = Counter(node for nodes in found.values() for node in nodes)
    assert max(used.values()) <= GPUS


def await_gangs(
    cluster: clusters.Cluster, count: int, namespace: str = NAMESPACE, *, within: float = 120
) -> None:
    """Wait until so many gangs run whole, and no other in part."""
    polling.eventually(
        lambda: sizes(cluster, namespace) == {SIZE: count},
        f"{count} gangs of {SIZE} run",
        within=within,
        seen=lambda: sizes(cluster, namespace),
    )
    assert_whole(cluster, namespace)


def witness(cluster: clusters.Cluster, namespace: str = NAMESPACE) -> gang_witness.Overseer:
    return gang_witness.Overseer(cluster.api(), namespace, LABEL, SIZE)


def assert_never_long_in_part(seen: gang_witness.Overseer, count: int, *, pause: float = 0.0) -> None:
    """So many gangs were bound, each within seconds; ``pause``: the longest that a process was away."""
    assert len(seen.partial) == count
    # A second process may be away before the gang that the first one held up is whole.
    assert seen.longest() < IN_PART * polling.PATIENCE + 2 * pause, (seen.partial, pause)


def sizes(cluster: clusters.Cluster, namespace: str = NAMESPACE) -> Counter[int]:
    return Counter(len(nodes) for nodes in bound(cluster, namespace).values())


def begin(cluster: clusters.Cluster, namespace: str) -> None:
    """Delete all pods, whichever test left them, and create a namespace."""
    for name in {pod["metadata"]["namespace"] for pod in cluster.api().list("/api/v1/pods")}:
        cluster.kubectl("-n", name, "delete", "pods,podgroups", "--all", "--wait=false")
    polling.eventually(lambda: not cluster.api().list("/api/v1/pods"), "all pods are gone", within=60)
    cluster.add_namespace(namespace)


def phase(cluster: clusters.Cluster, name: str) -> str:
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/podgroups/{name}"
    found: str = cluster.api().get(path).get("status", {}).get("phase", "")
    return found


def test_fifteen_of_twenty_gangs_run_and_none_in_part(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    names = [f"g{number:02}" for number in range(GANGS)]
    with witness(cluster) as seen:
        create_gangs(cluster, names, random.Random(20260701))
        await_gangs(cluster, CAPACITY)
    assert_never_long_in_part(seen, CAPACITY)


def test_what_waits_is_shown_with_numbers(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    runs = set(bound(cluster))
    gangs = {
        one["name"].partition("/")[2]: one
        for one in topolog.ask("/apis/v1/plugins/Coscheduling/gangs?limit=100")["items"]
    }
    waiting = sorted(set(gangs) - runs)
    assert len(waiting) == GANGS - CAPACITY
    polling.eventually(
        lambda: {phase(cluster, name) for name in runs} == {"Running"}, "the phase Running", within=30
    )
    lacking = f"0 of 8 seats in the cluster; {GPU} 8 of 8 missing"
    assert {gangs[name]["state"] for name in waiting} == {"waiting"}
    assert {gangs[name]["missing"] for name in waiting} == {lacking}

    def unshown() -> list[str]:
        """The waiting gangs whose PodGroup does not show yet what they wait for."""
        return [
            name
            for name in waiting
            if phase(cluster, name) != "Scheduling"
            or not any(lacking in text for text in cluster.events(NAMESPACE, name, reason="GangWaiting"))
        ]

    polling.eventually(lambda: not unshown(), "each waiting gang is explained", within=180, seen=unshown)
    path = f"/apis/v1/plugins/Coscheduling/gangs/{NAMESPACE}/{min(runs)}"
    assert len(topolog.ask(path, extender=1)["seats"]) == SIZE


def test_gangs_that_wait_cost_two_calls_a_second_each_at_most(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """Without gangs of its own, kube-scheduler tries each member by itself, here for a node with 3 GPUs."""
    runs = set(bound(cluster))
    waiting = sorted({gang_of(pod) for pod in cluster.pods(NAMESPACE)} - runs)
    capacity = {"cpu": "32", "memory": "64Gi", "pods": "110", GPU: str(GPUS)}
    cluster.add_nodes("small", labels={RACK: "small"}, capacity=capacity)
    calls, seconds = topolog.measure_calls(f"{NAMESPACE}/", WINDOW)
    assert calls <= 2 * seconds * len(waiting)
    assert set(bound(cluster)) == runs
    cluster.kubectl("delete", "node", "small")


def test_a_waiting_gang_starts_whole_when_another_ends(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    before = set(bound(cluster))
    ended = sorted(before)[:2]
    for name in ended:
        for number in range(SIZE):
            cluster.api().delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}-{number}")
    polling.eventually(
        lambda: sizes(cluster) == {SIZE: CAPACITY} and not set(ended) & set(bound(cluster)),
        "two waiting gangs have started",
        within=90,
        seen=lambda: sizes(cluster),
    )
    assert_whole(cluster)
    assert len(set(bound(cluster)) - before) == 2


def test_each_member_was_bound_once(topolog: installations.Installation) -> None:
    def binds() -> int:
        calls = (call for part in topolog.extenders for call in part.calls())
        return sum((call["verb"], call["outcome"]) == ("bind", "bound") for call in calls)

    members = (CAPACITY + 2) * SIZE
    polling.eventually(lambda: binds() >= members, "each bind is in the log", seen=binds)
    assert binds() == members


def test_two_schedulers_and_two_replicas_run_fifteen_of_twenty(
    cluster: clusters.Cluster, topolog: installations.Installation, other: kube_schedulers.Scheduler
) -> None:
    begin(cluster, "pair")
    names = [f"p{number:02}" for number in range(GANGS)]
    with witness(cluster, "pair") as seen:
        create_gangs(cluster, names, random.Random(5), namespace="pair", schedulers=BOTH)
        await_gangs(cluster, CAPACITY, "pair")
    assert_never_long_in_part(seen, CAPACITY)
    for extender in topolog.extenders:
        bound_there = {call["pod"] for call in extender.calls() if call["outcome"] == "bound"}
        assert any(name.startswith("pair/") for name in bound_there)


def test_a_quota_for_ten_gangs_lets_ten_run(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    begin(cluster, "limited")
    amounts = {GPU: str(10 * SIZE + 4)}
    cluster.apply(
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "limited", "namespace": "limited"},
            "spec": {"min": amounts, "max": amounts},
        }
    )
    polling.eventually(
        lambda: topolog.find("/apis/v1/plugins/ElasticQuota/quotas/limited") is not None,
        "the quota is known",
        within=30,
    )
    names = [f"q{number:02}" for number in range(GANGS)]
    with witness(cluster, "limited") as seen:
        create_gangs(cluster, names, random.Random(7), namespace="limited")
        await_gangs(cluster, 10, "limited")
        polling.throughout(lambda: sizes(cluster, "limited") == {SIZE: 10}, "no other one starts", during=3.0)
    assert_never_long_in_part(seen, 10)
    waiting = sorted(set(names) - set(bound(cluster, "limited")))
    reason = topolog.ask(f"/apis/v1/pods/limited/{waiting[0]}-0/explain")
    assert "elastic quota limited: no capacity in example.com/gpu" in json.dumps(reason)


def test_two_schedulers_and_a_kill_of_every_process_leave_no_gang_in_part(
    cluster: clusters.Cluster,
    topolog: installations.Installation,
    scheduler: kube_schedulers.Scheduler,
    other: kube_schedulers.Scheduler,
) -> None:
    begin(cluster, "two")
    names = [f"t{number:02}" for number in range(GANGS)]
    pauses: list[float] = []

    def replace(kill: Callable[[], None], *start: Callable[[], None]) -> None:
        began = time.monotonic()
        for step in (kill, *start):
            step()
        pauses.append(time.monotonic() - began)

    with witness(cluster, "two") as seen:
        create_gangs(cluster, names, random.Random(11), namespace="two", schedulers=BOTH)
        for part in topolog.parts:
            replace(part.process.kill, part.start)
        for one in (scheduler, other):
            replace(one.process.kill, one.process.start, one.await_ready)
        replace(topolog.store.kill, topolog.store.start)
        await_gangs(cluster, CAPACITY, "two", within=240)
    assert_never_long_in_part(seen, CAPACITY, pause=max(pauses))


def test_without_its_gate_the_mark_of_kube_schedulers_own_gangs_is_dropped(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """The API server keeps no mark, so that nothing holds back the pod of a group that cannot exist."""
    begin(cluster, "unmarked")
    pod = workloads.pod("unmarked", "alone")
    pod["spec"]["schedulingGroup"] = {"podGroupName": "absent"}
    created = cluster.api().create("/api/v1/namespaces/unmarked/pods", pod)
    assert "schedulingGroup" not in created["spec"]
    polling.eventually(lambda: workloads.running(cluster, "unmarked"), "it runs alone", within=60)


def test_a_gang_that_no_rack_has_capacity_for_takes_as_few_as_possible(
    cluster: clusters.Cluster, topolog: installations.Installation
) -> None:
    """5, 4, 3, 2 and 1 GPUs are left in the racks, on nodes with one each."""
    begin(cluster, "split")
    for rack in range(RACKS):
        for number in range(NODES):
            taken = GPUS - (number < RACKS - rack)
            pod = workloads.pod("split", f"taken-{rack}-{number}")
            (container,) = pod["spec"]["containers"]
            container["resources"] = {"requests": {GPU: str(taken)}, "limits": {GPU: str(taken)}}
            pod["spec"]["nodeName"] = f"r{rack}-n{number}"
            cluster.api().create("/api/v1/namespaces/split/pods", pod)
    polling.eventually(lambda: len(workloads.running(cluster, "split")) == RACKS * NODES, "all are taken")
    cluster.add_namespace("wide")
    create_gangs(cluster, ["wide"], random.Random(1), namespace="wide")
    polling.eventually(lambda: sizes(cluster, "wide") == {SIZE: 1}, "it runs", within=60)
    racks = Counter(node.partition("-")[0] for node in bound(cluster, "wide")["wide"])
    assert len(racks) == 2
    assert set(racks) == {"r0", "r1"}
