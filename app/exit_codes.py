"""Exit codes of ``topolog`` and of the workers' processes, and the message of refused settings."""

from typing import Final

from app import settings
from app.framework import registry

OK: Final = 0
NEGATIVE: Final = 1
"""The command worked; a check failed, or the object was not found."""
USAGE: Final = 2
SETTINGS: Final = 3
STORE: Final = 4
"""The store is unavailable, for eleven minutes to a process that starts, or has a different schema."""
UNREACHABLE: Final = 5
"""The API server or the extender is unreachable, or rejects the request."""
PORT_IN_USE: Final = 6
"""A port is in use by another process."""
OUTPUT_LOST: Final = 7
"""Standard output cannot be written, such as to a full disk."""
INTERRUPTED: Final = 130
"""128 and the number of SIGINT, as of a program that the signal ended."""
OUTPUT_CLOSED: Final = 141
"""128 and the number of SIGPIPE, as of a program that the signal ended."""

EPILOG: Final = """\b
Exit codes:
  0  success
  1  negative result: check failed or object not found
  2  usage error
  3  invalid settings or certificates
  4  the store is unavailable (processes wait eleven minutes for it), or has a different schema
  5  the API server or the extender is unreachable, or rejects the request
  6  a port is in use by another process
  7  the output cannot be written, such as to a full disk
  130  interrupted, such as by Ctrl-C
  141  the reader of the output has closed it, such as head
"""

InvalidSettings = settings.SettingsRefused | registry.ConfigurationRefused
"""Errors that end a process with SETTINGS."""


def message(refused: InvalidSettings) -> str:
    """The message for the operator; one line for each invalid setting."""
    if isinstance(refused, registry.ConfigurationRefused):
        return f"invalid plugin settings: {refused}"
    return "\n".join(("invalid settings:", *(f"  {problem}" for problem in refused.problems)))
