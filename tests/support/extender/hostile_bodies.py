"""Bodies made to be expensive, each of a given size, and the verbs that refuse them."""

from collections.abc import Callable
from typing import NamedTuple

from app.api.extender import calls, strict_json
from app.kube import errors
from app.kube.objects import decoding

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


def _objects_and_text(size: int) -> bytes:
    objects = b'{"a":1},' * (strict_json.MAX_VALUES // 2 - 2)
    first, last = b'{"a":[' + objects + rb'1],"b":"\ud83d\ude00', b'","c":1,"c":1}'
    return first + b"a" * (size - len(first + last)) + last


def _by_node(victims: bytes) -> Make:
    """Nodes with the same victims, the last of them with a name that no node has."""
    piece = b'"n%07d":' + victims + b","

    def made(size: int) -> bytes:
        number = (size - len(victims) - 9) // len(piece % 0)
        return b"{" + b"".join(piece % at for at in range(number)) + b'"a b":' + victims + b"}"

    return made


def _stored(key: bytes) -> Make:
    """Objects with metadata, of the least size that an API server stores; the last one is not valid."""
    first, last = b'{"metadata":{"%b":"a"},"x":"' % key, b'"},'
    return _repeated(
        b"[", first + b"x" * (128 - len(first + last)) + last, b'{"metadata":{"%b":"a b"}}]' % key
    )


def _names(size: int) -> bytes:
    """As many names as one offer may have, each as long as the size allows; the last one is not valid."""
    number = min(calls.MAX_NODES, size // 16) - 1
    text = b'"' + b"n" * (size // number - 10) + b'%07d",'
    return b"[" + b"".join(text % at for at in range(number)) + b'"a b"]'


def _sidecars(size: int) -> bytes:
    """As many init containers as are decoded; the first ones request more resources than a pod may."""
    first = b",".join(
        b'{"restartPolicy":"Always","resources":{"requests":{%b}}}'
        % b",".join(b'"%d%03d":1' % (at, number) for number in range(1_000))
        for at in range(6)
    )
    plain = b',{"restartPolicy":"Always"}' * (strict_json.MAX_VALUES // 2 - 3_100)
    rest = size - len(first) - len(plain) - 16
    return b"[" + first + plain + b',{"image":"' + b"a" * rest + b'"}]'


MADE: dict[str, Make] = {
    "deep lists": lambda size: b"[" * (size // 2) + b"]" * (size // 2),
    "deep objects": lambda size: b'{"a":' * (size // 6) + b"1" + b"}" * (size // 6),
    "empty lists": _repeated(b"[", b"[],", b"[]]"),
    "empty objects": _repeated(b"[", b"{},", b"{}]"),
    "empty strings": _repeated(b"[", b'"",', b'""]'),
    "lists of 60 levels": _repeated(b"[", b"[" * 60 + b"]" * 60 + b",", b"[]]"),
    "numbers": _repeated(b"[", b"1,", b"1]"),
    "objects": _repeated(b"[", b'{"a":1},', b"{}]"),
    "as many objects as are decoded, and a wide text": _objects_and_text,
    "a wide text": _repeated('{"a":"\U0001f600'.encode(), b"a", b'","b":1,"b":1}'),
    "a wide key": _repeated('{"b":1,"\U0001f600'.encode(), b"a", b'":1,"b":1}'),
    "a wide text in escapes": _repeated(rb'{"a":"\ud83d\ude00', b"a", b'","b":1,"b":1}'),
    "many keys": _keys,
    "one key many times": _repeated(b"{", b'"a":1,', b'"a":1}'),
    "one key twice around a long text": _repeated(b'{"a":"', b"\\\\", b'","a":1}'),
    "one key twice beside escapes and brackets": _repeated(b'{"a":"', rb"\"[", b'","b":1,"b":1}'),
    "quotes behind commas in a text": _repeated(b'["' + b"," * 20_000 + b'",', b'"', b"]"),
    "short texts behind commas in a text": _repeated(b'["' + b"," * 20_000 + b'",', b'"[",', b"1]"),
    "escapes behind commas in a text": _repeated(b'{"a":"' + b"," * 20_000, rb"\"", b'","b":1,"b":1}'),
    "escapes and depth": _repeated(b'["', b'\\"', b'",' + b"[" * 70 + b"]" * 70 + b"]"),
    "white space and depth": _repeated(b"[", b" ", b"[" * 70 + b"]" * 70 + b"]"),
}
"""Values of calls that are not of the expected shape, for any place."""


_FILTER, _BIND, _PREEMPT = "filter", "bind", "preempt"
_METADATA = b'{"Pod":{"metadata":{"name":"p","namespace":"n","uid":"u"}'
_POD = _METADATA + b"},"
PLACES = {
    "the body": Place(b"", b"", (_FILTER, _BIND, _PREEMPT)),
    "the pod": Place(b'{"Pod":', b',"Nodes":null,"NodeNames":["a"]}', (_FILTER, _PREEMPT)),
    "the init containers": Place(
        _METADATA + b',"spec":{"initContainers":', b'}},"Nodes":null,"NodeNames":["a"]}', (_FILTER, _PREEMPT)
    ),
    "a pod in another case": Place(b'{"pod":', b',"nodenames":["a"]}', (_FILTER, _PREEMPT)),
    "a field more": Place(_POD + b'"Nodes":null,"NodeNames":["a"],"More":', b"}", (_FILTER,)),
    "a field twice": Place(_POD + b'"Nodes":null,"NodeNames":["a"],"Pod":', b"}", (_FILTER, _PREEMPT)),
    "the nodes": Place(_POD + b'"NodeNames":null,"Nodes":{"items":', b"}}", (_FILTER,)),
    "the names": Place(_POD + b'"Nodes":null,"NodeNames":', b"}", (_FILTER,)),
    "the node of a bind": Place(b'{"PodName":"p","PodNamespace":"n","PodUID":"u","Node":', b"}", (_BIND,)),
    "the pods of victims": Place(
        _POD + b'"NodeNameToVictims":{"a":{"NumPDBViolations":0,"Pods":',
        b'}},"NodeNameToMetaVictims":null}',
        (_PREEMPT,),
    ),
    "the victims": Place(_POD + b'"NodeNameToMetaVictims":{"a":{"Pods":', b"}}}", (_PREEMPT,)),
    "the pods of victims by node": Place(
        _POD + b'"NodeNameToMetaVictims":null,"NodeNameToVictims":', b"}", (_PREEMPT,)
    ),
    "the victims by node": Place(_POD + b'"NodeNameToMetaVictims":', b"}", (_PREEMPT,)),
}
"""Places of a call that a value can be in."""


def _placed(made: Make, place: Place) -> Make:
    return lambda size: place.first + made(size - len(place.first) - len(place.last)) + place.last


MANY: dict[str, dict[str, Make]] = {
    "the init containers": {"sidecars and many resources": _sidecars},
    "the names": {
        "distinct names": _names,
        "a wide name": _repeated('["\U0001f600'.encode(), b"a", b'"]'),
        "a wide name in escapes": _repeated(rb'["\ud83d\ude00', b"a", b'"]'),
    },
    "the nodes": {
        "names": _repeated(b"[", b'{"metadata":{"name":"a"}},', b'{"metadata":{"name":"a"}}]'),
        "stored nodes": _stored(b"name"),
    },
    "the pods of victims": {
        "UIDs": _repeated(b"[", b'{"metadata":{"uid":"a"}},', b'{"metadata":{"uid":"a"}}]'),
        "UIDs and escapes": _repeated(b"[", b'{"\\u006detadata":{"uid":"a"}},', b'{"metadata":{"uid":"a"}}]'),
        "UIDs and white space": _repeated(b"[", b'{"metadata" :{"uid":"a"}},', b'{"metadata":{"uid":"a"}}]'),
        "stored pods": _stored(b"uid"),
    },
    "the victims": {
        "UIDs of the meta form": _repeated(b"[", b'{"UID":"a"},', b'{"UID":"a"}]'),
        "a wide UID": _repeated('[{"UID":"\U0001f600'.encode(), b"a", b'"}]'),
    },
    "the pods of victims by node": {
        "nodes without victims": _by_node(b'{"NumPDBViolations":0,"Pods":[]}'),
        "nodes with a victim": _by_node(b'{"NumPDBViolations":0,"Pods":[{"metadata":{"uid":"a"}}]}'),
    },
    "the victims by node": {
        "nodes without victims": _by_node(b'{"NumPDBViolations":0,"Pods":[]}'),
        "nodes with a victim": _by_node(b'{"NumPDBViolations":0,"Pods":[{"UID":"a"}]}'),
    },
}
"""Values of the shape that their place expects, with more elements than kube-scheduler sends."""

BODIES: dict[str, Body] = {
    f"{name} as {at}": Body(_placed(made, place), place.verbs)
    for at, place in PLACES.items()
    for name, made in (MADE | MANY.get(at, {})).items()
}
"""Bodies of calls by their description: one hostile value in one place of a call."""


def _read_pod(raw: bytes) -> None:
    strict_json.check(raw)
    try:
        decoding.pod(raw)
    except errors.Undecodable as error:
        raise strict_json.BadRequest(f"Pod: {error}") from error


def _read_filter(body: bytes) -> None:
    asked = calls.call(body)
    _read_pod(asked.pod)
    calls.nodes_of(asked.nodes) if asked.nodes else calls.names_of(asked.names or b"[]")


def _read_preempt(body: bytes) -> None:
    _read_pod(calls.preempt_call(body).pod)


READS: dict[str, Read] = {_FILTER: _read_filter, _BIND: calls.bind_call, _PREEMPT: _read_preempt}
"""Verb -> decodes a body and its pod as the verb does; raises BadRequest if the verb refuses it."""
