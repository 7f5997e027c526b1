"""Laws of the in-tree plugins over generated clusters: reasons, bounds, independence of order."""

import dataclasses
import random

from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots, verdicts
from app.framework import cycles, pipeline, registry
from app.plugins.job_affinity.plugin import JobAffinity
from app.plugins.workload_policy import policy_counts, policy_model
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support import declared
from tests.support.decisions import commitments, small_clusters
from tests.support.decisions.cluster_strategies import (
    ASKING,
    DAEMON,
    PLUGINS,
    SELECTED,
    UNLABELLED,
    candidates,
    names,
    pods_asking,
    settings_of,
    unhurried,
    worlds,
)


def filtered(
    world: snapshots.Snapshot,
    offered: frozenset[str],
    chosen: dict[int, registry.Registry] = PLUGINS,
    asking: model.Pod = ASKING,
) -> dict[str, str]:
    """Refused candidate -> reason."""
    return pipeline.run_filter(chosen[10], cycles.cycle(asking, offered, world)).reasons()


@unhurried
@given(world=worlds(), one=candidates, two=candidates, chosen=settings_of, asking=pods_asking)
def test_the_reason_does_not_depend_on_the_candidates(
    world: snapshots.Snapshot,
    one: frozenset[str],
    two: frozenset[str],
    chosen: dict[int, registry.Registry],
    asking: model.Pod,
) -> None:
    first, second = filtered(world, one, chosen, asking), filtered(world, two, chosen, asking)
    assert len({*first.values(), *second.values()}) <= 1
    assert first.keys() & two == second.keys() & one


@unhurried
@given(world=worlds(), offered=candidates, chosen=settings_of, asking=pods_asking)
def test_a_node_is_judged_alone_as_among_others(
    world: snapshots.Snapshot,
    offered: frozenset[str],
    chosen: dict[int, registry.Registry],
    asking: model.Pod,
) -> None:
    alone = [filtered(world, frozenset((name,)), chosen, asking) for name in offered]
    assert {name: why for one in alone for name, why in one.items()} == filtered(
        world, offered, chosen, asking
    )


@unhurried
@given(
    world=worlds(),
    offered=candidates,
    name=names,
    labels=st.sampled_from([{}, {"x": "y"}]),
    chosen=settings_of,
    asking=pods_asking,
)
def test_an_event_without_effect_on_counts_changes_no_reason(
    world: snapshots.Snapshot,
    offered: frozenset[str],
    name: str,
    labels: dict[str, str],
    chosen: dict[int, registry.Registry],
    asking: model.Pod,
) -> None:
    before = filtered(world, offered, chosen, asking)
    noise: list[events.AnyEvent] = [
        events.PodSeen(pod=small_clusters.pod("noise", labels, node=name, namespace="elsewhere")),
        events.PodSeen(pod=small_clusters.pod("pending", small_clusters.REPLICA)),
        events.Relisted(kind="pods", since="1", until="2", reason="test"),
    ]
    assert filtered(projections.project_all(world, noise), offered, chosen, asking) == before


@unhurried
@given(world=worlds(), offered=candidates, chosen=settings_of, asking=pods_asking)
def test_only_candidates_are_refused_and_details_cover_them(
    world: snapshots.Snapshot,
    offered: frozenset[str],
    chosen: dict[int, registry.Registry],
    asking: model.Pod,
) -> None:
    trace = pipeline.run_filter(chosen[10], cycles.cycle(asking, offered, world))
    assert trace.refused <= offered
    for refusal in trace.refusals:
        assert refusal.nodes
        groups = list(refusal.details.values())
        assert not groups or frozenset().union(*groups) == refusal.nodes


@unhurried
@given(
    world=worlds(),
    offered=candidates,
    score_max=st.sampled_from(sorted(PLUGINS)),
    chosen=settings_of,
    asking=pods_asking,
)
def test_scores_are_within_bounds_and_of_candidates(
    world: snapshots.Snapshot,
    offered: frozenset[str],
    score_max: int,
    chosen: dict[int, registry.Registry],
    asking: model.Pod,
) -> None:
    cycle = cycles.cycle(asking, offered, world, score_max=score_max)
    for rating in pipeline.run_score(chosen[score_max], cycle).ratings:
        seen: list[str] = []
        for score, nodes in rating.groups.items():
            assert 0 < score <= score_max
            assert nodes <= offered
            seen += nodes
        assert len(seen) == len(set(seen)), "a node has one score"
        assert frozenset(seen) == frozenset().union(*rating.details.values())


@unhurried
@given(world=worlds(), offered=candidates, seed=st.integers(), chosen=settings_of, asking=pods_asking)
def test_the_order_of_candidates_has_no_effect(
    world: snapshots.Snapshot,
    offered: frozenset[str],
    seed: int,
    chosen: dict[int, registry.Registry],
    asking: model.Pod,
) -> None:
    shuffled = sorted(offered)
    random.Random(seed).shuffle(shuffled)
    straight, other = (cycles.cycle(asking, frozenset(some), world) for some in (sorted(offered), shuffled))
    one, two = pipeline.run(chosen[10], straight), pipeline.run(chosen[10], other)
    assert one == two
    assert pipeline.best(chosen[10], straight, one) == pipeline.best(chosen[10], other, two)


@unhurried
@given(world=worlds(), offered=candidates)
def test_a_full_required_domain_is_always_refused(world: snapshots.Snapshot, offered: frozenset[str]) -> None:
    policy = world.get(declared.POLICIES, f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}")
    kept = offered - filtered(world, offered).keys()
    if policy is None or policy.errors:
        assert not kept
        return
    for name in offered:
        domain = world.nodes[name].labels.get(small_clusters.KEY) if name in world.nodes else None
        desired = None if domain is None else policy.desired(domain)
        count = 0 if domain is None else policy_counts.count(world, policy, domain)
        if policy.required and (desired is None or count >= desired):
            assert name not in kept
        if not policy.required:
            assert (name in kept) is (desired is not None or not policy.strict_domains)


def refuses(policy: policy_model.WorkloadPolicy, world: snapshots.Snapshot, name: str) -> bool:
    """Whether a Required policy refuses a node, computed from the counts alone."""
    labels = world.nodes[name].labels if name in world.nodes else {}
    desired = policy.desired(labels.get(policy.topology_key, ""))
    return desired is None or policy_counts.count(world, policy, labels[policy.topology_key]) >= desired


@unhurried
@given(
    world=worlds(),
    offered=candidates,
    asking=st.sampled_from([UNLABELLED, DAEMON]),
)
def test_a_pod_that_names_no_policy_is_limited_by_selection_alone(
    world: snapshots.Snapshot, offered: frozenset[str], asking: model.Pod
) -> None:
    assert not filtered(world, offered, PLUGINS, asking)
    # The selectors drawn have labels alone. Nominated pods are counted first, so more may be refused.
    hard = [
        policy
        for policy in world.all(declared.POLICIES).values()
        if policy.required and not policy.errors and policy.selector.labels.items() <= asking.labels.items()
    ]
    must = {name for name in offered if any(refuses(policy, world, name) for policy in hard)}
    refused = filtered(world, offered, SELECTED, asking).keys()
    assert refused >= must
    if not world.nominated:
        assert refused == must


@unhurried
@given(world=worlds(), offered=candidates)
def test_a_selecting_policy_refuses_independently_of_the_named_one(
    world: snapshots.Snapshot, offered: frozenset[str]
) -> None:
    assert filtered(world, offered, SELECTED).keys() >= filtered(world, offered, PLUGINS).keys()


@unhurried
@given(world=worlds(), name=names, asking=pods_asking)
def test_every_required_count_that_a_placement_raises_has_its_ceiling(
    world: snapshots.Snapshot, name: str, asking: model.Pod
) -> None:
    cycle = cycles.cycle(asking, frozenset((name,)), world)
    projection = projections.Projection(cycle.snapshot)
    projection.apply(events.placed(asking, name))
    raised = {key for key, by in projection.increments.items() if by > 0}
    hard = {
        f"{policy.key}|{policy.topology_key}={domain}": policy.desired(domain) or 0
        for policy in world.all(declared.POLICIES).values()
        if policy.required and not policy.errors
        for domain in ("a", "b", "c", "r-a", "r-b", "r-c")
    }
    own = f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}"
    named = world.get(declared.POLICIES, own)
    followed = asking is ASKING and named is not None and not named.errors
    expected = {key: hard[key] for key in raised & hard.keys()}
    of_own = {key: top for key, top in expected.items() if followed and key.partition("|")[0] == own}
    assert ceilings(PLUGINS, cycle, name, raised) == of_own
    if followed or asking is not ASKING:
        assert ceilings(SELECTED, cycle, name, raised) == expected


def ceilings(
    chosen: dict[int, registry.Registry], cycle: cycles.Cycle, node: str, raised: set[str]
) -> dict[str, int]:
    claim = commitments.of(chosen[10], cycle, node)
    return {key: top for key, top in claim.ceilings.items() if key in raised}


@unhurried
@given(
    world=worlds(),
    offered=candidates,
    plugins=st.sampled_from([PLUGINS[10], SELECTED[10]]),
)
def test_the_chosen_node_is_one_of_the_best_kept(
    world: snapshots.Snapshot, offered: frozenset[str], plugins: registry.Registry
) -> None:
    cycle = cycles.cycle(ASKING, offered, world)
    trace = pipeline.run(plugins, cycle)
    chosen = pipeline.best(plugins, cycle, trace)
    if chosen is None:
        assert not trace.kept
    else:
        assert chosen in trace.kept
        assert trace.score_of(chosen) == max(trace.score_of(node) for node in trace.kept)


@unhurried
@given(world=worlds(), offered=candidates)
def test_ranks_only_break_ties(world: snapshots.Snapshot, offered: frozenset[str]) -> None:
    unranked = registry.Registry([JobAffinity(grades=(("rack", 6), (small_clusters.KEY, 3))), Rankless()])
    cycle = cycles.cycle(ASKING, offered, world)
    one, two = pipeline.run(PLUGINS[10], cycle), pipeline.run(unranked, cycle)
    assert one.totals == two.totals
    chosen, other = (
        pipeline.best(PLUGINS[10], cycle, one),
        pipeline.best(unranked, cycle, two),
    )
    assert (chosen is None) == (other is None)
    if chosen is not None and other is not None:
        assert one.score_of(chosen) == one.score_of(other)


@dataclasses.dataclass(frozen=True, slots=True)
class Rankless:
    """A workload policy without its ranks."""

    policy: WorkloadPolicy = dataclasses.field(default_factory=WorkloadPolicy)
    name: str = "WorkloadPolicy"

    def interested(self, pod: model.Pod) -> bool:
        return self.policy.interested(pod)

    def filter(self, cycle: cycles.Cycle) -> verdicts.Refusal | None:
        return self.policy.filter(cycle)

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        return self.policy.score(cycle)
