"""JSON that everybody reads alike; what could be read in two ways is refused.

Of two equal keys, or two that differ in case, Go takes the last; how deep JSON may be differs from one
version of Python to the next.
"""

import itertools
import json
import re
from collections.abc import Collection, Mapping
from typing import NoReturn

import msgspec

MAX_DEPTH = 64
MOST_VALUES = 100_000
"""Commas and opening brackets in what is turned into objects: each costs time, and more memory than bytes."""
MOST_FOLDED = 16_384
"""The same in an object whose keys are not known by their case."""
MOST_BESIDE = 64 * 1024
"""Bytes of a call beside the values that it is made of."""
_NAMED = 64 * 1024
"""Up to so many bytes it is worth the time to say which key is given twice."""
_STRINGS = re.compile(rb'"[^"]*"')
_STEPS = bytes({ord("["): 1, ord("{"): 1}.get(byte, 255) for byte in range(256))
"""What a bracket adds to the depth, as a signed byte."""
_NO_MARKS = bytes(set(range(256)) - set(b'"[]{}'))
_END = re.compile(rb"\s*\}")
_COLON = re.compile(rb"\\u003[aA]")

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
        _read(raw)
    except (ValueError, RecursionError) as error:
        bad(error)


def folded(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level values of an object, unread, by lower-case key. Raises BadRequest.

    For small objects only, and for those whose keys are spelled as kube-scheduler never does.
    """
    try:
        _refuse_many(body, MOST_FOLDED)
        found = _decode_raw_object(body)
        _refuse_repeated_at_top(body, found)
        _refuse_depth(body)
    except (ValueError, RecursionError) as error:
        bad(error)
    return {key.lower(): raw for key, raw in found.items()}


def text(raw: msgspec.Raw | None) -> object:
    """A value that ought to be a string; None for any other, which is not read. Raises BadRequest."""
    if raw is None:
        return ""
    spelled = bytes(raw).strip()
    try:
        return _decode(spelled) if spelled.startswith(b'"') else None
    except ValueError as error:
        bad(error)


def named(body: bytes) -> dict[str, object]:
    """A JSON object whose keys are names, not fields. Raises BadRequest."""
    try:
        found = _read(body)
    except (ValueError, RecursionError) as error:
        bad(error)
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    return found


def refuse_ambiguous(body: bytes, known: Mapping[str, msgspec.Raw]) -> None:
    """Refuse an object that gives a key twice, or has more than the known values and that too deep.

    Raises ValueError and RecursionError.
    """
    beside = len(body) - sum(memoryview(raw).nbytes for raw in known.values())
    if beside > MOST_BESIDE:
        names = ", ".join(known)
        raise BadRequest(f"there are {beside} bytes beside {names}; at most {MOST_BESIDE} are taken")
    found = _decode_raw_object(body)
    _refuse_repeated_at_top(body, found)
    for key in found.keys() - known.keys():
        _refuse_depth(bytes(found[key]), MAX_DEPTH - 1)


def _read(raw: bytes) -> object:
    """The value, which is neither too deep nor gives a key twice. Raises ValueError and RecursionError."""
    _refuse_many(raw)
    _refuse_depth(raw)
    found = _decode(raw)
    # What is spelled as we would spell it holds every key once: that needs no Python code for each.
    spelled = _encode(found)
    if spelled != raw:
        _refuse_repeated(raw, spelled)
    return found


def _refuse_many(raw: bytes, most: int = MOST_VALUES) -> None:
    if len(raw) > most and sum(map(raw.count, (b",", b"[", b"{"))) > most:
        raise BadRequest(f"JSON has more than {most} values")


def _refuse_depth(raw: bytes, most: int = MAX_DEPTH) -> None:
    """For JSON that can be read: Python itself refuses some depth, another one in each version."""
    if raw.count(b"{") + raw.count(b"[") <= most:
        return
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    brackets = _STRINGS.sub(b"", plain.translate(None, _NO_MARKS)).translate(_STEPS)
    if max(itertools.accumulate(memoryview(brackets).cast("b")), default=0) > most:
        raise BadRequest(f"JSON is nested more than {MAX_DEPTH} deep")


def _refuse_repeated(raw: bytes, spelled: bytes) -> None:
    """Refuse a key given twice; ``spelled`` is what was read of it, spelled again.

    Of two equal keys one is lost, and a colon with it: there are as many as before in all else.
    """
    if raw.count(b":") == spelled.count(b":") and not _COLON.search(raw):
        return
    if len(raw) > _NAMED and not _COLON.search(raw):
        raise BadRequest("a key is given twice")
    json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)


def _refuse_repeated_at_top(body: bytes, found: Mapping[str, msgspec.Raw]) -> None:
    """Refuse a key of the object itself that is given twice, in the same case or in another.

    What was read stands in the body once, one value behind the other; of two equal keys one is lost.
    """
    _refuse_alike(found)
    at, separator = 0, b"{"
    whole = memoryview(body)
    for key, raw in found.items():
        value = memoryview(raw)
        before = re.compile(rb"\s*%b\s*%b\s*:\s*" % (re.escape(separator), re.escape(_encode(key)))).match(
            body, at
        )
        at, separator = before.end() if before else len(body), b","
        if whole[at : at + value.nbytes] != value:
            raise BadRequest("a key is given twice, or spelled with escapes")
        at += value.nbytes
    if found and not _END.match(body, at):
        raise BadRequest("a key is given twice, or spelled with escapes")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise ValueError(f"key {key!r} is given twice")
            keys.add(key)
    return found


def _refuse_alike(keys: Collection[str]) -> None:
    lowered = [key.lower() for key in keys]
    if len(set(lowered)) != len(lowered):
        raise BadRequest("a key is given twice in different case")
