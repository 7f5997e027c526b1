"""Why a process does not start: every wrong setting at once, so that nobody mends them one by one."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One setting that cannot be followed."""

    name: str
    """``store.url``, as in the file."""
    source: str
    """Where the value came from: the environment variable, or the file."""
    value: str
    """As it was given; ``(hidden)`` for secrets; empty if there is none to show."""
    allowed: str
    """What is wrong, and what would be right."""

    def __str__(self) -> str:
        given = f" = {self.value}" if self.value else ""
        source = f" ({self.source})" if self.source != self.name else ""
        return f"{self.name}{given}{source}: {self.allowed}"


class SettingsRefused(Exception):
    """The settings cannot be followed; the text names each, its value, and what is allowed."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
