"""The inbox between reflectors and recorder: ordered, bounded, and it lets nobody wait for ever."""

import threading

from app.domain import model
from app.kube import kinds, reflecting
from workers import gathering


def mark(version: int) -> reflecting.Bookmark:
    return reflecting.Bookmark(kinds.PODS, str(version))


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


def test_who_waits_for_company_is_woken_by_enough_of_it() -> None:
    inbox = gathering.Inbox()
    got: list[list[reflecting.Change]] = []
    reader = threading.Thread(target=lambda: got.append(inbox.take(10, linger=60.0, timeout=60.0)))
    reader.start()
    for at in range(9):
        inbox.put(mark(at))
    reader.join(0.05)
    assert reader.is_alive()
    inbox.put(mark(9))
    reader.join(10)
    assert got == [[mark(at) for at in range(10)]]
    # After that one is enough to be woken by.
    reader = threading.Thread(target=lambda: got.append(inbox.take(10, linger=0.0, timeout=60.0)))
    reader.start()
    reader.join(0.05)
    inbox.put(mark(10))
    reader.join(10)
    assert got[1:] == [[mark(10)]]
