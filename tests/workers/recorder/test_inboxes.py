"""The inbox between reflectors and recorder: ordered, bounded, and closing it releases every thread."""

import socket
import threading
import time
import types

import pytest

from app.domain import model
from app.kube.client import clients
from app.kube.watch import kinds, reflectors
from app.simulation.apiserver import apiservers
from app.telemetry import loops, metrics
from tests.support import declared, polling
from tests.support.kube import plain_access
from workers.recorder import inboxes


def mark(version: int) -> reflectors.Bookmark:
    return reflectors.Bookmark(kinds.PODS, str(version))


def part(objects: int) -> reflectors.Part:
    return reflectors.Part(kinds.NODES, [model.Node(name=f"n{at}", uid="u") for at in range(objects)])


def test_waiting_changes_are_taken_together() -> None:
    inbox = inboxes.Inbox()
    for at in range(5):
        inbox.put(mark(at))
    assert inbox.take(100, linger=0.0, timeout=0.0) == [mark(at) for at in range(5)]
    assert inbox.take(100, linger=0.0, timeout=0.0) == []


def test_objects_are_counted_not_messages() -> None:
    inbox = inboxes.Inbox()
    for _ in range(3):
        inbox.put(part(500))
    assert len(inbox.take(256, linger=0.0, timeout=0.0)) == 1
    assert len(inbox.take(1000, linger=0.0, timeout=0.0)) == 2


def test_a_full_inbox_makes_its_writers_wait() -> None:
    inbox = inboxes.Inbox(limit=2)
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


def test_closing_releases_writers_and_readers() -> None:
    inbox = inboxes.Inbox(limit=1)
    inbox.put(mark(0))
    refused: list[bool] = []
    writer = threading.Thread(target=lambda: refused.append(inbox.put(mark(1))))
    writer.start()
    inbox.close()
    writer.join(10)
    assert refused == [False]
    empty = inboxes.Inbox()
    reader = threading.Thread(target=empty.take, args=(1,), kwargs={"linger": 0.0, "timeout": 60.0})
    reader.start()
    empty.close()
    reader.join(10)
    assert not reader.is_alive()


def test_a_lingering_reader_is_woken_by_enough_objects() -> None:
    inbox = inboxes.Inbox()
    got: list[list[reflectors.Change]] = []
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


# -- progress of watches -----------------------------------------------------------------------


def shown(kind: str) -> bool:
    """Whether the progress of a kind is a metric."""
    return any(
        sample.labels["kind"] == kind
        for metric in metrics.WATCH_PROGRESS.collect()
        for sample in metric.samples
    )


def test_a_kind_has_progress_while_it_is_served(server: apiservers.ApiServer) -> None:
    store, kind = server.objects, kinds.declared(declared.POLICIES)
    store.serve(kind.name, False)
    client, inbox = clients.Client(plain_access.of(server.url)), inboxes.Inbox()
    threads = inboxes.WatchThreads([reflectors.Reflector(client, kind)], inbox)
    threads.start()
    try:
        # What is taken was counted before it was put there.
        assert isinstance(inbox.take(1, linger=0.0, timeout=30.0)[0], reflectors.Listed)
        assert not shown(kind.name)
        store.serve(kind.name, True)
        polling.eventually(lambda: shown(kind.name), "it is watched", within=30)
        store.serve(kind.name, False)
        polling.eventually(lambda: not shown(kind.name), "it is not watched", within=30)
    finally:
        threads.stop()
        client.close()
    assert not shown(kind.name)


def test_requests_that_are_not_answered_hold_up_an_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each kind: the Lease is given up behind it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = clients.Client(plain_access.of(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        watched = [kinds.declared(kind) for kind in declared.SCHEMA.kinds]
        threads = inboxes.WatchThreads(
            [reflectors.Reflector(client, kind) for kind in watched], inboxes.Inbox()
        )
        clock = time.monotonic()
        waited: list[float] = []

        def join(_: loops.Loop, timeout: float) -> None:
            nonlocal clock
            waited.append(timeout)
            clock += timeout

        monkeypatch.setattr(loops.Loop, "join", join)
        monkeypatch.setattr(inboxes, "time", types.SimpleNamespace(monotonic=lambda: clock))
        threads.stop()
        client.close()
    assert len(waited) > 5
    assert sum(waited) == pytest.approx(max(waited))
