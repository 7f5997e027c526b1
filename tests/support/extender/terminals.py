"""Runs commands in this process, as a terminal would."""

import dataclasses
import sys
from typing import NamedTuple

import pytest

from app import cli
from app.cli import exits


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclasses.dataclass
class Terminal:
    """Runs commands in this process."""

    patch: pytest.MonkeyPatch
    captured: pytest.CaptureFixture[str]

    def run(self, *arguments: object) -> Done:
        """Run ``topolog`` until it exits."""
        self.captured.readouterr()
        self.patch.setattr(sys, "argv", ["topolog", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            exits.run(cli.topolog)
        written = self.captured.readouterr()
        return Done(int(ended.value.code or 0), written.out, written.err)
