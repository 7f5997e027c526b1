"""The status of quotas, from pods to the API server: a recorder, a real store and a controller."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from app import plugins
from app.domain import events
from app.framework import registry_builder
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from app.simulation import populations
from app.store import stores
from tests.support import bind_times
from tests.support.workers import clusters, recordings
from workers.controller import controllers

Json = dict[str, Any]
Start = Callable[[], recordings.Recording]
Control = Callable[..., controllers.Controller]
QUOTAS = "elasticquotas"
PATHS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/quotas/elasticquotas"


@pytest.fixture
def control(again: Callable[..., stores.Store], cluster_side: clusters.Cluster) -> Iterator[Control]:
    """Starts controllers with plugins of these names."""
    with contextlib.ExitStack() as ending:

        def start(*enabled: str) -> controllers.Controller:
            classes = plugins.IN_TREE
            built = registry_builder.build(classes, enabled=enabled, weights={}, score_max=10, args={})
            made = controllers.Controller(
                again(indexed=built.indexed()), cluster_side.client, built, old=bind_times.OLD
            )
            thread = threading.Thread(target=made.run, daemon=True)
            thread.start()
            ending.callback(thread.join, recordings.LIMIT)
            ending.callback(made.stop)
            recordings.eventually(lambda: made.subscribed, "the controller listens")
            return made

        yield start


def quota(cluster: clusters.Cluster, name: str, most: Json, *, parent: str = "") -> None:
    labels = {"quota.scheduling.koordinator.sh/is-parent": "false" if parent else "true"}
    if parent:
        labels["quota.scheduling.koordinator.sh/parent"] = parent
    metadata = {"namespace": "quotas", "name": name, "labels": labels}
    cluster.server.objects.create(QUOTAS, {"metadata": metadata, "spec": {"max": most}})


def pod(cluster: clusters.Cluster, name: str, quota: str) -> None:
    made = populations.pod("ns", name, {membership.LABEL: quota}, node="n", cpu="500m")
    cluster.server.objects.create("pods", made)


def status(cluster: clusters.Cluster, name: str) -> Json:
    found: Json = json.loads(cluster.client.get(f"{PATHS}/{name}"))
    return dict(found.get("status", {}))


def until_used(cluster: clusters.Cluster, name: str, **used: str) -> None:
    recordings.eventually(lambda: status(cluster, name) == {"used": used}, f"{name} uses {used}")


def until_policy(cluster: clusters.Cluster, name: str) -> None:
    """Create a policy, and wait until it has a status."""
    cluster.policy(name, a=1)
    path = f"/apis/kosmos.io/v1alpha1/namespaces/ns/workloadpolicies/{name}"
    recordings.eventually(lambda: "status" in json.loads(cluster.client.get(path)), f"{name} has a status")


def written(cluster: clusters.Cluster) -> list[Json]:
    """The paths and bodies of all writes to quotas."""
    return [
        {"path": one.path.removeprefix(PATHS), **json.loads(one.body)}
        for one in cluster.server.seen
        if one.method != "GET" and one.path.startswith(PATHS)
    ]


def test_a_quota_shows_what_it_uses_and_its_own_status_is_not_an_event(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n")
    quota(cluster_side, "team", {"cpu": "8"})
    quota(cluster_side, "blue", {"cpu": "8", "memory": "8Gi"}, parent="team")
    recording = recorded().ready()
    control("ElasticQuota")
    until_used(cluster_side, "blue", cpu="0", memory="0")
    pod(cluster_side, "p1", "blue")
    until_used(cluster_side, "blue", cpu="500m", memory="64Mi")
    pod(cluster_side, "p2", "blue")
    until_used(cluster_side, "blue", cpu="1", memory="128Mi")
    until_used(cluster_side, "team", cpu="1")
    # What the watch shows after the last status is recorded as well: then its echo was observed.
    quota(cluster_side, "marker", {"cpu": "1"})
    recordings.eventually(lambda: bool(status(cluster_side, "marker")), "the marker has a status")
    entries = recording.store.log.read(0, limit=100_000)
    seen = [one.event.identity for one in entries if isinstance(one.event, events.ObjectObserved)]
    assert sorted(seen) == ["quotas/blue", "quotas/marker", "quotas/team"]
    found = written(cluster_side)
    assert len(found) <= 7, "one for each change"
    for one in found:
        assert one["path"].endswith("/status")
        assert one.keys() == {"path", "metadata", "status"}
        assert one["metadata"].keys() == {"resourceVersion"}


def test_the_quota_of_a_namespace_shows_what_its_pods_use(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n")
    own = {"metadata": {"namespace": "ns", "name": "own"}, "spec": {"min": {"cpu": "1"}, "max": {"cpu": "4"}}}
    cluster_side.server.objects.create("sigselasticquotas", own)
    recorded().ready()
    control("ElasticQuota")
    path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/elasticquotas/own"

    def used() -> Json:
        found: Json = json.loads(cluster_side.client.get(path)).get("status", {})
        return found

    recordings.eventually(lambda: used() == {"used": {"cpu": "0"}}, "nothing is used")
    pod(cluster_side, "p1", "absent")
    recordings.eventually(lambda: used() == {"used": {"cpu": "500m"}}, "the pod is counted")


@pytest.mark.scenario("TR-17")
def test_the_pods_of_an_overused_quota_are_listed_and_none_is_evicted(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n")
    quota(cluster_side, "team", {"cpu": "1"})
    recording = recorded().ready()
    control("ElasticQuota")
    for number in range(3):
        pod(cluster_side, f"p{number}", "team")
    until_used(cluster_side, "team", cpu="1500m")
    endpoints = {one.path: one for one in ElasticQuota(runtime=False).shown().endpoints}
    found = endpoints["quotas/<name>"].handle(recording.store.follower.snapshot, {"name": "team"})
    assert isinstance(found, dict)
    assert found["over"] == {"cpu": "500m"}
    assert len(found["overuse"]) == 1
    quota(cluster_side, "marker", {"cpu": "1"})
    until_used(cluster_side, "marker", cpu="0")
    assert not [one.path for one in cluster_side.server.seen if one.method == "DELETE" or "evict" in one.path]


def test_a_definition_without_the_subresource_is_reported_once_and_policies_have_their_status(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    """As in the definition that Koordinator publishes."""
    cluster_side.server.objects.define_status(QUOTAS, False)
    cluster_side.node("n", zone="a")
    quota(cluster_side, "team", {"cpu": "8"})
    recorded().ready()
    with structlog.testing.capture_logs() as lines:
        control("ElasticQuota", "WorkloadPolicy")

        def reported() -> list[Json]:
            return [dict(line) for line in lines if line["event"] == "cannot write a status"]

        recordings.eventually(lambda: len(reported()) == 1, "it is reported")
        for number in range(2):
            pod(cluster_side, f"p{number}", "team")
            until_policy(cluster_side, f"w{number}")
    ((kind, problem),) = ((line["kind"], line["problem"]) for line in reported())
    assert (kind, problem) == (QUOTAS, "the resource definition has no status subresource")
    assert status(cluster_side, "team") == {}


def test_nothing_is_written_for_quotas_while_the_plugin_is_disabled(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="a")
    quota(cluster_side, "team", {"cpu": "8"})
    recorded().ready()
    control("WorkloadPolicy")
    pod(cluster_side, "p", "team")
    until_policy(cluster_side, "w")
    assert written(cluster_side) == []
    assert status(cluster_side, "team") == {}
