"""Batches of events and the guards under which they are appended."""

from collections.abc import Mapping, Sequence

import msgspec

from app.domain import event_subjects, events
from app.store import keys
from app.store.log import codecs

MAX_EVENTS = 1000
"""Events per call: a function that has begun to write cannot be interrupted, so it must be short. All
placements of a commitment can be released in one call (app.framework.plans.MAX_PLACEMENTS)."""


class Guard(msgspec.Struct, frozen=True):
    """Conditions for appending a batch; the default has none."""

    epoch: str = ""
    """Fencing number of the writer, decimal, of any length; lower than the store's is refused."""
    writer: str = ""
    """Identity of the writer: of two writers with the same epoch only the first may write."""
    incarnation: str = ""
    """The incarnation in which versions, head and increments were read; empty: the present one."""
    head: int | None = None
    """The last offset of the log."""
    versions: Mapping[str, int] = {}
    """Subject -> offset of its latest event, 0 if it must not exist (Snapshot.version)."""
    ceilings: Mapping[str, int] = {}
    """Count key -> maximum of the count including this batch."""


class Batch(msgspec.Struct, frozen=True):
    """Written atomically."""

    events: Sequence[events.AnyEvent]
    """At most MAX_EVENTS."""
    increments: Mapping[str, int] = {}
    """By how much the events change each count (Projection.increments)."""
    marks: Mapping[str, str] = {}
    """Fields of the metadata to set, such as the resume version ``{"rv:pods": "123"}``."""
    run: str = ""
    """The server run in which a recorder has verified the log; refused if it is not the present one."""
    kubernetes: str = ""
    """The UID of the Kubernetes cluster; refused if the log belongs to another one."""


class Appended(msgspec.Struct, frozen=True):
    """The offsets of an appended batch; ``last`` is ``first - 1`` if it held no events."""

    first: int
    last: int
    repeated: bool
    """The store had executed the call before: its first reply was lost."""
    at_ms: int = 0
    """When it was appended, by the store's clock (milliseconds)."""


def arguments(batch: Batch, guard: Guard) -> list[str | bytes | int]:
    """The flat argument list of the function append, from the epoch on."""
    if len(batch.events) > MAX_EVENTS:
        raise ValueError(f"a batch of {len(batch.events)} events; the limit is {MAX_EVENTS} per call")
    if guard.epoch and not (guard.epoch.isascii() and guard.epoch.isdigit()):
        raise ValueError(f"epoch {guard.epoch!r} is not a decimal number")
    if not keys.RESERVED.isdisjoint(batch.marks):
        raise ValueError(f"marks must not be named like {', '.join(sorted(keys.RESERVED))}")
    touched: dict[str, int] = {}
    for place, event in enumerate(batch.events, 1):
        for subject in event_subjects.touched(event):
            touched[subject] = 0 if event_subjects.ends(event, subject) else place
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
