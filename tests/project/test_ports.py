"""Ports for the servers of tests: two processes that run tests never choose the same one."""

import os
import subprocess
import sys

import pytest

from tests.support import child_processes

# No real ports, and not those of this test in another run: locks are held for any number.
FIRST = 1_000_000 + 100 * os.getpid()
FORTY = range(FIRST, FIRST + 40)
_OTHER = """
from tests.support import child_processes
child_processes.PORTS = {ports}
child_processes._free = lambda port: True
print(*(child_processes.free_port() for _ in range({count})), flush=True)
input()
"""


def _other_run(count: int) -> "subprocess.Popen[str]":
    """Another process that runs tests and has so many of the forty ports until its input ends."""
    command = [sys.executable, "-c", _OTHER.format(ports=FORTY, count=count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_port_without_a_listener_is_held_until_its_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_processes, "PORTS", FORTY)
    monkeypatch.setattr(child_processes, "_taken", set())
    monkeypatch.setattr(child_processes, "_free", lambda port: True)
    with _other_run(30) as other:
        assert other.stdout is not None
        theirs = {int(port) for port in other.stdout.readline().split()}
        ours = {child_processes.free_port() for _ in range(10)}
        assert len(theirs) == 30
        assert ours == {*FORTY} - theirs
        with pytest.raises(AssertionError, match="no free port"):
            child_processes.free_port()
        other.kill()
    assert {child_processes.free_port() for _ in range(30)} == theirs


def test_ports_of_a_row_are_returned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_processes, "PORTS", range(FIRST + 40, FIRST + 80))
    monkeypatch.setattr(child_processes, "_taken", set())
    monkeypatch.setattr(child_processes, "_free", lambda port: port != FIRST + 60)
    first = child_processes.free_port(row=6)
    assert FIRST + 60 not in range(first, first + 6)
    others = {child_processes.free_port() for _ in range(33)}
    assert others == {*range(FIRST + 40, FIRST + 80)} - {*range(first, first + 6), FIRST + 60}
    with pytest.raises(AssertionError, match="no free port"):
        child_processes.free_port()
