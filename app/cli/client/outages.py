"""Keeps a long-running command going while the server cannot be reached, or is busy."""

import time

import click

from app.cli import exits

_WAITS = (1.0, 2.0, 4.0, 8.0, 9.0, 9.0, 9.0, 9.0, 9.0)
"""Seconds before each further attempt: a minute together."""


class Outage:
    """Failures without a success between them."""

    def __init__(self) -> None:
        self._failures = 0

    def over(self) -> None:
        """An attempt has succeeded."""
        self._failures = 0

    def wait(self, failed: exits.Failed) -> None:
        """Return when it is time for the next attempt; the first failure is reported on standard error.

        Raises the failure if it is not temporary, or has lasted for a minute.
        """
        if not failed.temporary or self._failures == len(_WAITS):
            raise failed
        if not self._failures:
            click.echo(f"topolog: {failed.message}; trying again for {sum(_WAITS):.0f} s", err=True)
        self._failures += 1
        time.sleep(_WAITS[self._failures - 1])
