"""Supervision of real processes, which record their start and their signals in a file."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from app import exit_codes
from app.cli import supervisor
from app.pauses import Pauses
from app.store import errors
from app.store.server import connections, embedded
from tests.support import child_processes
from tests.support.store import crash_safe_server

# Appends its pid to a file, and runs, ignores SIGTERM or exits as its argument requests.
PROGRAM = """
import os, signal, sys, time
path, how = sys.argv[1:]
def end(number, frame):
    open(path, "a").write("terminated\\n")
    if how != "ignores":
        sys.exit(0)
signal.signal(signal.SIGTERM, end)
open(path, "a").write(f"{os.getpid()}\\n")
if how.isdigit():
    sys.exit(int(how))
while True:
    time.sleep(60)
"""


def child(name: str, path: pathlib.Path, how: str = "lives", grace: float = 10.0) -> supervisor.Child:
    """A child that is not started yet."""
    return supervisor.Child(
        name,
        [sys.executable, "-c", PROGRAM, str(path), how],
        dict(os.environ),
        grace,
        pauses=Pauses(0.01, 30.0),
    )


def written(path: pathlib.Path) -> list[str]:
    """The lines that a child has written."""
    return path.read_text().split() if path.exists() else []


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


@pytest.fixture
def reported() -> list[str]:
    """The lines that the supervisor reports."""
    return []


def run_with(group: supervisor.Supervisor, act: Callable[[], None]) -> int:
    """Supervise in the main thread while another thread acts and then sends SIGINT."""

    def acting() -> None:
        try:
            act()
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=acting)
    thread.start()
    code = group.run(ready=lambda: True)
    thread.join()
    return code


def test_an_interrupt_stops_all_children_in_reverse_start_order(
    tmp_path: pathlib.Path, reported: list[str]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    members = [child("one", one), child("two", two)]
    code = run_with(
        supervisor.Supervisor(members, report=reported.append),
        lambda: until(lambda: written(one) != [] != written(two)),
    )
    assert code == exit_codes.OK
    assert [written(path)[1:] for path in (one, two)] == [["terminated"], ["terminated"]]
    assert two.stat().st_mtime_ns < one.stat().st_mtime_ns
    assert all(member.process is None for member in members)
    assert reported[-1] == "stopped"


def test_a_report_that_fails_leaves_no_child_running(tmp_path: pathlib.Path) -> None:
    """The store is stopped after them, however they end."""
    one, two = tmp_path / "one", tmp_path / "two"
    members = [child("one", one), child("two", two)]

    def report(line: str) -> None:
        if line == "stopping":
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_with(
            supervisor.Supervisor(members, report=report),
            lambda: until(lambda: written(one) != [] != written(two)),
        )
    assert [written(path)[1:] for path in (one, two)] == [["terminated"], ["terminated"]]
    assert two.stat().st_mtime_ns < one.stat().st_mtime_ns
    assert all(member.process is None for member in members)


def test_a_killed_child_is_restarted_and_reported(tmp_path: pathlib.Path, reported: list[str]) -> None:
    path = tmp_path / "one"

    def act() -> None:
        until(lambda: len(written(path)) == 1)
        os.kill(int(written(path)[0]), signal.SIGKILL)
        until(lambda: len(written(path)) == 2)

    run_with(supervisor.Supervisor([child("one", path)], report=reported.append), act)
    assert any("one was killed by SIGKILL; restarting in" in line for line in reported)


def test_the_restart_pause_doubles_while_a_child_keeps_failing(
    tmp_path: pathlib.Path, reported: list[str]
) -> None:
    path = tmp_path / "one"
    failing = child("one", path, "1")
    run_with(
        supervisor.Supervisor([failing], report=reported.append),
        lambda: until(lambda: len(written(path)) >= 4),
    )
    pauses = [float(line.split()[-2]) for line in reported if "restarting in" in line]
    assert pauses[:3] == [0.01, 0.02, 0.04]
    assert "one exited with code 1" in reported[1]


def test_settings_that_are_invalid_for_every_child_stop_all(
    tmp_path: pathlib.Path, reported: list[str]
) -> None:
    other = tmp_path / "other"
    members = [child("other", other), child("one", tmp_path / "one", str(exit_codes.SETTINGS))]
    group = supervisor.Supervisor(members, report=reported.append, invalid=lambda: "store.url is not set")
    assert group.run(ready=lambda: True) == exit_codes.SETTINGS
    assert any(
        "one cannot run with these settings" in line and "store.url is not set" in line for line in reported
    )


@pytest.mark.parametrize("code", [exit_codes.USAGE, exit_codes.SETTINGS])
def test_settings_that_are_invalid_for_one_child_stop_no_other(
    tmp_path: pathlib.Path, reported: list[str], code: int
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    members = [child("other", other), child("one", one, str(code))]
    ended = run_with(
        supervisor.Supervisor(members, report=reported.append), lambda: until(lambda: len(written(one)) >= 3)
    )
    assert ended == exit_codes.OK
    assert len([line for line in written(other) if line.isdigit()]) == 1
    assert f"one cannot run with its settings (exit code {code}, see above); restarting in" in str(reported)


def test_a_child_whose_health_port_is_in_use_gets_another_port(
    tmp_path: pathlib.Path, reported: list[str]
) -> None:
    path = tmp_path / "one"
    program = f"""
import os, socket, sys, time
port = int(os.environ["{supervisor.HEALTH_PORT}"])
try:
    listener = socket.create_server(("127.0.0.1", port))
except OSError:
    sys.exit({exit_codes.PORT_IN_USE})
open({str(path)!r}, "w").write(str(port))
time.sleep(60)
"""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environ = {**os.environ, supervisor.HEALTH_PORT: str(port)}
        command = [sys.executable, "-c", program]
        one = supervisor.Child("one", command, environ, 10.0, pauses=Pauses(0.01, 30.0), bind="127.0.0.1")
        code = run_with(
            supervisor.Supervisor([one], report=reported.append), lambda: until(lambda: written(path) != [])
        )
    assert code == exit_codes.OK
    assert int(written(path)[0]) == one.health_port != port
    line = f"one cannot use health port {port}, which is in use; it now uses {one.health_port}"
    assert any(line in each for each in reported)


def test_a_child_with_another_port_in_use_keeps_its_health_port(
    tmp_path: pathlib.Path, reported: list[str]
) -> None:
    path = tmp_path / "one"
    one = child("one", path, str(exit_codes.PORT_IN_USE))
    port = child_processes.free_port()
    one.environ = {**one.environ, supervisor.HEALTH_PORT: str(port)}
    run_with(
        supervisor.Supervisor([one], report=reported.append), lambda: until(lambda: len(written(path)) >= 3)
    )
    assert one.health_port == port
    assert "one met a port in use (exit code 6, see above); restarting in" in str(reported)


def test_an_error_in_the_supervisor_stops_no_child(tmp_path: pathlib.Path, reported: list[str]) -> None:
    answers = iter([ValueError("odd"), OSError("odder")])

    def ready() -> bool:
        if (error := next(answers, None)) is not None:
            raise error
        os.kill(os.getpid(), signal.SIGINT)
        return True

    path = tmp_path / "one"
    group = supervisor.Supervisor([child("one", path)], report=reported.append)
    assert group.run(ready=ready) == exit_codes.OK
    assert reported[-1] == "stopped"


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: pathlib.Path, reported: list[str]) -> None:
    path = tmp_path / "one"
    stubborn = child("one", path, "ignores", grace=3.0)
    run_with(
        supervisor.Supervisor([stubborn], report=reported.append), lambda: until(lambda: written(path) != [])
    )
    pid, asked = written(path)
    assert asked == "terminated"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_readiness_is_polled_until_it_is_true(tmp_path: pathlib.Path, reported: list[str]) -> None:
    answers = iter([False, False, True])
    asked: list[bool] = []

    def ready() -> bool:
        asked.append(next(answers))
        if asked[-1]:
            os.kill(os.getpid(), signal.SIGINT)
        return asked[-1]

    supervisor.Supervisor([child("one", tmp_path / "one")], report=reported.append).run(ready=ready)
    assert asked == [False, False, True]


def test_a_store_that_exits_is_restarted(tmp_path: pathlib.Path, reported: list[str]) -> None:
    server = embedded.Server(tmp_path / "store", append_only=True)
    try:
        with supervisor.keep_running(server, report=reported.append):
            pid = server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            until(lambda: server.pid not in (None, pid))
        assert connections.connect(server.url).ping()
        assert reported == ["the store exited; restarting it"]
    finally:
        server.stop()


def test_a_store_with_a_damaged_file_is_retried_until_the_file_is_repaired(
    tmp_path: pathlib.Path, reported: list[str]
) -> None:
    server = embedded.Server(tmp_path / "store", append_only=True)
    try:
        with connections.connect(server.url) as client:
            client.set("kept", "1")
            client.set("damaged", "2")
            (file,) = (tmp_path / "store" / "appendonlydir").glob("*.incr.aof")
            crash_safe_server.await_written(server.url)
            whole = file.read_bytes()
            with supervisor.keep_running(server, report=reported.append):
                pid = server.pid
                assert pid is not None
                at = whole.index(b"damaged")
                file.write_bytes(whole[: at - 17] + b"n" * 17 + whole[at:])
                os.kill(pid, signal.SIGKILL)
                until(lambda: sum("did not start" in line for line in reported) >= 2)
                command = re.search(r"run `(.*--fix .*)`, which", reported[-1])
                assert command is not None, reported
                assert "append only file" in reported[-1]
                # Run the reported command and nothing else.
                subprocess.run(["sh", "-c", command[1]], input=b"y\n", check=True, cwd=tmp_path)
                until(lambda: server.pid is not None and answers(server.url))
            assert client.get("kept") == b"1"
        pauses = [
            float(found) for line in reported for found in re.findall(r"the store in ([0-9.]+) s", line)
        ]
        assert pauses == sorted(pauses)
        assert pauses[1] == 2 * pauses[0]
    finally:
        server.stop()


def answers(url: str) -> bool:
    """Whether a store answers at this URL."""
    try:
        with connections.connect(url) as client, connections.translated():
            return bool(client.ping())
    except errors.StoreError:
        return False
