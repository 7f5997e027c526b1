"""A terminal shows what a command waits for, and a file does not."""

import os
import pty
import sys

import pytest

from app.cli.output import progress
from tests.support import polling


def test_a_terminal_shows_what_is_waited_for_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    seen = bytearray()

    def shows(text: bytes) -> bool:
        seen.extend(os.read(master, 4096))
        return text in seen

    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress.shown("waiting", each=0.01) as line:
            polling.eventually(lambda: shows(b"waiting (0 s)"), "the first text", every=0.0)
            line.text = "half of it"
            polling.eventually(lambda: shows(b"half of it ("), "the second text", every=0.0)
        polling.eventually(lambda: shows(b"\r\x1b[K"), "the end", every=0.0)
    os.close(master)
    assert seen.endswith(b"\r\x1b[K")


def test_a_file_gets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown("waiting", each=0.0) as line:
        line.text = "still"
    assert capsys.readouterr().err == ""
