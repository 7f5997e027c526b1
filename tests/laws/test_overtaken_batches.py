"""A batch that is moved behind what others have appended leaves the counts of a fold from zero.

The oracle counts the facts at the end of the log, by code that the product does not have.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import event_subjects, events, model, projections, snapshots
from app.kube.watch import kinds, reflectors
from app.plugins.elastic_quota import kinds as quota_kinds
from app.plugins.elastic_quota.sigs import namespace_quota
from app.store.log import logs
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import quota_histories, quota_recount, recomputation, strategies
from tests.support.workers import listings
from workers.recorder import batch_builder

EMPTY = snapshots.empty(schema=declared.SCHEMA)
QUOTAS, OWN, POLICIES = map(kinds.declared, (quota_kinds.QUOTAS, namespace_quota.KIND, declared.POLICIES))


def changes(kind: kinds.WatchedKind, found: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Steps of the recorder: an object is shown, or its end."""
    return st.one_of(
        st.builds(reflectors.Seen, st.just(kind), found, st.just("1")),
        st.builds(listings.gone, st.just(kind), found),
    )


def foreign(
    pods: st.SearchStrategy[model.Pod], names: Iterable[str]
) -> st.SearchStrategy[list[list[events.AnyEvent]]]:
    """What is appended during each attempt."""
    one = st.one_of(
        st.builds(events.placed, pods, st.sampled_from(list(names))),
        st.builds(
            lambda pod: events.PlacementReleased(
                uid=pod.uid, namespace=pod.namespace, name=pod.name, node="n", reason="", cause="refused"
            ),
            pods,
        ),
        st.builds(events.PodSeen, pod=pods),
        st.builds(events.gone, pods),
    )
    return st.lists(st.lists(one, max_size=5), min_size=1, max_size=3)


@dataclass(frozen=True)
class Family:
    """Counts of one plugin: histories, and what they have to be."""

    happened: st.SearchStrategy[list[events.AnyEvent]]
    steps: st.SearchStrategy[list[batch_builder.Step]]
    others: st.SearchStrategy[list[list[events.AnyEvent]]]
    counts: Callable[[snapshots.Snapshot], dict[str, int]]


def of_quotas(snapshot: snapshots.Snapshot) -> dict[str, int]:
    spaces = {one.namespace for one in snapshot.all(namespace_quota.KIND).values()}
    return quota_recount.counts(snapshot, list(snapshot.all(quota_kinds.QUOTAS).values()), spaces)


FAMILIES = {
    "quotas": Family(
        quota_histories.happened,
        st.lists(
            st.one_of(
                changes(QUOTAS, quota_histories.quotas),
                changes(QUOTAS, quota_histories.quotas),
                changes(OWN, quota_histories.own),
                changes(kinds.PODS, quota_histories.pods),
            ),
            min_size=1,
            max_size=4,
        ),
        foreign(quota_histories.pods, ("n1", "n2")),
        of_quotas,
    ),
    "policies": Family(
        strategies.histories,
        st.lists(
            st.one_of(
                changes(POLICIES, strategies.policies()),
                changes(kinds.NODES, strategies.nodes()),
                changes(kinds.PODS, strategies.pods()),
            ),
            min_size=1,
            max_size=4,
        ),
        foreign(strategies.pods(), strategies.NODES),
        recomputation.counts,
    ),
}


def about_others(
    builder: batch_builder.BatchBuilder, steps: Iterable[batch_builder.Step], appended: list[events.AnyEvent]
) -> list[events.AnyEvent]:
    """The events that are about no pod of the batch."""
    own = {uid for fact in builder.facts for uid in event_subjects.pods_about(fact)}
    own |= {step.uid for step in steps if isinstance(step, reflectors.Gone)}
    return [event for event in appended if own.isdisjoint(event_subjects.pods_about(event))]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@given(data=st.data())
@settings(max_examples=sizes.examples(60), deadline=None)
def test_the_counts_behind_what_others_appended_are_those_of_the_log(
    family: Family, data: st.DataObject
) -> None:
    log = list(data.draw(family.happened))
    start = projections.project_all(EMPTY, log)
    stored = Counter(start.counts)
    builder = batch_builder.BatchBuilder(start)
    steps = data.draw(family.steps)
    builder.fill(steps, 0)
    for appended in data.draw(family.others):
        builder.batch({})  # An attempt, which the others overtake.
        meanwhile = about_others(builder, steps, appended)
        others = projections.Projection(projections.project_all(EMPTY, log))
        others.apply_all(meanwhile)
        stored.update(others.increments)
        log += meanwhile
        assert builder.follow(meanwhile)
    assert builder.guard(logs.NO_GUARD, optimistic=True).head == len(log)
    stored.update(builder.batch({}).increments)
    end = EMPTY
    for event in (*log, *builder.facts):
        end = projections.project(end, event)
    assert {key: count for key, count in stored.items() if count} == family.counts(end)


NODE = model.Node(name="n", uid="n")
POD = model.Pod(uid="u", namespace="blue", name="p")
OTHER = model.Pod(uid="v", namespace="blue", name="q")


@pytest.mark.parametrize(
    "event",
    [
        events.placed(POD, "n"),
        events.PlacementsCommitted(placements=(model.Placement(OTHER, "n"), model.Placement(POD, "n"))),
        events.gone(POD),
        events.PodSeen(pod=POD),
        events.NodeSeen(node=model.Node(name="m", uid="m")),
        events.FlagSet(flag=model.Flag(name="s", value="1")),
        declared.POLICIES.gone("blue", "p", "1"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_batch_is_built_again_behind_anything_but_events_about_other_pods(event: events.AnyEvent) -> None:
    builder = batch_builder.BatchBuilder(EMPTY)
    builder.fill([NODE, POD], 0)
    assert builder.shared
    assert not builder.follow([events.placed(OTHER, "n"), event])
    assert builder.guard(logs.NO_GUARD, optimistic=False).head == EMPTY.offset
    assert builder.follow([events.placed(OTHER, "n")])


def test_a_batch_is_built_again_if_others_place_a_pod_whose_end_it_left_out() -> None:
    builder = batch_builder.BatchBuilder(EMPTY)
    builder.fill([NODE, reflectors.Gone(kinds.PODS, uid="u", namespace="blue", name="p", version="8")], 0)
    assert [type(fact) for fact in builder.facts] == [events.NodeSeen]
    assert not builder.follow([events.placed(POD, "n")])
    assert builder.follow([events.placed(OTHER, "n")])
