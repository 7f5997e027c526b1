"""The shadows of a snapshot: the one set last for each name, until it is deleted."""

from app.domain import event_subjects, events, model, projections, snapshots
from tests.support import declared

START = snapshots.empty(schema=declared.SCHEMA)


def shadow(name: str, note: str = "") -> events.ShadowSet:
    return events.ShadowSet(model.Shadow(name, note=note, by="operator"))


def test_the_shadow_set_last_is_held_until_it_is_deleted() -> None:
    snapshot = projections.project_all(START, [shadow("strict", "one"), shadow("wide"), shadow("strict")])
    assert dict(snapshot.shadows) == {"strict": shadow("strict").shadow, "wide": shadow("wide").shadow}
    after = projections.project_all(snapshot, [events.ShadowGone("strict"), events.ShadowGone("unknown")])
    assert list(after.shadows) == ["wide"]


def test_a_change_moves_on_the_shadow_and_all_shadows() -> None:
    snapshot = projections.project_all(START, [shadow("strict"), shadow("wide")])
    assert dict(snapshot.versions) == {"shadow:strict": 1, "shadow:wide": 2, events.SHADOWS: 2}
    after = projections.project(snapshot, events.ShadowGone("wide"))
    assert dict(after.versions) == {"shadow:strict": 1, events.SHADOWS: 3}
    assert event_subjects.touched(events.ShadowGone("wide")) == ("shadow:wide", events.SHADOWS)


def test_a_shadow_changes_nothing_that_is_decided_by() -> None:
    after = projections.project(START, shadow("strict"))
    assert (after.counts, after.objects, after.nodes, after.configurations) == (
        START.counts,
        START.objects,
        START.nodes,
        START.configurations,
    )
    assert after.derivations is START.derivations
