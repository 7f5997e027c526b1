"""What a step needs of the program of today: to fold a log into the views of today.

The steps are of the past and know keys; what events mean is known in one place only, which is not
here. Whoever runs the steps brings it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

Holds = Callable[[int, int], bool]
"""(offset, milliseconds) -> whether the log holds the entry at the offset, appended then."""


class Fold(Protocol):
    """A log as far as it was folded."""

    @property
    def offset(self) -> int:
        """How far that is."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts there, without zeros."""
        ...

    @property
    def form(self) -> int:
        """The form of the counts' names (migrations.forms)."""
        ...

    def apply(self, payloads: Sequence[bytes]) -> Mapping[str, int]:
        """Fold the events that follow, as they stand in the log; what each count that changed is now."""
        ...


class Context(Protocol):
    """What a step may need from outside the store."""

    @property
    def incarnation(self) -> str:
        """For a store that has none: which history this is."""
        ...

    @property
    def begin(self) -> Callable[[Holds], Fold]:
        """The fold up to the newest checkpoint that the log goes on from, else of nothing."""
        ...

    @property
    def patience(self) -> float:
        """Seconds in which a busy log must pause for as long as two round trips."""
        ...


class Refused(Exception):
    """The store cannot be brought to this version's schema; the text says why."""
