"""The inbox between reflectors and recorder: ordered, bounded, and it lets nobody wait for ever."""

import threading

import pytest

from app.domain import model
from app.kube import kinds, reflecting
from workers import gathering


def mark(version: int) -> reflecting.Bookmark:
    return reflecting.Bookmark(kinds.PODS, str(version))


def seen(name: str, *, node: str = "", phase: str = "Pending") -> reflecting.Seen:
    pod = model.Pod(uid=name, namespace="ns", name=name, node=node, phase=phase)
    return reflecting.Seen(kinds.PODS, pod, "1")


def part(objects: int) -> reflecting.Part:
    return reflecting.Part(kinds.NODES, [model.Node(name=f"n{at}", uid="u") for at in range(objects)])


def test_what_has_come_together_is_taken_together() -> None:
    inbox = gathering.Inbox()
    for at in range(5):
        inbox.put(mark(at))
    assert inbox.take(100, linger=0.0, timeout=0.0) == [mark(at) for at in range(5)]
    assert inbox.take(100, linger=0.0, timeout=0.0) == []


def test_objects_are_counted_not_messages() -> None:
    inbox = gathering.Inbox()
    for _ in range(3):
        inbox.put(part(500))
    assert len(inbox.take(256, linger=0.0, timeout=0.0)) == 1
    assert len(inbox.take(1000, linger=0.0, timeout=0.0)) == 2


def test_a_full_inbox_makes_its_writers_wait() -> None:
    inbox = gathering.Inbox(limit=2)
    inbox.put(mark(0))
    inbox.put(mark(1))
    writer = threading.Thread(target=inbox.put, args=(mark(2),))
    writer.start()
    writer.join(0.05)
    assert writer.is_alive()
    assert inbox.take(1, linger=0.0, timeout=0.0) == [mark(0)]
    writer.join(10)
    assert not writer.is_alive()
    assert inbox.take(10, linger=0.0, timeout=0.0) == [mark(1), mark(2)]


def test_closing_lets_writers_and_readers_go() -> None:
    inbox = gathering.Inbox(limit=1)
    inbox.put(mark(0))
    refused: list[bool] = []
    writer = threading.Thread(target=lambda: refused.append(inbox.put(mark(1))))
    writer.start()
    inbox.close()
    writer.join(10)
    assert refused == [False]
    empty = gathering.Inbox()
    reader = threading.Thread(target=empty.take, args=(1,), kwargs={"linger": 0.0, "timeout": 60.0})
    reader.start()
    empty.close()
    reader.join(10)
    assert not reader.is_alive()


def taken(inbox: gathering.Inbox, **how: float) -> tuple[threading.Thread, list[list[reflecting.Change]]]:
    """A reader that has begun to wait, and what it gets."""
    got: list[list[reflecting.Change]] = []

    def take() -> None:
        got.append(inbox.take(10, linger=0.0, timeout=60.0, **how))

    reader = threading.Thread(target=take)
    reader.start()
    reader.join(0.05)
    return reader, got


GONE = reflecting.Gone(kinds.PODS, "b", "ns", "b", "2")


@pytest.mark.parametrize(
    "urgent",
    [
        GONE,
        seen("b", phase="Succeeded"),
        part(1),
        reflecting.Seen(kinds.NODES, model.Node(name="n", uid="u"), "2"),
        reflecting.Listed(kinds.PODS, frozenset(), "2", "1", "first list"),
        kinds.Poison("pods", "b", "unreadable"),
    ],
)
def test_pods_that_nobody_waits_for_wait_for_company(urgent: reflecting.Change) -> None:
    inbox = gathering.Inbox()
    patient: list[reflecting.Change] = [seen("a"), seen("b", node="n", phase="Running"), mark(1)]
    reader, got = taken(inbox, patience=60.0)
    for change in patient:
        inbox.put(change)
    reader.join(0.05)
    assert reader.is_alive()
    inbox.put(urgent)
    reader.join(10)
    assert got == [[*patient, urgent]]
    # And it is over with the haste.
    reader, got = taken(inbox, patience=60.0)
    inbox.put(seen("c"))
    reader.join(0.05)
    assert reader.is_alive()
    inbox.close()
    reader.join(10)
    assert got == [[seen("c")]]


def test_patience_ends_by_itself_and_when_there_is_enough() -> None:
    inbox = gathering.Inbox()
    inbox.put(seen("a"))
    assert inbox.take(10, linger=0.0, timeout=0.0, patience=0.01) == [seen("a")]
    reader, got = taken(inbox, patience=60.0)
    many = [seen(f"p{at}") for at in range(10)]
    for change in many:
        inbox.put(change)
    reader.join(10)
    assert got == [many]


def test_what_is_left_over_waits_no_longer() -> None:
    inbox = gathering.Inbox()
    for at in range(15):
        inbox.put(seen(f"p{at}"))
    assert len(inbox.take(10, linger=0.0, timeout=0.0, patience=60.0)) == 10
    reader, got = taken(inbox, patience=60.0)
    reader.join(10)
    assert len(got[0]) == 5
