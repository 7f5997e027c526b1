"""Runs the commands of a page as a reader does: in one shell, from its first block to its last.

A command that runs until Ctrl-C is left running, as in another terminal, once it works; at the end it
is interrupted, and has to end by itself.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.support import commands, console_program, how_to_pages, polling

_STRICT = """\
set -uE -o pipefail
# 141: a program whose reader, such as head, had enough.
trap 'code=$?; [ $code = 141 ] || exit $code' ERR
"""
_NOW = 'import datetime as d; print(d.datetime.now(d.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))'
NOW = f"$({sys.executable} -c '{_NOW}')"
"""The present in words of the shell. A whole second can be before the first event of a world."""


class Session:
    """A folder in which a page is tried, with programs of its own on the path."""

    def __init__(self, folder: pathlib.Path, **environ: str) -> None:
        self.work = folder / "work"
        self._programs = folder / "programs"
        self._lasting = folder / "lasting"
        for each in (self.work, self._programs, self._lasting):
            each.mkdir()
        self.environ = commands.environment(environ)
        self.environ["PATH"] = os.pathsep.join((str(self._programs), os.environ["PATH"]))
        self.add("topolog", f'exec {sys.executable} {console_program.__file__} {self._lasting} "$@"')

    def add(self, name: str, script: str) -> None:
        """Put a program on the path."""
        program = self._programs / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def run(
        self,
        blocks: Sequence[how_to_pages.Block],
        names: Mapping[str, str],
        *,
        live: Callable[[], None] = lambda: None,
    ) -> str:
        """Run the blocks with names of the page replaced, in one shell; the output. Every command succeeds.

        ``live``: makes something happen that commands which watch will show. It is called until they have,
        because such a command writes nothing when it has connected.
        """
        script = _STRICT
        for block in blocks:
            script += f"echo '### {block.page}:{block.line}'\n{_replaced(block.text, names)}"
        with self._ended(live):
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=self.work,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout
        return done.stdout

    @contextlib.contextmanager
    def _ended(self, live: Callable[[], None]) -> Iterator[None]:
        """Interrupt what is left running at the end, the last first, and check that it ends as it should."""
        try:
            yield
            for pid in sorted(self._lasting.glob("*.pid"), reverse=True):
                log, code = pid.with_suffix(".log"), pid.with_suffix(".code")

                def line(log: pathlib.Path = log) -> str:
                    if not (found := log.read_text()):
                        live()
                    return found

                polling.eventually(line, f"a line in {log}", within=60, every=2)
                if not code.exists():
                    os.kill(int(pid.read_text()), signal.SIGINT)
                polling.eventually(code.exists, f"the end of {log}", within=60, seen=log.read_text)
                assert code.read_text() in ("0", "130"), log.read_text()
        finally:
            for pid in self._lasting.glob("*.pid"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(int(pid.read_text()), signal.SIGKILL)


def _replaced(text: str, names: Mapping[str, str]) -> str:
    if not names:
        return text
    longest = sorted(names, key=len, reverse=True)
    pattern = "|".join(re.escape(name) for name in longest)
    return re.sub(rf"(?<![\w.-])(?:{pattern})(?![\w-])", lambda found: names[found[0]], text)
