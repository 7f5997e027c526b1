"""Encodes the parts of replies that list many nodes; an interned set holds its JSON, which is encoded once.

Replies about thousands of nodes are then mostly copies of a few long pieces.
"""

import zlib

import msgspec

from app.domain import model, node_sets

_encode = msgspec.json.Encoder().encode


def refused(nodes: node_sets.Names, sentence: str, *, plain: bool) -> bytes:
    """``"node":"sentence"``, for each node."""
    if isinstance(nodes, node_sets.InternedNodes):
        return nodes.value(("refused", sentence), lambda: _refused(nodes, sentence))
    if plain:
        tail = '":' + _encode(sentence).decode()
        return ('"' + f'{tail},"'.join(nodes) + tail).encode()
    return _refused(nodes, sentence)


def scored(nodes: node_sets.Names, score: int, *, plain: bool) -> bytes:
    """``{"Host":"node","Score":score}``, for each node."""
    if isinstance(nodes, node_sets.InternedNodes):
        return nodes.value(("scored", score), lambda: _scored(nodes, score))
    if plain:
        tail = f'","Score":{score}}}'
        return ('{"Host":"' + f'{tail},{{"Host":"'.join(nodes) + tail).encode()
    return _scored(nodes, score)


def named(nodes: node_sets.InternedNodes, uid: model.Uid) -> bytes:
    """``["node"]``, rotated to start at another node for each pod.

    Without scores kube-scheduler takes the first of the list (extender contract, 6): it must not be
    the same node each time.
    """
    spelled = nodes.value("named", lambda: _encode(list(nodes)))
    at = spelled.find(b'","', zlib.crc32(uid.encode(errors="replace")) % len(spelled))
    return spelled if at < 0 else b'["%b,%b]' % (spelled[at + 3 : -1], spelled[1 : at + 1])


def _refused(nodes: node_sets.Names, sentence: str) -> bytes:
    return _encode(dict.fromkeys(nodes, sentence))[1:-1]


def _scored(nodes: node_sets.Names, score: int) -> bytes:
    return _encode([{"Host": node, "Score": score} for node in nodes])[1:-1]
