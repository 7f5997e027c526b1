"""The program `topolog` of a console session: `python console_program.py LOGS WORD...`.

It imports nothing of the project, because it starts once for each command of a page.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

_LASTING = {
    ("dashboard",): "Ctrl-C",
    ("bundle", "open"): "Ctrl-C",
    ("up",): "health:",
    ("watch",): "",  # writes nothing before an event happens
}
"""First words of the commands that run until they are interrupted -> what shows that they work."""


def main(logs: pathlib.Path, words: Sequence[str]) -> int:
    """Run the command line. The exit code 1 of an answer (a difference, a finding) is no failure here."""
    command = [sys.executable, "-m", "app.cli", *words]
    if (shown := _shown(words)) is not None:
        return _left_running(logs, command, shown)
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    failed = re.search(r"^topolog: ", done.stderr, re.MULTILINE)
    return 0 if done.returncode == 1 and not failed else done.returncode


def _shown(words: Sequence[str]) -> str | None:
    """What a command writes that runs until it is interrupted; None of one that ends."""
    if "-w" in words:
        return "\n"
    return next((shown for first, shown in _LASTING.items() if tuple(words[: len(first)]) == first), None)


def _left_running(logs: pathlib.Path, command: Sequence[str], shown: str) -> int:
    """Start a command, and return once it works, or 1 if it has ended."""
    name = f"{len(list(logs.glob('*.pid'))):02}"
    log, pid, code = (logs / f"{name}.{kind}" for kind in ("log", "pid", "code"))
    log.touch()
    if os.fork() == 0:
        # A shell has what is in the background ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with log.open("ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        pid.write_text(str(process.pid))
        os.closerange(0, 3)  # who reads the output of the session waits for no process that is left
        unfinished = code.with_suffix(".new")
        unfinished.write_text(str(process.wait()))
        unfinished.rename(code)
        os._exit(0)
    while not (pid.exists() and shown in log.read_text()):
        if code.exists():
            return 1
        time.sleep(0.05)
    sys.stdout.write(log.read_text())
    return int(code.exists())


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
