"""What is appended, and under which conditions: the arguments of the function that writes."""

from collections.abc import Mapping, Sequence

import msgspec

from app.domain import events, projecting
from app.store import codecs, keys

MOST_EVENTS = 256
"""Events a call: a function that has begun to write cannot be stopped, so it must be short."""


class Guard(msgspec.Struct, frozen=True):
    """What must hold for a batch to be appended; the default asks for nothing."""

    epoch: str = ""
    """The writer's fence, a decimal number of any length; a lower one than the store's is refused."""
    writer: str = ""
    """Who holds the epoch: of two writers with the same one only the first may write."""
    incarnation: str = ""
    """The history that the versions, the head and the increments were read in; empty: the present one."""
    head: int | None = None
    """The last offset of the log."""
    versions: Mapping[str, int] = {}
    """Subject -> offset of its latest event, 0 if it must not exist (Snapshot.version)."""
    ceilings: Mapping[str, int] = {}
    """Count key -> the most that the count may be once the batch is counted."""


class Batch(msgspec.Struct, frozen=True):
    """What is written in one go: all of it or nothing."""

    events: Sequence[events.AnyEvent]
    """At most 256."""
    increments: Mapping[str, int] = {}
    """By how much the events change each count (Projection.increments)."""
    marks: Mapping[str, str] = {}
    """Checkpoints to set beside them, such as ``{"rv:pods": "123"}``."""
    run: str = ""
    """The run of the server that a recorder vouches for; refused if it is not the present one."""
    kubernetes: str = ""
    """The UID of the Kubernetes cluster that it is of; refused if the log is another one's."""


class Appended(msgspec.Struct, frozen=True):
    """Where a batch stands in the log; ``last`` is ``first - 1`` if it held no events."""

    first: int
    last: int
    repeated: bool
    """The store had carried the call out before: its first answer was lost."""
    at_ms: int = 0
    """When it was appended, by the store's clock."""


def arguments(batch: Batch, guard: Guard) -> list[str | bytes | int]:
    """The flat argument list of the function append, from the epoch on."""
    if len(batch.events) > MOST_EVENTS:
        raise ValueError(f"a batch of {len(batch.events)} events; at most {MOST_EVENTS} go into one call")
    if guard.epoch and not (guard.epoch.isascii() and guard.epoch.isdigit()):
        raise ValueError(f"epoch {guard.epoch!r} is not a decimal number")
    if not keys.RESERVED.isdisjoint(batch.marks):
        raise ValueError(f"marks must not be named like {', '.join(sorted(keys.RESERVED))}")
    touched: dict[str, int] = {}
    for place, event in enumerate(batch.events, 1):
        for subject in projecting.touched(event):
            touched[subject] = 0 if projecting.ends(event, subject) else place
    increments = {key: by for key, by in batch.increments.items() if by}
    claims = {keys.RUN: batch.run, keys.KUBERNETES: batch.kubernetes}
    marks = {**batch.marks, **{name: value for name, value in claims.items() if value}}
    pairs = (touched, guard.versions, guard.ceilings, increments, marks)
    flat: list[str | bytes | int] = [
        guard.epoch,
        guard.writer,
        "" if guard.head is None else guard.head,
        len(batch.events),
        *map(len, pairs),
    ]
    flat.extend(map(codecs.encode, batch.events))
    for mapping in pairs:
        for key, value in mapping.items():
            flat.append(key)
            flat.append(value)
    return flat
