"""What holds for every cluster: sentences, bounds, and that order means nothing."""

import dataclasses
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import events, model, projecting, snapshots, verdicts
from app.framework import cycles, registry, running
from app.plugins.job_affinity.plugin import JobAffinity
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.scenarios import clusters

DOMAINS = ("a", "b", "c", None)
GROUP = "rl-job-group"
unhurried = settings(max_examples=100, deadline=None)
names = st.sampled_from([f"n{number}" for number in range(12)])


@st.composite
def nodes(draw: st.DrawFn) -> list[model.Node]:
    found = draw(st.lists(names, unique=True, max_size=12))
    domains = draw(st.lists(st.sampled_from(DOMAINS), min_size=len(found), max_size=len(found)))
    return [
        clusters.node(name, {} if domain is None else {clusters.KEY: domain, "rack": f"r-{domain}"})
        for name, domain in zip(found, domains, strict=True)
    ]


@st.composite
def policies(draw: st.DrawFn) -> model.WorkloadPolicy:
    listed = draw(st.lists(st.sampled_from(["a", "b", "d"]), unique=True, min_size=1))
    return clusters.policy(
        {domain: draw(st.integers(0, 4)) for domain in listed},
        required=draw(st.booleans()),
        method=draw(st.sampled_from(["Fill", "Balance"])),
        strict=draw(st.booleans()),
        errors=draw(st.sampled_from([(), (), (), ("broken",)])),
    )


@st.composite
def pods(draw: st.DrawFn) -> list[model.Pod]:
    count = draw(st.integers(0, 12))
    return [
        clusters.pod(
            f"p{number}",
            {**draw(st.sampled_from([clusters.REPLICA, {}])), GROUP: draw(st.sampled_from(["x", "y", ""]))},
            node=draw(st.one_of(st.just(""), names)),
            nominated=draw(st.one_of(st.just(""), names)),
            priority=draw(st.integers(0, 2)),
            terminating=draw(st.booleans()),
            namespace=draw(st.sampled_from([clusters.NAMESPACE, clusters.NAMESPACE, "other"])),
        )
        for number in range(count)
    ]


@st.composite
def worlds(draw: st.DrawFn) -> snapshots.Snapshot:
    facts: list[events.AnyEvent] = [events.NodeSeen(node=node) for node in draw(nodes())]
    if draw(st.integers(0, 5)):
        facts.append(events.PolicySeen(policy=draw(policies())))
    facts += [events.PodSeen(pod=pod) for pod in draw(pods())]
    return projecting.project_all(snapshots.empty(indexed=PLUGINS[10].indexed()), facts)


def plugins(score_max: int) -> registry.Registry:
    return registry.Registry(
        [JobAffinity(grades=(("rack", 6), (clusters.KEY, 3))), WorkloadPolicy()], score_max=score_max
    )


PLUGINS = {score_max: plugins(score_max) for score_max in (1, 10, 100)}
ASKING = clusters.pod("asking", {**clusters.REPLICA, GROUP: "x"}, priority=1)
candidates = st.frozensets(names)


def filtered(world: snapshots.Snapshot, offered: frozenset[str]) -> dict[str, str]:
    """Refused candidate -> reason."""
    return running.run_filter(PLUGINS[10], cycles.cycle(ASKING, offered, world)).reasons()


@unhurried
@given(world=worlds(), one=candidates, two=candidates)
def test_the_sentence_depends_on_no_candidate(
    world: snapshots.Snapshot, one: frozenset[str], two: frozenset[str]
) -> None:
    first, second = filtered(world, one), filtered(world, two)
    assert len({*first.values(), *second.values()}) <= 1
    assert first.keys() & two == second.keys() & one


@unhurried
@given(world=worlds(), offered=candidates, name=names, labels=st.sampled_from([{}, {"x": "y"}]))
def test_what_changes_no_count_changes_no_sentence(
    world: snapshots.Snapshot, offered: frozenset[str], name: str, labels: dict[str, str]
) -> None:
    before = filtered(world, offered)
    noise: list[events.AnyEvent] = [
        events.PodSeen(pod=clusters.pod("noise", labels, node=name, namespace="elsewhere")),
        events.PodSeen(pod=clusters.pod("pending", clusters.REPLICA)),
        events.Relisted(kind="pods", since="1", until="2", reason="test"),
    ]
    assert filtered(projecting.project_all(world, noise), offered) == before


@unhurried
@given(world=worlds(), offered=candidates)
def test_only_candidates_are_refused_and_details_cover_them(
    world: snapshots.Snapshot, offered: frozenset[str]
) -> None:
    trace = running.run_filter(PLUGINS[10], cycles.cycle(ASKING, offered, world))
    assert trace.refused <= offered
    for refusal in trace.refusals:
        assert refusal.nodes
        groups = list(refusal.details.values())
        assert not groups or frozenset().union(*groups) == refusal.nodes


@unhurried
@given(world=worlds(), offered=candidates, score_max=st.sampled_from(sorted(PLUGINS)))
def test_scores_are_within_bounds_and_of_candidates(
    world: snapshots.Snapshot, offered: frozenset[str], score_max: int
) -> None:
    cycle = cycles.cycle(ASKING, offered, world, score_max=score_max)
    for rating in running.run_score(PLUGINS[score_max], cycle).ratings:
        seen: list[str] = []
        for score, nodes in rating.groups.items():
            assert 0 < score <= score_max
            assert nodes <= offered
            seen += nodes
        assert len(seen) == len(set(seen)), "a node has one score"
        assert frozenset(seen) == frozenset().union(*rating.details.values())


@unhurried
@given(world=worlds(), offered=candidates, seed=st.integers())
def test_the_order_of_candidates_means_nothing(
    world: snapshots.Snapshot, offered: frozenset[str], seed: int
) -> None:
    shuffled = sorted(offered)
    random.Random(seed).shuffle(shuffled)
    straight, other = (cycles.cycle(ASKING, frozenset(some), world) for some in (sorted(offered), shuffled))
    one, two = running.run(PLUGINS[10], straight), running.run(PLUGINS[10], other)
    assert one == two
    assert running.best(PLUGINS[10], straight, one) == running.best(PLUGINS[10], other, two)


@unhurried
@given(world=worlds(), offered=candidates)
def test_a_required_domain_that_is_reached_is_always_refused(
    world: snapshots.Snapshot, offered: frozenset[str]
) -> None:
    policy = world.policies.get(f"{clusters.NAMESPACE}/{clusters.POLICY}")
    kept = offered - filtered(world, offered).keys()
    if policy is None or policy.errors:
        assert not kept
        return
    for name in offered:
        domain = world.nodes[name].labels.get(clusters.KEY) if name in world.nodes else None
        desired = None if domain is None else policy.desired(domain)
        count = 0 if domain is None else world.count(policy, domain)
        if policy.required and (desired is None or count >= desired):
            assert name not in kept
        if not policy.required:
            assert (name in kept) is (desired is not None or not policy.strict_domains)


@unhurried
@given(world=worlds(), offered=candidates)
def test_the_chosen_node_is_one_of_the_best_kept(world: snapshots.Snapshot, offered: frozenset[str]) -> None:
    cycle = cycles.cycle(ASKING, offered, world)
    trace = running.run(PLUGINS[10], cycle)
    chosen = running.best(PLUGINS[10], cycle, trace)
    if chosen is None:
        assert not trace.kept
    else:
        assert chosen in trace.kept
        assert trace.score_of(chosen) == max(trace.score_of(node) for node in trace.kept)


@unhurried
@given(world=worlds(), offered=candidates)
def test_ranks_only_break_ties(world: snapshots.Snapshot, offered: frozenset[str]) -> None:
    unranked = registry.Registry([JobAffinity(grades=(("rack", 6), (clusters.KEY, 3))), Rankless()])
    cycle = cycles.cycle(ASKING, offered, world)
    one, two = running.run(PLUGINS[10], cycle), running.run(unranked, cycle)
    assert one.totals == two.totals
    chosen, other = running.best(PLUGINS[10], cycle, one), running.best(unranked, cycle, two)
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
