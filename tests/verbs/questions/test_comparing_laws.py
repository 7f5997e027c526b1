"""Laws of comparisons, against a fold that shares no code with the product."""

import dataclasses
import tracemalloc

import immutables
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.plugins.elastic_quota.sigs import namespace_quota
from app.plugins.workload_policy import policy_model
from app.verbs.questions import snapshot_diff
from tests.support import declared
from tests.support.decisions import recomputation, strategies
from tests.support.decisions.cluster_strategies import unhurried
from tests.support.extender import api_worlds


def folded(happened: list[events.AnyEvent]) -> snapshots.Snapshot:
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA), happened)


def naive(happened: list[events.AnyEvent]) -> dict[str, dict[str, object]]:
    """Section -> name -> value after the events: what was observed last, unless it ended."""
    nodes: dict[str, model.Node] = {}
    objects: dict[str, tuple[str, bytes]] = {}
    pods: dict[str, model.Pod] = {}
    placed: dict[str, tuple[model.Pod, str, str, int]] = {}
    """Uid -> pod, node, time and number of the event."""
    for number, event in enumerate(happened):
        match event:
            case events.NodeSeen():
                nodes[event.node.name] = event.node
            case events.NodeGone():
                nodes.pop(event.name, None)
            case events.ObjectObserved():
                objects[f"{event.kind}:{event.identity}"] = event.kind, bytes(event.data)
            case events.ObjectGone():
                objects.pop(f"{event.kind}:{event.identity}", None)
            case events.PodSeen():
                pods[event.pod.uid] = event.pod
                if event.pod.node or event.pod.phase in ("Succeeded", "Failed"):
                    placed.pop(event.pod.uid, None)
            case events.PodGone():
                pods.pop(event.uid, None)
                placed.pop(event.uid, None)
            case events.PlacementsCommitted():
                placed |= {one.pod.uid: (one.pod, one.node, event.at, number) for one in event.placements}
            case events.PlacementReleased():
                placed.pop(event.uid, None)
    located = {uid: (pod, node) for uid, (pod, node, _, _) in placed.items()}
    for uid, pod in pods.items():
        located[uid] = pod, pod.node or (placed[uid][1] if uid in placed else "")
    policies = [declared.SCHEMA.read(kind, data) for kind, data in objects.values()]
    counts = recomputation.counted(
        located.values(), nodes, [one for one in policies if isinstance(one, policy_model.WorkloadPolicy)]
    )
    return {
        "nodes": dict(nodes),
        "objects": dict(objects),
        "pods": {pod.key: pod for pod in pods.values()},
        "placements": {pod.key: (node, at, number) for pod, node, at, number in placed.values()},
        "pending": {pod.key: True for pod, node in located.values() if not node and _waits(pod)},
        "counts": dict(counts),
    }


def _waits(pod: model.Pod) -> bool:
    return not (pod.terminating or pod.gated) and pod.phase not in ("Succeeded", "Failed")


def changes(section: snapshot_diff.Section) -> set[tuple[str, str]]:
    return {(row.name, row.change) for row in section.rows}


@pytest.mark.scenario("WI-7")
@unhurried
@given(happened=strategies.histories, at=st.integers(0, 60))
def test_every_section_differs_as_a_naive_fold_shows(happened: list[events.AnyEvent], at: int) -> None:
    found = snapshot_diff.compare(folded(happened[:at]), folded(happened), limit=1000)
    one, other = naive(happened[:at]), naive(happened)
    assert found.keys() == one.keys()
    for section in found:
        before, after = one[section], other[section]
        expected = {(name, "began") for name in after.keys() - before.keys()}
        expected |= {(name, "ended") for name in before.keys() - after.keys()}
        expected |= {
            (name, "changed") for name in before.keys() & after.keys() if before[name] != after[name]
        }
        assert changes(found[section]) == expected, section
        assert found[section].more == 0
    for row in found["counts"].rows:
        ((field, was, now),) = [(one.field, one.before, one.after) for one in row.fields]
        assert (field, was, now) == ("count", one["counts"].get(row.name), other["counts"].get(row.name))


@pytest.mark.scenario("WI-7")
@unhurried
@given(happened=strategies.histories, at=st.integers(0, 60))
def test_the_other_way_round_is_the_mirror_image(happened: list[events.AnyEvent], at: int) -> None:
    one, other = folded(happened[:at]), folded(happened)
    there, back = snapshot_diff.compare(one, other, limit=1000), snapshot_diff.compare(other, one, limit=1000)
    turned = {"began": "ended", "ended": "began", "changed": "changed"}
    for name, section in there.items():
        mirrored = {
            (row.name, turned[row.change], tuple((f.field, f.after, f.before) for f in row.fields))
            for row in _frozen(section)
        }
        assert mirrored == {
            (row.name, row.change, tuple((f.field, f.before, f.after) for f in row.fields))
            for row in _frozen(back[name])
        }


def test_a_comparison_holds_the_rows_of_its_page_only() -> None:
    many = {name: model.Node(name=name, uid=name) for name in (f"n{at:05}" for at in range(10_000))}
    one = snapshots.empty(schema=declared.SCHEMA)
    other = dataclasses.replace(one, nodes=immutables.Map(many))
    tracemalloc.start()
    try:
        found = snapshot_diff.compare(one, other, limit=10)["nodes"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [row.name for row in found.rows] == sorted(many)[:10]
    assert (found.began, found.more) == (10_000, 9_990)
    assert peak < 100_000, "ten bytes for each of the nodes"


def _frozen(section: snapshot_diff.Section) -> list[snapshot_diff.Row]:
    return [
        snapshot_diff.Row(
            row.name,
            row.change,
            tuple(snapshot_diff.FieldChange(f.field, repr(f.before), repr(f.after)) for f in row.fields),
        )
        for row in section.rows
    ]


@pytest.mark.scenario("WI-7")
@unhurried
@given(happened=strategies.histories)
def test_a_state_does_not_differ_from_itself_however_it_was_folded(happened: list[events.AnyEvent]) -> None:
    one_by_one = snapshots.empty(schema=declared.SCHEMA)
    for event in happened:
        one_by_one = projections.project(one_by_one, event)
    found = snapshot_diff.compare(folded(happened), one_by_one)
    assert not any(section.rows for section in found.values())


def test_the_counts_of_a_namespace_are_those_of_its_objects() -> None:
    """Of its policies and of the quota of the namespace: not those of all quotas, or of another namespace."""
    quota = namespace_quota.NamespaceQuota(uid="q", namespace="shop", name="q", max={"cpu": 8000})
    policy = api_worlds.policy(host=3, member=1)
    happened: list[events.AnyEvent] = [api_worlds.node("n1", role="host"), policy]
    happened.append(namespace_quota.KIND.observed(quota))
    before = folded(happened)
    after = projections.project(before, api_worlds.pod_seen("a-1", "n1"))
    sections = snapshot_diff.compare(before, after, namespace="shop", only=("counts",))
    keys = {"shop/spread|role=host", *(f"sigsquota|shop|{resource}" for resource in ("cpu", "memory"))}
    assert {row.name for row in sections["counts"].rows} == keys
    assert not snapshot_diff.compare(before, after, namespace="hop", only=("counts",))["counts"].rows
