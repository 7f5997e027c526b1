"""The controller of a second cluster that follows the log of the first one leaves its own cluster alone."""

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from app import plugins
from app.framework import registry, registry_builder
from app.kube.client import clients
from app.store import stores
from app.store.health import identity
from tests.support import bind_times
from tests.support.kube import plain_access
from tests.support.workers import clusters, recordings
from workers.controller import controllers


@pytest.fixture
def built() -> registry.Registry:
    names = tuple(kind.name for kind in plugins.USUAL)
    return registry_builder.build(plugins.USUAL, enabled=names, weights={}, score_max=10, args={})


Control = Callable[[str, stores.Store], controllers.Controller]


@pytest.fixture
def control(cluster_side: clusters.Cluster, built: registry.Registry) -> Iterator[Control]:
    """Starts controllers, each with a token of its own."""
    with contextlib.ExitStack() as ending:

        def start(token: str, store: stores.Store) -> controllers.Controller:
            client = clients.Client(plain_access.of(cluster_side.server.url, token=token))
            ending.callback(client.close)
            made = controllers.Controller(store, client, built, old=bind_times.OLD)
            thread = threading.Thread(target=made.run, daemon=True)
            thread.start()
            ending.callback(thread.join, recordings.LIMIT)
            ending.callback(made.stop)
            recordings.eventually(lambda: made.subscribed, "the controller listens")
            return made

        yield start


def written(cluster: clusters.Cluster, token: str) -> set[str]:
    """The paths of the objects that a controller has written."""
    return {
        asked.path.partition("?")[0]
        for asked in cluster.server.seen
        if asked.method != "GET" and asked.headers.get("authorization") == f"Bearer {token}"
    }


def test_it_acts_once_the_log_is_its_own(
    recorded: Callable[[], recordings.Recording],
    again: Callable[..., stores.Store],
    cluster_side: clusters.Cluster,
    built: registry.Registry,
    control: Control,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"metadata": {"name": "kube-system", "uid": "first"}}
    cluster_side.server.objects.create("namespaces", names)
    cluster_side.node("n", zone="host")
    cluster_side.pod("waits", **{"app": "x", "workload-policy/kosmos.io": "p"})
    cluster_side.refuse("waits")
    recorded().ready()
    store, uid = again(indexed=built.indexed()), "second"
    check = identity.IdentityCheck(store.log, lambda: uid)
    assert check.measure()
    second = control("second", store)
    assert not second.leads
    control("first", again(indexed=built.indexed()))
    cluster_side.policy("p", host=1)
    work = {
        "/api/v1/namespaces/ns/pods/waits/status",
        "/apis/kosmos.io/v1alpha1/namespaces/ns/workloadpolicies/p/status",
    }
    recordings.eventually(lambda: work <= written(cluster_side, "first"), "the first one has done the work")
    assert written(cluster_side, "second") == set()

    uid = "first"
    assert check.measure()
    cluster_side.edit_policy("p", allocationPolicy=[{"name": "host", "replicas": 2}])
    recordings.eventually(lambda: bool(written(cluster_side, "second")), "the second one acts too")
    recordings.eventually(lambda: second.leads, "it leads")

    forgotten: set[str] = set()
    monkeypatch.setattr(second.reconciliation, "forget", lambda: forgotten.add("changes"))
    monkeypatch.setattr(second.evictor, "forget", lambda: forgotten.add("evictions"))
    uid = "third"
    assert check.measure()
    recordings.eventually(lambda: forgotten == {"changes", "evictions"}, "it keeps nothing of its tenure")
