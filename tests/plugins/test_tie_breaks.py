"""Ranks among equal scores, grades of distance, and pods that pass while the store is unavailable."""

import collections
import fractions
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections, selectors, snapshots
from app.domain.fold import recounts
from app.framework import cycles
from app.plugins.job_affinity.plugin import JobAffinity
from app.plugins.workload_policy import kinds, logic, policy_counts, tie_breaks
from app.plugins.workload_policy.plugin import WorkloadPolicy
from tests.support import declared
from tests.support.decisions import cluster_strategies, scheduling_driver, small_clusters

NEXT = small_clusters.pod("next", small_clusters.REPLICA)


def held(cluster: scheduling_driver.Cluster, counts: dict[str, int]) -> scheduling_driver.Cluster:
    """The cluster with this number of pods of the policy on each node."""
    for node, count in counts.items():
        cluster.see(
            *(small_clusters.pod(f"{node}-{n}", small_clusters.REPLICA, node=node) for n in range(count))
        )
    return cluster


@pytest.mark.parametrize(
    ("method", "chosen"), [("Fill", "cnp-paas-ecsc-006"), ("Balance", "cnp-paas-ecsc-009")]
)
def test_inside_a_domain_the_method_chooses_the_node(method: str, chosen: str) -> None:
    cluster = scheduling_driver.Cluster(
        *small_clusters.f6(), small_clusters.policy({"host": 9}, method=method)
    )
    held(cluster, dict(zip(small_clusters.HOSTS, (1, 2, 1, 0), strict=True)))
    # Other pods and terminating pods on the nodes have no effect.
    cluster.see(*(small_clusters.pod(f"unrelated-{n}", node="cnp-paas-ecsc-009") for n in range(5)))
    cluster.see(
        small_clusters.pod("ending", small_clusters.REPLICA, node="cnp-paas-ecsc-009", terminating=True)
    )
    assert cluster.only(NEXT) == chosen
    assert cluster.only(NEXT, [chosen, *small_clusters.MEMBERS]) == chosen


def test_ranks_are_the_same_by_either_iteration() -> None:
    """Pods are iterated by node if the namespace is much larger than the choice, otherwise by pod."""
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy({"host": 99}))
    held(cluster, dict(zip(small_clusters.HOSTS, (20, 10, 5, 30), strict=True)))
    nodes = frozenset(small_clusters.HOSTS[:2])
    cycle = cycles.cycle(NEXT, nodes, cluster.snapshot)
    few = WorkloadPolicy().rank(cycle, nodes)
    all_of_them = WorkloadPolicy().rank(cycle, frozenset(cluster.snapshot.nodes))
    assert [few[node] for node in small_clusters.HOSTS[:2]] == [
        all_of_them[node] for node in small_clusters.HOSTS[:2]
    ]
    assert few[small_clusters.HOSTS[0]] - few[small_clusters.HOSTS[1]] == 10


@cluster_strategies.unhurried
@given(world=cluster_strategies.worlds(), pod=cluster_strategies.pods_asking, data=st.data())
def test_the_best_rank_is_that_of_the_first_domain_and_of_the_method_inside_it(
    world: snapshots.Snapshot, pod: model.Pod, data: st.DataObject
) -> None:
    """As computed for each node from the pods on it."""
    nodes = frozenset(name for name in world.nodes if data.draw(st.booleans()))
    policy = logic.followed(world, pod)
    ranks = WorkloadPolicy().rank(cycles.cycle(pod, nodes, world), nodes)
    if isinstance(policy, logic.Objection) or not nodes:
        assert not ranks
        return
    fill = policy.method == "Fill"

    def place(name: str) -> tuple[int, fractions.Fraction, int]:
        domain = world.nodes[name].labels.get(policy.topology_key, "")
        counted = [
            one
            for one in world.pods.values()
            if one.node == name
            and one.counted
            and one.namespace == policy.namespace
            and selectors.matches(policy.selector, one.labels)
        ]
        held = -len(counted) if fill else len(counted)
        desired, count = policy.desired(domain), policy_counts.count(world, policy, domain)
        if desired is None:
            return 2, fractions.Fraction(0), held
        if not desired:
            return 3, fractions.Fraction(count), held
        ratio = fractions.Fraction(count, desired)
        return (1, ratio, held) if count >= desired else (0, -ratio if fill else ratio, held)

    lowest = min(ranks.get(name, 0) for name in nodes)
    first = min(map(place, nodes))
    assert {name for name in nodes if ranks.get(name, 0) == lowest} == {
        name for name in nodes if place(name) == first
    }


PODS = [f"p{number}" for number in range(6)]


@st.composite
def changes(draw: st.DrawFn) -> events.AnyEvent:
    """An event about a node, a pod or a policy, each of which exists or not."""
    name, host = draw(st.sampled_from(PODS)), draw(st.sampled_from(small_clusters.HOSTS))
    labels = draw(st.sampled_from([small_clusters.REPLICA, small_clusters.REPLICA, {"app": "other"}]))
    about = small_clusters.pod(name, labels)
    match draw(
        st.sampled_from(
            [*("seen", "seen", "placed", "placed", "gone", "released", "node", "away"), "policy", "dropped"]
        )
    ):
        case "placed":
            return events.placed(about, host)
        case "gone":
            return events.PodGone(uid=about.uid, namespace=about.namespace, name=name)
        case "released":
            return events.not_placed(about, host)
        case "node":
            domain = draw(st.sampled_from(["host", "member", ""]))
            return events.NodeSeen(
                node=small_clusters.node(host, {small_clusters.KEY: domain} if domain else {})
            )
        case "away":
            return events.NodeGone(name=host, uid=f"uid-{host}")
        case "policy":
            quotas = draw(st.sampled_from([{"host": 50}, {"host": 50, "member": 10}, {"without nodes": 50}]))
            selector = draw(st.sampled_from([None, None, model.Selector()]))
            return declared.observed(small_clusters.policy(quotas, selector=selector))
        case "dropped":
            known = small_clusters.policy()
            return kinds.POLICIES.gone(known.namespace, known.name, known.uid)
    return events.PodSeen(
        pod=small_clusters.pod(
            name,
            labels,
            node=draw(st.sampled_from(["", host])),
            terminating=draw(st.sampled_from([False, False, True])),
            phase=draw(st.sampled_from(["", "", "Succeeded"])),
        )
    )


@cluster_strategies.unhurried
@given(data=st.data())
def test_ranks_follow_the_pods_of_every_state(data: st.DataObject) -> None:
    """What the former state had is used for the next one: also in a past or a hypothetical state."""
    first: list[events.AnyEvent] = [
        *map(seen_node, small_clusters.f6()),
        declared.observed(small_clusters.policy({"host": 50})),
    ]
    states = [projections.project_all(snapshots.empty(schema=declared.SCHEMA), first)]
    for _ in range(data.draw(st.integers(1, 12))):
        state = data.draw(st.sampled_from(states[-3:]))
        state = projections.project_all(state, data.draw(st.lists(changes(), max_size=3)))
        states.append(state)
        if not data.draw(st.integers(0, 3)):
            continue
        nodes = frozenset(state.nodes)
        ranks = WorkloadPolicy().rank(cycles.cycle(NEXT, nodes, state), nodes)
        policy = declared.policies(state).get(f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}")
        if policy is None:
            assert not ranks
            continue
        counted = collections.Counter(
            state.node_of(uid)
            for uid in {*state.pods, *state.placements}
            if (pod := state.pod(uid)) is not None
            and pod.counted
            and selectors.matches(policy.selector, pod.labels)
        )
        assert {node: rank + tie_breaks.STEP for node, rank in ranks.items()} == {
            node: counted[node] for node in ranks
        }


def test_pods_on_nodes_outside_of_every_domain_are_counted_again() -> None:
    """They raise no count, so that no count differs when they move."""
    cluster = scheduling_driver.Cluster(
        small_clusters.node("inside", {small_clusters.KEY: "member"}),
        *map(small_clusters.node, ("one", "other")),
        small_clusters.policy({"without nodes": 9}),
    )
    cluster.see(small_clusters.pod("counted", small_clusters.REPLICA, node="inside"))
    for node, free in (("one", "other"), ("other", "one")):
        cluster.see(small_clusters.pod("first", small_clusters.REPLICA, node=node))
        assert cluster.only(NEXT, ["one", "other"]) == free


def seen_node(node: model.Node) -> events.NodeSeen:
    return events.NodeSeen(node=node)


def test_of_the_pods_of_a_policy_only_those_that_changed_are_examined() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy({"host": 99}))
    held(cluster, dict(zip(small_clusters.HOSTS, (20, 10, 5, 30), strict=True)))
    assert cluster.only(NEXT) == small_clusters.HOSTS[2]
    for number in range(2 * recounts.LENGTH):
        full = small_clusters.HOSTS[number % 2]
        cluster.see(small_clusters.pod(f"further-{number}", small_clusters.REPLICA, node=full))
        with mock.patch.object(selectors, "matches", wraps=selectors.matches) as matches:
            assert cluster.only(NEXT) == small_clusters.HOSTS[2]
        assert matches.call_count < 10, number


def test_a_changed_quota_leaves_the_pods_of_a_policy_as_they_were_counted() -> None:
    """As in each state of a replay with another quota."""
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy({"host": 99}))
    held(cluster, dict(zip(small_clusters.HOSTS, (20, 10, 5, 30), strict=True)))
    assert cluster.only(NEXT) == small_clusters.HOSTS[2]
    for number in range(5):
        supposed = projections.project(
            cluster.snapshot, declared.observed(small_clusters.policy({"host": 100 + number}))
        )
        cycle = cycles.cycle(NEXT, frozenset(supposed.nodes), supposed)
        with mock.patch.object(selectors, "matches", wraps=selectors.matches) as matches:
            ranks = WorkloadPolicy().rank(cycle, cycle.candidates)
        assert matches.call_count < 10, number
        assert max(ranks, key=lambda node: ranks[node]) == small_clusters.HOSTS[3]
        cluster.see(
            small_clusters.pod(f"further-{number}", small_clusters.REPLICA, node=small_clusters.HOSTS[3])
        )


def test_another_selector_counts_other_pods() -> None:
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), small_clusters.policy({"host": 99}))
    held(cluster, dict(zip(small_clusters.HOSTS, (1, 1, 0, 0), strict=True)))
    cluster.see(small_clusters.pod("other", {"app": "other"}, node=small_clusters.HOSTS[0]))
    nodes = frozenset(small_clusters.HOSTS)
    for selector, counts in ((None, [1, 1, 0, 0]), (model.Selector(), [2, 1, 0, 0]), (None, [1, 1, 0, 0])):
        changed = declared.observed(small_clusters.policy({"host": 99}, selector=selector))
        state = projections.project(cluster.snapshot, changed)
        ranks = WorkloadPolicy().rank(cycles.cycle(NEXT, nodes, state), nodes)
        assert [ranks[node] + tie_breaks.STEP for node in small_clusters.HOSTS] == counts


def test_what_changed_while_a_policy_did_not_exist_is_counted_when_it_is_created_again() -> None:
    policy = small_clusters.policy({"host": 99})
    cluster = scheduling_driver.Cluster(*small_clusters.f6(), policy)
    held(cluster, dict(zip(small_clusters.HOSTS, (2, 0, 0, 0), strict=True)))
    nodes = frozenset(small_clusters.HOSTS)
    happened: tuple[events.AnyEvent, ...] = (
        kinds.POLICIES.gone(policy.namespace, policy.name, policy.uid),
        *(
            events.PodSeen(pod=small_clusters.pod(f"later-{number}", small_clusters.REPLICA, node=node))
            for number, node in enumerate(small_clusters.HOSTS[1:])
        ),
        declared.observed(policy),
    )
    state = cluster.snapshot
    for event in (None, *happened):
        state = state if event is None else projections.project(state, event)
        ranks = WorkloadPolicy().rank(cycles.cycle(NEXT, nodes, state), nodes)
    assert [ranks[node] + tie_breaks.STEP for node in small_clusters.HOSTS] == [2, 1, 1, 1]


def test_if_every_domain_is_full_the_lowest_ratio_comes_first() -> None:
    quotas = {"a": 1, "b": 4, "zero": 0}
    nodes = [small_clusters.node(name, {small_clusters.KEY: name}) for name in (*quotas, "unlisted")]
    cluster = scheduling_driver.Cluster(
        *nodes, small_clusters.node("unlabelled"), small_clusters.policy(quotas)
    )
    held(cluster, {"a": 2, "b": 5})
    assert set(cluster.score(NEXT).values()) == {0}
    assert cluster.only(NEXT) == "b"
    assert cluster.only(NEXT, ["a", "unlisted", "unlabelled", "zero"]) == "a"
    many = [small_clusters.pod(f"next-{n}", small_clusters.REPLICA) for n in range(20)]
    assert {cluster.only(pod, ["unlisted", "zero"]) for pod in many} == {"unlisted"}


@pytest.mark.parametrize(("method", "chosen"), [("Balance", "a"), ("Fill", "b")])
def test_the_exact_ratio_decides_between_equal_scores(method: str, chosen: str) -> None:
    nodes = [small_clusters.node(name, {small_clusters.KEY: name}) for name in ("a", "b")]
    cluster = scheduling_driver.Cluster(*nodes, small_clusters.policy({"a": 100, "b": 100}, method=method))
    held(cluster, {"a": 50, "b": 51})
    assert len(set(cluster.score(NEXT).values())) == 1
    assert cluster.only(NEXT) == chosen


GRADES = (("zone", 3), ("rack", 6))
WORKER = {"rl-job-group": "g"}


@pytest.mark.parametrize(
    ("score_max", "scores"), [(10, (10, 6, 3, 0)), (100, (100, 60, 30, 0)), (1, (1, 1, 0, 0))]
)
def test_grades_follow_the_scale(score_max: int, scores: tuple[int, ...]) -> None:
    places = {"here": ("z1", "r1"), "rack": ("z1", "r1"), "zone": ("z1", "r2"), "far": ("z2", "r3")}
    nodes = [small_clusters.node(name, {"zone": zone, "rack": rack}) for name, (zone, rack) in places.items()]
    cluster = scheduling_driver.Cluster(*nodes, configured=[JobAffinity(grades=GRADES)], score_max=score_max)
    cluster.see(small_clusters.pod("w1", WORKER, node="here"))
    found = cluster.score(small_clusters.pod("w2", WORKER))
    assert tuple(found[name] for name in places) == scores


def test_siblings_of_all_namespaces_on_request() -> None:
    for everywhere, score in ((False, 0), (True, 10)):
        cluster = scheduling_driver.Cluster(
            small_clusters.node("n"), configured=[JobAffinity(all_namespaces=everywhere)]
        )
        cluster.see(small_clusters.pod("w1", WORKER, namespace="other", node="n"))
        assert cluster.score(small_clusters.pod("w2", WORKER)) == {"n": score}


def test_another_label_can_name_the_group() -> None:
    cluster = scheduling_driver.Cluster(small_clusters.node("n"), configured=[JobAffinity(label="job")])
    cluster.see(small_clusters.pod("w1", {"job": "g"}, node="n"))
    assert cluster.score(small_clusters.pod("w2", {"job": "g"})) == {"n": 10}


def test_only_pods_under_known_preferences_pass_without_the_store() -> None:
    plugin = WorkloadPolicy()

    def soft(*things: scheduling_driver.Thing) -> bool:
        return plugin.soft(NEXT, scheduling_driver.Cluster(*things).snapshot)

    assert soft(small_clusters.policy())
    assert not soft(small_clusters.policy(required=True))
    assert not soft(small_clusters.policy(strict=True))
    assert not soft(small_clusters.policy(errors=("broken",)))
    assert not soft()
    assert not plugin.soft(NEXT, snapshots.empty(schema=declared.SCHEMA))
