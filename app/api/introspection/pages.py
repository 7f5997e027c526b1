"""Cuts lists into bounded pages, in a stable order and of one state from the first page to the last.

``continue`` is opaque to clients. For lists of a snapshot it pins the position and the clock of the first
page, so that no item is skipped, repeated or judged by another time while the cluster changes.
"""

import base64
import binascii
import dataclasses
import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, TypeVar

import flask
import msgspec

from app import converters
from app.api import errors
from app.api.introspection import moments
from app.framework import views

Query = Mapping[str, Any]
"""A validated query."""
Body = dict[str, object]
K = TypeVar("K", int, str, tuple[str, ...])
T = TypeVar("T")
DEFAULT, MAX_LIMIT = 100, 1000
PAGE_BYTES = 1024**2
"""Bytes of JSON that the items of a page have at most, unless it is one item: while it is made, they take
about nine times as much."""
_encode = msgspec.json.Encoder().encode
_ID = re.compile(r"(?:\d{1,18}-\d{1,18})?", re.ASCII)


class Cursor(msgspec.Struct, array_like=True, frozen=True):
    """The start of the next page."""

    path: str
    incarnation: str
    offset: int
    index: int = 0
    """For the log: the offset at which the next page begins."""
    before: str = ""
    """For lists that grow at their end: the id of the last item on the page before."""
    after: views.Key | None = None
    """For lists of a snapshot: the key of the last item on the page before."""
    clock: Annotated[float, msgspec.Meta(ge=-62_135_596_800, le=253_402_300_799)] | None = None
    """For lists of a snapshot: that of the first page, in the years 1 to 9999. What ends without an event has
    ended by it, or not."""


_cursor = converters.Converter(Cursor)


def write(cursor: Cursor) -> str:
    """The cursor as the opaque text of ``continue``."""
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).rstrip(b"=").decode()


def read(query: Query) -> Cursor | None:
    """The cursor that the query continues from, or None; raises Problem 400."""
    text = str(query.get("continue_") or "")
    if not text:
        return None
    try:
        raw = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        cursor = _cursor.decode(raw)
    except (binascii.Error, UnicodeError, ValueError, RecursionError) as error:
        raise errors.bad("continue: not a value of metadata.continue") from error
    if cursor.path != flask.request.path:
        raise errors.bad(f"continue: a value of {cursor.path}, not of this path")
    bounded = 0 <= cursor.offset < 1 << 62 and 0 <= cursor.index < 1 << 62
    if not bounded or not _ID.fullmatch(cursor.before):
        raise errors.bad("continue: not a value of metadata.continue")
    return cursor


def moment(query: Query) -> moments.Moment:
    """The moment of a list, which is that of its first page."""
    cursor = read(query)
    if cursor is None:
        return moments.take(query.get("at") or moments.NOW)
    shown = moments.take(moments.At(offset=cursor.offset, incarnation=cursor.incarnation))
    return shown if cursor.clock is None else dataclasses.replace(shown, clock=cursor.clock)


def filled(rows: Iterable[T], limit: int = MAX_LIMIT) -> tuple[list[T], bool]:
    """The first rows whose JSON has PAGE_BYTES at most, or the first one, and whether there are others.

    No more than one of the others is made.
    """
    found: list[T] = []
    size = 0
    for row in rows:
        size += len(_encode(row))
        if len(found) == limit or (found and size > PAGE_BYTES):
            return found, True
        found.append(row)
    return found, False


def listed(keys: Iterable[K], query: Query, shown: moments.Moment, row: Callable[[K], object]) -> Body:
    """The page of a list. ``keys``: those of all items, in any order; ``row``: the item of a key.

    With ``prefix`` in the query only those that begin with it, as a tuple joined by slashes.
    Holds the page only: neither the list nor a sorted copy of its keys is built.
    """
    return rendered(*cut(keys, query), shown, row)


def rendered(page: Sequence[K], remaining: int, shown: moments.Moment, row: Callable[[K], object]) -> Body:
    """The page of these keys, of which it may have fewer; ``remaining``: how many items are behind them."""
    items, _ = filled(row(key) for key in page)
    remaining += len(page) - len(items)
    last = _behind(page[len(items) - 1], shown) if remaining else None
    return {"items": items, "metadata": metadata(shown, last, remaining)}


def cut(keys: Iterable[K], query: Query) -> tuple[list[K], int]:
    """The keys of the page in order, and how many are behind it."""
    cursor = read(query)
    remaining = 0
    prefix = str(query.get("prefix", ""))

    def behind() -> Iterator[K]:
        nonlocal remaining
        for key in keys:
            if prefix and not _text(key).startswith(prefix):
                continue
            if cursor is None or _follows(key, cursor.after):
                remaining += 1
                yield key

    page = heapq.nsmallest(int(query["limit"]), behind())
    return page, remaining - len(page)


def first(keys: Iterable[K], query: Query, shown: moments.Moment, row: Callable[[K], object]) -> Body:
    """As ``listed``, for keys in order that are expensive to compute, and rows that belong to one another.

    Returns the metadata only: ``row`` adds the item of a key to the others, so that the page ends with the
    one that reaches PAGE_BYTES. Keys after the page are not counted.
    """
    cursor, limit = read(query), int(query["limit"])
    later = (key for key in keys if cursor is None or _follows(key, cursor.after))
    page: list[K] = []
    size = 0
    for key in islice(later, limit):
        page.append(key)
        size += len(_encode(row(key)))
        if size >= PAGE_BYTES:
            break
    more = next(later, None) is not None
    return metadata(shown, _behind(page[-1], shown) if more else None, None if more else 0)


def _behind(key: views.Key, shown: moments.Moment) -> Cursor:
    position = shown.position
    return Cursor(flask.request.path, position.incarnation, position.offset, after=key, clock=shown.clock)


def _text(key: views.Key) -> str:
    return "/".join(key) if isinstance(key, tuple) else str(key)


def _follows(key: views.Key, after: views.Key | None) -> bool:
    if isinstance(key, str) and isinstance(after, str):
        return key > after
    if isinstance(key, int) and isinstance(after, int):
        return key > after
    if isinstance(key, tuple) and isinstance(after, tuple):
        return key > after
    raise errors.bad("continue: not a value of metadata.continue")


def metadata(shown: moments.Moment, following: Cursor | None, remaining: int | None) -> Body:
    """The list's metadata; ``remaining``: None where counting would mean reading all items."""
    return {
        "position": str(shown.position),
        "asOf": shown.as_of,
        "continue": write(following) if following is not None else None,
        "remaining": remaining,
    }
