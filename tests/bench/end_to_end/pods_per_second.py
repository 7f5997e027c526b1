"""Pods per second through a real kube-scheduler: filter, prioritize and bind, Topolog against the peer.

Both sides get the same cluster, the same configuration of kube-scheduler and the same pods, which are created
before the scheduler starts. They take turns, so that slow changes of the machine affect both. All processes
run on this machine and share its cores, the API server included.
"""

import concurrent.futures
import contextlib
import pathlib
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from app.store.server import embedded
from tests.bench import rows, runs
from tests.bench.data import bench_cluster
from tests.bench.peer import processes
from tests.e2e import control_plane_builds
from tests.support import child_processes, extender_processes, polling
from tests.support.e2e import api_client, clusters, kube_schedulers
from tests.support.store import filled_stores

NODES, PODS = 1_000, 2_000
DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"
HOME = "topolog-system"
CONFIGURATION = DEPLOY / "scheduler" / "kube-scheduler-service.yaml"
WARM_UP = "peer"
"""The side of the turn that is not counted, because the cluster has just started."""
TURNS = ("ours", "peer", "peer", "ours") * 3
"""Six of each: the speed of a shared machine varies by a quarter between turns."""
PATH = f"/api/v1/namespaces/{bench_cluster.NAMESPACE}/pods"
ATTEMPTS = re.compile(r'^scheduler_schedule_attempts_total\{.*result="scheduled".*\} (\S+)$', re.MULTILINE)
Sides = Callable[[], contextlib.AbstractContextManager[str]]


def end_to_end(bench: runs.Bench) -> Iterator[rows.Row]:
    """The row of `make bench-e2e`."""
    pods = bench.calls(PODS)
    with clusters.Cluster(control_plane_builds.built()) as cluster:
        _furnish(cluster)
        sides: dict[str, Sides] = {
            "ours": lambda: ours(bench, cluster),
            "peer": lambda: _peer(bench, cluster),
        }
        _turn(bench, cluster, "warm-up", sides[WARM_UP], pods)
        reached: dict[str, list[float]] = {name: [] for name in sides}
        for number, name in enumerate(TURNS):
            reached[name].append(_turn(bench, cluster, f"{name}-{number}", sides[name], pods))
    mine, theirs = (statistics.mean(reached[name]) for name in ("ours", "peer"))
    case = f"kube-scheduler, {NODES:,} nodes, {pods:,} waiting pods, with bind"
    yield rows.reaching(case, "pods/s", ours=mine, peer=theirs, bar=0.9)


def _furnish(cluster: clusters.Cluster) -> None:
    """The CRD, the accounts, nodes in racks, and a policy with capacity for all pods."""
    install(cluster)
    add_racks(cluster)
    quotas = [
        {"name": bench_cluster.rack(number), "replicas": 3 * PODS // bench_cluster.RACKS}
        for number in range(100)
    ]
    cluster.apply(
        {
            "apiVersion": "kosmos.io/v1alpha1",
            "kind": "WorkloadPolicy",
            "metadata": {"name": bench_cluster.FREE, "namespace": bench_cluster.NAMESPACE},
            "spec": {
                "topologyKey": bench_cluster.RACK,
                "labelSelector": {"matchLabels": {bench_cluster.POLICY_LABEL: bench_cluster.FREE}},
                "allocationPolicy": quotas,
                "allocationType": "Required",
            },
        }
    )


def install(cluster: clusters.Cluster) -> None:
    """The CRD, the accounts, and the namespace of the pods."""
    for what in ("crds", "rbac"):
        cluster.kubectl("apply", "-k", DEPLOY / what)
    for name in ("recorder", "controller", "extender"):
        cluster.service_account(HOME, f"topolog-{name}")
    cluster.add_namespace(bench_cluster.NAMESPACE)
    cluster.kubectl("wait", "--for=condition=established", "crd/workloadpolicies.kosmos.io")


def add_racks(cluster: clusters.Cluster) -> None:
    """The nodes, in racks of equal size."""
    for start in range(bench_cluster.RACKS):
        names = [bench_cluster.node_name(number) for number in range(start, NODES, bench_cluster.RACKS)]
        cluster.add_nodes(*names, labels={bench_cluster.RACK: bench_cluster.rack(start)})


@contextlib.contextmanager
def ours(
    bench: runs.Bench, cluster: clusters.Cluster, more: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Recorder, controller, extender and their store; ``more``: variables of further settings."""
    server = embedded.Server(append_only=True)
    try:
        name = "bench"
        filled_stores.prepare(server.url, name)
        with contextlib.ExitStack() as workers:
            for command, account in (("record", "recorder"), ("control", "controller")):
                environ = extender_processes.settings(
                    server.url,
                    name,
                    bench.tls,
                    bench.folder,
                    port=child_processes.free_port(),
                    health=child_processes.free_port(),
                    kubeconfig=cluster.kubeconfig(_account(account)),
                )
                environ |= {"TOPOLOG_ELECTION_NAMESPACE": HOME, **(more or {})}
                worker = child_processes.Process(
                    command,
                    [extender_processes.TOPOLOG, command],
                    log=bench.folder / f"{command}.log",
                    env=environ,
                )
                worker.start()
                workers.callback(worker.stop)
            kubeconfig = cluster.kubeconfig(_account("extender"))
            with extender_processes.running(
                server.url, name, bench.tls, bench.folder, kubeconfig=kubeconfig, more=more
            ) as extender:
                yield extender.url
    finally:
        server.stop()


@contextlib.contextmanager
def _peer(bench: runs.Bench, cluster: clusters.Cluster) -> Iterator[str]:
    token = bench.folder / "api.token"
    token.write_text(cluster.identities[_account("extender")].token)
    ca = cluster.folder / "pki" / "apiserver.crt"
    server = processes.ApiServer(cluster.server, ca, token)
    with processes.running(bench.programs, bench.tls, bench.folder, api_server=server) as url:
        yield url


def configuration(bench: runs.Bench, url: str, name: str) -> api_client.Object:
    """The configuration of deploy/ for the extender at a URL, and for the pods of this scheduler name."""
    made = kube_schedulers.configuration(
        CONFIGURATION,
        extender=url,
        ca=bench.tls / "ca.crt",
        certificate=bench.tls / "scheduler.crt",
        key=bench.tls / "scheduler.key",
        scheduler_name=name,
    )
    for each in made["extenders"]:
        each["tlsConfig"]["serverName"] = "localhost"
    return made


def _account(name: str) -> str:
    """The service account of a process: its rights are those of deploy/rbac, on both sides."""
    return f"system:serviceaccount:{HOME}:topolog-{name}"


def _turn(bench: runs.Bench, cluster: clusters.Cluster, name: str, side: Sides, pods: int) -> float:
    """Let one side place all pods, and return its pods per second."""
    api = cluster.api()
    for_each(lambda number: api.create(PATH, _pod(f"{name}-{number:05}", name)), pods)
    with side() as url:
        scheduler = cluster.start_scheduler(name, configuration(bench, url, name))
        rate = _rate(scheduler, pods)
        scheduler.process.stop()
        bound = api.list(PATH, fields="spec.nodeName!=")
        assert len(bound) == pods, f"{name}: {len(bound)} of {pods} pods are bound"
        for_each(lambda number: api.delete(f"{PATH}/{name}-{number:05}", grace=0), pods)
    print(f"{name}: {rate:.1f} pods/s", file=sys.stderr)
    return rate


def _rate(scheduler: kube_schedulers.Scheduler, pods: int) -> float:
    """Pods per second from the first progress to the last pod."""
    begun = (0.0, 0.0)

    def placed() -> tuple[float, float] | None:
        nonlocal begun
        found = ATTEMPTS.findall(scheduler.metrics())
        done, now = sum(map(float, found)), time.monotonic()
        if begun[1] == 0 and done:
            begun = (now, done)
        return (now, done) if done >= pods else None

    ended = polling.eventually(placed, "all pods are placed", within=300, every=0.1)
    assert ended is not None
    return (ended[1] - begun[1]) / (ended[0] - begun[0])


def for_each(act: Callable[[int], object], count: int) -> None:
    """Call for each number, eight at a time."""
    with concurrent.futures.ThreadPoolExecutor(8) as hands:
        list(hands.map(act, range(count)))


def _pod(name: str, scheduler: str) -> api_client.Object:
    return {
        "metadata": {"name": name, "labels": {bench_cluster.POLICY_LABEL: bench_cluster.FREE}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "app",
                    "image": "registry.example/app:1",
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                }
            ],
        },
    }
