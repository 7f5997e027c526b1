"""Decodes JSON strictly: input that another parser could read differently is refused.

Of two equal keys, or two that differ in case, Go takes the last; the nesting that Python accepts differs from
version to version.
"""

import codecs
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NoReturn

import msgspec

MAX_DEPTH = 64
MAX_BYTES = 1280 * 1024
"""Bytes of JSON that is decoded whole: with one character outside of the Basic Multilingual Plane, decoding a
text takes 7.5 times its bytes. etcd stores no object above 1.5 MiB by default, and pods have far less."""
MAX_VALUES = 16_384
"""Commas and opening brackets in the JSON of a call, outside of its strings: each costs time, and more memory
than its bytes."""
MAX_BESIDE = 64 * 1024
"""Bytes of a call outside its values, or its known values."""
_NAMED = 64 * 1024
"""Bytes of JSON up to which the error names the repeated key; searching for it takes time."""
_STRINGS = re.compile(rb'"[^"]*"')
_STEPS = bytes({ord("["): 1, ord("{"): 1}.get(byte, 255) for byte in range(256))
"""What a bracket adds to the depth, as a signed byte."""
_NO_MARKS = bytes(set(range(256)) - set(b'"[]{},'))
_LETTERS = bytes.maketrans(b'"[{]},/bfnrtu', b"abbffvnnnnnnn")
"""Spells marks as letters, and what else JSON has behind a backslash as another one."""
_NO_LETTERS = bytes(set(range(256)) - set(b'"[{]},/bfnrtu\\'))
_MARKS = bytes.maketrans(b"abfv", b'"[],')
_UNMARKED = b"n\a\b\f\n\v\\"
"""That letter, and what Python reads these letters and a backslash as if they are escaped."""
_PIECE = 64 * 1024
_END = re.compile(rb"\s*\}")
_COLON = re.compile(rb"\\u003[aA]")
_ESCAPED_LETTERS = rb"\u004", rb"\u005", rb"\u006", rb"\u007"
"""What the escapes of all letters begin with. Go escapes none of them."""
_TEXTS = b",", b"]", b"}", b':"'
"""What follows a string that is not the key of a number, an object or a list."""

_decode_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode
_skip = msgspec.json.Decoder(msgspec.Raw).decode
_encode = msgspec.json.Encoder().encode


class BadRequest(ValueError):
    """The request cannot be decoded; the text is what is wrong, and where."""


def bad(error: Exception) -> NoReturn:
    """Raise a decoder's error as BadRequest; a BadRequest is raised as it is."""
    if isinstance(error, BadRequest):
        raise error
    text = "nested too deep" if isinstance(error, RecursionError) else str(error)
    raise BadRequest(f"the body is not the expected JSON: {text}") from error


def check(raw: bytes) -> None:
    """Refuse JSON that Go would read differently: too deep, or with a repeated key. Raises BadRequest."""
    try:
        _read(raw)
    except (ValueError, RecursionError) as error:
        bad(error)


def folded(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level values of an object, not decoded, by lower-case key. Raises BadRequest.

    For small objects, and for requests whose keys have a case that kube-scheduler never sends.
    """
    try:
        _refuse_large(body)
        found = _decode_raw_object(body)
        _refuse_beside(body, found)
        _refuse_repeated_at_top(body, found)
        _refuse_depth(body)
    except (ValueError, RecursionError) as error:
        bad(error)
    return {key.lower(): raw for key, raw in found.items()}


def text(raw: msgspec.Raw | None) -> object:
    """The value if it is a string; None for any other type, which is not decoded. Raises BadRequest."""
    if raw is None:
        return ""
    spelled = bytes(raw).strip()
    try:
        return _decode(spelled) if spelled.startswith(b'"') else None
    except ValueError as error:
        bad(error)


def named(body: bytes, most: int = MAX_VALUES) -> dict[str, object]:
    """A JSON object of at most so many values whose keys are names, not fields. Raises BadRequest."""
    try:
        found = _read(body, most)
    except (ValueError, RecursionError) as error:
        bad(error)
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    return found


def has_more(body: bytes, key: bytes, limit: int) -> bool:
    """Whether more than ``limit`` values under this key may be other than strings; nothing is decoded.

    ``key`` consists of letters. No text of a pod is counted: quotes in it are escaped, and where users choose
    keys the values are strings. An escape that could spell a letter of the key counts like the key.
    """
    # Up to five bytes are counted in less than half of the time that a whole key takes.
    if body.count(key[:5]) + body.count(rb"\u0") <= limit:
        return False
    spelled = b'"%b"' % key
    found = body.count(spelled)
    escapes = body.count(rb"\u00")
    if escapes and found + escapes > limit:
        plain = body.replace(rb"\\", b"")
        found += sum(map(plain.count, _ESCAPED_LETTERS))
    return found > limit and found - sum(body.count(spelled + rest) for rest in _TEXTS) > limit


def refuse_ambiguous(body: bytes, known: Mapping[str, msgspec.Raw]) -> None:
    """Refuse an object with a repeated key, or with other values than the known ones nested too deep.

    Raises ValueError and RecursionError.
    """
    _refuse_beside(body, known)
    found = _decode_raw_object(body)
    _refuse_repeated_at_top(body, found)
    for key in found.keys() - known.keys():
        _refuse_depth(bytes(found[key]), MAX_DEPTH - 1)


def _read(raw: bytes, most: int = MAX_VALUES) -> object:
    """The value; refuses deep nesting and repeated keys. Raises ValueError and RecursionError."""
    _refuse_large(raw, most)
    _refuse_depth(raw)
    found = _decode(raw)
    # Encoding takes the least time, and walking the least memory.
    if len(raw) > _NAMED:
        if _colons_of(raw) != _colons_in(found):
            raise BadRequest("a key is given twice")
    elif (spelled := _encode(found)) != raw:
        _refuse_repeated(raw, spelled)
    return found


def occurrences(raw: bytes, marks: bytes) -> int:
    """How often these bytes are there. `bytes.count` takes longer to count one of them."""
    return len(raw) - len(raw.translate(None, marks))


def refuse_wide(raw: bytes) -> None:
    """Refuse many names that may take four times their bytes: those of objects are ASCII, without escapes."""
    if len(raw) > MAX_BYTES and (not raw.isascii() or b"\\" in raw):
        raise BadRequest(f"{len(raw)} bytes of names have escapes or characters that no name has")


def _refuse_large(raw: bytes, most: int = MAX_VALUES) -> None:
    if len(raw) > MAX_BYTES:
        raise BadRequest(f"JSON has {len(raw)} bytes; the limit is {MAX_BYTES}")
    if len(raw) > most and occurrences(raw, b",[{") > most and _has_more_values(raw, most):
        raise BadRequest(f"JSON has more than {most} values")


def _has_more_values(raw: bytes, most: int) -> bool:
    """Whether there are more commas and opening brackets outside of strings. Raises as a decoder does.

    JSON has at most two strings for each of them, and one more: what is behind further strings is not read.
    """
    _skip(raw)  # Text that is not JSON may have any number of strings, and other escapes.
    strings = 2 * most + 1
    parts = _marks(raw).split(b'"', 2 * strings + 1)
    return len(parts) > 2 * strings + 1 or occurrences(b"".join(parts[::2]), b",[{") > most


def _refuse_beside(body: bytes, values: Mapping[str, msgspec.Raw]) -> None:
    beside = len(body) - sum(memoryview(raw).nbytes for raw in values.values())
    if beside > MAX_BESIDE:
        raise BadRequest(f"there are {beside} bytes beside the values of the call; the limit is {MAX_BESIDE}")


def _refuse_depth(raw: bytes, limit: int = MAX_DEPTH) -> None:
    """For valid JSON. Python's own limit differs from version to version."""
    if occurrences(raw, b"[{") <= limit:
        return
    brackets = _STRINGS.sub(b"", _marks(raw)).translate(_STEPS, b",")
    if max(itertools.accumulate(memoryview(brackets).cast("b")), default=0) > limit:
        raise BadRequest(f"JSON is nested more than {MAX_DEPTH} deep")


def _marks(raw: bytes) -> bytes:
    """Quotes, brackets and commas of JSON without the escaped quotes; braces may be brackets."""
    return b"".join(_unescaped(raw)) if b"\\" in raw else raw.translate(None, _NO_MARKS)


def _unescaped(raw: bytes) -> Iterator[bytes]:
    """The marks of JSON that are not escaped, in pieces; it takes a third of the time of bytes.replace."""
    decode = codecs.getincrementaldecoder("unicode_escape")("ignore").decode
    for at in range(0, len(raw), _PIECE):
        letters = raw[at : at + _PIECE].translate(_LETTERS, _NO_LETTERS)
        yield decode(letters).encode().translate(_MARKS, _UNMARKED)


def _refuse_repeated(raw: bytes, spelled: bytes) -> None:
    """Refuse a repeated key; ``spelled`` is the decoded value, encoded again.

    Decoding drops one of two equal keys, and a colon with it; all other colons remain.
    """
    escaped = b"\\u003" in raw and _COLON.search(raw)
    if escaped or occurrences(raw, b":") != occurrences(spelled, b":"):
        json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)


def _colons_of(raw: bytes) -> int:
    """The colons of JSON, those that are escaped included."""
    found = occurrences(raw, b":")
    return found + (len(_COLON.findall(raw.replace(rb"\\", b""))) if b"\\u003" in raw else 0)


def _colons_in(found: object) -> int:
    """The colons of JSON of this value: one for each key, and those of its keys and texts."""
    number, left = 0, [found]
    while left:
        each = left.pop()
        if isinstance(each, str):
            number += each.count(":")
        elif isinstance(each, list):
            left.extend(each)
        elif isinstance(each, dict):
            number += len(each)
            left.extend(each)
            left.extend(each.values())
    return number


def _refuse_repeated_at_top(body: bytes, found: Mapping[str, msgspec.Raw]) -> None:
    """Refuse a repeated key of the object itself, in the same case or in another.

    The decoded keys and values must follow one another in the body without a gap: decoding drops one of two
    equal keys.
    """
    _refuse_alike(found)
    if _encode(found) == body:
        return  # As kube-scheduler spells it.
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
