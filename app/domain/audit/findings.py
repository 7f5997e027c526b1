"""The findings of an audit: differences, repairs, and the report that holds them.

Values only: the auditor creates them, the store keeps the latest report, the API serves it.
"""

from collections.abc import Container, Iterator, Mapping

import msgspec

KINDS: Mapping[str, str] = {
    "count": "a stored count differs from the log",
    "version": "a stored version differs from the log",
    "head": "the metadata of the store does not match the end of its log",
    "lost": "entries are missing at the end of the log",
    "hole": "an entry is missing inside the log",
    "edited": "an entry changed after it was first read",
    "foreign": "an entry was not written by the append function",
    "unreadable": "an entry cannot be decoded as an event of any version",
    "fence": "a fact was not written by the recorder elected at that time",
    "checkpoint": "a checkpoint is corrupt, or differs from the state at its offset",
    "past": "the state folded from one checkpoint differs from the next checkpoint",
    "uncovered": "the start of the log is missing, and no checkpoint covers the missing part",
    "fact": "an object differs between the log and the API server",
    "placement": "a pod that does not exist holds a placement",
    "mistyped": "a key of the store has the wrong type",
    "meta": "a field of meta has a wrong value",
    "unknown": "meta has a field that this version does not have",
    "tail": "nothing can be appended, because the stream has an id beyond the end of the log",
}
"""Kind of difference -> description."""

LOG = frozenset(("head", "lost", "hole", "edited", "unreadable", "past", "uncovered"))
"""Kinds that cast doubt on the log itself: no view is repaired from it while one of them is open."""

UNUSABLE = LOG | {"count", "version", "foreign", "mistyped", "meta", "tail"}
"""Kinds that make every extender not ready: the log, or a view that appends are checked against, is wrong."""


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A deviation of the store from the log, or of the log from the API server."""

    kind: str
    """One of KINDS."""
    key: str
    """What differs: a count key, a subject, ``entry:OFFSET``, ``checkpoint:OFFSET`` or a field of meta."""
    expected: str
    found: str
    first: int
    """The first offset at which it may have appeared; equal to ``offset`` if that is known."""
    last: int
    """The offset at which it was last found."""
    offset: int = 0
    """The offset of the event that caused it; 0 if unknown."""
    writer: str = ""
    """The writer of that event, or every writer between ``first`` and ``last``; empty without one."""
    blame: str = ""
    """A sentence on the likely cause."""
    run: str = ""
    """The command that corrects it; empty if it is repaired, or if a command is not enough."""

    @property
    def identity(self) -> tuple[str, str]:
        """Kind and key; findings with the same identity are the same difference."""
        return self.kind, self.key


class Repair(msgspec.Struct, frozen=True, omit_defaults=True):
    """A repair that the auditor made or requested."""

    offset: int
    """Offset of the repair's event."""
    at_ms: int
    what: str
    """``counts``, ``versions``, or the kind whose list was requested."""
    keys: tuple[str, ...] = ()
    reason: str = ""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of the auditor's latest run."""

    incarnation: str
    offset: int
    """Offset at which counts, versions and the end of the log were compared."""
    at_ms: int
    """Time of the run by the store's clock, in milliseconds."""
    by: str
    every: float
    """Seconds between two runs; a report that is much older is stale."""
    oldest: int = 0
    """The first entry of the log."""
    folded: int = 0
    """The offset from which the auditor folded the log."""
    proven: int = 0
    """Progress of the current pass over the log: entries up to this offset are unchanged."""
    passes: int = 0
    """Complete passes over the log since the auditor started."""
    versions: int = 0
    """The offset at which all versions were last compared; each run compares some of them."""
    checkpoints: dict[str, int] = {}
    """Offset of a checkpoint -> offset at which it was last verified."""
    facts: dict[str, int] = {}
    """Kind -> offset at which all its objects were last compared with the API server's."""
    listings: int = 0
    """Complete comparisons of a kind with the API server since the auditor started."""
    complete: bool = False
    """Whether everything has been compared at least once."""
    waiting: dict[str, str] = {}
    """Check that has not run -> reason."""
    differences: tuple[Difference, ...] = ()
    """The first hundred."""
    total: int = 0
    """Number of all differences."""
    repairs: tuple[Repair, ...] = ()
    """The latest twenty."""
    compared_ms: int | None = None
    """Time of the last comparison of counts and versions, 0 if there was none; None: that of the run."""
    problem: str = ""
    """Why extenders must not rely on the store, and what to run; empty if they may."""


class Board:
    """The open differences."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Difference] = {}
        self.found: list[Difference] = []
        """Differences that are new or were replaced since a caller last cleared this list."""

    def __iter__(self) -> Iterator[Difference]:
        return iter(self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def put(self, difference: Difference) -> None:
        """Open or update a difference; its attribution stays that of the first finding."""
        known = self._open.get(difference.identity)
        if known is None:
            self.found.append(difference)
        elif known != difference:
            difference = msgspec.structs.replace(
                known, expected=difference.expected, found=difference.found, last=difference.last
            )
        self._open[difference.identity] = difference

    def replace(self, difference: Difference) -> None:
        """Open a difference, or replace it together with its attribution."""
        if self._open.get(difference.identity) != difference:
            self.found.append(difference)
        self._open[difference.identity] = difference

    def settle(self, kind: str, key: str) -> None:
        """Close a difference, if it is open."""
        self._open.pop((kind, key), None)

    def clear(self) -> None:
        """Close every difference."""
        self._open.clear()

    def keep(self, kind: str, keys: Container[str]) -> None:
        """Close every difference of the kind whose key is not among these."""
        for identity in [one for one in self._open if one[0] == kind and one[1] not in keys]:
            del self._open[identity]

    def of(self, *kinds: str) -> list[Difference]:
        """The open differences of these kinds, sorted by key."""
        return sorted((one for one in self if one.kind in kinds), key=lambda one: one.key)

    def counted(self) -> dict[str, int]:
        """Kind -> number of open differences, for every kind."""
        counted = dict.fromkeys(KINDS, 0)
        for one in self:
            counted[one.kind] += 1
        return counted
