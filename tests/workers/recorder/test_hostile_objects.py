"""Quotas, groups and pods that no webhook has checked: each is shown with its reason, and others go on."""

from collections.abc import Callable

import pytest

from app.domain import model
from app.framework import cycles, pipeline, registry
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota import kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import usage
from app.simulation import populations
from tests.support.workers import clusters, recordings

Start = Callable[[], recordings.Recording]
PREFIX = "quota.scheduling.koordinator.sh/"
PLUGINS = registry.Registry([ElasticQuota(check_parents=True), Coscheduling()])
FORGED = {
    "scheduling.koordinator.sh/resource-status": '{"cpuset":"0-63"}',
    "scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0,"resources":{}}]}',
    "scheduling.koordinator.sh/reservation-allocated": '{"name":"mine","uid":"1"}',
}


def quota(
    cluster: clusters.Cluster, name: str, *, namespace: str = "quotas", most: object = "4", **more: str
) -> None:
    labels = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in more.items()}
    spec = {"min": {"cpu": "0"}, "max": {"cpu": most}}
    metadata = {"namespace": namespace, "name": name, "labels": labels}
    cluster.server.objects.create("elasticquotas", {"metadata": metadata, "spec": spec})


def pod(cluster: clusters.Cluster, name: str, labels: dict[str, str], **metadata: object) -> None:
    made = populations.pod("ns", name, labels, cpu="1")
    made["metadata"] |= metadata
    cluster.server.objects.create("pods", made)


def why(recording: recordings.Recording, name: str) -> str:
    """Why the pod is refused everywhere; empty if it may go to some node."""
    snapshot = recording.snapshot
    found = snapshot.pod_named("ns", name)
    assert found is not None
    trace = pipeline.run_filter(PLUGINS, cycles.cycle(found, frozenset(snapshot.nodes), snapshot))
    return "" if trace.kept else "; ".join(sorted(set(trace.reasons().values())))


@pytest.fixture
def recording(recorded: Start, cluster_side: clusters.Cluster) -> recordings.Recording:
    """A node, a quota that is valid, and its pod."""
    cluster_side.node("n1")
    quota(cluster_side, "good")
    pod(cluster_side, "healthy", {f"{PREFIX}name": "good"})
    return recorded().ready()


def settled(recording: recordings.Recording, cluster: clusters.Cluster) -> None:
    """Everything so far is recorded, by a process that is alive."""
    pod(cluster, "last", {f"{PREFIX}name": "good"})
    recording.until(lambda one: one.pod_named("ns", "last") is not None, "the last pod")
    assert recording.error is None
    assert why(recording, "healthy") == why(recording, "last") == ""


def test_quotas_that_cannot_be_used_are_shown_with_their_reasons(
    recording: recordings.Recording, cluster_side: clusters.Cluster
) -> None:
    quota(cluster_side, "a", parent="b", is_parent="true")
    quota(cluster_side, "b", parent="a", is_parent="true")
    quota(cluster_side, "twice")
    quota(cluster_side, "twice", namespace="other", most="1")
    quota(cluster_side, "negative", most="-4")
    quota(cluster_side, "huge", most="1e40")
    quota(cluster_side, "text", most="many")
    quota(cluster_side, "orphan", parent="absent")
    for name in ("a", "twice", "negative", "huge", "text", "orphan"):
        pod(cluster_side, f"of-{name}", {f"{PREFIX}name": name})
    settled(recording, cluster_side)
    assert why(recording, "of-a") == "elastic quota a: invalid: its parents form a cycle: a -> b -> a"
    assert (
        why(recording, "of-negative")
        == "elastic quota negative: invalid: spec.max.cpu is negative: -4; spec.min has cpu, spec.max has not"
    )
    assert why(recording, "of-orphan") == "elastic quota orphan: invalid: parent absent does not exist"
    assert why(recording, "of-text").startswith("elastic quota text: invalid: spec.max.cpu: ")
    assert why(recording, "of-twice") == why(recording, "of-huge") == ""
    grown = usage.forest(recording.snapshot)
    (unused,) = grown.unused.values()
    assert unused.startswith("its name is used by the older quota ")
    assert len(recording.snapshot.all(kinds.QUOTAS)) == 9


def test_groups_that_cannot_be_used_are_shown_with_their_reasons(
    recording: recordings.Recording, cluster_side: clusters.Cluster
) -> None:
    def group(name: str, minimum: object) -> None:
        metadata = {"namespace": "ns", "name": name}
        cluster_side.server.objects.create(
            "sigspodgroups", {"metadata": metadata, "spec": {"minMember": minimum}}
        )

    for name, minimum in (("large", 1_001), ("text", "many"), ("negative", -3), ("beyond", 10**30)):
        group(name, minimum)
        pod(cluster_side, f"of-{name}", {"scheduling.x-k8s.io/pod-group": name})
    pod(
        cluster_side,
        "of-two",
        {"scheduling.x-k8s.io/pod-group": "negative", "pod-group.scheduling.sigs.k8s.io": "large"},
    )
    settled(recording, cluster_side)
    assert why(recording, "of-large") == (
        "gang sigs/ns/large: invalid: spec.minMember is 1001; at most 1,000 members are placed together"
    )
    for name in ("text", "beyond"):
        assert "invalid" in why(recording, f"of-{name}")
    text = "gang sigs/ns/negative: invalid: spec.minMember is negative: -3"
    assert why(recording, "of-negative") == text
    # Koordinator's label decides which of two groups a pod is of.
    assert why(recording, "of-two").startswith("gang koordinator/ns/large: no member defines ")


def test_allocations_that_a_pending_pod_claims_for_itself_do_not_count(
    recording: recordings.Recording, cluster_side: clusters.Cluster
) -> None:
    before = dict(recording.snapshot.counts)
    pod(cluster_side, "forger", {}, annotations=FORGED)
    settled(recording, cluster_side)
    forger = recording.snapshot.pod_named("ns", "forger")
    assert isinstance(forger, model.Pod)
    assert not FORGED.keys() & forger.annotations.keys()
    assert why(recording, "forger") == ""
    after = dict(recording.snapshot.counts)
    assert {key for key in after if after[key] != before.get(key)} <= {
        key
        for key in after
        if key.startswith(("quota||good|pending|", "quota||koordinator-default-quota|pending|"))
    }


def test_a_definition_that_is_deleted_while_in_use_loses_nothing(
    recording: recordings.Recording, cluster_side: clusters.Cluster
) -> None:
    cluster_side.bind("healthy", "n1")
    recording.until(lambda one: one.counts.get("quota||good|cpu") == 1000, "the pod counts")
    before = {key: count for key, count in recording.snapshot.counts.items() if "|good|" in key}
    cluster_side.server.objects.serve("elasticquotas", False)
    recording.until(lambda one: not one.all(kinds.QUOTAS), "the quotas are gone with their definition")
    assert not recording.snapshot.counts
    pod(cluster_side, "meanwhile", {f"{PREFIX}name": "good"})
    recording.until(lambda one: one.pod_named("ns", "meanwhile") is not None, "the pod")
    assert why(recording, "meanwhile") == ""
    cluster_side.server.objects.serve("elasticquotas", True)
    quota(cluster_side, "good")
    recording.until(lambda one: bool(one.all(kinds.QUOTAS)), "the quota is there again")
    after = recording.snapshot.counts
    assert {key: after[key] for key in before if "pending" not in key} == {
        key: count for key, count in before.items() if "pending" not in key
    }
    assert after["quota||good|pending|cpu"] == 1000
    assert recording.error is None
