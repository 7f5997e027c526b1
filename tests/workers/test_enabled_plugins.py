"""What a worker records does not follow from the plugins that its settings enable."""

import json
from collections.abc import Iterator

import pytest

from app import plugins
from app.kube.objects import decoding
from app.kube.watch import kinds
from app.plugins.coscheduling import options
from app.simulation import populations
from app.store import stores
from app.store.log import batches
from tests.support.store import writers
from tests.support.workers import clusters, recordings, worker_processes


def test_a_recorder_keeps_what_a_plugin_reads_that_it_does_not_enable(
    start: worker_processes.Start, store: stores.Store, cluster_side: clusters.Cluster
) -> None:
    body = populations.pod("ns", "member", {}, node="")
    body["metadata"]["annotations"] = {options.NAME: "train", "unread.example/a": "b"}
    cluster_side.client.post("/api/v1/namespaces/ns/pods", json.dumps(body).encode())
    start("record", TOPOLOG_PLUGINS_ENABLED="JobAffinity")
    recordings.eventually(lambda: bool(store.follower.catch_up().pods), "the pod is recorded")
    (pod,) = store.follower.snapshot.pods.values()
    assert dict(pod.annotations) == {options.NAME: "train"}


@pytest.fixture
def kept() -> Iterator[None]:
    """This process keeps the annotations that all plugins read."""
    before = decoding.kept()
    decoding.keep(plugins.catalog().annotations)
    yield
    decoding.keep(frozenset(before))


def test_a_compactor_compares_its_form_of_pods_with_that_of_a_recorder(
    start: worker_processes.Start, store: stores.Store, kept: None
) -> None:
    marks = {kinds.PODS.mark: kinds.PODS.marked("5")}
    store.log.append(batches.Batch(events=(writers.seen("u"), writers.seen("v")), marks=marks))
    start("compact", TOPOLOG_COMPACTION_SECONDS="1", TOPOLOG_COMPACTION_KEEP="0")
    recordings.eventually(lambda: store.checkpoints.headers() != [], "a checkpoint is taken")
