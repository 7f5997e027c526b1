"""Pauses of the cycle collector that overlap in two threads."""

import gc
import threading
import types
from collections.abc import Iterator

import pytest

from app.store.state import gc_pause


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def test_the_first_of_two_overlapping_pauses_to_end_resumes_the_collection() -> None:
    with gc_pause.paused(), gc_pause.paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    first, second = gc_pause.paused(), gc_pause.paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_pause_that_begins_while_another_ends_leaves_the_collector_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, asked, left = threading.Event(), threading.Event(), threading.Event()

    def preempted() -> bool:
        """The collector's state; the second thread goes on once the first block has ended, if it can end."""
        found = gc.isenabled()
        if threading.current_thread() is second:
            asked.set()
            left.wait(0.5)
        return found

    def begin_second() -> None:
        begun.wait()
        with gc_pause.paused():
            pass

    switches = types.SimpleNamespace(isenabled=preempted, disable=gc.disable, enable=gc.enable)
    monkeypatch.setattr(gc_pause, "gc", switches)
    second = threading.Thread(target=begin_second)
    second.start()
    with gc_pause.paused():
        begun.set()
        asked.wait()
    left.set()
    second.join()
    assert gc.isenabled()
