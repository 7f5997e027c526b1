"""What an audit found: differences, each with a key, where it began and who wrote there.

Values only: the auditor makes them (workers.auditing), the store keeps the latest report, the API shows it.
"""

from collections.abc import Container, Iterator, Mapping

import msgspec

KINDS: Mapping[str, str] = {
    "count": "a stored count is not that of the log",
    "version": "a stored version is not that of the log",
    "head": "what the store says of the end of its log does not hold",
    "lost": "entries are missing at the end of the log",
    "hole": "an entry is missing inside the log",
    "edited": "an entry is not what it was when it was first read",
    "foreign": "an entry was not written by the store's function",
    "unreadable": "an entry is no event",
    "fence": "a fact was not recorded by the recorder of its time",
    "checkpoint": "a checkpoint is damaged, or is not the state at its offset",
    "past": "folding the log from one checkpoint does not lead to the next",
    "uncovered": "the log does not reach its beginning, and no checkpoint holds what is before it",
    "fact": "the log and the API server say different things of an object",
    "placement": "a pod that is not in the cluster holds a place",
    "mistyped": "a key of the store is of another type than it should be",
    "meta": "a field of meta is not what it should be",
    "tail": "nothing can be appended, because the stream gave an id beyond the end of the log",
}
"""What a difference may be."""

LOG = frozenset(("head", "lost", "hole", "edited", "unreadable", "past", "uncovered"))
"""Kinds that speak against the log itself: nothing is repaired by it while one of them stands."""

UNUSABLE = LOG | {"count", "version", "foreign", "mistyped", "meta", "tail"}
"""Kinds under which no extender is ready: the log, or what is checked when it is appended to, is wrong."""


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is not as it should be."""

    kind: str
    """One of KINDS."""
    key: str
    """What differs: a count key, a subject, ``entry:OFFSET``, ``checkpoint:OFFSET``, or a field of meta."""
    expected: str
    found: str
    first: int
    """The first offset at which it may have appeared; if ``offset`` is known, that."""
    last: int
    """The offset at which it was found."""
    offset: int = 0
    """The offset of the event it comes from, if there is one and it is known; else 0."""
    writer: str = ""
    """Who wrote that event, or everybody who wrote between ``first`` and ``last``; empty if nobody did."""
    blame: str = ""
    """In words: how it came about, as far as that can be known."""
    run: str = ""
    """The command that puts it right; empty if it is repaired, or needs more than a command."""

    @property
    def identity(self) -> tuple[str, str]:
        """Two of the same identity are the same difference, seen twice."""
        return self.kind, self.key


class Repair(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was done about differences."""

    offset: int
    """Of the event."""
    at_ms: int
    what: str
    """counts, versions, or the kind whose list was asked for."""
    keys: tuple[str, ...] = ()
    reason: str = ""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the latest turn of the auditor knows."""

    incarnation: str
    offset: int
    """Counts, versions and the end of the log were compared here."""
    at_ms: int
    """When, by the store's clock."""
    by: str
    every: float
    """Seconds between two turns: a report that is much older is none."""
    oldest: int = 0
    """The first entry of the log."""
    folded: int = 0
    """The offset from which the auditor folded the log itself."""
    proven: int = 0
    """How far the latest pass over the past has come: entries up to here are still what they were."""
    passes: int = 0
    """Passes over the whole past since the auditor started."""
    versions: int = 0
    """The offset at which all versions were last compared; at each turn some of them are."""
    checkpoints: dict[str, int] = {}
    """Offset -> offset at which the checkpoint there was last proven."""
    facts: dict[str, int] = {}
    """Kind -> offset at which all its objects were last compared with the API server's."""
    listings: int = 0
    """Kinds that were compared completely, each time counted, since the auditor started."""
    complete: bool = False
    """Everything was compared at least once."""
    waiting: dict[str, str] = {}
    """What has not been looked at, and why."""
    differences: tuple[Difference, ...] = ()
    """The first hundred."""
    total: int = 0
    """How many there are."""
    repairs: tuple[Repair, ...] = ()
    """The latest twenty."""
    trouble: str = ""
    """Why no extender may rely on the store, and what to run; empty if all may."""


class Board:
    """The differences that stand."""

    def __init__(self) -> None:
        self._standing: dict[tuple[str, str], Difference] = {}
        self.found: list[Difference] = []
        """What was put up since somebody last emptied this list."""

    def __iter__(self) -> Iterator[Difference]:
        return iter(self._standing.values())

    def __len__(self) -> int:
        return len(self._standing)

    def put(self, difference: Difference) -> None:
        """It stands. Where it began and by whom stays as it was found first."""
        known = self._standing.get(difference.identity)
        if known is None:
            self.found.append(difference)
        elif known != difference:
            difference = msgspec.structs.replace(
                known, expected=difference.expected, found=difference.found, last=difference.last
            )
        self._standing[difference.identity] = difference

    def replace(self, difference: Difference) -> None:
        """It stands, and more is known of it than before."""
        if self._standing.get(difference.identity) != difference:
            self.found.append(difference)
        self._standing[difference.identity] = difference

    def settle(self, kind: str, key: str) -> None:
        """It does not stand any more."""
        self._standing.pop((kind, key), None)

    def clear(self) -> None:
        """Nothing stands any more."""
        self._standing.clear()

    def keep(self, kind: str, keys: Container[str]) -> None:
        """Of this kind only these stand."""
        for identity in [one for one in self._standing if one[0] == kind and one[1] not in keys]:
            del self._standing[identity]

    def of(self, *kinds: str) -> list[Difference]:
        """Those of some kinds, by key."""
        return sorted((one for one in self if one.kind in kinds), key=lambda one: one.key)

    def counted(self) -> dict[str, int]:
        """Kind -> how many stand; every kind."""
        counted = dict.fromkeys(KINDS, 0)
        for one in self:
            counted[one.kind] += 1
        return counted
