"""Bodies made to be expensive, each of a given size: all are refused."""

from collections.abc import Callable

Make = Callable[[int], bytes]
Read = Callable[[bytes], object]


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


PLACES = {
    "the body": (b"", b""),
    "the pod": (b'{"Pod":', b',"Nodes":null,"NodeNames":["a"]}'),
    "a pod in another case": (b'{"pod":', b',"nodenames":["a"]}'),
    "a field more": (b'{"Pod":{},"Nodes":null,"NodeNames":["a"],"More":', b"}"),
    "a field twice": (b'{"Pod":{},"Nodes":null,"NodeNames":["a"],"Pod":', b"}"),
    "the names": (b'{"Pod":{},"Nodes":null,"NodeNames":', b"}"),
    "the node of a bind": (b'{"PodName":"p","PodNamespace":"n","PodUID":"u","Node":', b"}"),
    "the pods of victims": (
        b'{"Pod":{},"NodeNameToVictims":{"a":{"NumPDBViolations":0,"Pods":',
        b'}},"NodeNameToMetaVictims":null}',
    ),
    "the victims": (b'{"Pod":{},"NodeNameToMetaVictims":{"a":{"Pods":', b"}}}"),
}
"""What is before and behind a value, for each place of a call."""


def _placed(made: Make, first: bytes, last: bytes) -> Make:
    return lambda size: first + made(size - len(first) - len(last)) + last


BODIES: dict[str, Make] = {
    f"{name} as {place}": _placed(made, *around)
    for name, made in MADE.items()
    for place, around in PLACES.items()
}
"""Bodies of calls by their description: one hostile value in each place of a call."""
