"""Repairs the end of a log after entries were added, bypassing the append function.

Every id in a stream must be higher than all before it, removed ones included: an entry added behind the
head blocks every append, even after it was removed. Entries that could have been written by the function
and follow the head are kept, and the head is moved to them; all other entries behind the head are removed,
and the stream's last id is set back.
"""

from typing import Any, NamedTuple

import redis

from app.store import errors, keys
from app.store.log import codecs
from app.store.server import connections

_PAGE = 1000
_OURS = frozenset((b"t", b"e", b"w"))
_START = "0-1"
"""The last id of a stream whose next id is 1-0: 0-0 is not valid."""

Fields = dict[bytes, bytes]


class TailEntry(NamedTuple):
    """One entry behind the head."""

    identity: str
    fields: Fields


class Tail(NamedTuple):
    """The entries behind the end of a log."""

    incarnation: str
    head: int
    """The last offset of the log, as meta has it."""
    taken: tuple[TailEntry, ...]
    """Entries that follow the head as those of the function do: they are kept."""
    foreign: tuple[TailEntry, ...]
    """All others: they are removed."""
    generated: str
    """The last id that the stream generated."""
    added: int
    """Entries ever added to the stream, by its own count."""

    @property
    def end(self) -> int:
        """The last offset after the repair."""
        return int(self.taken[-1].identity.partition("-")[0]) if self.taken else self.head

    @property
    def wrong(self) -> bool:
        """Whether nothing can be appended."""
        return int(self.generated.partition("-")[0]) > self.head or bool(self.taken or self.foreign)


def inspect(client: redis.Redis, names: keys.Keys) -> Tail:
    """Read the entries behind the end of the log; changes nothing. Raises StoreAway or StoreError."""
    with connections.translated():
        return _read(client, names)


def repair(client: redis.Redis, names: keys.Keys, seen: Tail) -> None:
    """Make the log appendable again. Raises StoreError if it changed since ``inspect``."""
    end = f"{seen.end}-0"
    pipeline: Any = client.pipeline(transaction=True)
    try:
        with connections.translated(), pipeline:
            pipeline.watch(names.log, names.meta)
            if _read(client, names) != seen:
                raise errors.StoreError("the end of the log has changed since it was shown: try again")
            pipeline.multi()
            for entry in seen.foreign:
                pipeline.xdel(names.log, entry.identity)
            # A stream stores the highest removed id and refuses a last id below it: that one is set back
            # first (Redis 7.0, Valkey 7.2).
            deleted = end if seen.end else _START
            total = ("ENTRIESADDED", seen.added, "MAXDELETEDID", deleted)
            pipeline.execute_command("XSETID", names.log, seen.generated, *total)
            pipeline.execute_command("XSETID", names.log, deleted)
            if seen.taken:
                at = seen.taken[-1].fields[b"t"]
                pipeline.hset(names.meta, mapping={keys.HEAD: str(seen.end), "at": at})
            pipeline.execute()
    except errors.StoreError as error:
        if isinstance(error.__cause__, redis.WatchError):
            raise errors.StoreError("something was appended meanwhile: try again") from error
        raise


def _read(client: redis.Redis, names: keys.Keys) -> Tail:
    untyped: Any = client
    incarnation, head, schema = untyped.hmget(names.meta, "incarnation", keys.HEAD, "schema")
    if incarnation is None:
        raise errors.StoreError(f"the store holds no log of cluster {names.cluster}")
    if schema != b"%d" % keys.SCHEMA:
        raise errors.mismatch(keys.number(schema), keys.SCHEMA)
    at = keys.number(head)
    try:
        stream = untyped.xinfo_stream(names.log)
    except redis.ResponseError as error:
        if "no such key" not in str(error):
            raise
        return Tail(connections.text(incarnation), at, (), (), f"{at}-0", at)
    taken: list[TailEntry] = []
    foreign: list[TailEntry] = []
    # In a trimmed log whose head was lowered or removed, the first entry may have any offset.
    begun = bool(untyped.xrange(names.log, min="-", max=f"{at}-0", count=1))
    expected = f"{at + 1}-0"
    # An entry between the head and the next offset is foreign too.
    after = f"({at}-0"
    while page := untyped.xrange(names.log, min=after, max="+", count=_PAGE):
        for identity, fields in page:
            entry = TailEntry(connections.text(identity), dict(fields))
            offset, _, sequence = entry.identity.partition("-")
            ours = sequence == "0" and _ours(entry.fields)
            if ours and not foreign and (entry.identity == expected or not (begun or taken)):
                taken.append(entry)
                expected = f"{int(offset) + 1}-0"
            elif ours:
                raise errors.StoreError(
                    f"the log has a hole before entry {entry.identity}, which Topolog wrote: nothing is"
                    f" removed; restore a backup, or DEL {names.meta}, and the recorder starts a new log"
                )
            else:
                foreign.append(entry)
        after = f"({connections.text(page[-1][0])}"
    generated, added = connections.text(stream["last-generated-id"]), int(stream["entries-added"])
    return Tail(connections.text(incarnation), at, tuple(taken), tuple(foreign), generated, added)


def _ours(fields: Fields) -> bool:
    """Whether the function could have written it, for a process of this version or a later one."""
    if fields.keys() != _OURS or not fields[b"t"].isdigit():
        return False
    try:
        codecs.decode(fields[b"e"])
    except errors.Newer:
        return True
    except errors.Unreadable:
        return False
    return True
