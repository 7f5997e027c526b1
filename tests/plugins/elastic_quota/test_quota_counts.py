"""Counts of quotas after any history equal those of the facts, and their increments are the differences."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.domain.fit import quantities
from app.plugins.elastic_quota import kinds, quota_counts
from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.elastic_quota.trees import forests
from tests.support import declared
from tests.support.decisions import quota_histories, quota_recount


@given(quota_histories.happened)
def test_counts_are_those_of_the_facts_at_every_offset(batch: list[events.AnyEvent]) -> None:
    snapshot = snapshots.empty(schema=declared.SCHEMA)
    for event in batch:
        snapshot = projections.project(snapshot, event)
        held = list(snapshot.all(kinds.QUOTAS).values())
        spaces = {one.namespace for one in snapshot.all(namespace_quota.KIND).values()}
        assert dict(snapshot.counts) == quota_recount.counts(snapshot, held, spaces)


@given(quota_histories.happened)
def test_a_run_of_events_counts_as_they_do_one_by_one(batch: list[events.AnyEvent]) -> None:
    start = snapshots.empty(schema=declared.SCHEMA)
    projection = projections.Projection(start)
    projection.apply_all(batch)
    increments = {key: by for key, by in projection.increments.items() if by}
    whole = dict(projection.finish().counts)
    assert increments == whole
    for event in batch:
        start = projections.project(start, event)
    assert dict(start.counts) == whole


def test_an_object_with_the_name_of_the_root_is_not_a_quota() -> None:
    """Koordinator ignores it when it is added: the root exists without an object (OnQuotaAdd)."""
    root = Quota(uid="1", namespace="blue", name="koordinator-root-quota", namespaces=("blue",))
    snapshot = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA),
        (
            kinds.QUOTAS.observed(root),
            events.NodeSeen(node=model.Node(name="n1", uid="n1")),
            events.PodSeen(
                pod=model.Pod(uid="p", namespace="blue", name="p", node="n1", requests={"cpu": 7})
            ),
        ),
    )
    assert dict(snapshot.counts) == {"quota||koordinator-default-quota|cpu": 7}
    assert forests.grown([root]).unused == {"blue/koordinator-root-quota": "its name is that of the root"}


def test_a_pod_counts_whether_its_node_exists_or_not() -> None:
    blue = Quota(uid="1", namespace="quotas", name="blue", max={"cpu": 10}, namespaces=("blue",))
    own = namespace_quota.NamespaceQuota(uid="2", namespace="blue", name="own", max={"cpu": 10})
    pod = model.Pod(uid="p", namespace="blue", name="p", node="n1", requests={"cpu": 7})
    used = {"quota||blue|cpu": 7, "sigsquota|blue|cpu": 7, "sigsquota||cpu": 7}
    both = kinds.QUOTAS.observed(blue), namespace_quota.KIND.observed(own)
    snapshot = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA), (*both, events.PodSeen(pod=pod))
    )
    assert dict(snapshot.counts) == snapshot.contributions(pod, "absent") == used
    there = projections.project(snapshot, events.NodeSeen(node=model.Node(name="n1", uid="n1")))
    assert dict(there.counts) == used
    gone = projections.project(there, events.NodeGone(name="n1", uid="n1"))
    assert dict(gone.counts) == used
    without = projections.project(gone, kinds.QUOTAS.gone("quotas", "blue", "1"))
    assert set(without.counts) == {"sigsquota|blue|cpu", "sigsquota||cpu"}
    assert dict(projections.project(without, both[0]).counts) == used


def test_amounts_are_counted_in_units_that_stay_exact() -> None:
    assert quota_counts.counted("memory", 65) == 2
    assert quota_counts.counted("hugepages-2Mi", 2**21) == 2**15
    assert quota_counts.counted("cpu", 1025) == 1025
    assert quota_counts.ceiling("memory", 127) == 1
    assert quota_counts.amount("memory", 3) == 192
    assert quota_counts.counted("memory", 2**62) == quota_counts.counted("gpu", 2**62) == quota_counts.LARGEST
    assert 131_071 * quota_counts.LARGEST < 2**53


@given(st.integers(0, 10**6), st.sampled_from(["M", "G", "T", "Ki", "Mi", "Gi", "Ti"]))
def test_a_whole_number_with_a_suffix_is_counted_exactly(number: int, suffix: str) -> None:
    """But for the small k: 1k is no multiple of 64."""
    asked = quantities.parse(f"{number}{suffix}")
    count = quota_counts.ceiling("memory", asked)
    assert quota_counts.amount("memory", count) == asked
    assert quota_counts.counted("memory", asked) == min(count, quota_counts.LARGEST)
