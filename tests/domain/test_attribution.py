"""Attribution of differences to events, over hand-made logs. With real stores: tests/workers/auditor."""

import msgspec
import pytest

from app.domain import events, model, projections, snapshots
from app.domain.audit import attribution, findings
from app.plugins.workload_policy import policy_model
from tests.support import declared

KEY_A, KEY_B = "ns/p|zone=a", "ns/p|zone=b"


def node(name: str, zone: str) -> events.NodeSeen:
    return events.NodeSeen(node=model.Node(name=name, uid=name, labels={"zone": zone}))


def pod(uid: str, on: str = "") -> model.Pod:
    return model.Pod(uid=uid, namespace="ns", name=uid, node=on)


def placed(uid: str, on: str, by: str = "") -> events.PlacementsCommitted:
    return events.PlacementsCommitted(placements=(model.Placement(pod(uid), on),), by=by)


def ledger(*since: tuple[events.AnyEvent, int, str]) -> attribution.Ledger:
    """Two zones and a policy, one pod in each; then the events to attribute: (event, ms, epoch)."""
    empty = snapshots.empty(schema=declared.SCHEMA)
    made = attribution.Ledger(empty, empty, recorders={"7": "r-1"})
    policy = policy_model.WorkloadPolicy(uid="p", namespace="ns", name="p", topology_key="zone")
    before: tuple[events.AnyEvent, ...] = (
        node("n1", "a"),
        node("n2", "b"),
        declared.observed(policy),
        placed("x", "n1"),
        placed("y", "n2"),
    )
    made.take([attribution.Step(at, 0, "", event) for at, event in enumerate(before, 1)])
    made.examined()
    made.take([attribution.Step(6 + at, ms, epoch, event) for at, (event, ms, epoch) in enumerate(since)])
    return made


def test_an_event_that_was_not_counted_is_named_with_its_writer() -> None:
    book = ledger((placed("z", "n1", "replica-7"), 1, ""), (placed("w", "n2", "replica-8"), 2, ""))
    blame = attribution.attribute_counts(book, {KEY_A: -1})[KEY_A]
    assert (blame.offset, blame.writer) == (6, "replica-7")
    assert blame.words.endswith("had not been counted")


def test_an_event_counted_twice_is_named_for_every_key_it_changes() -> None:
    moved = (node("n1", "b"), 1, "7")
    blames = attribution.attribute_counts(ledger(moved, (placed("z", "n2"), 2, "")), {KEY_A: -1, KEY_B: 1})
    assert {(one.offset, one.writer) for one in blames.values()} == {(6, "recorder r-1 (epoch 7)")}
    assert blames[KEY_A].words.endswith("had been counted twice")


def test_a_call_with_several_events_is_named_as_a_whole() -> None:
    since = [(events.PodSeen(pod=pod(f"s{at}", "n1")), 5, "7") for at in range(3)]
    blame = attribution.attribute_counts(ledger(*since, (placed("z", "n1", "r"), 9, "")), {KEY_A: -3})[KEY_A]
    assert (blame.offset, blame.words) == (
        6,
        "as if event 6 to 8 (PodSeen by recorder r-1 (epoch 7)) had not been counted",
    )


def test_several_possible_events_are_named_together() -> None:
    since = [(placed(f"z{at}", "n1", f"replica-{at}"), at, "") for at in range(2)]
    blame = attribution.attribute_counts(ledger(*since), {KEY_A: -1})[KEY_A]
    assert blame.offset == 0
    assert blame.writer == "replica-0; replica-1"
    assert "one of the events 6, 7 had not been counted, or written bypassing the log" in blame.words


@pytest.mark.parametrize("by", [2, -2, 17])
def test_a_difference_without_an_event_was_written_bypassing_the_log(by: int) -> None:
    blame = attribution.attribute_counts(ledger((placed("z", "n1"), 1, "")), {KEY_A: by})[KEY_A]
    assert (blame.offset, blame.writer) == (0, "")
    assert "written bypassing the log between offsets 5 and 6" in blame.words


def test_a_difference_without_an_append_has_no_writer() -> None:
    blame = attribution.attribute_counts(ledger(), {KEY_A: -1})[KEY_A]
    assert blame.words == "nothing was appended since it was correct: written bypassing the log at offset 5"


def test_nothing_is_attributed_after_too_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "STEPS", 5)
    since = [(placed(f"z{at}", "n1"), at, "") for at in range(6)]
    blame = attribution.attribute_counts(ledger(*since), {KEY_A: -1})[KEY_A]
    assert (blame.offset, blame.words) == (0, "not attributed: too many events were appended from 6 to 11")


def test_a_version_not_updated_by_its_event_differs_from_a_changed_one() -> None:
    book = ledger((placed("x", "n2", "mallory"), 1, ""), (events.NodeGone("n2", "n2"), 2, "7"))
    unmoved = attribution.attribute_version(book, "pod:x", 4)
    assert (unmoved.offset, unmoved.writer) == (6, "mallory")
    unended = attribution.attribute_version(book, "node:n2", 2)
    assert (unended.offset, "did not remove it" in unended.words) == (7, True)
    changed = attribution.attribute_version(book, "pod:x", 99)
    assert (changed.offset, "written bypassing the log" in changed.words) == (0, True)


def test_an_explicit_zero_equals_a_missing_count() -> None:
    assert attribution.apart({"a": 0, "b": 2, "c": 1}, {"b": 1, "d": 4}) == {"b": 1, "c": 1, "d": -4}


def test_a_growing_difference_keeps_its_first_offset() -> None:
    board = findings.Board()
    first = findings.Difference("count", KEY_A, "2", "3", 5, 6, 6, "r", "as if")
    board.put(first)
    board.put(findings.Difference("count", KEY_A, "2", "9", 7, 8, 0, "", "bypassing the log"))
    (difference,) = board
    assert (difference.found, difference.last, difference.first, difference.blame) == ("9", 8, 5, "as if")
    assert board.found == [first]
    board.keep("count", ())
    assert board.counted()["count"] == 0


def test_each_kind_has_its_own_objects_and_subjects() -> None:
    policy = policy_model.WorkloadPolicy(uid="u", namespace="ns", name="p")
    found: list[events.AnyEvent] = [
        events.PodSeen(pod=model.Pod(uid="x", namespace="ns", name="x")),
        events.NodeSeen(node=model.Node(name="n", uid="un")),
        declared.observed(policy),
    ]
    after = projections.project_all(snapshots.empty(schema=declared.SCHEMA), found)
    subjects = {
        declared.SCHEMA.subject(kind, identity)
        for kind in declared.SCHEMA.names
        for identity in attribution.held(after, kind)
    }
    assert subjects == {event.subject for event in found}
    apart = attribution.subjects_apart(snapshots.empty(schema=declared.SCHEMA), after)
    assert apart == sorted({*subjects, "policies:ns"})


def test_an_object_of_an_unknown_kind_is_compared_as_it_was_recorded() -> None:
    start = snapshots.empty(schema=declared.SCHEMA)
    data = msgspec.Raw(b'{"uid":"u","namespace":"ns","name":"g","size":3}')
    seen = events.ObjectObserved(kind="podgroups", identity="ns/g", uid="u", data=data)
    one = projections.project(start, seen)
    assert list(attribution.held(one, "podgroups")) == ["ns/g"]
    other = projections.project(
        start, msgspec.structs.replace(seen, data=msgspec.Raw(bytes(data)[:-2] + b"4}"))
    )
    assert attribution.subjects_apart(one, other) == ["podgroups:ns/g"]
