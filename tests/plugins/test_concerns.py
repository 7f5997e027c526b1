"""The objects that a decision about a pod concerns: each plugin declares its own."""

import msgspec
import pytest

from app.domain import model
from app.framework import capabilities
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.job_affinity.plugin import JobAffinity
from app.plugins.workload_policy import logic
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support.decisions import scheduling_driver, small_clusters, small_gangs, small_quotas

OF_NAMESPACE = namespace_quota.NamespaceQuota(uid="uid", namespace="apps", name="own")
NAMED = {"app": "a", logic.LABEL: "p"}


def small(plugin: capabilities.Plugin, *things: scheduling_driver.Thing) -> scheduling_driver.Cluster:
    return scheduling_driver.Cluster(*things, configured=[plugin])


def policy(name: str, *, required: bool = True) -> model.DeclaredObject:
    selector = model.Selector(labels={"app": "a"})
    return small_clusters.policy(name=name, namespace="x", required=required, selector=selector)


def pod(**labels: str) -> model.Pod:
    return small_clusters.pod("asks", labels, namespace="x")


@pytest.mark.parametrize(
    ("cluster", "asks", "objects"),
    [
        (small(WorkloadPolicy(), policy("p"), policy("q")), pod(**NAMED), ["policy:x/p"]),
        # A pod that names a policy is refused for it also where it does not exist.
        (small(WorkloadPolicy()), pod(**NAMED), ["policy:x/p"]),
        (small(WorkloadPolicy(), policy("p")), pod(app="a"), []),
        (small(WorkloadPolicy(), policy("p")), small_clusters.pod("d", NAMED, owner="DaemonSet"), []),
        (
            small(WorkloadPolicy(enforce="selected"), policy("p"), policy("q"), policy("r", required=False)),
            pod(**NAMED),
            ["policy:x/p", "policy:x/q"],
        ),
        (small(JobAffinity()), pod(**{"rl-job-group": "train"}), ["group:x/train"]),
        (small(JobAffinity()), pod(**{"rl-job-group": ""}), []),
        (small(Coscheduling()), small_gangs.pod("asks", gang="train"), ["gang:x/train"]),
        (small(Coscheduling()), small_gangs.pod("asks"), []),
        (
            small(ElasticQuota(), small_quotas.quota("team", 0, 8), OF_NAMESPACE),
            small_quotas.pod("asks", 1, "team"),
            ["elasticquota:team", "sigsquota:apps/own"],
        ),
        (
            small(ElasticQuota(), small_quotas.quota("team", 0, 8)),
            small_quotas.pod("asks"),
            [],
        ),
        (
            small(ElasticQuota(), small_quotas.quota("koordinator-default-quota", 0, 8)),
            small_quotas.pod("asks"),
            ["elasticquota:koordinator-default-quota"],
        ),
        (small(ElasticQuota()), small_quotas.pod("asks", 1, "team"), []),
    ],
)
def test_a_decision_concerns_the_objects_that_may_refuse_or_group_the_pod(
    cluster: scheduling_driver.Cluster, asks: model.Pod, objects: list[str]
) -> None:
    assert list(cluster.plugins.objects(cluster.snapshot, asks)) == objects


def test_a_pod_without_labels_concerns_nothing_where_there_are_no_quotas() -> None:
    every: list[capabilities.Plugin] = [JobAffinity(), WorkloadPolicy(), ElasticQuota(), Coscheduling()]
    cluster = scheduling_driver.Cluster(policy("p"), configured=every)
    assert list(cluster.plugins.objects(cluster.snapshot, msgspec.structs.replace(pod(), labels={}))) == []
