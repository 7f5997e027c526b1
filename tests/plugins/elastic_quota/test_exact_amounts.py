"""A quota in bytes takes exactly as many pods as its max is of their requests, whatever their suffixes."""

import msgspec
import pytest

from app.domain import model
from app.domain.fit import quantities
from app.plugins.elastic_quota import status
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import reclaimable_pods
from app.plugins.elastic_quota.sigs.namespace_quota import NamespaceQuota
from app.plugins.elastic_quota.trees import overuse, usage
from tests.support.decisions import scheduling_driver, small_quotas

AMOUNTS = [("500M", "4G"), ("1G", "10G"), ("100M", "1G"), ("512Mi", "4Gi")]
"""What each pod requests, and the max of its quota."""
COLOCATED = ["kubernetes.io/batch-memory", "kubernetes.io/mid-memory", "koordinator.sh/gpu-memory"]


def pod(name: str, resource: str, request: str, **changed: object) -> model.Pod:
    asked = {resource: quantities.parse(request)}
    return msgspec.structs.replace(small_quotas.pod(name, 0, "team"), requests=asked, **changed)


def node(resource: str) -> model.Node:
    """A node that has enough of everything."""
    return small_quotas.node("n1", 100, allocatable={"cpu": 1000, resource: 2**44, "pods": 110})


def cluster(resource: str, most: str, *, runtime: bool) -> scheduling_driver.Cluster:
    team = small_quotas.quota("team", min={}, max={resource: quantities.parse(most)})
    return small_quotas.cluster(node(resource), team, runtime=runtime)


def filled(small: scheduling_driver.Cluster, resource: str, request: str, number: int) -> None:
    """Place so many pods, each of which the quota admits."""
    for at in range(number):
        one = pod(f"p{at}", resource, request)
        small.see(one)
        assert not small.filter(one).refused
        small.place(one, "n1")
        small.see(msgspec.structs.replace(one, node="n1", phase="Running"))


@pytest.mark.parametrize("runtime", [True, False])
@pytest.mark.parametrize("resource", ["memory", "ephemeral-storage", "hugepages-2Mi", *COLOCATED])
@pytest.mark.parametrize(("asked", "most"), AMOUNTS)
def test_a_quota_is_filled_to_its_max_and_not_beyond(
    asked: str, most: str, resource: str, runtime: bool
) -> None:
    small = cluster(resource, most, runtime=runtime)
    limit = quantities.parse(most)
    filled(small, resource, asked, limit // quantities.parse(asked))
    rules = ElasticQuota(runtime=runtime, overuse="evict")
    assert overuse.over(small.snapshot, "team", rules) == {}
    shown = status.status(small.snapshot, usage.forest(small.snapshot).quotas["team"])
    assert shown == {"used": {resource: quantities.written(resource, limit)}}
    more = pod("more", resource, asked)
    small.see(more)
    assert small.why(more) == f"elastic quota team: no capacity in {resource}"
    small.see(pod("by-hand", resource, asked, node="n1", phase="Running"))
    assert set(overuse.over(small.snapshot, "team", rules)) == {resource}


@pytest.mark.parametrize(("asked", "least"), AMOUNTS)
def test_a_namespace_that_uses_exactly_its_min_loses_no_pod(asked: str, least: str) -> None:
    """Of what b lends, c uses as much as one pod requests; the pods of a are the least important ones."""
    each, whole = quantities.parse(asked), quantities.parse(least)
    small = small_quotas.cluster(node("memory"), reclaim=True)
    for namespace, guaranteed, running in (
        ("a", whole, whole // each),
        ("b", whole, whole // each - 1),
        ("c", 0, 1),
    ):
        small.see(
            NamespaceQuota(namespace, namespace, "quota", min={"memory": guaranteed}),
            *(own(namespace, at, asked, node="n1") for at in range(running)),
        )
    last = own("b", whole // each, asked, priority=9)
    (eviction,) = reclaimable_pods.evictions(small.snapshot, last, ElasticQuota(reclaim=True)).values()
    assert [victim.uid for victim in eviction.victims] == ["c-0"]
    small.gone(eviction.victims[0])
    assert not small.filter(last).refused


def own(namespace: str, number: int, request: str, **changed: object) -> model.Pod:
    """A pod of a namespace with a quota of its own; those of c are more important."""
    uid = f"{namespace}-{number}"
    there: dict[str, object] = {"namespace": namespace, "uid": uid, "priority": int(namespace == "c")}
    return pod(uid, "memory", request, **{**there, **changed})


@pytest.mark.parametrize("resource", COLOCATED)
def test_memory_of_koordinator_is_counted_in_bytes(resource: str) -> None:
    small = cluster(resource, "500Gi", runtime=True)
    filled(small, resource, "64Gi", 7)
    eighth = pod("eighth", resource, "64Gi")
    small.see(eighth)
    assert small.why(eighth) == f"elastic quota team: no capacity in {resource}"
    (detail,) = small.filter(eighth).refusals[0].details
    assert detail == f"team: {resource} used 448Gi + requested 64Gi > limit 500Gi"
    assert small.why(pod("large", resource, "5Ti")) == (
        f"elastic quota team: requests of more than 4Ti of {resource} cannot be counted"
    )
