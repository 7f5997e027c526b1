"""Supervised processes: real ones, that write down what happens to them."""

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

from app.cli import exits, families
from app.store import connecting, embedded, errors

# Says that it lives by adding its pid to a file, and ends as it is told.
PROGRAM = """
import os, signal, sys, time
path, how = sys.argv[1:]
def end(number, frame):
    open(path, "a").write("asked\\n")
    if how != "deaf":
        sys.exit(0)
signal.signal(signal.SIGTERM, end)
open(path, "a").write(f"{os.getpid()}\\n")
if how.isdigit():
    sys.exit(int(how))
while True:
    time.sleep(60)
"""


def child(name: str, path: pathlib.Path, how: str = "lives", grace: float = 10.0) -> families.Child:
    """A child that is not started yet."""
    return families.Child(
        name, [sys.executable, "-c", PROGRAM, str(path), how], dict(os.environ), grace, pause=0.01
    )


def written(path: pathlib.Path) -> list[str]:
    """What a child has written."""
    return path.read_text().split() if path.exists() else []


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


@pytest.fixture
def said() -> list[str]:
    """What the family tells people."""
    return []


def run_with(family: families.Family, act: Callable[[], None]) -> int:
    """Run a family in this, the main, thread, while another thread acts and then interrupts."""

    def acting() -> None:
        try:
            act()
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=acting)
    thread.start()
    code = family.run(ready=lambda: True)
    thread.join()
    return code


def test_one_interrupt_ends_all_of_them_the_youngest_first(tmp_path: pathlib.Path, said: list[str]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    members = [child("one", one), child("two", two)]
    code = run_with(
        families.Family(members, say=said.append), lambda: until(lambda: written(one) != [] != written(two))
    )
    assert code == exits.OK
    assert [written(path)[1:] for path in (one, two)] == [["asked"], ["asked"]]
    assert two.stat().st_mtime_ns < one.stat().st_mtime_ns
    assert all(member.process is None for member in members)
    assert said[-1] == "stopped"


def test_a_child_that_is_killed_comes_back_and_it_is_said(tmp_path: pathlib.Path, said: list[str]) -> None:
    path = tmp_path / "one"

    def act() -> None:
        until(lambda: len(written(path)) == 1)
        os.kill(int(written(path)[0]), signal.SIGKILL)
        until(lambda: len(written(path)) == 2)

    run_with(families.Family([child("one", path)], say=said.append), act)
    assert any("one was killed by SIGKILL; it is started again in" in line for line in said)


def test_one_that_keeps_dying_is_tried_ever_less_often(tmp_path: pathlib.Path, said: list[str]) -> None:
    path = tmp_path / "one"
    failing = child("one", path, "1")
    run_with(families.Family([failing], say=said.append), lambda: until(lambda: len(written(path)) >= 4))
    pauses = [float(line.split()[-2]) for line in said if "started again" in line]
    assert pauses[:3] == [0.01, 0.02, 0.04]
    assert "one ended with exit code 1" in said[1]


def test_settings_that_are_wrong_for_everybody_end_all(tmp_path: pathlib.Path, said: list[str]) -> None:
    other = tmp_path / "other"
    members = [child("other", other), child("one", tmp_path / "one", str(exits.SETTINGS))]
    family = families.Family(members, say=said.append, refused=lambda: "store.url is not set")
    assert family.run(ready=lambda: True) == exits.SETTINGS
    assert any("one cannot run as it is told" in line and "store.url is not set" in line for line in said)


@pytest.mark.parametrize("code", [exits.USAGE, exits.SETTINGS])
def test_settings_that_are_wrong_for_one_end_nobody_else(
    tmp_path: pathlib.Path, said: list[str], code: int
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    members = [child("other", other), child("one", one, str(code))]
    ended = run_with(families.Family(members, say=said.append), lambda: until(lambda: len(written(one)) >= 3))
    assert ended == exits.OK
    assert len([line for line in written(other) if line.isdigit()]) == 1
    assert f"one cannot run as it is told (exit code {code}, see above); it is started again in" in str(said)


def test_one_whose_health_port_is_taken_gets_another_one(tmp_path: pathlib.Path, said: list[str]) -> None:
    path = tmp_path / "one"
    program = f"""
import os, socket, sys, time
port = int(os.environ["{families.HEALTH_PORT}"])
try:
    listener = socket.create_server(("127.0.0.1", port))
except OSError:
    sys.exit({exits.TAKEN})
open({str(path)!r}, "w").write(str(port))
time.sleep(60)
"""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environ = {**os.environ, families.HEALTH_PORT: str(port)}
        command = [sys.executable, "-c", program]
        one = families.Child("one", command, environ, 10.0, pause=0.01, bind="127.0.0.1")
        code = run_with(families.Family([one], say=said.append), lambda: until(lambda: written(path) != []))
    assert code == exits.OK
    assert int(written(path)[0]) == one.health_port != port
    line = f"one found its health port {port} taken; from now on it is {one.health_port}"
    assert any(line in told for told in said)


def test_an_error_while_it_looks_after_its_children_ends_nobody(
    tmp_path: pathlib.Path, said: list[str]
) -> None:
    answers = iter([ValueError("odd"), OSError("odder")])

    def ready() -> bool:
        if (error := next(answers, None)) is not None:
            raise error
        os.kill(os.getpid(), signal.SIGINT)
        return True

    path = tmp_path / "one"
    family = families.Family([child("one", path)], say=said.append)
    assert family.run(ready=ready) == exits.OK
    assert said[-1] == "stopped"


def test_one_that_does_not_end_when_asked_is_ended(tmp_path: pathlib.Path, said: list[str]) -> None:
    path = tmp_path / "one"
    deaf = child("one", path, "deaf", grace=0.3)
    run_with(families.Family([deaf], say=said.append), lambda: until(lambda: written(path) != []))
    pid, asked = written(path)
    assert asked == "asked"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_readiness_is_asked_for_until_it_is_there(tmp_path: pathlib.Path, said: list[str]) -> None:
    answers = iter([False, False, True])
    asked: list[bool] = []

    def ready() -> bool:
        asked.append(next(answers))
        if asked[-1]:
            os.kill(os.getpid(), signal.SIGINT)
        return asked[-1]

    families.Family([child("one", tmp_path / "one")], say=said.append).run(ready=ready)
    assert asked == [False, False, True]


def test_a_store_that_dies_is_started_again(tmp_path: pathlib.Path, said: list[str]) -> None:
    server = embedded.Server(tmp_path / "store", append_only=True)
    try:
        with families.kept_alive(server, say=said.append):
            pid = server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            until(lambda: server.pid not in (None, pid))
        assert connecting.connect(server.url).ping()
        assert said == ["the store died; it is started again"]
    finally:
        server.stop()


def test_a_store_with_a_damaged_file_is_tried_until_the_file_is_repaired(
    tmp_path: pathlib.Path, said: list[str]
) -> None:
    server = embedded.Server(tmp_path / "store", append_only=True)
    try:
        with connecting.connect(server.url) as client:
            client.set("kept", "1")
            client.set("damaged", "2")
            (file,) = (tmp_path / "store" / "appendonlydir").glob("*.incr.aof")
            whole = file.read_bytes()
            with families.kept_alive(server, say=said.append):
                pid = server.pid
                assert pid is not None
                at = whole.index(b"damaged")
                file.write_bytes(whole[: at - 17] + b"n" * 17 + whole[at:])
                os.kill(pid, signal.SIGKILL)
                until(lambda: sum("did not start" in line for line in said) >= 2)
                command = re.search(r"run `(.*--fix .*)`, which", said[-1])
                assert command is not None, said
                assert "append only file" in said[-1]
                # As a person would: what it says is run, and nothing else.
                subprocess.run(["sh", "-c", command[1]], input=b"y\n", check=True, cwd=tmp_path)
                until(lambda: server.pid is not None and answers(server.url))
            assert client.get("kept") == b"1"
        pauses = [float(found) for line in said for found in re.findall(r"again in ([0-9.]+) s", line)]
        assert pauses == sorted(pauses)
        assert pauses[1] == 2 * pauses[0]
    finally:
        server.stop()


def answers(url: str) -> bool:
    """Whether a store answers there."""
    try:
        with connecting.connect(url) as client, connecting.translated():
            return bool(client.ping())
    except errors.StoreError:
        return False
