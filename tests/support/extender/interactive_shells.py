"""An interactive bash, zsh or fish in a terminal of its own, in which a test types."""

import contextlib
import os
import pty
import select
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Final

_STARTS: Final[Mapping[str, tuple[list[str], str]]] = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(topolog completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -Uz compinit; compinit -u -D; source <(topolog completion zsh)",
    ),
    "fish": (["fish", "--no-config", "--private", "-i"], "topolog completion fish | source"),
}
"""Shell -> its command without files of the user, and the line of the help that turns completion on."""
SHELLS: Final = tuple(_STARTS)
_READY: Final = "it-is-ready"
_SECONDS: Final = 90.0
_OF_AN_ATTEMPT: Final = 10.0


def completed(shell: str, typed: str, expected: str, environ: Mapping[str, str]) -> None:
    """Press Tab after a text, and wait until the line reads as expected; for names, in several shells.

    Raises AssertionError with what the terminal shows.
    """
    end = time.monotonic() + _SECONDS
    while True:
        try:
            with _terminal(shell, environ) as terminal:
                os.write(terminal, f"{typed}\t".encode())
                _await(terminal, expected, within=_OF_AN_ATTEMPT)
            return
        except AssertionError:
            # A name that an extender does not answer in time is not completed.
            if time.monotonic() > end:
                raise


@contextlib.contextmanager
def _terminal(shell: str, environ: Mapping[str, str]) -> Iterator[int]:
    """The terminal of a shell that is ready for commands."""
    command, start = _STARTS[shell]
    process, terminal = pty.fork()
    if process == 0:
        # A dumb terminal shows text without control sequences.
        os.execvpe(command[0], command, {**environ, "TERM": "dumb"})
    try:
        # The word is typed in two parts, so that the echo of the line is not taken for its output.
        os.write(terminal, f"{start}\necho {_READY[:5]}''{_READY[5:]}\n".encode())
        _await(terminal, _READY, within=_SECONDS)
        yield terminal
    finally:
        os.close(terminal)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _await(terminal: int, expected: str, *, within: float) -> None:
    end, shown = time.monotonic() + within, ""
    while expected not in shown:
        readable, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert readable, f"{expected!r} is not shown: {shown!r}"
        shown += os.read(terminal, 65536).decode(errors="replace")
