"""Errors of the store, by meaning.

Redis' own errors do not leave this package: callers decide by meaning (store away, lost race, lost
history), not by transport.
"""

import msgspec

MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are not the JSON of the type. Any client can write to the store."""


class StoreError(Exception):
    """Anything that keeps the store from doing what was asked."""


class StoreAway(StoreError):
    """The store cannot be reached, does not reply in time, or refuses work; the outcome is unknown."""


class Unsynced(StoreAway):
    """Placements must be on disk (store.placements: fsync), and the server replies before it syncs."""


_AWAY = "the store is away: "


def away(text: str) -> StoreAway:
    """The error of a store that cannot be reached, with what the client library reports."""
    return StoreAway(f"{_AWAY}{text}")


def cause(error: StoreError) -> str:
    """The text of the error for a sentence that begins with the fact that the store is away."""
    return str(error).removeprefix(_AWAY).removesuffix(".")


def obstacle(error: StoreError) -> str:
    """What keeps a verb from deciding, as the start of a sentence."""
    return str(error) if isinstance(error, OtherCluster) else f"the store is away ({cause(error)})"


class Behind(StoreAway):
    """This process has not read to the head of the log in time: too much to read, or too many readers."""


class Conflict(StoreError):
    """Another writer changed the same subjects first: catch up and decide again."""

    def __init__(self, subjects: tuple[str, ...]) -> None:
        super().__init__(f"changed since they were read: {', '.join(subjects)}")
        self.subjects = subjects


class CeilingReached(StoreError):
    """The count would exceed its ceiling: no capacity is left."""

    def __init__(self, key: str, count: int, ceiling: int) -> None:
        super().__init__(f"no capacity left in {key}: {count}/{ceiling}")
        self.key = key
        self.count = count
        self.ceiling = ceiling


class Fenced(StoreError):
    """Another writer has a later epoch, or the same one: this writer must stop."""

    def __init__(self, epoch: str, writer: str = "") -> None:
        who = writer or "another writer"
        super().__init__(f"{who} holds epoch {epoch}; this process may no longer write facts")
        self.epoch = epoch
        self.writer = writer


class OtherCluster(StoreError):
    """The log belongs to another Kubernetes cluster of the same name: nothing may be decided by it."""

    def __init__(self, name: str, found: str, here: str, meta: str) -> None:
        super().__init__(
            f"the store's log of cluster {name} is that of another Kubernetes cluster: its kube-system"
            f" namespace has UID {found}, here it has {here}; nothing is recorded or decided. Give one of the"
            " two another name (setting cluster), or a store of its own; only if the field kubernetes was"
            f" changed by hand, run HDEL {meta} kubernetes"
        )


class Rewound(StoreError):
    """The store lost events read here, or is in another incarnation: known positions are invalid."""


class Unbegun(StoreAway):
    """The store names an incarnation that no event of its log began: reads and appends are refused."""

    def __init__(self, incarnation: str, begun: str, meta: str) -> None:
        super().__init__(
            f"the store names incarnation {incarnation}, which no event of the log began: the log is {begun};"
            f" run HSET {meta} incarnation {begun}"
        )


class Gap(StoreError):
    """The log has a hole: entries were deleted by hand, or the store is damaged."""


class Trimmed(StoreError):
    """The log no longer reaches back that far."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"the log was trimmed; the oldest offset kept is {oldest}")
        self.oldest = oldest


class Superseded(StoreError):
    """The position is of a former incarnation: its offsets are not valid in the present log."""

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
    """The error for a store of schema ``found`` where ``needed`` is required."""
    todo = "run `topolog migrate up`" if found < needed else "use the newer Topolog that migrated it"
    return SchemaMismatch(f"the store has schema {found}, this version needs {needed}: {todo}")


ALIKE = (
    "install the same version and the same plugins everywhere; if this is the one to be used, run `topolog"
    " migrate up`"
)
"""What to do about counts that another version, or other plugins, keep."""


def rejected_counts() -> SchemaMismatch:
    """The error for an append to a store whose live counts are not those of this version and its plugins."""
    return SchemaMismatch(
        f"the store's live counts are not those that this version with its plugins keeps: {ALIKE}"
    )


def other_counts(live: str, wanted: str) -> SchemaMismatch:
    """The error for a store whose live counts are not in the form that this version and its plugins keep."""
    return SchemaMismatch(f"the store keeps {live}, this version with its plugins keeps {wanted}: {ALIKE}")


class Denied(StoreError):
    """The user in store.url lacks a permission."""


class Unreadable(StoreError):
    """An event in the log was written by a newer version, or is damaged."""


class Newer(Unreadable):
    """An event in the log has a type or a version that this process does not have."""

    def __init__(self, what: str) -> None:
        """``what``: the event, for a sentence of which process has to be upgraded."""
        super().__init__(f"{what}; upgrade this process")
        self.what = what


class NoServer(StoreError):
    """No Redis or Valkey server to start."""


class Damaged(StoreError):
    """A checkpoint or an archived segment is not as it was written."""


class ArchiveAway(StoreAway):
    """The archive cannot be reached or refuses: nothing is known of its files."""


class Busy(StoreError):
    """Other past positions are being read; the caller waited for too long."""

    def __init__(self, waited: float) -> None:
        super().__init__(f"other positions of the past are being read; waited {waited:g} s for them")


class Shortened(StoreError):
    """A decision cannot be recomputed: its record lacks a part of its inputs."""

    def __init__(self, identity: str, why: str) -> None:
        super().__init__(f"decision {identity} cannot be computed again: {why}")


class Held(StoreError):
    """A live reader has not read the entries to be trimmed."""

    def __init__(self, reader: str, offset: int) -> None:
        super().__init__(f"{reader} has read up to offset {offset} only: nothing behind that may be trimmed")
        self.reader = reader
        self.offset = offset


class Uncovered(StoreError):
    """No checkpoint covers these entries, so they cannot be trimmed."""


class BadHashes(StoreError):
    """The hash of a password is missing or malformed: no access list can be made."""


FATAL = (Gap, Trimmed, Unreadable, SchemaMismatch)
"""Errors that must end a loop: an operator has to act, and continuing would do harm."""
