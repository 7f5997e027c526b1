"""Candidates as a bitmap: which of the nodes known at a position, plus the names that were not.

A decision record must be small. ``kind`` is the encoding: ``all`` known nodes, ``some`` of them
(a bitmap over their sorted names), or only names spelled out, which needs no snapshot to read.
"""

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Literal

import msgspec

from app.store import errors

_FEW = 8
_MANY = 4
"""One chosen name among so many known ones: below that, looking up each chosen name is less work."""
_ONE = ord("1")
_ZEROS_AND_ONES = bytes.maketrans(b"\x00\x01", b"01")


class Bitmap(msgspec.Struct, frozen=True, array_like=True):
    """The candidates in a record."""

    kind: Literal["all", "some", "names"]
    bits: bytes = b""
    names: tuple[str, ...] = ()
    """Names that were not among the known nodes."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Bitmap)


def pack(
    candidates: Collection[str], known: Sequence[str] | None, places: Mapping[str, int] | None = None
) -> bytes:
    """The candidates as a bitmap over the sorted names of the known nodes; ``known`` may be None.

    ``places`` is the index of each known name: with it, few of many need no pass over all.
    """
    if known is None or len(candidates) <= _FEW:
        return _encoder.encode(Bitmap("names", names=tuple(sorted(candidates))))
    chosen = candidates if isinstance(candidates, frozenset) else frozenset(candidates)
    flags = _flags(chosen, known, places)
    found = flags.count(b"1")
    extras = tuple(sorted(chosen.difference(known))) if found < len(chosen) else ()
    if found == len(known):
        return _encoder.encode(Bitmap("all", names=extras))
    number = int(flags or b"0", 2)
    bits = _compressed(number.to_bytes((len(known) + 7) // 8, "big"))
    return _encoder.encode(Bitmap("some", bits, extras))


def _flags(chosen: Set[str], known: Sequence[str], places: Mapping[str, int] | None) -> bytes | bytearray:
    """A 1 for each known name that is chosen, a 0 for each other."""
    if places is None or len(chosen) * _MANY > len(known):
        # One pass in C over all names: no Python code runs for each node.
        return bytes(map(chosen.__contains__, known)).translate(_ZEROS_AND_ONES)
    flags = bytearray(b"0") * len(known)
    for place in map(places.get, chosen):
        if place is not None:
            flags[place] = _ONE
    return flags


def _compressed(bitmap: bytes) -> bytes:
    # With the default window and tables, creating them would take ten times as long as compressing.
    compressor = zlib.compressobj(1, zlib.DEFLATED, 10, 4)
    return compressor.compress(bitmap) + compressor.flush()


def unpack(packed: bytes, known: Sequence[str]) -> frozenset[str]:
    """Unpack the candidates; ``known`` must be the same names as when they were packed."""
    found = _decoder.decode(packed)
    if found.kind == "names":
        return frozenset(found.names)
    if found.kind == "all":
        return frozenset((*known, *found.names))
    number = int.from_bytes(zlib.decompress(found.bits), "big")
    flags = format(number, f"0{len(known)}b")[-len(known) :] if known else ""
    return frozenset((*(name for name, flag in zip(known, flags, strict=True) if flag == "1"), *found.names))


def check(packed: bytes) -> None:
    """Raises Damaged for bytes that ``unpack`` cannot read."""
    try:
        found = _decoder.decode(packed)
        if found.kind == "some":
            zlib.decompress(found.bits)
    except (*errors.MALFORMED, zlib.error) as problem:
        raise errors.Damaged(f"the candidates cannot be read: {problem}") from problem


def renamed(packed: bytes, rename: Callable[[str], str]) -> bytes:
    """The bitmap with other names, of which each sorts as the former one did."""
    found = _decoder.decode(packed)
    return _encoder.encode(Bitmap(found.kind, found.bits, tuple(map(rename, found.names))))
