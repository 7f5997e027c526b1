"""PodDisruptionBudgets: what is kept of them, and from when on they are known."""

import json

import pytest

from app import plugins
from app.domain import events, model, projections, snapshots
from app.domain.fit import budgets
from app.framework import registry, views
from app.plugins.preemption_rules import decoding, kinds, plugin
from app.verbs.explain import preemptions
from tests.support import declared
from tests.support.decisions import crowded_nodes

EVERY = registry.Registry([kind() for kind in plugins.IN_TREE])


def manifest(spec: object = None, status: object = None, **metadata: str) -> bytes:
    named = {"uid": "b-1", "namespace": "ns", "name": "b", **metadata}
    return json.dumps({"metadata": named, "spec": spec, "status": status}).encode()


def world(*found: budgets.DisruptionBudget) -> snapshots.Snapshot:
    """The node of the scenarios, its pods, and a pod of priority 50 that requests three cores."""
    pods = [*crowded_nodes.four(), crowded_nodes.pod("p", 50, 3)]
    before = crowded_nodes.world(crowded_nodes.node(), *pods)
    return projections.project_all(before, map(kinds.BUDGETS.observed, found))


def run(snapshot: snapshots.Snapshot) -> preemptions.Preemption:
    pod = snapshot.pod_named("ns", "p")
    assert pod is not None
    return preemptions.dry_run(pod, snapshot, EVERY)


def test_selector_and_status_are_kept() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["db", "cache"]},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    found = decoding.budget(
        manifest(
            {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}, "matchExpressions": expressions}},
            {
                "disruptionsAllowed": 2,
                "disruptedPods": {"z": "2026-01-01T00:00:00Z", "a": "2026-01-01T00:00:01Z"},
                "conditions": [{"type": "DisruptionAllowed"}],
            },
        )
    )
    assert found == budgets.DisruptionBudget(
        uid="b-1",
        namespace="ns",
        name="b",
        selector=model.Selector(
            {"app": "x"},
            (
                model.Requirement("tier", "In", ("db", "cache")),
                model.Requirement("old", "DoesNotExist"),
            ),
        ),
        allowed=2,
        disrupted=("a", "z"),
    )
    assert declared.SCHEMA.read(kinds.BUDGETS.name, kinds.BUDGETS.encode(found)) == found


@pytest.mark.parametrize("absent", [None, {}])
def test_a_budget_without_status_allows_nothing(absent: object) -> None:
    found = decoding.budget(manifest({"selector": {}}, absent))
    assert (found.allowed, found.disrupted, found.error) == (0, (), "")
    assert found.selector == model.Selector()
    assert decoding.budget(manifest(absent, absent)).selector is None


@pytest.mark.parametrize(
    ("spec", "status", "error"),
    [
        ({"selector": {"matchLabels": {"app": 1}}}, {}, "Expected `str`"),
        ({"selector": {"matchLabels": {"app": "x" * decoding.SELECTOR}}}, {}, "at most 16384 are kept"),
        (
            {},
            {"disruptedPods": {f"p{at}": "t" for at in range(decoding.DISRUPTED + 1)}},
            "status.disruptedPods has 1001 entries",
        ),
        ([], {}, "Expected `object"),
    ],
)
def test_a_budget_that_cannot_be_kept_whole_is_named_by_dry_runs(
    spec: object, status: object, error: str
) -> None:
    found = decoding.budget(manifest(spec, status))
    assert (found.key, found.uid) == ("ns/b", "b-1")
    assert error in found.error
    assert not found.selects(crowded_nodes.pod("any", labels={"app": "x"}))
    (named,) = run(world(found)).unmodelled
    assert named == f"PodDisruptionBudget ns/b: {found.error}"


def test_an_object_without_a_name_is_not_a_budget() -> None:
    with pytest.raises(ValueError, match="name"):
        decoding.budget(manifest(name=""))


@pytest.mark.scenario("PR-29")
def test_a_recorded_budget_keeps_its_pods_from_eviction() -> None:
    guarded = budgets.DisruptionBudget(
        uid="b-1", namespace="ns", name="b", selector=model.Selector({"app": "d"})
    )
    found = run(world(guarded))
    assert found.unmodelled == ()
    (outcome,) = found.outcomes
    assert outcome.eviction is not None
    assert [victim.name for victim in outcome.eviction.victims] == ["b", "c"]
    assert outcome.eviction.violations == 0
    # With one eviction allowed, the least important pods go.
    free = budgets.DisruptionBudget(
        uid="b-1", namespace="ns", name="b", selector=model.Selector({"app": "d"}), allowed=1
    )
    (outcome,) = run(world(free)).outcomes
    assert outcome.eviction is not None
    assert [victim.name for victim in outcome.eviction.victims] == ["c", "d"]


@pytest.mark.scenario("PR-29", "PR-30")
@pytest.mark.parametrize(
    ("allowed", "named"), [((0,), False), ((1, 1), False), ((0, 1), True), ((1, 0), True)], ids=str
)
def test_the_order_of_several_budgets_of_a_pod_is_not_modelled_once_one_is_exhausted(
    allowed: tuple[int, ...], named: bool
) -> None:
    """Before Kubernetes 1.37 an eviction uses up those behind the exhausted one, too."""
    selector = model.Selector({"app": "d"})
    guarding = [
        budgets.DisruptionBudget(uid=name, namespace="ns", name=name, selector=selector, allowed=one)
        for name, one in zip("bc", allowed, strict=False)
    ]
    assert run(world(*guarding)).unmodelled == ((preemptions.SEVERAL,) if named else ())


def test_the_budgets_of_a_node_are_counted_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()

    def selecting() -> bool:
        done.append("asked")
        return True

    def counted(*_: object) -> bool:
        done.append("counted")
        return False

    monkeypatch.setattr(budgets, "counted_apart", counted)
    guarding = [budgets.DisruptionBudget(uid=name, namespace="ns", name=name) for name in "bc"]
    other = crowded_nodes.seen(crowded_nodes.node("n2"), crowded_nodes.pod("e", 10, 8, node="n2"))
    snapshot = projections.project_all(world(*guarding), other)
    pod = snapshot.pod_named("ns", "p")
    assert pod is not None
    preemptions.dry_run(pod, snapshot, EVERY, selecting=selecting)
    assert done == ["asked", "asked", "asked", "counted", "asked", "counted"]


def test_budgets_are_listed() -> None:
    found = budgets.DisruptionBudget(uid="b-1", namespace="ns", name="b", allowed=2, disrupted=("a",))
    endpoint = plugin.PreemptionRules().shown().endpoints[1]
    listed = endpoint.handle(world(found), {})
    assert isinstance(listed, views.Listed)
    assert [listed.item(key) for key in listed.keys] == [
        {"budget": "ns/b", "allowed": 2, "disrupted": ["a"], "error": ""}
    ]


def test_budgets_are_unknown_until_they_have_been_listed() -> None:
    known = registry.Registry([plugin.PreemptionRules()])
    before = world()
    assert known.budgets_in(before) is None
    assert run(before).unmodelled == (preemptions.BUDGETS,)
    listed = events.Relisted(kinds.BUDGETS.name, since="", until="1", reason="first list")
    after = projections.project(before, listed)
    assert known.budgets_in(after) == {}
    assert run(after).unmodelled == ()
    assert registry.Registry([]).budgets_in(after) is None
