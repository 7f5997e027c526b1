"""Lists in pages: bounded, in a stable order, the same list from the first page to the last.

``continue`` is opaque to callers. For lists of a snapshot it pins the position of the first page, so
that nothing is skipped or told twice while the cluster changes.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any

import flask
import msgspec

from app.api import errors, moments

Query = Mapping[str, Any]
"""A validated query."""
Body = dict[str, object]
DEFAULT, MOST = 100, 1000
_ID = re.compile(r"(?:\d{1,18}-\d{1,18})?", re.ASCII)


class Cursor(msgspec.Struct, array_like=True, frozen=True):
    """Where the next page begins."""

    path: str
    incarnation: str
    offset: int
    index: int = 0
    """How many items came before, in the list at that position."""
    before: str = ""
    """For lists that grow at their end: the id of the last item told."""


def write(cursor: Cursor) -> str:
    """The cursor as it is handed out."""
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).rstrip(b"=").decode()


def read(query: Query) -> Cursor | None:
    """The cursor that the query continues from, or None; raises Problem 400."""
    text = str(query.get("continue_") or "")
    if not text:
        return None
    try:
        raw = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        cursor = msgspec.json.decode(raw, type=Cursor)
    except (binascii.Error, UnicodeError, ValueError) as error:
        raise errors.bad("continue: not a value that this server handed out") from error
    if cursor.path != flask.request.path:
        raise errors.bad(f"continue: belongs to {cursor.path}")
    bounded = 0 <= cursor.offset < 1 << 62 and 0 <= cursor.index < 1 << 62
    if not bounded or not _ID.fullmatch(cursor.before):
        raise errors.bad("continue: not a value that this server handed out")
    return cursor


def moment(query: Query) -> moments.Moment:
    """The moment of a list: that of its first page."""
    cursor = read(query)
    if cursor is None:
        return moments.take(query.get("at") or moments.NOW)
    return moments.take(moments.At(offset=cursor.offset, incarnation=cursor.incarnation))


def cut(items: Sequence[object], query: Query, shown: moments.Moment) -> tuple[Sequence[Any], Body]:
    """The page's items and its metadata, out of the whole list at the moment."""
    cursor = read(query)
    begin = cursor.index if cursor is not None else 0
    end = begin + int(query["limit"])
    remaining = max(0, len(items) - end)
    following = Cursor(flask.request.path, shown.position.incarnation, shown.position.offset, index=end)
    return items[begin:end], metadata(shown, following if remaining else None, remaining)


def metadata(shown: moments.Moment, following: Cursor | None, remaining: int | None) -> Body:
    """The list's metadata; ``remaining`` is None where counting would mean reading everything."""
    return {
        "position": str(shown.position),
        "asOf": shown.as_of,
        "continue": write(following) if following is not None else None,
        "remaining": remaining,
    }
