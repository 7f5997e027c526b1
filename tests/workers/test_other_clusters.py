"""Workers whose log is that of another Kubernetes cluster, or that cannot compare the two."""

import signal
from collections.abc import Iterator

import pytest

from app import settings
from app.domain import events
from app.store import audit_reports, schemas, stores
from app.store.log import batches, logs
from app.store.server import connections, embedded
from tests.support import child_processes, declared
from tests.support.extender import api_worlds
from tests.support.store import materialised, writers
from tests.support.workers import clusters, recordings, worker_processes


@pytest.mark.parametrize("command", ["control", "audit", "compact"])
def test_a_worker_is_not_ready_with_the_log_of_another_cluster(
    start: worker_processes.Start, store: stores.Store, cluster_side: clusters.Cluster, command: str
) -> None:
    cluster_side.server.objects.create("namespaces", {"metadata": {"name": "kube-system", "uid": "second"}})
    port = child_processes.free_port()
    process = start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(
        lambda: "[+] identity: ok" in worker_processes.ask(port, "/readyz")[1], "no process has claimed it"
    )
    store.log.append(batches.Batch(events=(), kubernetes="first"), logs.NO_GUARD)
    recordings.eventually(
        lambda: "UID first, here it has second" in worker_processes.ask(port, "/readyz")[1],
        "readiness names both",
    )
    assert worker_processes.ask(port, "/readyz")[0] == 503
    assert worker_processes.ask(port, "/livez")[0] == 200
    assert process.poll() is None


@pytest.fixture
def beside(store_server: embedded.Server, cluster: str) -> Iterator[stores.Store]:
    """The store of another cluster name on the same server."""
    name = f"{cluster}-beside"
    with connections.connect(store_server.url) as client:
        schemas.migrate(client, declared.names(name), declared.SCHEMA)
    chosen = settings.Store(url=store_server.url)
    opened = stores.open_store(chosen, schema=declared.SCHEMA, cluster=name)
    yield opened
    opened.close()


def with_work(store: stores.Store, uid: str) -> int:
    """The log of the Kubernetes cluster with this UID gets work for a controller and an auditor; its head.

    A placement whose pod the API server does not have, and a count that differs from the log.
    """
    seen = (api_worlds.node("n"), writers.seen("u"))
    store.log.append(batches.Batch(events=seen, kubernetes=uid))
    writers.placement(store.log, store.follower.catch_up(), writers.pod("u"), "n")
    store.client.hset(store.keys.counts, "none", 1)
    store.client.delete(store.keys.readers)  # Nothing is kept for this reader.
    return store.log.head().offset


@pytest.mark.parametrize(
    ("command", "appended"), [("control", events.PlacementReleased), ("audit", events.ViewsRepaired)]
)
def test_a_worker_leaves_the_log_of_another_cluster_as_it_is(
    start: worker_processes.Start,
    store: stores.Store,
    beside: stores.Store,
    cluster_side: clusters.Cluster,
    command: str,
    appended: type[events.AnyEvent],
) -> None:
    """Another worker, which started later, does the same work in the log of its own cluster."""
    cluster_side.server.objects.create("namespaces", {"metadata": {"name": "kube-system", "uid": "second"}})
    foreign, own = with_work(store, "first"), with_work(beside, "second")
    port, other = child_processes.free_port(), child_processes.free_port()
    start(command, TOPOLOG_SERVER_HEALTH_PORT=str(port))
    recordings.eventually(
        lambda: "UID first, here it has second" in worker_processes.ask(port, "/readyz")[1],
        "it is refused",
    )
    start(
        command,
        TOPOLOG_SERVER_HEALTH_PORT=str(other),
        TOPOLOG_CLUSTER=beside.keys.cluster,
        TOPOLOG_ELECTION_NAMESPACE="beside",
    )
    recordings.eventually(
        lambda: any(isinstance(one.event, appended) for one in beside.log.read(own)), "the work is done"
    )
    assert store.log.read(foreign) == []
    assert materialised.counts(store) == {"none": 1}
    assert audit_reports.Reports(store.client, store.keys).latest() is None
    assert worker_processes.ask(port, "/readyz")[0] == 503
    assert worker_processes.ask(port, "/livez")[0] == 200


def test_a_compactor_leaves_the_log_of_another_cluster_as_it_is(
    start: worker_processes.Start, store: stores.Store, beside: stores.Store, cluster_side: clusters.Cluster
) -> None:
    """Another one, which started later, takes a checkpoint and trims the log of its own cluster."""
    cluster_side.server.objects.create("namespaces", {"metadata": {"name": "kube-system", "uid": "second"}})
    with_work(store, "first"), with_work(beside, "second")
    soon = {"TOPOLOG_COMPACTION_SECONDS": "1", "TOPOLOG_COMPACTION_KEEP": "0"}
    port, other = child_processes.free_port(), child_processes.free_port()
    start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(port), **soon)
    recordings.eventually(
        lambda: "UID first, here it has second" in worker_processes.ask(port, "/readyz")[1],
        "readiness names both",
    )
    start("compact", TOPOLOG_SERVER_HEALTH_PORT=str(other), TOPOLOG_CLUSTER=beside.keys.cluster, **soon)
    recordings.eventually(lambda: beside.log.oldest() > 1, "its own log is trimmed")
    assert beside.checkpoints.headers() != []
    assert store.log.oldest() == 1
    assert store.checkpoints.headers() == []
    assert worker_processes.ask(port, "/readyz")[0] == 503
    assert worker_processes.ask(port, "/livez")[0] == 200


def test_a_compactor_without_credentials_compacts_and_reports_it(
    start: worker_processes.Start, store: stores.Store
) -> None:
    with_work(store, "first")
    port = child_processes.free_port()
    process = start(
        "compact",
        TOPOLOG_SERVER_HEALTH_PORT=str(port),
        TOPOLOG_KUBE_KUBECONFIG="/nowhere/config",
        TOPOLOG_COMPACTION_SECONDS="1",
        TOPOLOG_COMPACTION_KEEP="0",
    )
    recordings.eventually(lambda: store.log.oldest() > 1, "the log is trimmed")
    assert worker_processes.ask(port, "/readyz")[0] == 200
    process.send_signal(signal.SIGTERM)
    code, stderr = worker_processes.ended(process)
    assert code == 0
    assert "cannot compare the cluster with that of the log" in stderr
