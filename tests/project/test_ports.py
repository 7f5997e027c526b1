"""Ports for the servers of tests: two processes that run tests never choose the same one."""

import pytest

from tests.support import child_processes


def test_each_worker_chooses_from_a_share_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    shares = []
    for worker in range(3):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        shares.append({child_processes.free_port() for _ in range(100)})
    assert [len(share) for share in shares] == [100, 100, 100]
    assert max(shares[0]) < min(shares[1]) <= max(shares[1]) < min(shares[2])


def test_ports_of_a_row_are_returned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_processes, "PORTS", range(20_000, 20_040))
    monkeypatch.setattr(child_processes, "_taken", set())
    monkeypatch.setattr(child_processes, "_free", lambda port: port != 20_020)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    first = child_processes.free_port(row=6)
    assert 20_020 not in range(first, first + 6)
    others = {child_processes.free_port() for _ in range(33)}
    assert others == {*range(20_000, 20_040)} - {*range(first, first + 6), 20_020}
    with pytest.raises(AssertionError, match="no free port"):
        child_processes.free_port()
