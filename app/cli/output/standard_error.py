"""Standard error, which drops what it cannot write: a command that works needs no reader of its notes."""

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _File(io.FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        """Write what the system takes at once; drop all if it refuses, such as on a full disk."""
        # None: a pipe or a terminal that does not block, and is full.
        with contextlib.suppress(OSError):
            if (written := super().write(data)) is not None:
                return written
        return memoryview(data).nbytes


def guard() -> None:
    """Let standard error raise no OSError, even if the caller has closed it; one of a test stays as it is."""
    given = sys.stderr
    if given is not sys.__stderr__:
        return
    if given is None:
        # Log lines are written to this number: no file that is opened later may get it.
        nothing = os.open(os.devnull, os.O_WRONLY)
        file, encoding = os.dup2(nothing, 2), None
        if nothing != file:
            os.close(nothing)
    else:
        file, encoding = given.fileno(), given.encoding
    buffer = io.BufferedWriter(_File(file, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=True)
