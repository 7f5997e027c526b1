"""The server of the nodes that `kubectl port-forward` reaches through the API server (tests/e2e/streaming).

The API server takes its address from the status of the node. It does not verify the certificate, as without
`--kubelet-certificate-authority` in a real cluster; the server, in turn, does not ask who calls it.
"""

import contextlib
import pathlib
import socket
from collections.abc import Iterator

from app.serving.tls import certificate_issuer
from tests.support import child_processes, polling
from tests.support.e2e import clusters
from tests.support.e2e.nodes import pods, process_kubelets

_HOST = "127.0.0.1"


@contextlib.contextmanager
def running(
    cluster: clusters.Cluster, kubelet: process_kubelets.ProcessKubelet, program: pathlib.Path
) -> Iterator[None]:
    """Forward ports to the pods of a kubelet, on the nodes that exist by now, while the context lasts."""
    files = certificate_issuer.issue(cluster.folder / "streaming-tls", [_HOST]).files
    port = child_processes.free_port()
    networks = kubelet.folder / pods.NETWORKS
    server = child_processes.Process(
        "streaming",
        [program, f"{_HOST}:{port}", files["server.crt"], files["server.key"], networks],
        log=cluster.folder / "streaming.log",
    )
    server.start()
    try:
        polling.ready(server, lambda: _accepts(port))
        for node in cluster.api().list("/api/v1/nodes"):
            status = {
                "addresses": [{"type": "InternalIP", "address": _HOST}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }
            cluster.api().patch(f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": status})
        yield
    finally:
        server.stop()


def _accepts(port: int) -> bool:
    socket.create_connection((_HOST, port), timeout=2).close()
    return True
