"""Errors of the settings: all invalid settings are reported together."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InvalidSetting:
    """One invalid setting."""

    name: str
    """``store.url``, as in the file."""
    source: str
    """The origin of the value: the environment variable, or the file."""
    value: str
    """The value as given; ``(hidden)`` for secrets; may be empty."""
    allowed: str
    """What is wrong and which values are allowed."""

    def __str__(self) -> str:
        given = f" = {self.value}" if self.value else ""
        source = f" ({self.source})" if self.source != self.name else ""
        return f"{self.name}{given}{source}: {self.allowed}"


class SettingsRefused(Exception):
    """Invalid settings; the message lists each with its value and the allowed values."""

    def __init__(self, problems: Sequence[InvalidSetting]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
