"""Evictions in a cluster with many quotas: what they cost, and which quotas they reach."""

from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from tests.support.decisions import call_counts, small_gangs, small_quotas
from tests.support.decisions.quota_evictions import cluster, names, pod, wanted

QUOTAS = 30


def test_the_pods_of_quotas_that_are_all_above_their_runtime_are_found_in_one_pass() -> None:
    rules = ElasticQuota(runtime=False, overuse="evict")
    each = [f"q{number:02}" for number in range(QUOTAS)]
    small = cluster(
        small_gangs.node("n1", 2 * QUOTAS),
        *(small_quotas.quota(name, 0, 1) for name in each),
        *(pod(f"{name}-{number}", 1, name, "n1") for name in each for number in range(2)),
        rules=rules,
    )
    with call_counts.counted(membership, "of") as asked:
        found = wanted(small, rules) or ()
    assert [subject for subject, _ in names(found)] == [f"elastic quota {name}: overuse" for name in each]
    assert asked.call_count == len(small.snapshot.pods)
