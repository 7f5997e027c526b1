"""Candidates as a bitmap: which of the nodes known at a position, plus the names that were not.

A decision record must be small. ``kind`` says how to read it: ``all`` known nodes, ``some`` of them
(a bitmap over their sorted names), or only names spelled out, which needs no snapshot to read.
"""

import zlib
from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

_FEW = 8
_ZEROS_AND_ONES = bytes.maketrans(b"\x00\x01", b"01")


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """What a record holds about candidates."""

    kind: Literal["all", "some", "names"]
    bits: bytes = b""
    names: tuple[str, ...] = ()
    """Names that were not among the known nodes."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Packed)


def pack(candidates: Collection[str], known: Sequence[str] | None) -> bytes:
    """The candidates in terms of the sorted names of the known nodes; None if those are not at hand."""
    if known is None or len(candidates) <= _FEW:
        return _encoder.encode(Packed("names", names=tuple(sorted(candidates))))
    chosen = candidates if isinstance(candidates, frozenset) else frozenset(candidates)
    # One pass in C over all names: no Python code runs for each node.
    flags = bytes(map(chosen.__contains__, known))
    found = flags.count(1)
    extras = tuple(sorted(chosen.difference(known))) if found < len(chosen) else ()
    if found == len(known):
        return _encoder.encode(Packed("all", names=extras))
    number = int(flags.translate(_ZEROS_AND_ONES) or b"0", 2)
    bits = zlib.compress(number.to_bytes((len(known) + 7) // 8, "big"), 1)
    return _encoder.encode(Packed("some", bits, extras))


def unpack(packed: bytes, known: Sequence[str]) -> frozenset[str]:
    """The candidates again; ``known`` must be the same names as when they were packed."""
    found = _decoder.decode(packed)
    if found.kind == "names":
        return frozenset(found.names)
    if found.kind == "all":
        return frozenset((*known, *found.names))
    number = int.from_bytes(zlib.decompress(found.bits), "big")
    flags = format(number, f"0{len(known)}b")[-len(known) :] if known else ""
    return frozenset((*(name for name, flag in zip(known, flags, strict=True) if flag == "1"), *found.names))
