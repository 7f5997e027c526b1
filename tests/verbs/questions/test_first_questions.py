"""The first questions of a process, asked by several clients at once."""

import subprocess
import sys

from tests.support.decisions import first_questions


def test_no_process_crashes_whose_threads_read_its_first_questions_at_once() -> None:
    """msgspec ends a process with SIGSEGV if two threads use a type first: see app/converters.py."""
    command = [sys.executable, "-m", first_questions.__name__]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (ended.stdout, ended.stderr) == ("[0]\n", "")
