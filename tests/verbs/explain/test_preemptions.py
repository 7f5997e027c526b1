"""The dry run of a preemption: eligibility, nodes, the extender's own answer, and the choice.

The victims on one node: tests/scenarios/test_victims.py. Against the real kube-scheduler:
tests/e2e/placement/test_dry_runs.py.
"""

import msgspec
import pytest

from app import plugins
from app.domain import model, snapshots
from app.framework import registry
from app.verbs.explain import preemptions
from tests.support.decisions import crowded_nodes

EVERY = registry.Registry([kind() for kind in plugins.IN_TREE])


def run(snapshot: snapshots.Snapshot, name: str = "p") -> preemptions.Preemption:
    pod = snapshot.pod_named("ns", name)
    assert pod is not None
    return preemptions.dry_run(pod, snapshot, EVERY)


def full(*more: model.Node | model.Pod, **wanted: object) -> snapshots.Snapshot:
    """The node of the scenarios, and a pod p of priority 50 that wants 3 cores."""
    p = msgspec.structs.replace(crowded_nodes.pod("p", 50, 3), **wanted)
    return crowded_nodes.world(crowded_nodes.node(), *crowded_nodes.four(), p, *more)


def victims_of(found: preemptions.Preemption) -> dict[str, list[str]]:
    return {
        one.node: [victim.name for victim in one.eviction.victims]
        for one in found.outcomes
        if one.eviction is not None
    }


def dropped(found: preemptions.Preemption) -> dict[str, str]:
    return {one.node: one.dropped for one in found.outcomes if one.dropped}


def chosen(found: preemptions.Preemption) -> str | None:
    return found.choice.node if found.choice is not None else None


@pytest.mark.scenario("PR-26")
def test_victims_and_node() -> None:
    found = run(full())
    assert (found.ineligible, found.needed, found.fitting) == ("", True, ())
    assert victims_of(found) == {"n1": ["c", "d"]}
    (outcome,) = found.outcomes
    assert (outcome.reasons, outcome.candidates) == (("Insufficient cpu",), 4)
    assert found.choice is not None
    assert (found.choice.node, found.choice.decided_by) == ("n1", "only candidate")


def test_no_pod_is_evicted_if_some_node_admits_the_pod() -> None:
    found = run(full(crowded_nodes.node("n2")))
    assert (found.needed, found.fitting, chosen(found)) == (False, ("n2",), None)
    assert victims_of(found) == {}
    assert [one.reasons for one in found.outcomes] == [("Insufficient cpu",)]


def test_evictions_do_not_help_on_nodes_that_refuse_the_pod_anyway() -> None:
    cordoned = crowded_nodes.node("n2", unschedulable=True)
    small = crowded_nodes.node("n3", cpu=2)
    empty = crowded_nodes.pod("full", 60, 8, node="n4")
    found = run(full(cordoned, small, crowded_nodes.node("n4"), empty))
    assert dropped(found) == {
        "n2": "Preemption is not helpful for scheduling",
        "n3": "Preemption is not helpful for scheduling",
        "n4": "No preemption victims found for incoming pod",
    }
    assert victims_of(found) == {"n1": ["c", "d"]}


@pytest.mark.scenario("PR-31")
def test_nominated_pods_hold_their_place() -> None:
    nominee = crowded_nodes.pod("n", 60, 2, nominated="n1")
    assert victims_of(run(full(nominee))) == {"n1": ["b", "c", "d"]}
    lower = crowded_nodes.pod("n", 40, 2, nominated="n1")
    assert victims_of(run(full(lower))) == {"n1": ["c", "d"]}


@pytest.mark.scenario("PR-19", "PR-40")
def test_a_pod_that_never_preempts_is_not_eligible() -> None:
    found = run(full(preemption_policy="Never"))
    assert found.ineligible == "not eligible due to preemptionPolicy=Never."
    assert (victims_of(found), chosen(found)) == ({}, None)


@pytest.mark.scenario("PR-40")
@pytest.mark.parametrize(
    ("terminating", "preempted", "eligible"),
    [(True, True, False), (True, False, True), (False, True, True)],
)
def test_a_preemptor_waits_for_its_victims(terminating: bool, preempted: bool, eligible: bool) -> None:
    world = full(nominated="n1")
    d = world.pod_named("ns", "d")
    assert d is not None
    ending = msgspec.structs.replace(d, terminating=terminating, preempted=preempted, disrupted=preempted)
    found = run(full(ending, nominated="n1"))
    reason = "not eligible due to a terminating pod on the nominated node."
    assert found.ineligible == ("" if eligible else reason)


@pytest.mark.scenario("PR-40")
def test_a_preemptor_does_not_wait_at_a_node_that_no_eviction_helps() -> None:
    gone = crowded_nodes.pod("v", 1, 1, node="n2", terminating=True, preempted=True)
    cordoned = crowded_nodes.node("n2", unschedulable=True)
    assert run(full(cordoned, gone, nominated="n2")).ineligible == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"node": "n1", "phase": "Running"}, "not pending: it is on node n1."),
        ({"terminating": True}, "not pending: it is being deleted or finished."),
        ({"phase": "Failed"}, "not pending: it is being deleted or finished."),
        ({"gated": True}, ""),
    ],
)
def test_only_pending_pods_preempt(changes: dict[str, object], reason: str) -> None:
    assert run(full(**changes)).ineligible == reason


@pytest.mark.scenario("PR-33")
def test_dependents_are_shown_as_such() -> None:
    database = crowded_nodes.pod("database", 10, 8, node="n1", labels={"app": "db"})
    server = crowded_nodes.pod("server", 20, 0, node="n1", needs={"app": "db"})
    p = crowded_nodes.pod("p", 50, 8)
    found = run(crowded_nodes.world(crowded_nodes.node(), database, server, p))
    assert victims_of(found) == {"n1": ["server", "database"]}
    assert found.outcomes[0].added == frozenset(("server",))
    important = msgspec.structs.replace(server, priority=60)
    found = run(crowded_nodes.world(crowded_nodes.node(), database, important, p))
    assert dropped(found) == {"n1": "preempt: eviction would strand ns/server"}
    assert chosen(found) is None


@pytest.mark.scenario("PR-18", "PR-32")
def test_the_least_harmful_node_is_chosen() -> None:
    nodes = [crowded_nodes.node(name) for name in ("n1", "n2", "n3")]
    pods = [crowded_nodes.pod(f"v{at}", at, 8, node=f"n{at}") for at in (1, 2, 3)]
    found = run(crowded_nodes.world(*nodes, *pods, crowded_nodes.pod("p", 50, 8)))
    assert victims_of(found) == {"n1": ["v1"], "n2": ["v2"], "n3": ["v3"]}
    assert found.choice is not None
    assert found.choice.node == "n1"
    assert found.choice.decided_by == "lowest priority of the most important victim"


def test_what_is_not_modelled_is_named() -> None:
    assert run(full()).unmodelled == ("PodDisruptionBudgets",)
    member = crowded_nodes.pod("m", 1, node="n1", group="g")
    assert run(full(member)).unmodelled == ("PodDisruptionBudgets", preemptions.GROUPS)
    wanting = full(constraints=model.Constraints(others=("volumes",)))
    assert run(wanting).unmodelled == ("volumes", "PodDisruptionBudgets")


@pytest.mark.scenario("PR-42")
def test_the_same_question_has_the_same_answer() -> None:
    assert run(full()) == run(full())
