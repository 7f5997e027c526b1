"""Runtimes that follow the changes of a log equal those that are computed from its state alone."""

from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.plugins.elastic_quota import admission, kinds, quota_counts
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.quota_model import Quota
from app.plugins.elastic_quota.trees import forests, membership, runtimes, usage
from tests.support import declared
from tests.support.decisions import small_quotas

NAMES = tuple("abcdefgh")
NODES = ("n1", "n2")
amounts = st.integers(0, 9)
rules = st.builds(runtimes.RuntimeRules, scale=st.booleans(), guarantee=st.booleans())


def quota(name: str, parent: str) -> st.SearchStrategy[Quota]:
    """A quota of small amounts, so that ties, full maxes and scaled mins are likely."""
    return st.builds(
        Quota,
        uid=st.just(name),
        namespace=st.just("quotas"),
        name=st.just(name),
        parent=st.just(parent),
        is_parent=st.just(True),
        lends=st.booleans(),
        min=st.fixed_dictionaries({"cpu": st.integers(0, 4)}),
        max=st.fixed_dictionaries({}, optional={"cpu": st.integers(4, 20), "memory": st.integers(0, 20_000)}),
        weight=st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 3)}),
    )


@st.composite
def trees(draw: st.DrawFn) -> list[Quota]:
    """Trees of any shape; every quota may have children."""
    names = NAMES[: draw(st.integers(2, len(NAMES)))]
    return [draw(quota(name, draw(st.sampled_from(["", *names[:at]])))) for at, name in enumerate(names)]


pods = st.builds(
    lambda number, name, cpu, memory: model.Pod(
        uid=f"{name}-{number}",
        namespace="apps",
        name=f"{name}-{number}",
        labels={membership.LABEL: name},
        requests={"cpu": cpu, "memory": memory << 10},
        phase="Pending",
    ),
    st.integers(0, 1),
    st.sampled_from(NAMES),
    amounts,
    amounts,
)
placements = st.builds(events.placed, pods, st.sampled_from(NODES))
changes = st.one_of(
    st.builds(events.PodSeen, pod=pods),
    placements,
    placements,
    st.builds(lambda pod: events.PodGone(uid=pod.uid, namespace="apps", name=pod.name), pods),
    st.builds(
        lambda pod: events.PlacementReleased(
            uid=pod.uid, namespace="apps", name=pod.name, node="n1", reason="", cause="refused"
        ),
        pods,
    ),
    st.builds(
        lambda name, cpu: events.NodeSeen(node=small_quotas.node(name, 0, allocatable={"cpu": cpu})),
        st.sampled_from(NODES),
        st.integers(0, 40),
    ),
)
edits = st.builds(lambda name: quota(name, ""), st.sampled_from(NAMES)).flatmap(lambda drawn: drawn)


def from_the_facts(snapshot: snapshots.Snapshot, rules: runtimes.RuntimeRules) -> runtimes.Runtimes:
    """The runtimes by the pods of the state, with nothing that was derived from it or from an earlier one."""
    grown = forests.grown(snapshot.all(kinds.QUOTAS).values())
    tree = grown.trees[""]
    requests = {name: dict.fromkeys(tree.resources, 0) for name in tree.names}
    used = {name: dict.fromkeys(tree.resources, 0) for name in tree.names}
    outside = dict.fromkeys(tree.resources, 0)
    for pod in filter(None, map(snapshot.pod, {*snapshot.pods, *snapshot.placements})):
        name, at = membership.of(pod, grown).name, snapshot.node_of(pod.uid)
        for resource, amount in quota_counts.requests(pod, grown, name).items():
            if name in requests:
                requests[name][resource] += amount
                used[name][resource] += amount if at else 0
            elif resource in outside:
                outside[resource] += amount if at else 0
    total: dict[str, int] = {}
    for node in snapshot.nodes.values():
        for resource, amount in node.allocatable.items():
            total[resource] = total.get(resource, -outside.get(resource, 0)) + amount
    return runtimes.derive(
        tree, total, small_quotas.columns(tree, requests), small_quotas.columns(tree, used), rules
    )


def shown(found: runtimes.Runtimes) -> dict[str, tuple[object, ...]]:
    """Everything that is derived, with all levels asked for."""
    return {
        resource: (
            line.total,
            line.child_requests,
            line.requests,
            line.limited,
            line.allocated,
            line.guaranteed,
            [line.division(at) for at in range(len(found.tree.quotas))],
            [line.runtime(at) for at in range(len(found.tree.quotas))],
        )
        for resource, line in found.lines.items()
    }


@given(st.data(), trees(), rules)
def test_runtimes_after_any_history_equal_those_of_its_state(
    data: st.DataObject, tree: list[Quota], rules: runtimes.RuntimeRules
) -> None:
    world = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA),
        [
            *map(kinds.QUOTAS.observed, tree),
            *(events.NodeSeen(node=small_quotas.node(name, 0, allocatable={"cpu": 20})) for name in NODES),
        ],
    )
    for _ in range(data.draw(st.integers(1, 12), label="steps")):
        edit = data.draw(st.integers(0, 9), label="kind of change") == 0
        event = kinds.QUOTAS.observed(data.draw(edits)) if edit else data.draw(changes)
        later = projections.project(world, event)
        found = usage.of_tree(later, "", rules)
        # Some levels only, as a filter asks: the others must be right when a later state needs them.
        for name in data.draw(st.lists(st.sampled_from(found.tree.names), max_size=2), label="asked"):
            assert found.runtimes.runtime(name) == from_the_facts(later, rules).runtime(name)
        if data.draw(st.booleans(), label="the whole is shown"):
            assert shown(found.runtimes) == shown(from_the_facts(later, rules))
        if data.draw(st.integers(0, 3), label="a hypothetical state"):
            world = later


def test_a_level_is_divided_again_only_if_its_total_or_a_request_changed() -> None:
    quotas = [
        small_quotas.quota("left", is_parent=True),
        small_quotas.quota("right", is_parent=True),
        *(small_quotas.quota(f"{side}-{one}", parent=side) for side in ("left", "right") for one in "ab"),
    ]
    world = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA),
        [
            *map(kinds.QUOTAS.observed, quotas),
            events.NodeSeen(node=small_quotas.node("n1", 100)),
            events.PodSeen(pod=small_quotas.pod("p", 4, "left-a")),
        ],
    )
    before = usage.of_tree(world, "", runtimes.DEFAULTS).runtimes
    placed = events.placed(small_quotas.pod("p", 4, "left-a"), "n1")
    after = usage.of_tree(projections.project(world, placed), "", runtimes.DEFAULTS).runtimes
    assert after.lines["cpu"] is before.lines["cpu"], "a placement changes no request"

    held = {name: before.division(name, "cpu") for name in before.tree.names}
    another = events.PodSeen(pod=small_quotas.pod("q", 4, "left-b"))
    later = usage.of_tree(projections.project(world, another), "", runtimes.DEFAULTS).runtimes
    assert later.runtime("left-b") == {"cpu": 4 * small_quotas.CORE}
    for name in ("right-a", "right-b"):
        old, new = held[name], later.division(name, "cpu")
        assert old is not None
        assert new is not None
        assert old[0] is new[0]
    assert later.division("left-a", "cpu") != held["left-a"]


def test_the_runtimes_of_every_tree_are_followed_however_many_there_are() -> None:
    trees = [f"t{number}" for number in range(50)]
    world = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA),
        [
            *(kinds.QUOTAS.observed(small_quotas.quota(f"q-{tree}", tree=tree)) for tree in trees),
            events.PodSeen(pod=small_quotas.pod("first", 4, "q-t1")),
        ],
    )
    before = {tree: usage.of_tree(world, tree, runtimes.DEFAULTS).runtimes.lines["cpu"] for tree in trees}
    later = projections.project(world, events.PodSeen(pod=small_quotas.pod("p", 4, "q-t0")))
    after = {tree: usage.of_tree(later, tree, runtimes.DEFAULTS).runtimes.lines["cpu"] for tree in trees}
    assert [tree for tree in trees if after[tree] is not before[tree]] == ["t0"]


@given(trees(), st.lists(changes, max_size=20), pods, st.booleans())
def test_a_pod_that_was_not_observed_yet_is_judged_as_one_that_waits(
    tree: list[Quota], history: list[events.AnyEvent], pod: model.Pod, parents: bool
) -> None:
    """A limit that admits it without its own request is enough; otherwise every comparison is the same."""
    nodes = [events.NodeSeen(node=small_quotas.node(name, 0, allocatable={"cpu": 20})) for name in NODES]
    world = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA), [*map(kinds.QUOTAS.observed, tree), *nodes, *history]
    )
    unobserved = projections.project(
        world, events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name)
    )
    waiting = projections.project(unobserved, events.PodSeen(pod=pod))
    plugin = ElasticQuota(check_parents=parents)
    before, after = (admission.admission(state, pod, plugin) for state in (unobserved, waiting))
    assert (before is None) == (after is None)
    if before is not None and after is not None and (before.reason or after.reason):
        assert before == after
    if "" in usage.forest(unobserved).trees:
        # The question is not part of the state.
        found = usage.of_tree(unobserved, "", runtimes.DEFAULTS)
        assert shown(found.runtimes) == shown(from_the_facts(unobserved, runtimes.DEFAULTS))
