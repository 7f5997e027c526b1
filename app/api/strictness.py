"""JSON that everybody reads alike; what could be read in two ways is refused.

Of two equal keys, or two that differ in case, Go takes the last; how deep JSON may be differs from one
version of Python to the next.
"""

import json
import re
from collections.abc import Iterable
from typing import NoReturn

import msgspec

MAX_DEPTH = 64
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PAIRS = re.compile(rb"\[\]|\{\}")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_decode_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class BadRequest(ValueError):
    """The request cannot be read; the text says what and where."""


def bad(error: Exception) -> NoReturn:
    """Turn a decoder's complaint into a BadRequest; ours stay as they are."""
    if isinstance(error, BadRequest):
        raise error
    text = "nested too deep" if isinstance(error, RecursionError) else str(error)
    raise BadRequest(f"the body is not the JSON that is expected: {text}") from error


def check(raw: bytes) -> None:
    """Refuse what Go would read differently from us: too deep, or a key given twice. Raises BadRequest."""
    try:
        # What is spelled as we would spell it holds every key once: that needs no Python code for each.
        usual = _encode(_decode(raw)) == raw
    except (ValueError, RecursionError) as error:
        bad(error)
    if usual and raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return
    _refuse_depth(raw)
    if usual:
        return
    try:
        _pairs(raw)
    except (ValueError, RecursionError) as error:
        bad(error)


def folded(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level values of an object, unread, by lower-case key. Raises BadRequest."""
    try:
        found = _decode_raw_object(body)
        refuse_ambiguous(body)
    except (ValueError, RecursionError) as error:
        bad(error)
    return {key.lower(): raw for key, raw in found.items()}


def values(body: bytes) -> dict[str, object]:
    """A JSON object with its keys in lower case. Raises BadRequest."""
    found = named(body)
    _refuse_alike(found)
    return {key.lower(): value for key, value in found.items()}


def named(body: bytes) -> dict[str, object]:
    """A JSON object whose keys are names, not fields. Raises BadRequest."""
    try:
        _decode(body)
        _refuse_depth(body)
        found = _pairs(body)
    except (ValueError, RecursionError) as error:
        bad(error)
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    return found


def refuse_ambiguous(body: bytes) -> None:
    """Refuse an object that is too deep or gives a key twice. Raises ValueError and RecursionError."""
    _refuse_depth(body)
    found = _pairs(body)
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    _refuse_alike(found)


def _refuse_depth(raw: bytes) -> None:
    """For JSON that can be read: Python itself refuses some depth, another one in each version."""
    brackets = _STRINGS.sub(b"", raw).translate(None, _NOT_BRACKETS)
    depth = 0
    while brackets:
        shorter = _PAIRS.sub(b"", brackets)
        depth += 1
        if depth > MAX_DEPTH or len(shorter) == len(brackets):
            raise BadRequest(f"JSON is nested more than {MAX_DEPTH} deep")
        brackets = shorter


def _pairs(raw: bytes) -> object:
    return json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return found


def _refuse_alike(keys: Iterable[str]) -> None:
    lowered = [key.lower() for key in keys]
    if len(set(lowered)) != len(lowered):
        raise BadRequest("a key is given twice in different case")
