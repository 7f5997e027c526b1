"""Where a difference began: the event that explains it, or that none does. Real stores: tests/workers."""

import pytest

from app.domain import auditing, consistency, events, model, snapshots

KEY_A, KEY_B = "ns/p|zone=a", "ns/p|zone=b"


def node(name: str, zone: str) -> events.NodeSeen:
    return events.NodeSeen(node=model.Node(name=name, uid=name, labels={"zone": zone}))


def pod(uid: str, on: str = "") -> model.Pod:
    return model.Pod(uid=uid, namespace="ns", name=uid, node=on)


def placed(uid: str, on: str, by: str = "") -> events.PodPlaced:
    return events.PodPlaced(pod=pod(uid), node=on, by=by)


def ledger(*since: tuple[events.AnyEvent, int, str]) -> auditing.Ledger:
    """Two zones and a policy, one pod in each; then what came since the last look: (event, ms, epoch)."""
    empty = snapshots.empty()
    made = auditing.Ledger(empty, empty, recorders={"7": "r-1"})
    policy = model.WorkloadPolicy(uid="p", namespace="ns", name="p", topology_key="zone")
    before: tuple[events.AnyEvent, ...] = (
        node("n1", "a"),
        node("n2", "b"),
        events.PolicySeen(policy=policy),
        placed("x", "n1"),
        placed("y", "n2"),
    )
    made.take([auditing.Step(at, 0, "", event) for at, event in enumerate(before, 1)])
    made.looked()
    made.take([auditing.Step(6 + at, ms, epoch, event) for at, (event, ms, epoch) in enumerate(since)])
    return made


def test_one_event_that_was_not_counted_is_named_with_its_writer() -> None:
    book = ledger((placed("z", "n1", "replica-7"), 1, ""), (placed("w", "n2", "replica-8"), 2, ""))
    blame = auditing.blame_counts(book, {KEY_A: -1})[KEY_A]
    assert (blame.offset, blame.writer) == (6, "replica-7")
    assert blame.words.endswith("had not been counted")


def test_one_that_was_counted_twice_is_named_for_every_key_it_changes() -> None:
    moved = (node("n1", "b"), 1, "7")
    blames = auditing.blame_counts(ledger(moved, (placed("z", "n2"), 2, "")), {KEY_A: -1, KEY_B: 1})
    assert {(one.offset, one.writer) for one in blames.values()} == {(6, "recorder r-1 (epoch 7)")}
    assert blames[KEY_A].words.endswith("had been counted twice")


def test_a_call_with_several_events_is_named_as_a_whole() -> None:
    since = [(events.PodSeen(pod=pod(f"s{at}", "n1")), 5, "7") for at in range(3)]
    blame = auditing.blame_counts(ledger(*since, (placed("z", "n1", "r"), 9, "")), {KEY_A: -3})[KEY_A]
    assert (blame.offset, blame.words) == (
        6,
        "as if event 6 to 8 (PodSeen by recorder r-1 (epoch 7)) had not been counted",
    )


def test_of_several_that_would_explain_it_none_is_named_alone() -> None:
    since = [(placed(f"z{at}", "n1", f"replica-{at}"), at, "") for at in range(2)]
    blame = auditing.blame_counts(ledger(*since), {KEY_A: -1})[KEY_A]
    assert blame.offset == 0
    assert blame.writer == "replica-0; replica-1"
    assert "one of the events 6, 7 had not been counted, or written past the log" in blame.words


@pytest.mark.parametrize("by", [2, -2, 17])
def test_what_no_event_explains_was_written_past_the_log(by: int) -> None:
    blame = auditing.blame_counts(ledger((placed("z", "n1"), 1, "")), {KEY_A: by})[KEY_A]
    assert (blame.offset, blame.writer) == (0, "")
    assert "written past the log between offsets 5 and 6" in blame.words


def test_where_nothing_was_appended_there_is_nobody_to_blame() -> None:
    blame = auditing.blame_counts(ledger(), {KEY_A: -1})[KEY_A]
    assert blame.words == "nothing was appended since it was right: written past the log at offset 5"


def test_after_too_much_nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "STEPS", 5)
    since = [(placed(f"z{at}", "n1"), at, "") for at in range(6)]
    blame = auditing.blame_counts(ledger(*since), {KEY_A: -1})[KEY_A]
    assert (blame.offset, blame.words.partition(" to tell")[0]) == (0, "too much was appended from 6 to 11")


def test_a_version_that_its_event_did_not_move_is_told_from_one_that_was_changed() -> None:
    book = ledger((placed("x", "n2", "mallory"), 1, ""), (events.NodeGone("n2", "n2"), 2, "7"))
    unmoved = auditing.blame_version(book, "pod:x", 4)
    assert (unmoved.offset, unmoved.writer) == (6, "mallory")
    unended = auditing.blame_version(book, "node:n2", 2)
    assert (unended.offset, "did not end it" in unended.words) == (7, True)
    changed = auditing.blame_version(book, "pod:x", 99)
    assert (changed.offset, "written past the log" in changed.words) == (0, True)


def test_a_zero_that_is_spelled_out_is_no_difference() -> None:
    assert auditing.apart({"a": 0, "b": 2, "c": 1}, {"b": 1, "d": 4}) == {"b": 1, "c": 1, "d": -4}


def test_a_difference_keeps_where_it_began_while_it_grows() -> None:
    board = consistency.Board()
    first = consistency.Difference("count", KEY_A, "2", "3", 5, 6, 6, "r", "as if")
    board.put(first)
    board.put(consistency.Difference("count", KEY_A, "2", "9", 7, 8, 0, "", "past the log"))
    (standing,) = board
    assert (standing.found, standing.last, standing.first, standing.blame) == ("9", 8, 5, "as if")
    assert board.found == [first]
    board.keep("count", ())
    assert board.counted()["count"] == 0
