"""The texts of an installation that people read who may not read its Secrets."""

import json
import pathlib

from tests.support.e2e import clusters, readiness
from tests.support.e2e.nodes import process_kubelets

_KINDS = (
    ("api/v1", "pods"),
    ("api/v1", "events"),
    ("apis/apps/v1", "deployments"),
    ("apis/apps/v1", "statefulsets"),
)


def of(cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet, namespace: str) -> dict[str, str]:
    """Where -> what is shown: each log, the arguments of each process, the objects of the namespace."""
    shown = {log.name: log.read_text(errors="replace") for log in kubelet.folder.glob("*.log")}
    for component in (*readiness.PROCESSES, "store"):
        for container in kubelet.running(component)[0].containers:
            assert container.process is not None
            arguments = pathlib.Path(f"/proc/{container.process.pid}/cmdline").read_text(errors="replace")
            shown[f"arguments of {component}, {container.name}"] = arguments
    for group, kind in _KINDS:
        shown[kind] = json.dumps(cluster.api().list(f"/{group}/namespaces/{namespace}/{kind}"))
    return shown
