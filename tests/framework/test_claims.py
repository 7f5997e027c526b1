"""Claims of a plan, and the other plugins as a plugin asks them about further pods."""

import dataclasses

import msgspec

from app.domain import event_subjects, events, model, projections
from app.framework import capabilities, pipeline, plans, registry
from tests.support.decisions import fake_plugins, plan_cycles

CLAIM = "seats:all"


def test_a_claim_is_expected_and_moved_on() -> None:
    claiming = fake_plugins.Reserving(made=capabilities.Plan(claims=(CLAIM,)))
    made = plans.commitment(registry.Registry([claiming]), plan_cycles.cycle(), "a")
    assert isinstance(made, plans.Commitment)
    assert made.claims == (CLAIM,)
    assert CLAIM in made.subjects
    event = events.PlacementsCommitted(placements=made.placements, claims=made.claims)
    assert event_subjects.touched(event) == (f"pod:{plan_cycles.POD.uid}", CLAIM)
    before = plan_cycles.cycle().snapshot
    after = projections.project(before, event)
    assert (before.version(CLAIM), after.version(CLAIM)) == (0, after.offset)


def test_the_longest_patience_of_the_plugins_counts() -> None:
    def patient(name: str, seconds: int) -> fake_plugins.Reserving:
        assigned = capabilities.Assignment(plan_cycles.POD, "a", patience=seconds)
        return fake_plugins.Reserving(name=name, made=capabilities.Plan((assigned,)))

    made = plans.commitment(
        registry.Registry([patient("One", 30), patient("Two", 600)]), plan_cycles.cycle(), "a"
    )
    assert isinstance(made, plans.Commitment)
    assert made.placements == (model.Placement(plan_cycles.POD, "a", patience=600),)


def test_a_plugin_that_consults_is_given_the_others_and_not_itself() -> None:
    asking, refusing = fake_plugins.Consulting(), fake_plugins.Filtering(refused=frozenset("a"))
    cycle = plan_cycles.cycle()
    assert not pipeline.run_filter(registry.Registry([asking]), cycle).refusals
    (first, second) = pipeline.run_filter(registry.Registry([asking, refusing]), cycle).refusals
    assert (first.plugin, first.reason, first.nodes) == ("Consulting", "refused by others", frozenset("a"))
    assert second.plugin == refusing.name
    given = pipeline.with_peers(registry.Registry([asking, refusing]), cycle, refusing.name)
    assert given is cycle


def test_nominations_of_pods_that_a_plugin_decides_about_together_do_not_count_for_one_another() -> None:
    nominees = [
        msgspec.structs.replace(plan_cycles.POD, uid=name, name=name, nominated="a", group=group, priority=9)
        for name, group in (("mate", "g"), ("unrelated", ""))
    ]
    cycle = plan_cycles.cycle(*(events.PodSeen(pod=one) for one in nominees))
    asked = dataclasses.replace(cycle, pod=msgspec.structs.replace(cycle.pod, group="g"))
    alone = pipeline.run_filter(registry.Registry([]), asked)
    assert sorted(name.partition("/")[2] for name in alone.assumed) == ["mate", "unrelated"]
    consulted = pipeline.run_filter(registry.Registry([fake_plugins.Consulting()]), asked)
    assert [name.partition("/")[2] for name in consulted.assumed] == ["unrelated"]


def test_a_cycle_names_the_placement_that_it_leaves_out() -> None:
    placed = plan_cycles.cycle(events.placed(plan_cycles.POD, "b"))
    assert placed.reserved == "b"
    assert placed.snapshot.node_of(plan_cycles.POD.uid) == ""
    assert plan_cycles.cycle().reserved == ""


def test_no_plugin_refuses_the_node_of_a_placement() -> None:
    """Otherwise a gang of which some members are bound would never get the others."""
    refusing = [
        fake_plugins.Filtering(name="One", refused=frozenset("b"), reason="one"),
        fake_plugins.Filtering(name="Two", refused=frozenset("ab"), reason="two"),
    ]
    cycle = dataclasses.replace(
        plan_cycles.cycle(events.placed(plan_cycles.POD, "b")), candidates=frozenset("abc")
    )
    (left,) = pipeline.run_filter(registry.Registry(refusing), cycle).refusals
    assert (left.reason, left.nodes) == ("two (0 held)", frozenset("a"))
    assert left.details == {"two": frozenset("a")}
    elsewhere = dataclasses.replace(cycle, candidates=frozenset("ac"))
    assert pipeline.run_filter(registry.Registry(refusing), elsewhere).refused == frozenset("a")
