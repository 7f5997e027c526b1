"""Encodes the parts of replies that list many nodes; the JSON of an interned set is encoded once.

Replies about thousands of nodes are then mostly copies of a few long pieces.
"""

import zlib
from functools import lru_cache

import msgspec

from app.domain import model, node_sets

_KEPT = 32
"""Pieces of each kind: each may be a few hundred KB for 5,000 nodes."""

_encode = msgspec.json.Encoder().encode


def refused(nodes: node_sets.Names, sentence: str, *, plain: bool) -> bytes:
    """``"node":"sentence"``, for each node."""
    if isinstance(nodes, node_sets.InternedNodes):
        return _refused(nodes, sentence)
    if plain:
        tail = '":' + _encode(sentence).decode()
        return ('"' + f'{tail},"'.join(nodes) + tail).encode()
    return _encode(dict.fromkeys(nodes, sentence))[1:-1]


def scored(nodes: node_sets.Names, score: int, *, plain: bool) -> bytes:
    """``{"Host":"node","Score":score}``, for each node."""
    if isinstance(nodes, node_sets.InternedNodes):
        return _scored(nodes, score)
    if plain:
        tail = f'","Score":{score}}}'
        return ('{"Host":"' + f'{tail},{{"Host":"'.join(nodes) + tail).encode()
    return _encode([{"Host": node, "Score": score} for node in nodes])[1:-1]


def named(nodes: node_sets.InternedNodes, uid: model.Uid) -> bytes:
    """``["node"]``, rotated to start at another node for each pod.

    Without scores kube-scheduler takes the first of the list (extender contract, 6): it must not be
    the same node each time.
    """
    spelled = _named(nodes)
    at = spelled.find(b'","', zlib.crc32(uid.encode(errors="replace")) % len(spelled))
    return spelled if at < 0 else b'["%b,%b]' % (spelled[at + 3 : -1], spelled[1 : at + 1])


@lru_cache(_KEPT)
def _refused(nodes: node_sets.InternedNodes, sentence: str) -> bytes:
    return _encode(dict.fromkeys(nodes, sentence))[1:-1]


@lru_cache(_KEPT)
def _scored(nodes: node_sets.InternedNodes, score: int) -> bytes:
    return _encode([{"Host": node, "Score": score} for node in nodes])[1:-1]


@lru_cache(_KEPT)
def _named(nodes: node_sets.InternedNodes) -> bytes:
    return _encode(list(nodes))
