"""Bodies made to be expensive, each of a given size, and the verbs that refuse them."""

from collections.abc import Callable
from typing import NamedTuple

from app.api.extender import calls, strict_json

Make = Callable[[int], bytes]
Read = Callable[[bytes], object]


class Place(NamedTuple):
    """What is before and behind a value in a call, and the verbs that read the value."""

    first: bytes
    last: bytes
    verbs: tuple[str, ...]


class Body(NamedTuple):
    """The body for a size, and the verbs that have to refuse it; others may not read its hostile value."""

    make: Make
    verbs: tuple[str, ...]


def _repeated(first: bytes, piece: bytes, last: bytes) -> Make:
    return lambda size: first + piece * ((size - len(first) - len(last)) // len(piece)) + last


def _keys(size: int) -> bytes:
    return b'{"x":1' + b"".join(b',"%07d":1' % number for number in range(size // 12)) + b"}"


MADE: dict[str, Make] = {
    "deep lists": lambda size: b"[" * (size // 2) + b"]" * (size // 2),
    "deep objects": lambda size: b'{"a":' * (size // 6) + b"1" + b"}" * (size // 6),
    "empty lists": _repeated(b"[", b"[],", b"[]]"),
    "empty objects": _repeated(b"[", b"{},", b"{}]"),
    "empty strings": _repeated(b"[", b'"",', b'""]'),
    "lists of 60 levels": _repeated(b"[", b"[" * 60 + b"]" * 60 + b",", b"[]]"),
    "numbers": _repeated(b"[", b"1,", b"1]"),
    "many keys": _keys,
    "one key many times": _repeated(b"{", b'"a":1,', b'"a":1}'),
    "one key twice around a long text": _repeated(b'{"a":"', b"\\\\", b'","a":1}'),
    "escapes and depth": _repeated(b'["', b'\\"', b'",' + b"[" * 70 + b"]" * 70 + b"]"),
    "white space and depth": _repeated(b"[", b" ", b"[" * 70 + b"]" * 70 + b"]"),
}
"""Values of calls."""


_FILTER, _BIND, _PREEMPT = "filter", "bind", "preempt"
PLACES = {
    "the body": Place(b"", b"", (_FILTER, _BIND, _PREEMPT)),
    "the pod": Place(b'{"Pod":', b',"Nodes":null,"NodeNames":["a"]}', (_FILTER, _PREEMPT)),
    "a pod in another case": Place(b'{"pod":', b',"nodenames":["a"]}', (_FILTER, _PREEMPT)),
    "a field more": Place(b'{"Pod":{},"Nodes":null,"NodeNames":["a"],"More":', b"}", (_FILTER,)),
    "a field twice": Place(b'{"Pod":{},"Nodes":null,"NodeNames":["a"],"Pod":', b"}", (_FILTER, _PREEMPT)),
    "the names": Place(b'{"Pod":{},"Nodes":null,"NodeNames":', b"}", (_FILTER,)),
    "the node of a bind": Place(b'{"PodName":"p","PodNamespace":"n","PodUID":"u","Node":', b"}", (_BIND,)),
    "the pods of victims": Place(
        b'{"Pod":{},"NodeNameToVictims":{"a":{"NumPDBViolations":0,"Pods":',
        b'}},"NodeNameToMetaVictims":null}',
        (_PREEMPT,),
    ),
    "the victims": Place(b'{"Pod":{},"NodeNameToMetaVictims":{"a":{"Pods":', b"}}}", (_PREEMPT,)),
}
"""Places of a call that a value can be in."""


def _placed(made: Make, place: Place) -> Make:
    return lambda size: place.first + made(size - len(place.first) - len(place.last)) + place.last


BODIES: dict[str, Body] = {
    f"{name} as {at}": Body(_placed(made, place), place.verbs)
    for name, made in MADE.items()
    for at, place in PLACES.items()
}
"""Bodies of calls by their description: one hostile value in each place of a call."""


def _read_filter(body: bytes) -> None:
    asked = calls.call(body)
    strict_json.check(asked.pod)
    calls.names_of(asked.names or b"[]")


def _read_preempt(body: bytes) -> None:
    strict_json.check(calls.preempt_call(body).pod)


READS: dict[str, Read] = {_FILTER: _read_filter, _BIND: calls.bind_call, _PREEMPT: _read_preempt}
"""Verb -> decodes a body as the verb does; raises BadRequest if the verb refuses it."""
