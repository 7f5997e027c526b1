"""A simulated cluster, a real store, and a recorder between them."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app import settings
from app.domain import model, projecting, snapshots
from app.kube import accessing, clients, decoding, electing
from app.simulation import apiservers, populating
from app.store import embedded, opening
from workers import recording

Json = dict[str, Any]

TERMS = electing.Terms(lease=1.0, renew=0.6, retry=0.05)
"""Shorter than anybody would want it who has more to do than to wait for it."""
LIMIT = 20.0
"""Seconds after which something that should have happened never will."""


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until it holds."""
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.005)


class Cluster:
    """The API server's side."""

    def __init__(self, server: apiservers.ApiServer, client: clients.Client) -> None:
        self.server = server
        self.client = client

    def node(self, name: str, **labels: str) -> None:
        self.client.post("/api/v1/nodes", json.dumps(populating.node(name, labels)).encode())

    def pod(self, name: str, *, node: str = "", namespace: str = "ns", **labels: str) -> model.Pod:
        body = json.dumps(populating.pod(namespace, name, labels, node=node)).encode()
        return decoding.pod(self.client.post(f"/api/v1/namespaces/{namespace}/pods", body))

    def refuse(self, name: str, message: str = "0/1 nodes are available") -> None:
        """Say of the pod what kube-scheduler says after an attempt that failed."""
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        body = json.dumps({"status": {"conditions": [said]}}).encode()
        path = f"/api/v1/namespaces/ns/pods/{name}/status"
        self.client.patch(path, body, content=clients.STRATEGIC)

    def policy(
        self, name: str, *, key: str = "zone", app: str = "x", namespace: str = "ns", **quotas: int
    ) -> None:
        spec = {
            "topologyKey": key,
            "labelSelector": {"matchLabels": {"app": app}},
            "allocationPolicy": [{"name": domain, "replicas": most} for domain, most in quotas.items()],
            "allocationType": "Required",
        }
        path = f"/apis/kosmos.io/v1alpha1/namespaces/{namespace}/workloadpolicies"
        self.client.post(path, json.dumps(populating.policy(namespace, name, spec)).encode())

    def patch(self, path: str, change: Json) -> None:
        self.client.patch(path, json.dumps(change).encode())

    def edit_policy(self, name: str, **spec: object) -> None:
        self.patch(f"/apis/kosmos.io/v1alpha1/namespaces/ns/workloadpolicies/{name}", {"spec": spec})

    def label_node(self, name: str, **labels: str | None) -> None:
        self.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    def phase(self, name: str, phase: str) -> None:
        self.patch(f"/api/v1/namespaces/ns/pods/{name}/status", {"status": {"phase": phase}})

    def delete_pod(self, name: str) -> None:
        """With grace if the pod is on a node: then its kubelet has to end it."""
        self.client.delete(f"/api/v1/namespaces/ns/pods/{name}")

    def end_pod(self, name: str) -> None:
        self.client.delete(f"/api/v1/namespaces/ns/pods/{name}", b'{"gracePeriodSeconds":0}')

    def bind(self, name: str, node: str) -> None:
        self.client.post(
            f"/api/v1/namespaces/ns/pods/{name}/binding",
            json.dumps({"metadata": {"name": name}, "target": {"name": node}}).encode(),
        )


class Recording:
    """A recorder in a thread, and what it has recorded."""

    def __init__(self, store: opening.Store, cluster: Cluster, *, settle: float = 0.05) -> None:
        self.store = store
        self.elector = electing.Elector(cluster.client, "ns", "topolog-recorder", terms=TERMS)
        self.recorder = recording.Recorder(
            store.log, store.follower, cluster.client, elector=self.elector, settle=settle
        )
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.recorder.run()
        except Exception as error:
            self.error = error

    def ready(self) -> "Recording":
        eventually(lambda: self.recorder.ready or not self.thread.is_alive(), "the recorder is ready")
        assert self.error is None
        return self

    def stop(self) -> None:
        self.recorder.stop()
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()

    @property
    def snapshot(self) -> snapshots.Snapshot:
        return self.store.follower.catch_up()

    def until(self, holds: Callable[[snapshots.Snapshot], bool], what: str) -> snapshots.Snapshot:
        eventually(lambda: holds(self.snapshot), what)
        return self.snapshot

    def counts(self) -> dict[str, int]:
        """The counts in the store, proven equal to the fold of the whole log."""
        entries = self.store.log.read(0, limit=100_000)
        fold = projecting.project_all(snapshots.empty(), (entry.event for entry in entries))
        counts = self.store.log.counts()
        assert counts == dict(fold.counts)
        return counts

    def until_counts(self, by: str = "zone", **expected: int) -> None:
        """The counts of the policy `p` over a label become these, in the store and in the snapshot."""
        wanted = {f"ns/p|{by}={domain}": count for domain, count in expected.items()}
        eventually(lambda: self.store.log.counts() == wanted, f"counts {wanted}")
        assert dict(self.snapshot.counts) == wanted == self.counts()


@pytest.fixture
def server() -> Iterator[apiservers.ApiServer]:
    with apiservers.ApiServer(bookmarks=0.2) as started:
        yield started


@pytest.fixture
def cluster_side(server: apiservers.ApiServer) -> Iterator[Cluster]:
    client = clients.Client(accessing.plain(server.url))
    yield Cluster(server, client)
    client.close()


@pytest.fixture
def recorded(store: opening.Store, cluster_side: Cluster) -> Iterator[Callable[[], Recording]]:
    """Starts recorders, and stops them in the end."""
    started: list[Recording] = []

    def start() -> Recording:
        started.append(Recording(store, cluster_side))
        return started[-1]

    yield start
    for one in started:
        one.recorder.stop()
        one.thread.join(LIMIT)


@pytest.fixture
def again(
    store: opening.Store, store_server: embedded.Server, cluster: str
) -> Iterator[Callable[..., opening.Store]]:
    """Opens the same store once more, as another process would."""
    opened: list[opening.Store] = []

    def reopen(indexed: frozenset[str] = frozenset()) -> opening.Store:
        chosen = settings.Store(url=store_server.url)
        opened.append(opening.open_store(chosen, cluster=cluster, indexed=indexed))
        return opened[-1]

    yield reopen
    for one in opened:
        one.close()
