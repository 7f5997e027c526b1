"""What can go wrong between a process and its store.

Redis' own errors do not leave this package: callers decide by meaning (away, lost a race, lost
history), not by transport.
"""


class StoreError(Exception):
    """Anything that keeps the store from doing what was asked."""


class StoreAway(StoreError):
    """The store cannot be reached, does not answer in time, or refuses work for now; nothing is known."""


class Conflict(StoreError):
    """Somebody else wrote about the same subjects first: catch up, decide again."""

    def __init__(self, subjects: tuple[str, ...]) -> None:
        super().__init__(f"changed since they were read: {', '.join(subjects)}")
        self.subjects = subjects


class CeilingReached(StoreError):
    """The count would exceed its ceiling: the last place is taken."""

    def __init__(self, key: str, count: int, ceiling: int) -> None:
        super().__init__(f"no room left in {key}: {count}/{ceiling}")
        self.key = key
        self.count = count
        self.ceiling = ceiling


class Fenced(StoreError):
    """A writer with a later epoch, or another one with the same, is at work: this one must stop."""

    def __init__(self, epoch: str, writer: str = "") -> None:
        who = writer or "another writer"
        super().__init__(f"{who} holds epoch {epoch}; this process must not write facts any more")
        self.epoch = epoch
        self.writer = writer


class OtherCluster(StoreError):
    """The log is that of another Kubernetes cluster of the same name."""

    def __init__(self, name: str, found: str, here: str) -> None:
        super().__init__(
            f"the store's log of cluster {name} is that of another Kubernetes cluster: its kube-system"
            f" namespace has UID {found}, here it has {here}; nothing is recorded. Give one of the two"
            " another name (setting cluster), or a store of its own"
        )


class Rewound(StoreError):
    """The store lost events that were known here, or belongs to another incarnation: no position holds."""


class Unbegun(StoreAway):
    """The store names an incarnation that no event of its log began: nobody reads or appends there."""

    def __init__(self, incarnation: str, said: str, meta: str) -> None:
        super().__init__(
            f"the store names incarnation {incarnation}, which no event of the log began: the log is {said};"
            f" run HSET {meta} incarnation {said}"
        )


class Gap(StoreError):
    """The log has a hole: entries were deleted by hand, or the store is damaged."""


class Trimmed(StoreError):
    """The log no longer reaches back that far."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"the log was trimmed; the oldest offset kept is {oldest}")
        self.oldest = oldest


class Superseded(StoreError):
    """The position is of a former incarnation: its offsets mean nothing in the present log."""

    def __init__(self, incarnation: str, present: str, oldest: int) -> None:
        super().__init__(
            f"the log is {present} now, and positions of {incarnation} mean nothing in it; the oldest one"
            f" that is kept is {present}/{oldest}"
        )


class Beyond(StoreError):
    """The log does not reach that far yet."""

    def __init__(self, offset: int, head: int) -> None:
        super().__init__(f"offset {offset} is not written yet; the log ends at {head}")
        self.head = head


class SchemaMismatch(StoreError):
    """The store's schema is not the one that this version works with."""


def mismatch(found: int, needed: int) -> SchemaMismatch:
    """A store of schema ``found`` where ``needed`` is."""
    todo = "run `topolog migrate up`" if found < needed else "use the newer Topolog that migrated it"
    return SchemaMismatch(f"the store has schema {found}, this version needs {needed}: {todo}")


class Denied(StoreError):
    """The user of store.url may not do this."""


class Unreadable(StoreError):
    """An event in the log was written by a newer version, or is damaged."""


class NoServer(StoreError):
    """No Redis or Valkey server to start."""


class Damaged(StoreError):
    """A checkpoint or an archived segment is not as it was written."""


class Busy(StoreError):
    """Other past positions are being read, and it was not this caller's turn in time."""

    def __init__(self, waited: float) -> None:
        super().__init__(f"other positions of the past are being read; waited {waited:g} s for them")


class Shortened(StoreError):
    """A decision cannot be computed again: its record does not hold all that it was made from."""

    def __init__(self, identity: str, why: str) -> None:
        super().__init__(f"decision {identity} cannot be computed again: {why}")


class Held(StoreError):
    """A reader still needs what was to be trimmed."""

    def __init__(self, reader: str, offset: int) -> None:
        super().__init__(f"{reader} has read up to offset {offset} only: nothing behind that may be trimmed")
        self.reader = reader
        self.offset = offset


class Uncovered(StoreError):
    """No checkpoint lets the entries be done without."""


FATAL = (Gap, Trimmed, Unreadable, SchemaMismatch)
"""What a loop must not survive: a person has to look, and to go on would do harm."""
