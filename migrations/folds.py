"""The interface that a step needs from the present program: folding a log into the present views.

Steps are frozen and name keys only. The caller of the steps provides the fold, which decodes the events.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

Holds = Callable[[int, int], bool]
"""(offset, milliseconds) -> whether the log holds an entry at the offset that was appended then."""


class Fold(Protocol):
    """The state of a log at one offset."""

    @property
    def offset(self) -> int:
        """The offset reached."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts at the offset, without zeros."""
        ...

    @property
    def form(self) -> int:
        """The form of the counts' names (migrations.forms)."""
        ...

    def apply(self, payloads: Sequence[bytes]) -> Mapping[str, int]:
        """Apply the encoded events that follow; returns the new value of each changed count."""
        ...


class StepContext(Protocol):
    """Values that a step may need from outside the store."""

    @property
    def incarnation(self) -> str:
        """The id for a store without an incarnation."""
        ...

    @property
    def begin(self) -> Callable[[Holds], Fold]:
        """The state at the newest checkpoint that the log continues, else the empty state."""
        ...

    @property
    def patience(self) -> float:
        """Seconds within which a busy log must pause for two round trips."""
        ...


class MigrationRefused(Exception):
    """The store cannot be migrated to this version's schema; the text has the reason."""
