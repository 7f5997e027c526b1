"""A line on the terminal while a command waits; nothing where standard error is not a terminal."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

import click

_EACH: Final = 1.0
"""Seconds between two lines; what ends before shows none."""
_CLEARED: Final = "\r\033[K"


class ProgressLine:
    """What is waited for, and for how long so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._began = time.monotonic()

    def __str__(self) -> str:
        return f"{self.text} ({time.monotonic() - self._began:.0f} s)"


@contextlib.contextmanager
def shown(text: str, *, each: float = _EACH) -> Iterator[ProgressLine]:
    """Show a text, which the block may change, with the seconds so far; it is gone at the end."""
    line, ended = ProgressLine(text), threading.Event()

    def write() -> None:
        while not ended.wait(each):
            click.echo(f"{_CLEARED}{line}", nl=False, err=True)

    if not sys.stderr.isatty():
        yield line
        return
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield line
    finally:
        ended.set()
        writer.join()
        click.echo(_CLEARED, nl=False, err=True)
