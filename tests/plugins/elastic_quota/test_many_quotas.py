"""Clusters with many quotas: what is kept of them, what evictions cost, and which quotas they reach."""

from app.plugins.elastic_quota import decoding, evictions, quota_model
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import forests, membership, runtimes, usage
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


def wide(name: str, number: int, tree: str = "") -> quota_model.Quota:
    """A quota with as many resources as it may have, none of which another number has."""
    most = {f"example.com/r{number}-{at}": 1 for at in range(decoding.RESOURCES)}
    created = f"2026-01-01T00:{59 - number // 60:02}:{59 - number % 60:02}Z"
    return small_quotas.quota(name, min={}, max=most, created=created, tree=tree, is_parent=True)


def test_a_tree_has_a_bounded_number_of_resources() -> None:
    """The older quotas are valid, in whichever order they are listed; another tree has its own resources."""
    quotas = [wide(f"q{number:03}", number) for number in range(150)]
    others = [wide("other", 0, tree="t"), small_quotas.quota("new", max=quotas[-1].max, min={})]
    built_in = wide("koordinator-default-quota", 200)
    below = small_quotas.quota("below", parent="q000")
    for order in (1, -1):
        forest = forests.grown([*quotas, *others, built_in, below][::order])
        assert set(forest.trees[""].names) == {"q148", "q149", "new"}
        assert forest.trees["t"].names == ("other",)
        assert len(forest.trees[""].resources) == 2 * decoding.RESOURCES <= forests.RESOURCES
        reason = "with its max, its tree would have more than 256 resources"
        assert {forest.errors[quota.name] for quota in quotas[:148]} == {(reason,)}
        assert forest.errors["below"][0] == "q000 above it is invalid"


def test_counts_are_read_where_a_max_names_their_resource() -> None:
    small = cluster(
        small_gangs.node("n1", 9),
        *(small_quotas.quota(f"q{at}", min={}, max={f"r{at % 200}": 9, "cpu": 1}) for at in range(400)),
    )
    found = usage.of_tree(small.snapshot, "", runtimes.DEFAULTS)
    assert len(found.tree.resources) == 201
    read = usage.forest(small.snapshot).shared.get(("counts", ""), dict[str, object])
    # What is used, and what is requested without a node.
    assert len(read) == 2 * 2 * 400
