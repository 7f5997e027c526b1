"""Laws of every answer to preempt, for any cluster and offer.

Out of scope: its JSON (tests/api) and that kube-scheduler can live with it (tests/e2e).
"""

from hypothesis import event, given, settings
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.framework import cycles, pipeline, registry
from app.verbs.preemption import offers
from tests.support.decisions import cluster_strategies, small_clusters

UIDS = st.sampled_from([*(small_clusters.pod(f"p{number}").uid for number in range(12)), "unknown"])
REGISTRIES = st.sampled_from([cluster_strategies.PLUGINS[10], cluster_strategies.SELECTED[10]])
ANY = st.dictionaries(cluster_strategies.names, st.lists(UIDS, unique=True, max_size=3), max_size=3)


@st.composite
def situations(draw: st.DrawFn) -> tuple[snapshots.Snapshot, offers.Offer]:
    """A cluster, and an offer: mostly less important pods of each node, as kube-scheduler's; and anything."""
    world, offer = draw(cluster_strategies.worlds()), dict(draw(ANY))
    labels, priorities = st.sampled_from([small_clusters.REPLICA, {}]), st.sampled_from([0, 0, 0, 1])
    elsewhere: list[model.Uid] = []
    for node in sorted(world.nodes):
        there = [
            small_clusters.pod(f"{node}-{number}", draw(labels), node=node, priority=draw(priorities))
            for number in range(draw(st.integers(0, 2)))
        ]
        world = projections.project_all(world, [events.PodSeen(pod=pod) for pod in there])
        if there:
            uids = [pod.uid for pod in there]
            listed = draw(st.lists(st.sampled_from(uids), unique=True, min_size=1))
            offer[node] = [*listed, *elsewhere[-1:]] if draw(st.integers(0, 5)) == 5 else listed
            elsewhere += uids
    return world, offer


def objections(
    world: snapshots.Snapshot, offer: offers.Offer, plugins: registry.Registry
) -> dict[model.NodeName, str | None]:
    """Node -> why it is dropped; None if it is kept."""
    base = cycles.cycle(cluster_strategies.ASKING, frozenset(offer), world)
    answer = offers.judge(plugins, base, offer)
    assert not answer.kept.keys() & answer.dropped.keys()
    return {node: None if node in answer.kept else answer.dropped[node] for node in offer}


@cluster_strategies.unhurried
@given(situation=situations(), plugins=REGISTRIES)
def test_no_node_is_kept_whose_victims_stop_the_scheduler(
    situation: tuple[snapshots.Snapshot, offers.Offer], plugins: registry.Registry
) -> None:
    world, offer = situation
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
@given(situation=situations(), plugins=REGISTRIES)
def test_no_eviction_is_for_nothing(
    situation: tuple[snapshots.Snapshot, offers.Offer], plugins: registry.Registry
) -> None:
    world, offer = situation
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
@given(situation=situations(), plugins=REGISTRIES)
def test_the_answer_to_one_node_does_not_depend_on_the_others(
    situation: tuple[snapshots.Snapshot, offers.Offer], plugins: registry.Registry
) -> None:
    world, offer = situation
    assert objections(world, offer, plugins) == {
        node: objections(world, {node: uids}, plugins)[node] for node, uids in offer.items()
    }


def test_many_nodes_are_kept() -> None:
    """Else the laws would hold of a verb that keeps none."""
    kept, dropped = 0, 0

    @settings(max_examples=200, deadline=None, database=None, derandomize=True)
    @given(situation=situations())
    def judged(situation: tuple[snapshots.Snapshot, offers.Offer]) -> None:
        nonlocal kept, dropped
        reasons = objections(*situation, cluster_strategies.PLUGINS[10]).values()
        kept += sum(reason is None for reason in reasons)
        dropped += sum(reason is not None for reason in reasons)

    judged()
    assert kept > 20
    assert dropped > 20
