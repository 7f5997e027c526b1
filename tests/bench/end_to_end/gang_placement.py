"""Gangs through a real kube-scheduler: Topolog's against kube-scheduler's own gangs with a topology key.

Topolog places PodGroups of scheduler-plugins by its extender; kube-scheduler places its own PodGroups without
an extender. Both must place all members in one rack. They take turns on one cluster, each with its own
kube-scheduler; the figures of both come from a watch of the pods.
"""

import contextlib
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.simulation import traces
from tests.bench import rows, runs
from tests.bench.data import bench_cluster
from tests.bench.end_to_end import pods_per_second
from tests.e2e import control_plane_builds
from tests.support.e2e import api_client, clusters

GANGS, SIZE = 200, 8
TURNS = ("ours", "native", "native", "ours") * 2
WARM_UP = 10
"""Gangs of the turn that is not counted."""
QUIET = 30.0
"""Seconds without a binding after which a turn ends: the remaining gangs do not fit."""
NATIVE, SIGS = "scheduling.k8s.io/v1beta1", "scheduling.x-k8s.io/v1alpha1"
PLUGINS = {"TOPOLOG_PLUGINS_ENABLED": "*,Coscheduling"}
TRACE_RACK = "topology.topolog.io/rack"
FILLED = 0.9
"""Share of the trace's GPUs that its gangs request."""
MANIFEST = pathlib.Path(__file__).parents[2] / "e2e" / "manifests" / "podgroups.yaml"
PODS = f"/api/v1/namespaces/{bench_cluster.NAMESPACE}/pods"


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one side in one turn."""

    rate: float
    """Pods per second, from the first binding to the last."""
    whole: int
    """Gangs that have all their members in one rack."""


def gangs_in_racks(bench: runs.Bench) -> Iterator[rows.Row]:
    """Pods per second of 200 gangs of 8 on 1,000 nodes."""
    requests = [{"cpu": "2", "memory": "4Gi"}] * bench.calls(GANGS)
    with _cluster() as cluster:
        pods_per_second.add_racks(cluster)
        rack_of = {
            bench_cluster.node_name(number): bench_cluster.rack(number)
            for number in range(pods_per_second.NODES)
        }
        race = Race(bench, cluster, bench_cluster.RACK, rack_of)
        race.turn("native", "warm-up", requests[:WARM_UP])
        found: dict[str, list[Turn]] = {"ours": [], "native": []}
        for number, side in enumerate(TURNS):
            found[side].append(race.turn(side, f"{side}-{number}", requests))
    assert {turn.whole for turns in found.values() for turn in turns} == {len(requests)}, found
    ours, native = (statistics.mean(turn.rate for turn in found[side]) for side in ("ours", "native"))
    case = f"{len(requests)} gangs of {SIZE} in racks, {pods_per_second.NODES:,} nodes, with bind"
    yield rows.reaching(case, "pods/s", ours=ours, peer=native, bar=0.7)


def gangs_on_a_trace(bench: runs.Bench) -> Iterator[rows.Row]:
    """The number of gangs that are placed whole in one rack of a recorded cluster."""
    folder = os.environ.get("TOPOLOG_TRACE", "")
    trace = traces.load(pathlib.Path(folder)) if folder else traces.generate()
    nodes = _in_some_racks(list(traces.node_objects(trace)), bench.scale)
    requests = list(_gangs(trace, nodes))
    with _cluster() as cluster:
        for node in nodes:
            cluster.api().create("/api/v1/nodes", node)
        rack_of = {node["metadata"]["name"]: node["metadata"]["labels"][TRACE_RACK] for node in nodes}
        race = Race(bench, cluster, TRACE_RACK, rack_of)
        found = {side: race.turn(side, side, requests).whole for side in ("native", "ours")}
    assert found["native"], found
    case = f"gangs whole in a rack of {len(requests)}, {len(nodes):,} nodes, {trace.source}"
    yield rows.reaching(case, "gangs", ours=found["ours"], peer=found["native"], bar=1.0)


class Race:
    """A cluster on which both sides place the same gangs, one side at a time."""

    def __init__(
        self, bench: runs.Bench, cluster: clusters.Cluster, key: str, rack_of: Mapping[str, str]
    ) -> None:
        self._bench = bench
        self._cluster = cluster
        self._key = key
        self._rack_of = rack_of

    def turn(self, side: str, name: str, requests: Sequence[Mapping[str, str]]) -> Turn:
        """Let one side place one gang for each of these requests of a member."""
        api = self._cluster.api()
        numbered = [(gang, number) for gang in range(len(requests)) for number in range(SIZE)]
        pods_per_second.for_each(lambda gang: self._create_group(side, f"{name}-{gang:04}"), len(requests))

        def create(at: int) -> None:
            gang, number = numbered[at]
            api.create(PODS, self._pod(side, name, f"{name}-{gang:04}", number, requests[gang]))

        def delete(at: int) -> None:
            gang, number = numbered[at]
            api.delete(f"{PODS}/{name}-{gang:04}-{number}", grace=0)

        pods_per_second.for_each(create, len(numbered))
        with self._side(side, name) as configuration:
            version = api.get(PODS)["metadata"]["resourceVersion"]
            scheduler = self._cluster.start_scheduler(name, configuration)
            bound = _bindings(api, version, len(numbered))
            scheduler.process.stop()
        pods_per_second.for_each(delete, len(numbered))
        turn = Turn(_rate([at for at, _ in bound.values()]), self._whole(bound))
        print(f"{name}: {turn.rate:.1f} pods/s, {turn.whole} of {len(requests)} gangs", file=sys.stderr)
        return turn

    @contextlib.contextmanager
    def _side(self, side: str, name: str) -> Iterator[api_client.Object]:
        """The configuration of a kube-scheduler, while the extender that it calls is running."""
        if side == "native":
            plain = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
            yield plain | {"percentageOfNodesToScore": 100, "profiles": [{"schedulerName": name}]}
            return
        more = PLUGINS | {"TOPOLOG_PLUGINS_ARGS": json.dumps({"Coscheduling": {"layers": [self._key]}})}
        with pods_per_second.ours(self._bench, self._cluster, more) as url:
            yield pods_per_second.configuration(self._bench, url, name)

    def _create_group(self, side: str, gang: str) -> None:
        if side == "native":
            version, spec = (
                NATIVE,
                {
                    "schedulingPolicy": {"gang": {"minCount": SIZE}},
                    "schedulingConstraints": {"topology": [{"key": self._key}]},
                },
            )
            marks: dict[str, str] = {}
        else:
            version, spec = SIGS, {"minMember": SIZE}
            rule = {"gatherStrategy": [{"layer": self._key, "strategy": "MustGather"}]}
            marks = {"gang.scheduling.koordinator.sh/network-topology-spec": json.dumps(rule)}
        self._cluster.api().create(
            f"/apis/{version}/namespaces/{bench_cluster.NAMESPACE}/podgroups",
            {
                "apiVersion": version,
                "kind": "PodGroup",
                "metadata": {"name": gang, "annotations": marks},
                "spec": spec,
            },
        )

    def _pod(
        self, side: str, scheduler: str, gang: str, number: int, requests: Mapping[str, str]
    ) -> api_client.Object:
        devices = {name: amount for name, amount in requests.items() if "/" in name}
        container = {
            "name": "app",
            "image": "registry.example/app:1",
            "resources": {"requests": dict(requests), "limits": devices},
        }
        spec: dict[str, Any] = {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        labels = {"gang": gang}
        if side == "native":
            spec["schedulingGroup"] = {"podGroupName": gang}
        else:
            labels["scheduling.x-k8s.io/pod-group"] = gang
        return {"metadata": {"name": f"{gang}-{number}", "labels": labels}, "spec": spec}

    def _whole(self, bound: Mapping[str, tuple[float, str]]) -> int:
        racks: dict[str, list[str]] = {}
        for pod, (_, node) in bound.items():
            racks.setdefault(pod.rpartition("-")[0], []).append(self._rack_of[node])
        return sum(len(found) == SIZE and len(set(found)) == 1 for found in racks.values())


@contextlib.contextmanager
def _cluster() -> Iterator[clusters.Cluster]:
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    flags = [f"--runtime-config={NATIVE}=true"]
    with clusters.Cluster(control_plane_builds.built(), flags=flags, feature_gates=gates) as cluster:
        cluster.kubectl("apply", "-f", MANIFEST)
        cluster.kubectl("wait", "--for=condition=established", "crd/podgroups.scheduling.x-k8s.io")
        pods_per_second.install(cluster)
        yield cluster


def _bindings(api: api_client.Api, version: str, pods: int) -> dict[str, tuple[float, str]]:
    """Pod -> time of its binding, and its node; ends when all are bound or none was for a while."""
    found: dict[str, tuple[float, str]] = {}
    while len(found) < pods:
        before = len(found)
        # The server ends the watch; a pod that is bound in between is in the next one.
        with contextlib.closing(api.watch(PODS, version, seconds=int(QUIET))) as watch:
            for change in watch:
                assert change.kind != "ERROR", change.object
                metadata = change.object["metadata"]
                version = metadata["resourceVersion"]
                node = change.object.get("spec", {}).get("nodeName")
                if node and metadata["name"] not in found:
                    found[metadata["name"]] = (time.monotonic(), node)
                if len(found) == pods:
                    break
        if len(found) == before:
            break
    return found


def _rate(moments: Sequence[float]) -> float:
    return (len(moments) - 1) / (max(moments) - min(moments)) if len(moments) > 1 else 0.0


def _in_some_racks(nodes: Sequence[api_client.Object], scale: float) -> list[api_client.Object]:
    """The nodes of evenly chosen racks: the first racks of a trace may have no GPUs."""
    racks = dict.fromkeys(node["metadata"]["labels"][TRACE_RACK] for node in nodes)
    kept = set(list(racks)[:: max(1, round(1 / scale))])
    return [node for node in nodes if node["metadata"]["labels"][TRACE_RACK] in kept]


def _gangs(trace: traces.Trace, nodes: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """The requests of a member of each gang: those of the trace's pods with GPUs, in their order."""
    gpus = "nvidia.com/gpu"
    left = FILLED * sum(int(node["status"]["allocatable"].get(gpus, 0)) for node in nodes)
    for shape in trace.pods:
        if shape.gpus:
            left -= SIZE * shape.gpus
            if left < 0:
                return
            yield traces.requests(shape)
