"""Repeated lines are suppressed and counted."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

import pytest
import structlog

from app.telemetry import repeated_lines
from tests.support import thread_limits
from tests.support.workers import recordings


class Written:
    """A filter that records the lines with counts."""

    def __init__(self, *, window: float = 60.0, max_distinct: int = repeated_lines.MAX_DISTINCT) -> None:
        self.lines: list[tuple[str, str, int]] = []
        self.common: list[dict[str, object]] = []
        self.processor = repeated_lines.RepeatFilter(
            self._write,
            window=window,
            max_distinct=max_distinct,
        )

    def _write(self, level: str, event: str, count: int, common: Mapping[str, object]) -> None:
        self.lines.append((level, event, count))
        self.common.append(dict(common))

    def line(self, event: str, level: str = "error", **fields: object) -> bool:
        """Whether the line is written."""
        try:
            return bool(self.processor(None, level, {"event": event, **fields}))
        except structlog.DropEvent:
            return False


def test_an_equal_line_is_written_once_and_counted() -> None:
    written = Written()
    assert [written.line("away", error="x") for _ in range(5)] == [True, False, False, False, False]
    assert written.line("away", error="y")
    assert written.line("away", error="x", level="warning")
    assert written.lines == []
    written.processor.flush()
    assert written.lines == [("error", "away", 4)]
    written.processor.flush()
    assert written.lines == [("error", "away", 4)]
    assert written.line("away", error="x")


def test_only_the_first_different_lines_of_an_event_are_written() -> None:
    written = Written(max_distinct=3)
    assert sum(written.line("drift detected", key=f"pod:{number}") for number in range(26_541)) == 3
    written.processor.flush()
    assert written.lines == [("error", "drift detected", 26_538)]


def test_the_count_has_the_fields_that_all_suppressed_lines_have() -> None:
    written = Written(max_distinct=1)
    for client in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        written.line("refused", client=client, reason="no certificate")
    written.line("away", error="x")
    written.line("away", error="x")
    written.processor.flush()
    assert written.common == [{"reason": "no certificate"}, {"error": "x"}]


def test_lines_below_warning_are_always_written() -> None:
    written = Written()
    assert all(written.line("leads", level="info") for _ in range(5))


def test_the_count_is_written_when_the_window_ends() -> None:
    written = Written(window=0.05)
    for _ in range(3):
        written.line("away")
    recordings.eventually(lambda: written.lines == [("error", "away", 2)], "the count is written")
    assert written.line("away")


def test_a_stopped_filter_has_written_its_counts_and_has_no_thread() -> None:
    written, before = Written(), threading.enumerate()
    for turn in (1, 2):
        for _ in range(3):
            written.line("away")
        (thread,) = set(threading.enumerate()) - set(before)
        assert thread.name == "log-repeats"
        written.processor.stop()
        assert written.lines == [("error", "away", 2)] * turn
        assert not thread.is_alive()
    written.processor.stop()


def test_where_no_thread_can_be_started_lines_end_the_windows_that_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = Written(window=0.05)
    with monkeypatch.context() as limit:
        limit.setattr(threading.Thread, "start", thread_limits.refuse)
        assert [written.line("away") for _ in range(3)] == [True, False, False]
        written.processor.stop()
        assert written.lines == [("error", "away", 2)]
        written.line("away")
        time.sleep(0.1)
        assert written.line("away"), "in a window of its own"
        assert not written.line("away")
    assert not written.line("away"), "a thread is started"
    recordings.eventually(lambda: len(written.lines) == 2, "it writes the count")
    assert written.lines == [("error", "away", 2)] * 2


def test_lines_follow_a_standard_error_that_is_replaced_and_closed() -> None:
    code = """
import contextlib, io
from app import telemetry
stream = io.StringIO()
with contextlib.redirect_stderr(stream):
    telemetry.configure(form="json")
    for _ in range(3):
        telemetry.log.error("drift detected")
stream.close()
telemetry.log.error("next")
telemetry.close()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(line["event"], line.get("repeated")) for line in lines] == [
        ("next", None),
        ("drift detected", 2),
    ]


@pytest.mark.parametrize("count", [1, 500])
def test_a_process_writes_the_count_before_it_ends(count: int) -> None:
    code = f"""
from app import telemetry
telemetry.configure(form="json", process="auditor")
for _ in range({count}):
    telemetry.log.error("drift detected", kind="version")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [("drift detected", "error")] * min(count, 2)
    assert [line.get("repeated") for line in lines] == [None, count - 1][: len(lines)]
