"""What a worker records does not follow from the plugins that its settings enable."""

import json

from app.plugins.coscheduling import options
from app.simulation import populations
from app.store import stores
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
