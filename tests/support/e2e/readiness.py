"""Waits until the pods of an overlay are there and ready, and prepares what they need of a cluster."""

import contextlib
import pathlib
import re
import time
from collections.abc import Iterator

from tests.support import polling
from tests.support.e2e import api_client, clusters, component_flags, workloads

HOME = "topolog-system"
_PROBED = 6
"""Seconds within which every pod is probed."""
_LISTED = re.compile(r'"event":"listed","kind":"(\w+)"')
"""What a recorder logs about each kind when it leads."""
PROCESSES = ("bootstrap", "recorder", "controller", "auditor", "compactor", "extender", "view")


_PLAIN = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@contextlib.contextmanager
def empty_cluster(binary: pathlib.Path, *zones: str) -> Iterator[clusters.Cluster]:
    """A cluster like any new one: a scheduler, and a node in each zone."""
    with clusters.Cluster(binary, tokens=True) as cluster:
        cluster.start_controller_manager(component_flags.FOR_PROCESSES)
        cluster.start_kubelet(except_in=HOME)
        cluster.start_scheduler("default", _PLAIN)
        for zone in zones:
            cluster.add_nodes(f"n-{zone}", labels={"zone": zone})
        cluster.apply(volume(cluster.folder / "disk"))
        yield cluster


def volume(folder: pathlib.Path) -> api_client.Object:
    """A disk for the store; a real cluster has a StorageClass that makes one."""
    folder.mkdir()
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "4Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(folder)},
        },
    }


def unready(cluster: clusters.Cluster) -> dict[str, object]:
    """Pod -> states of its containers, of every pod that is not ready."""
    found: dict[str, object] = {}
    for pod in cluster.pods(HOME):
        conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
        if conditions.get("Ready") != "True" or pod["metadata"].get("deletionTimestamp"):
            states = pod["status"].get("initContainerStatuses", []) + pod["status"].get(
                "containerStatuses", []
            )
            found[workloads.name(pod)] = {each["name"]: each["state"] for each in states} or conditions
    return found


def await_led(cluster: clusters.Cluster, logs: pathlib.Path, *, within: float = 120) -> None:
    """Wait until pods of the installation hold all its Leases, have listed all, and every pod is ready.

    Until the Lease of a process that was uninstalled has expired, pods are ready on the state that it left.
    The recorder that takes it over then lists everything again, and no extender is ready meanwhile, which its
    pod shows some probes later. ``logs``: the folder of the pods' logs.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"

    def led() -> bool:
        names = tuple(workloads.name(pod) for pod in cluster.pods(HOME))
        holders = [lease["spec"].get("holderIdentity") or "" for lease in cluster.api().list(path)]
        return bool(holders) and all(holder.startswith(names) for holder in holders)

    def listed() -> bool:
        (recorder,) = [name for pod in cluster.pods(HOME) if "-recorder-" in (name := workloads.name(pod))]
        text = (logs / f"{recorder}.recorder.log").read_text()
        return {"nodes", "pods", "workloadpolicies"} <= set(_LISTED.findall(text))

    polling.eventually(led, "present pods hold the Leases", within=within, every=0.5)
    polling.eventually(listed, "the recorder has listed all", within=within, every=0.5)
    for _ in range(_PROBED):  # What changes with the Lease is visible once each pod was probed again.
        await_ready(cluster, within=within)
        time.sleep(1.0)


def _rolling(cluster: clusters.Cluster) -> list[str]:
    """The workloads of the installation whose update has not ended: what `kubectl rollout status` waits for.

    Right after a change, and between the steps of an update, every pod may be ready.
    """
    path = f"/apis/apps/v1/namespaces/{HOME}"
    deployments = [one for one in cluster.api().list(f"{path}/deployments") if not _complete(one)]
    sets = [
        one
        for one in cluster.api().list(f"{path}/statefulsets")
        if not _observed(one) or one["status"].get("updateRevision") != one["status"].get("currentRevision")
    ]
    return [workloads.name(one) for one in (*deployments, *sets)]


def _complete(deployment: api_client.Object) -> bool:
    status, wanted = deployment["status"], deployment["spec"].get("replicas", 1)
    counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
    return _observed(deployment) and counts == {wanted}


def _observed(workload: api_client.Object) -> bool:
    """Whether the status is that of the latest spec."""
    return int(workload["status"].get("observedGeneration", 0)) >= int(workload["metadata"]["generation"])


def await_ready(cluster: clusters.Cluster, *, within: float = 120) -> None:
    """Wait until each pod of the installation is there and ready, and no update is under way."""

    def ready() -> bool:
        components = {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in cluster.pods(HOME)}
        return components == {*PROCESSES, "store"} and not unready(cluster) and not _rolling(cluster)

    def seen() -> tuple[object, ...]:
        return unready(cluster), _rolling(cluster)

    polling.eventually(ready, "all pods are ready", within=within, every=0.5, seen=seen)
