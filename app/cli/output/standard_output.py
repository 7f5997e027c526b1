"""Standard output, of which an error differs from those of files and connections.

A command handles an OSError of its files, and click ends with exit code 1 after EPIPE of anything.
"""

import errno
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Unwritten(Exception):
    """Standard output takes nothing more; the message has the reason of the system."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror)
        self.closed = error.errno == errno.EPIPE
        """Its reader has closed it, such as head."""


class _File(io.FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        """Write what the system takes at once. Raises Unwritten."""
        try:
            return super().write(data)
        except OSError as error:
            raise Unwritten(error) from error


def guard() -> None:
    """Let standard output raise Unwritten, even if the caller has closed it; one of a test stays as it is."""
    given = sys.stdout
    if given is not sys.__stdout__:
        return
    if given is None:
        # As the tools of GNU do: every write to it fails, and no file that is opened later becomes it.
        file, encoding, errors, by_line = os.open(os.devnull, os.O_RDONLY), None, None, False
    else:
        file, encoding, errors, by_line = given.fileno(), given.encoding, given.errors, given.line_buffering
    buffer = io.BufferedWriter(_File(file, "w", closefd=False))
    sys.stdout = io.TextIOWrapper(buffer, encoding, errors, line_buffering=by_line)


def discard() -> None:
    """Discard what is left: Python would write it when it ends, and report that it could not."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
