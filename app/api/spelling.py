"""What replies say of many nodes, as JSON: of a lasting set it is spelled once.

Replies about thousands of nodes are then mostly copies of a few long pieces.
"""

import zlib
from functools import lru_cache

import msgspec

from app.domain import lasting, model, verdicts

_KEPT = 32
"""Pieces of each kind: each may be a few hundred KB for 5,000 nodes."""

_encode = msgspec.json.Encoder().encode


def refused(nodes: verdicts.Names, sentence: str, *, plain: bool) -> bytes:
    """``"node":"sentence"``, for each node."""
    if isinstance(nodes, lasting.Lasting):
        return _refused(nodes, sentence)
    if plain:
        tail = '":' + _encode(sentence).decode()
        return ('"' + f'{tail},"'.join(nodes) + tail).encode()
    return _encode(dict.fromkeys(nodes, sentence))[1:-1]


def scored(nodes: verdicts.Names, score: int, *, plain: bool) -> bytes:
    """``{"Host":"node","Score":score}``, for each node."""
    if isinstance(nodes, lasting.Lasting):
        return _scored(nodes, score)
    if plain:
        tail = f'","Score":{score}}}'
        return ('{"Host":"' + f'{tail},{{"Host":"'.join(nodes) + tail).encode()
    return _encode([{"Host": node, "Score": score} for node in nodes])[1:-1]


def named(nodes: lasting.Lasting, uid: model.Uid) -> bytes:
    """``["node"]``, begun at another node for each pod.

    Where scores are missing kube-scheduler takes the first of the list (extender-contract-checked C8):
    it must not be the same node each time.
    """
    spelled = _named(nodes)
    at = spelled.find(b'","', zlib.crc32(uid.encode(errors="replace")) % len(spelled))
    return spelled if at < 0 else b'["%b,%b]' % (spelled[at + 3 : -1], spelled[1 : at + 1])


@lru_cache(_KEPT)
def _refused(nodes: lasting.Lasting, sentence: str) -> bytes:
    return _encode(dict.fromkeys(nodes, sentence))[1:-1]


@lru_cache(_KEPT)
def _scored(nodes: lasting.Lasting, score: int) -> bytes:
    return _encode([{"Host": node, "Score": score} for node in nodes])[1:-1]


@lru_cache(_KEPT)
def _named(nodes: lasting.Lasting) -> bytes:
    return _encode(list(nodes))
