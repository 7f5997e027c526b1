"""Laws of every answer to preempt, for any cluster and offer.

Out of scope: its JSON (tests/api) and that kube-scheduler can live with it (tests/e2e).
"""

from hypothesis import event, given
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.framework import cycles, pipeline, registry
from app.verbs import preempting
from tests.support.decisions import cluster_strategies, small_clusters

UIDS = st.sampled_from([*(small_clusters.pod(f"p{number}").uid for number in range(12)), "unknown"])
REGISTRIES = st.sampled_from([cluster_strategies.PLUGINS[10], cluster_strategies.SELECTED[10]])
OFFERS = st.dictionaries(cluster_strategies.names, st.lists(UIDS, unique=True, max_size=3), max_size=6)


def objections(
    world: snapshots.Snapshot, offer: preempting.Offer, plugins: registry.Registry
) -> dict[model.NodeName, str | None]:
    """Node -> why it is dropped; None if it is kept."""
    base = cycles.cycle(cluster_strategies.ASKING, frozenset(offer), world)
    answer = preempting.judge(plugins, base, offer)
    assert not answer.kept.keys() & answer.dropped.keys()
    return {node: None if node in answer.kept else answer.dropped[node] for node in offer}


@cluster_strategies.unhurried
@given(world=cluster_strategies.worlds(), offer=OFFERS, plugins=REGISTRIES)
def test_no_node_is_kept_whose_victims_stop_the_scheduler(
    world: snapshots.Snapshot, offer: preempting.Offer, plugins: registry.Registry
) -> None:
    for node, reason in objections(world, offer, plugins).items():
        if reason is None:
            # A node without victims, or with one elsewhere, fails the preemption (extender contract, 10, 11).
            assert offer[node]
            assert {world.node_of(uid) for uid in offer[node]} <= {"", node}
            # kube-scheduler evicts whatever is listed (extender contract, 11).
            known = [pod for uid in offer[node] if (pod := world.pod(uid)) is not None]
            assert all(pod.priority < cluster_strategies.ASKING.priority for pod in known)
            assert len(known) == len(offer[node]) or not plugins.concerned(cluster_strategies.ASKING, world)


@cluster_strategies.unhurried
@given(world=cluster_strategies.worlds(), offer=OFFERS, plugins=REGISTRIES)
def test_no_eviction_is_for_nothing(
    world: snapshots.Snapshot, offer: preempting.Offer, plugins: registry.Registry
) -> None:
    # After the eviction kube-scheduler asks filter for that node alone; were it refused there, it would
    # evict on the next one (extender contract, 10).
    for node, reason in objections(world, offer, plugins).items():
        known = [pod for uid in offer[node] if (pod := world.pod(uid)) is not None]
        gone = [events.gone(pod) for pod in known]
        after = projections.project_all(world, gone)
        cycle = cycles.cycle(cluster_strategies.ASKING, frozenset((node,)), after)
        refused = pipeline.run_filter(plugins, cycle).refused
        event(f"{'kept' if reason is None else 'dropped'}, {'refused' if refused else 'accepted'} afterwards")
        if reason is None:
            assert not refused
        elif offer[node] and {world.node_of(uid) for uid in offer[node]} <= {"", node}:
            # And none that would help is kept from it, of pods that the pod may preempt.
            spared = any(pod.priority >= cluster_strategies.ASKING.priority for pod in known)
            assert refused or node not in world.nodes or spared or len(known) < len(offer[node])


@cluster_strategies.unhurried
@given(world=cluster_strategies.worlds(), offer=OFFERS, plugins=REGISTRIES)
def test_the_answer_to_one_node_does_not_depend_on_the_others(
    world: snapshots.Snapshot, offer: preempting.Offer, plugins: registry.Registry
) -> None:
    assert objections(world, offer, plugins) == {
        node: objections(world, {node: uids}, plugins)[node] for node, uids in offer.items()
    }
