"""The scenes of the demo: each sets up a use case and compares its outcomes with the expected ones."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.plugins.coscheduling import samples as gang_samples
from app.plugins.elastic_quota import samples as quota_samples
from app.plugins.workload_policy import samples
from app.simulation import populations, schedulers, stages

Json = dict[str, Any]

_SHOP = "workload-test"
_POLICY = "workload-policy-test"
_APP = "clusterlink-floater-mix"
_DOMAINS = {"kosmos-member-cluster": "member", "kosmos-cluster1": "member"} | {
    f"cnp-paas-ecsc-{number:03}": "host" for number in (2, 6, 8, 9)
}
_LABEL = "priority.lixueduan.com"
_GROUP = "rl-job-group"
_GPU = "nvidia.com/gpu"
_QUOTAS = f"/apis/v1/{quota_samples.VIEWS}"
_DECIDED = 5.0
"""Maximum seconds from a change of the cluster to its effect on a pending pod."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One expectation of a scene and its actual result."""

    scene: str
    what: str
    expected: str
    got: str
    reasons: tuple[str, ...] = ()
    """The different messages of the pods that stayed pending."""

    @property
    def good(self) -> bool:
        """Whether the result is as expected."""
        return self.expected == self.got


Scene = Callable[[stages.Stage], Iterator[Outcome]]


def soft_quotas(stage: stages.Stage) -> Iterator[Outcome]:
    """Soft quotas: a policy prefers 1 replica on member nodes and 3 on host nodes, for 6 replicas."""
    title = "soft quotas, balanced"
    nodes = _shop_nodes(stage)
    _policy(stage, {"member": 1, "host": 3})
    scheduler = stage.scheduler(nodes, seed=1)
    placed, pending = _schedule(stage, scheduler, _replicas(stage, 6))
    yield _counted(title, "pods running, pending", "6, 0", placed, pending)
    first = Counter(_DOMAINS[node] for node in placed[:4])
    yield Outcome(
        title,
        "domains of the first four",
        "host 3, member 1",
        f"host {first['host']}, member {first['member']}",
    )
    yield Outcome(title, "nodes used", "6", str(len(set(placed))))
    _clear(stage, _SHOP)


def hard_quotas(stage: stages.Stage) -> Iterator[Outcome]:
    """Hard quotas: the same policy requires them; then host gets one more replica."""
    title = "hard quotas, filled"
    nodes = [stage.server.objects.get("nodes", ("", name)) for name in _DOMAINS]
    _policy(stage, {"member": 1, "host": 3}, kind="Required", method="Fill")
    scheduler = stage.scheduler(nodes, seed=2)
    placed, pending = _schedule(stage, scheduler, _replicas(stage, 6))
    yield _counted(title, "pods running, pending", "4, 2", placed, pending)
    reasons = sorted({message for _, message in pending})
    expected = (
        "0/6 nodes are available: 2 workload policy workload-test/workload-policy-test: no capacity"
        " (member 1/1, host 3/3), 4 node(s) didn't match pod anti-affinity rules."
    )
    yield Outcome(title, "message of the pending pods", expected, "; ".join(reasons))
    for pod, _ in pending:
        path = f"/apis/v1/decisions?pod={_SHOP}/{pod['metadata']['name']}&where=outcome=refused"
        stage.wait_for(path, lambda found: bool(found["items"]), "the record of a refusal")
    head = stage.head()
    _policy(stage, {"member": 1, "host": 4}, kind="Required", method="Fill")
    woken = _woken(stage, [pod for pod, _ in pending], since=head)
    yield Outcome(title, "pods woken by the edit", "1", str(len(woken)))
    placed, _ = _schedule(stage, scheduler, woken)
    yield Outcome(title, "domain of the woken pod", "host", ", ".join(_DOMAINS[node] for node in placed))


def labelled_nodes(stage: stages.Stage) -> Iterator[Outcome]:
    """Priority by node label: only labelled nodes qualify, and the highest value wins."""
    title = "priority by node label"
    nodes = [stage.create("nodes", populations.node(name)) for name in ("scheduler-1", "scheduler-2")]
    stage.wait_for("/apis/v1/nodes/scheduler-2", bool, "the nodes in the log")
    scheduler = stage.scheduler(nodes, filter_verb="filter_onlyone")

    def test(number: int) -> list[Json]:
        pod = populations.pod("default", f"test-{number}", {"app": "test"})
        pod["spec"]["schedulerName"] = "i-scheduler-extender"
        return [stage.create("pods", pod)]

    waiting = test(1)
    placed, pending = _schedule(stage, scheduler, waiting)
    yield Outcome(title, "node without any labels", "pending", "pending" if pending else placed[0])
    for labels, expected in (
        ({"scheduler-1": "10"}, "scheduler-1"),
        ({"scheduler-2": "20"}, "scheduler-2"),
        ({"scheduler-1": "30"}, "scheduler-1"),
    ):
        for node, value in labels.items():
            stage.relabel(node, {_LABEL: value})
            _known_label(stage, node, value)
        placed, _ = _schedule(stage, scheduler, waiting)
        set_labels = " and ".join(f"{node}={value}" for node, value in labels.items())
        yield Outcome(title, f"node after {set_labels}", expected, ", ".join(placed) or "pending")
        waiting = test(2 + int(next(iter(labels.values()))))
    _clear(stage, "default")


def job_together(stage: stages.Stage) -> Iterator[Outcome]:
    """Job affinity: the workers of a job prefer the node that already runs one of them."""
    title = "a job of eight on one node"
    nodes = [stage.create("nodes", populations.node(f"trainer-{number}")) for number in range(4)]
    stage.wait_for("/apis/v1/nodes/trainer-3", bool, "the nodes in the log")
    scheduler = stage.scheduler(nodes, seed=4)
    pods = [
        stage.create("pods", populations.pod("training", f"rl-worker-{n}", {_GROUP: "job-alpha"}))
        for n in range(8)
    ]
    placed, pending = _schedule(stage, scheduler, pods)
    yield _counted(title, "pods running, pending", "8, 0", placed, pending)
    yield Outcome(title, "nodes used", "1", str(len(set(placed))))
    _clear(stage, "training")


def gangs_apart(stage: stages.Stage) -> Iterator[Outcome]:
    """Gangs: two jobs of six want the eight GPUs of one zone; one runs whole, the other waits whole."""
    title = "two gangs want one zone"
    nodes = [_gpu_node(stage, f"gpu-{number}") for number in range(2)]
    stage.wait_for("/apis/v1/nodes/gpu-1", bool, "the nodes in the log")
    scheduler = stage.scheduler(nodes, seed=5)
    pods = {name: _gang(stage, name, 6) for name in ("first", "second")}
    by_turns = [pod for pair in zip(*pods.values(), strict=True) for pod in pair]
    views = f"/apis/v1/{gang_samples.VIEWS}/training"
    for name in pods:
        stage.wait_for(f"{views}/{name}", lambda found: found["members"] == 6, "the gang in the log")
    placed, pending = _schedule(stage, scheduler, by_turns)
    yield _counted(title, "pods running, pending", "6, 6", placed, pending)
    left = sorted({pod["metadata"]["name"].partition("-")[0] for pod, _ in pending})
    yield Outcome(title, "gangs that wait", "second", ", ".join(left))
    waiting = stage.wait_for(f"{views}/second", lambda found: found["state"] == "waiting", "the plan")
    expected = "2 of 6 seats in zone-g; nvidia.com/gpu 4 of 6 missing"
    yield Outcome(title, "what it waits for", expected, waiting["missing"])
    for pod in pods["first"]:
        stage.server.objects.remove("pods", ("training", pod["metadata"]["name"]))
        scheduler.forget(pod["metadata"]["uid"])
    woken = _woken(stage, pods["second"], 6)
    yield Outcome(title, "pods woken when the first gang ends", "6", str(len(woken)))
    # The controller, which wakes pods, may be ahead of the extender, and each pod is tried once.
    stage.wait_for(f"{views}/second", lambda found: found["state"] == "ready", "the capacity in the extender")
    placed, pending = _schedule(stage, scheduler, woken)
    yield _counted(title, "pods running, pending then", "6, 0", placed, pending)
    _clear(stage, "training")


def quotas_lent(stage: stages.Stage) -> Iterator[Outcome]:
    """Elastic quotas: two teams own four GPUs each; one borrows the other's and returns them."""
    title = "two teams lend each other quota"
    nodes = [stage.server.objects.get("nodes", ("", f"gpu-{number}")) for number in range(2)]
    scheduler = stage.scheduler(nodes, seed=6)
    for team in ("red", "blue"):
        _quota(stage, team, least=4, most=8)
    red = _team(stage, "red", "first", 8)
    placed, pending = _schedule(stage, scheduler, red)
    yield Outcome(title, "pods of red running, pending", "8, 0", f"{len(placed)}, {len(pending)}")
    blue = _team(stage, "blue", "first", 4)
    yield Outcome(title, "limit of red once blue asks for its four", "4", _limit(stage, "red", 4))
    for pod in red[:4]:
        stage.server.objects.remove("pods", ("training", pod["metadata"]["name"]))
        scheduler.forget(pod["metadata"]["uid"])
    more = _team(stage, "red", "second", 4)
    _used(stage, "red", 4)
    placed, pending = _schedule(stage, scheduler, [*more, *blue])
    teams = Counter(pod["metadata"]["name"].partition("-")[0] for pod, _ in pending)
    yield Outcome(
        title, "pods of red, blue pending when four of red end", "4, 0", f"{teams['red']}, {teams['blue']}"
    )
    reasons = sorted({message for _, message in pending})
    expected = f"0/2 nodes are available: 2 elastic quota red: no capacity in {_GPU}."
    yield Outcome(title, "message of the pending pods", expected, "; ".join(reasons))
    for pod in blue:
        stage.server.objects.remove("pods", ("training", pod["metadata"]["name"]))
        scheduler.forget(pod["metadata"]["uid"])
    _used(stage, "blue", 0)
    placed, pending = _schedule(stage, scheduler, more)
    yield _counted(title, "pods of red running, pending when blue ends", "4, 0", placed, pending)
    _clear(stage, "training")
    for team in ("red", "blue"):
        stage.server.objects.remove(quota_samples.COLLECTION, ("quotas", team))


SCENES: tuple[Scene, ...] = (
    soft_quotas,
    hard_quotas,
    labelled_nodes,
    job_together,
    gangs_apart,
    quotas_lent,
)


# -- helpers -------------------------------------------------------------------------------------


def _counted(
    scene: str, what: str, expected: str, placed: list[str], pending: list[tuple[Json, str]]
) -> Outcome:
    """The outcome of one attempt per pod: how many run and how many stay pending."""
    reasons = tuple(sorted({message for _, message in pending}))
    return Outcome(scene, what, expected, f"{len(placed)}, {len(pending)}", reasons)


def _gpu_node(stage: stages.Stage, name: str) -> Json:
    made = populations.node(name, {populations.ZONE: "zone-g"})
    made["status"]["allocatable"][_GPU] = made["status"]["capacity"][_GPU] = "4"
    return stage.create("nodes", made)


def _gang(stage: stages.Stage, name: str, count: int) -> list[Json]:
    """A PodGroup whose members must be in one zone, and its pods."""
    rule = {"gatherStrategy": [{"layer": populations.ZONE, "strategy": "MustGather"}]}
    annotations = {"gang.scheduling.koordinator.sh/network-topology-spec": json.dumps(rule)}
    metadata = {"namespace": "training", "name": name, "annotations": annotations}
    stage.create("sigspodgroups", {"metadata": metadata, "spec": {"minMember": count}})
    pods = []
    for number in range(count):
        pod = populations.pod("training", f"{name}-{number}", {"scheduling.x-k8s.io/pod-group": name})
        pod["spec"]["containers"][0]["resources"]["requests"][_GPU] = "1"
        pods.append(stage.create("pods", pod))
    return pods


def _quota(stage: stages.Stage, name: str, *, least: int, most: int) -> None:
    """A quota of GPUs, known to the extender."""
    spec = {"min": {_GPU: str(least)}, "max": {_GPU: str(most)}}
    metadata = {"namespace": "quotas", "name": name}
    stage.create(quota_samples.COLLECTION, {"metadata": metadata, "spec": spec})
    stage.wait_for(f"{_QUOTAS}/{name}", bool, "the quota in the log")


def _team(stage: stages.Stage, quota: str, job: str, count: int) -> list[Json]:
    """Pods of a quota that request a GPU each, known to the extender."""
    pods = []
    for number in range(count):
        name = f"{quota}-{job}-{number}"
        pod = populations.pod("training", name, {"quota.scheduling.koordinator.sh/name": quota})
        pod["spec"]["containers"][0]["resources"]["requests"][_GPU] = "1"
        pods.append(stage.create("pods", pod))
        last = name
    stage.wait_for(f"/apis/v1/pods/training/{last}", bool, "the pods in the log")
    return pods


def _limit(stage: stages.Stage, quota: str, expected: int) -> str:
    """The number of GPUs that a quota may use, once it is as expected."""
    wanted = str(expected)
    shown = stage.wait_for(
        f"{_QUOTAS}/{quota}", lambda found: found["limit"][_GPU] == wanted, "the limit of the quota"
    )
    return str(shown["limit"][_GPU])


def _used(stage: stages.Stage, quota: str, expected: int) -> None:
    wanted = str(expected)
    stage.wait_for(f"{_QUOTAS}/{quota}", lambda found: found["used"][_GPU] == wanted, "the end of the pods")


def _shop_nodes(stage: stages.Stage) -> list[Json]:
    made = [
        stage.create("nodes", populations.node(name, {"workload-test": domain}))
        for name, domain in _DOMAINS.items()
    ]
    stage.wait_for_nodes(len(made))
    return made


def _policy(stage: stages.Stage, quotas: dict[str, int], *, kind: str = "", method: str = "") -> None:
    """Create or edit the policy, and wait until the extender applies it."""
    spec = samples.spec("workload-test", _APP, quotas, kind=kind, method=method)
    held = {made["metadata"]["name"] for made in stage.server.objects.all(samples.COLLECTION)}
    if _POLICY in held:
        stage.change(samples.COLLECTION, (_SHOP, _POLICY), lambda found: {**found, "spec": spec})
    else:
        stage.create(samples.COLLECTION, samples.policy(_SHOP, _POLICY, spec))
    stage.wait_for(
        f"/apis/v1/{samples.VIEWS}/{_SHOP}/{_POLICY}",
        lambda found: (
            found["desired"] == sum(quotas.values()) and found["allocationType"] == (kind or "Preferred")
        ),
        "the policy in the log",
    )


def _replicas(stage: stages.Stage, count: int) -> list[Json]:
    """The pods of a Deployment with at most one pod per node."""
    pods = []
    for number in range(count):
        pod = populations.pod(_SHOP, f"{_APP}-{number}", {"app": _APP, samples.LABEL: _POLICY})
        pod["spec"]["affinity"] = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"app": _APP}},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        }
        pods.append(stage.create("pods", pod))
    return pods


def _schedule(
    stage: stages.Stage, scheduler: schedulers.Scheduler, pods: list[Json]
) -> tuple[list[str], list[tuple[Json, str]]]:
    """Try once to schedule each pod: the nodes of the placed pods; the pending pods and their messages."""
    placed: list[str] = []
    pending: list[tuple[Json, str]] = []
    for pod in pods:
        attempt = stage.attempt(scheduler, pod)
        if attempt.node is None:
            pending.append((pod, attempt.message))
        else:
            placed.append(attempt.node)
    running = len(placed)
    names = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
    stage.wait(
        f"{running} pods running",
        lambda: (
            sum(stage.server.objects.get("pods", name)["status"].get("phase") == "Running" for name in names)
            >= running
        ),
    )
    return placed, pending


def _woken(
    stage: stages.Stage, pods: list[Json], least: int = 1, message: str = "", since: int = 0
) -> list[Json]:
    """The pods whose condition CapacityAvailable has the message, as soon as there are at least so many.

    ``since``: those for events up to this offset do not count, as one that arrives late does not.
    """

    def notified() -> list[Json]:
        wakeups = [(pod, *stage.wakeup(pod)) for pod in pods]
        return [pod for pod, found, offset in wakeups if message in found and offset > since]

    # The first that are found: while they wait to be scheduled, the controller continues with others.
    found: list[Json] = []

    def enough() -> bool:
        found[:] = notified()
        return len(found) >= least

    stage.wait("the condition CapacityAvailable on a pending pod", enough, within=_DECIDED)
    return found


def _known_label(stage: stages.Stage, node: str, value: str) -> None:
    stage.wait_for(
        f"/apis/v1/nodes/{node}",
        lambda found: f'"{_LABEL}": "{value}"' in json.dumps(found),
        f"the label of {node} in the log",
    )


def _clear(stage: stages.Stage, namespace: str) -> None:
    """Delete the pods of the scene and wait until they are gone from the log."""
    for pod in stage.server.objects.all("pods"):
        if pod["metadata"]["namespace"] == namespace:
            stage.server.objects.remove("pods", (namespace, pod["metadata"]["name"]))
            path = f"/apis/v1/pods/{namespace}/{pod['metadata']['name']}"
            stage.wait("the end of the pod in the log", partial(_absent, stage, path))


def _absent(stage: stages.Stage, path: str) -> bool:
    try:
        stage.get(path)
    except stages.StageFailed:
        return True
    return False
