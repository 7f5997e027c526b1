"""Evictions in a cluster with many quotas: what they cost, and which quotas they reach."""

from app.plugins.elastic_quota import evictions
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


def test_pods_that_cannot_be_helped_keep_no_other_quota_from_an_eviction() -> None:
    """What a pod that is not preemptible holds in the quota full is not freed for any of its pods."""
    firm = {membership.LABEL: "full", membership.PREEMPTIBLE: "false"}
    small = cluster(
        small_gangs.node("n1", 64),
        small_quotas.quota("full", 0, 9),
        small_quotas.quota("other", 0, 4),
        pod("firm", 8, "full", "n1", labels=firm),
        pod("rest", 1, "full", "n1"),
        *(
            pod(f"waits-{minute}", 4, "full", priority=1 + minute, created=f"2026-01-01T00:{minute:02}:00Z")
            for minute in range(evictions.TRIED + 1)
        ),
        pod("low", 4, "other", "n1"),
        pod("asks", 4, "other", priority=9, created="2026-01-02T00:00:00Z"),
    )
    expected = [("elastic quota other: pod x/asks", ["low"])]
    assert names(wanted(small)) == expected
    small.see(pod("fits", 1, "full", priority=9, created="2026-01-01T00:01:30Z"))
    assert names(wanted(small)) == [*expected, ("elastic quota full: pod x/fits", ["rest"])]
