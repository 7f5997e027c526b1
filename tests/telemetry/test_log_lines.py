"""Log lines, read from the standard error of real processes."""

import json
import re
import subprocess
import sys
import threading

import pytest

from app.telemetry import log_lines, log_setup
from tests.support import polling, thread_limits
from tests.support.monitoring import samples

CANARY = "cAn4ry-hunter2"


def written(program: str) -> str:
    """Run a program that imports telemetry; return its standard error."""
    done = subprocess.run(
        [sys.executable, "-c", f"from app import telemetry\n{program}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr


def test_a_call_is_one_json_line() -> None:
    program = """
telemetry.configure(process="extender")
telemetry.verb("filter", "ns/p", outcome="kept", seconds=0.0015, candidates=4, kept=3,
               reasons={'no "space"\\n': 1}, position="abc/7")
telemetry.verb("bind", "ns/p", outcome="error", seconds=0.002, node="n1", error="gone")
"""
    first, second = map(json.loads, written(program).splitlines())
    assert list(first)[:3] == ["time", "level", "event"]
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "event": "call",
        "verb": "filter",
        "pod": "ns/p",
        "outcome": "kept",
        "candidates": 4,
        "kept": 3,
        "milliseconds": 1.5,
        "position": "abc/7",
        "reasons": {'no "space"\n': 1},
        "process": "extender",
    }
    assert (second["level"], second["error"], second["node"]) == ("warning", "gone", "n1")


def test_a_call_as_text_is_one_line_without_control_characters() -> None:
    program = """
telemetry.configure(form="console")
telemetry.verb("filter", "ns/p", outcome="refused", seconds=0.0015, candidates=4, kept=0,
               reasons={"full\\n2026 forged \\x1b[31m": 4}, position="abc/7")
"""
    (line,) = written(program).splitlines()
    assert "filter ns/p refused 0 of 4 (4 x full?2026 forged ?[31m) 1.5 ms at abc/7" in line


def test_lines_of_structlog_and_of_libraries_are_json() -> None:
    program = """
import logging
telemetry.configure()
telemetry.log.info("started", port=1)
logging.getLogger("redis").warning("lost %s", "it")
logging.getLogger("redis").info("chatter")
telemetry.log.debug("detail")
"""
    first, second = map(json.loads, written(program).splitlines())
    assert (first["event"], first["port"], first["level"]) == ("started", 1, "info")
    assert (second["event"], second["level"]) == ("lost it", "warning")
    assert list(first)[:3] == list(second)[:3] == ["time", "level", "event"]


def test_calls_and_other_lines_are_spelled_alike() -> None:
    program = """
telemetry.configure(process="extender")
telemetry.verb("filter", "ns/p", outcome="kept", seconds=0.0015)
telemetry.log.info("started", port=1)
import logging
logging.getLogger("redis").warning("lost")
"""
    lines = written(program).splitlines()
    begin = re.compile(
        r'\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","level":"(info|warning)","event":"'
    )
    assert [bool(begin.match(line)) for line in lines] == [True] * 3, lines


def test_the_level_applies_to_calls() -> None:
    program = """
telemetry.configure(level="warning")
telemetry.verb("filter", "ns/p", outcome="kept", seconds=0.0015)
telemetry.log.info("started")
"""
    assert written(program) == ""


def test_an_internal_error_shows_its_traceback_and_no_secret() -> None:
    program = f"""
telemetry.configure()
telemetry.log.info("x", password="{CANARY}", url="redis://u:{CANARY}@h", api_token="{CANARY}")
try:
    {{}}["missing"]
except KeyError as error:
    telemetry.fault("bind", "ns/p", error)
"""
    text = written(program)
    assert "KeyError" in text
    assert "Traceback" in text
    assert CANARY not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no redis://u:p/@w@h/0 there", "no (hidden)@h/0 there"),
        ("'//u@h'", "'//(hidden)@h'"),
        ("h?password=a@b", "(hidden)password=(hidden)"),
        ("h?password=a@b'c d", "(hidden)password=(hidden) d"),
        ("redis://h/0?password=it's@x d", "redis://h/0?password=(hidden) d"),
        ("h?PASSWORD=a&x=1", "h?PASSWORD=(hidden)&x=1"),
        ("a@b:c //@ :@", "a@b:c //@ :@"),
        (f"of r.io:5000/a:1@sha256:{'ab' * 32}, and", f"of r.io:5000/a:1@sha256:{'ab' * 32}, and"),
        (f"u:p@sha256:{'ab' * 32}@h", "(hidden)@h"),
        (f"redis://u:p@sha256:{'ab' * 32}", f"(hidden)@sha256:{'ab' * 32}"),
    ],
)
def test_what_may_be_a_password_in_a_text_is_hidden(text: str, shown: str) -> None:
    assert log_setup.without_secrets(None, "", {"event": text}) == {"event": shown}


@pytest.mark.parametrize("letters", [":", ":@", "//", "password="])
def test_a_long_text_takes_linear_time(letters: str) -> None:
    # By a pattern that searches again from each letter, it takes hours.
    log_setup.without_secrets(None, "", {"event": letters * 200_000})


def test_a_forked_child_writes_only_its_lines() -> None:
    program = """
import os, warnings
warnings.simplefilter("ignore")  # about forking with threads, which this test does on purpose
telemetry.configure()
telemetry.verb("filter", "ns/parent", outcome="kept", seconds=0.1)
child = os.fork()
if not child:
    telemetry.verb("filter", "ns/child", outcome="kept", seconds=0.1)
    raise SystemExit
os.waitpid(child, 0)
"""
    pods = sorted(json.loads(line)["pod"] for line in written(program).splitlines())
    assert pods == ["ns/child", "ns/parent"]


def test_a_blocked_reader_causes_dropped_lines_and_blocks_no_call() -> None:
    blocked, written = threading.Event(), []

    def hang(block: bytes) -> None:
        blocked.wait()
        written.append(block)

    writer = log_lines.LineWriter(hang, max_lines=5)
    before = samples.value("topolog_log_lines_dropped_total")
    for _ in range(20):
        writer.put(b"line\n")
    dropped = samples.value("topolog_log_lines_dropped_total") - before
    blocked.set()
    writer.flush()
    assert dropped >= 10
    assert b"".join(written).count(b"line\n") == 20 - dropped


def test_lines_that_came_while_no_thread_could_be_started_are_written_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[bytes] = []
    writer = log_lines.LineWriter(written.append, max_lines=2)
    with monkeypatch.context() as limit:
        limit.setattr(threading.Thread, "start", thread_limits.refuse)
        for line in (b"1\n", b"2\n", b"dropped\n"):
            writer.put(line)
    writer.put(b"dropped, too\n")
    polling.eventually(lambda: written == [b"1\n2\n"], "the thread writes what has waited")
    writer.put(b"3\n")
    polling.eventually(lambda: written == [b"1\n2\n", b"3\n"], "and what follows")
