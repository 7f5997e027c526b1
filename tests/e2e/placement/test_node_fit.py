"""The nodes on which Topolog finds that a pod fits are those that kube-scheduler offers for it.

200 pods and 50 nodes are drawn at random, with residents that run, end and have finished. An extender of the
test records the offers. Topolog answers twice: by the dry run of a preemption, which lists every node that
the pod does not fit on, and by a simulation with roomy candidates.
"""

import concurrent.futures
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import polling
from tests.support.e2e import api_client, clusters, installations, offer_recorder, workloads

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SEED = 20260701
NAMESPACE, SCHEDULER = "fitting", "offer-recorder"
NODES, RESIDENTS, PENDING = 50, 150, 200
ZONES, DISKS = ("a", "b", "c"), ("ssd", "hdd")
TAINTS = ("dedicated", "spot")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
GPU = "example.com/gpu"

Object = api_client.Object


def drawn_node(rng: random.Random, number: int) -> Object:
    name = f"f{number:02}"
    labels = {"kubernetes.io/hostname": name, "zone": rng.choice(ZONES), "cores": str(rng.choice((4, 8, 16)))}
    if rng.random() < 0.7:
        labels["disk"] = rng.choice(DISKS)
    capacity = {
        "cpu": rng.choice(("2", "4", "7500m")),
        "memory": rng.choice(("2Gi", "4G", "8000000k")),
        "ephemeral-storage": rng.choice(("10Gi", "20Gi")),
        "pods": rng.choice(("4", "6", "20")),
    }
    if rng.random() < 0.3:
        capacity[GPU] = rng.choice(("1", "4"))
    taints = [
        {"key": key, "value": rng.choice(("x", "y")), "effect": rng.choice(EFFECTS)}
        for key in TAINTS
        if rng.random() < 0.2
    ]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": rng.random() < 0.1},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Posed"}],
        },
    }


def drawn_requests(rng: random.Random) -> Object:
    requests: Object = {}
    if rng.random() < 0.9:
        requests["cpu"] = rng.choice(("100m", "300m", "500m", "1", "1500m", "3"))
    if rng.random() < 0.7:
        requests["memory"] = rng.choice(("100M", "256Mi", "1Gi", "1500M", "3Gi"))
    if rng.random() < 0.2:
        requests["ephemeral-storage"] = rng.choice(("1Gi", "8Gi"))
    return requests


def drawn_container(rng: random.Random, name: str, *, ports: bool) -> Object:
    requests = drawn_requests(rng)
    made: Object = {"name": name, "image": "registry.example/app:1", "resources": {"requests": requests}}
    if rng.random() < 0.15:
        made["resources"]["limits"] = {GPU: "1"}
    if ports and rng.random() < 0.3:
        port = rng.choice((8080, 9090))
        host: Object = {"containerPort": port, "hostPort": port, "protocol": rng.choice(("TCP", "UDP"))}
        if rng.random() < 0.5:
            host["hostIP"] = rng.choice(("10.0.0.1", "10.0.0.2", "0.0.0.0"))
        made["ports"] = [host]
    return made


def drawn_spec(rng: random.Random) -> Object:
    spec: Object = {
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": 30,
        "containers": [drawn_container(rng, "c0", ports=True)],
    }
    if rng.random() < 0.3:
        spec["containers"].append(drawn_container(rng, "c1", ports=False))
    if rng.random() < 0.3:
        init = drawn_container(rng, "i0", ports=False)
        if rng.random() < 0.5:
            init["restartPolicy"] = "Always"
        spec["initContainers"] = [init]
    return spec


def drawn_requirement(rng: random.Random) -> Object:
    key = rng.choice(("zone", "disk", "cores", "rack"))
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {"key": "cores", "operator": operator, "values": [rng.choice(("4", "8", "10"))]}
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    values = {"zone": ZONES, "disk": DISKS, "cores": ("4", "8", "16"), "rack": ("1",)}[key]
    return {"key": key, "operator": operator, "values": rng.sample(values, rng.randint(1, len(values)))}


def drawn_term(rng: random.Random) -> Object:
    term: Object = {"matchExpressions": [drawn_requirement(rng) for _ in range(rng.randint(1, 2))]}
    if rng.random() < 0.1:
        name = f"f{rng.randrange(NODES):02}"
        field = {"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": [name]}
        return {"matchFields": [field]} | (term if rng.random() < 0.5 else {})
    return term


def drawn_toleration(rng: random.Random) -> Object:
    made: Object = {"key": rng.choice(TAINTS), "operator": rng.choice(("Exists", "Equal"))}
    if made["operator"] == "Equal":
        made["value"] = rng.choice(("x", "y"))
    if rng.random() < 0.4:
        made["effect"] = rng.choice(EFFECTS)
    return made


def drawn_pending(rng: random.Random, number: int) -> Object:
    spec = drawn_spec(rng)
    if rng.random() < 0.2:
        spec["nodeSelector"] = {"disk": rng.choice(DISKS)}
    affinity: Object = {}
    if rng.random() < 0.4:
        terms = [drawn_term(rng) for _ in range(rng.randint(1, 2))]
        required = {"nodeSelectorTerms": terms}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    if rng.random() < 0.6:
        spec["tolerations"] = [drawn_toleration(rng) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.1:
        key = "node.kubernetes.io/unschedulable"
        spec.setdefault("tolerations", []).append({"key": key, "operator": "Exists"})
    # Rules that Topolog does not apply: the answer must name them.
    chance = rng.random()
    if chance < 0.04:
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"kind": "resident"}}}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    elif chance < 0.08:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": "zone",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"kind": "resident"}},
            }
        ]
    if affinity:
        spec["affinity"] = affinity
    return {
        "metadata": {"name": f"asking-{number:03}", "namespace": NAMESPACE, "labels": {"kind": "asking"}},
        "spec": spec,
    }


def drawn_resident(rng: random.Random, number: int) -> Object:
    spec = drawn_spec(rng) | {"nodeName": f"f{rng.randrange(NODES):02}"}
    return {
        "metadata": {"name": f"resident-{number:03}", "namespace": NAMESPACE, "labels": {"kind": "resident"}},
        "spec": spec,
    }


def everywhere(action: Callable[[Any], object], items: list[Any]) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(action, items))


def populate(cluster: clusters.Cluster, rng: random.Random) -> list[str]:
    """Create nodes, residents of every kind, and pending pods; return the names of the pending pods."""
    api, kubelet, pods = cluster.api(), cluster.kubelet, f"/api/v1/namespaces/{NAMESPACE}/pods"
    assert kubelet is not None
    cluster.add_namespace(NAMESPACE)
    everywhere(
        lambda node: api.create("/api/v1/nodes", node), [drawn_node(rng, number) for number in range(NODES)]
    )
    residents = [drawn_resident(rng, number) for number in range(RESIDENTS)]
    everywhere(lambda pod: api.create(pods, pod), residents)
    polling.eventually(
        lambda: len(workloads.running(cluster, NAMESPACE)) == RESIDENTS, "the residents run", within=60
    )
    names = [pod["metadata"]["name"] for pod in residents]
    for name in names[:20]:
        kubelet.finish(NAMESPACE, name, phase=rng.choice(("Succeeded", "Failed")))
    for name in names[20:40]:
        kubelet.ignore(NAMESPACE, name)
        api.delete(f"{pods}/{name}")
    pending = [drawn_pending(rng, number) for number in range(PENDING)]
    everywhere(lambda pod: api.create(pods, pod), pending)
    return [pod["metadata"]["name"] for pod in pending]


Offers = dict[str, frozenset[str]]
"""Name of a pod -> the nodes that kube-scheduler offered."""


@pytest.fixture(scope="module")
def offers(cluster: clusters.Cluster, topolog: installations.Installation) -> Offers:
    """What kube-scheduler offers for each pending pod, after Topolog has recorded the same cluster."""
    names = populate(cluster, random.Random(SEED))
    api, pods = cluster.api(), f"/api/v1/namespaces/{NAMESPACE}/pods"
    with offer_recorder.OfferRecorder() as recorder:
        cluster.start_scheduler(SCHEDULER, recorder.configuration(SCHEDULER))

        def waiting() -> bool:
            found = api.list(pods, labels="kind=asking")
            return len(found) == PENDING and all(
                workloads.scheduled(pod).get("status") == "False" for pod in found
            )

        polling.eventually(waiting, "every pod was tried", within=120, every=0.5)
        uids = {workloads.name(pod): pod["metadata"]["uid"] for pod in api.list(pods, labels="kind=asking")}
        found = {name: recorder.offers.get(uid, frozenset()) for name, uid in uids.items()}
    last = uids[names[-1]]
    polling.eventually(
        lambda: (topolog.find(f"/apis/v1/pods/{NAMESPACE}/{names[-1]}") or {}).get("uid") == last,
        "all is recorded",
    )
    # The draw is not trivial: some pods fit nowhere, some on many nodes, and hardly one on all.
    sizes = [len(offer) for offer in found.values()]
    assert sizes.count(0) >= 5
    assert sum(size > 10 for size in sizes) >= 20
    assert len(set(found.values())) >= 50
    return found


def hold(answers: dict[str, tuple[frozenset[str], list[str]]], offers: Offers) -> None:
    """Each set of nodes is what kube-scheduler offers, or a rule that is lacking is named.

    A rule that is lacking can only refuse more nodes.
    """
    differing = {name: fits ^ offers[name] for name, (fits, _) in answers.items() if fits != offers[name]}
    unnamed = {name: nodes for name, nodes in differing.items() if not answers[name][1]}
    assert unnamed == {}
    assert all(answers[name][0] > offers[name] for name in differing)
    exact = len(answers) - len(differing)
    print(
        f"seed {SEED}: {exact} of {len(answers)} pods alike, {len(differing)} differ by a rule that is named"
    )
    assert len(answers) == PENDING
    assert exact >= 0.9 * PENDING


def test_the_nodes_that_a_dry_run_fits_are_those_that_are_offered(
    cluster: clusters.Cluster, topolog: installations.Installation, offers: Offers
) -> None:
    every = frozenset(node["metadata"]["name"] for node in cluster.api().list("/api/v1/nodes"))
    answers = {}
    for name in offers:
        answer = topolog.ask(f"/apis/v1/pods/{NAMESPACE}/{name}/preemption?limit=1000")
        fits = every - {node["node"] for node in answer["nodes"]}
        assert len(fits) == answer["fits"]
        answers[name] = fits, answer["notModelled"]
    hold(answers, offers)


@pytest.mark.scenario("WI-13")
def test_roomy_candidates_are_the_nodes_that_are_offered(
    topolog: installations.Installation, offers: Offers
) -> None:
    answers = {}
    for name in offers:
        answer = topolog.question(
            "simulate", {"pod": f"{NAMESPACE}/{name}", "candidates": "roomy", "top": 1000}
        )
        rows = frozenset(row["node"] for row in answer["explanation"]["scores"])
        assert len(rows) == answer["explanation"]["candidates"]
        answers[name] = rows, answer["notModelled"]
        assert any("not modelled" in limit for limit in answer["limits"]) == bool(answer["notModelled"])
    hold(answers, offers)
