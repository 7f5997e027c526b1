"""Bodies made to be expensive are refused, within memory of their own size."""

import contextlib
import tracemalloc
from collections.abc import Iterator

import pytest

from app.api.extender import calls, strict_json
from tests.support.extender import hostile_bodies

LARGE = 4 * 1024**2
"""The size of a body whose memory is limited; a smaller one may take as much."""
SIZES = [LARGE, strict_json.MAX_BYTES]
"""JSON of the second size is decoded whole, if only in some places of a call."""


@contextlib.contextmanager
def at_most_three_times_as_much() -> Iterator[None]:
    """The block may allocate three times the bytes of a large body."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 3 * LARGE


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("hostile", hostile_bodies.BODIES.values(), ids=hostile_bodies.BODIES)
def test_a_hostile_body_is_refused_and_takes_at_most_three_times_its_size(
    hostile: hostile_bodies.Body, size: int
) -> None:
    body = hostile.make(size)
    assert size * 0.9 < len(body) <= size + 16
    for verb in hostile.verbs:
        with at_most_three_times_as_much(), pytest.raises(strict_json.BadRequest):
            hostile_bodies.READS[verb](body)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("hostile", hostile_bodies.BODIES.values(), ids=hostile_bodies.BODIES)
def test_a_verb_that_may_accept_a_hostile_body_takes_at_most_three_times_its_size(
    hostile: hostile_bodies.Body, size: int
) -> None:
    """Its hostile value is at a place that only another verb reads."""
    body = hostile.make(size)
    for verb in hostile_bodies.READS.keys() - set(hostile.verbs):
        with at_most_three_times_as_much(), contextlib.suppress(strict_json.BadRequest):
            hostile_bodies.READS[verb](body)


def test_more_values_than_a_call_has_are_refused_by_their_number() -> None:
    most = strict_json.MAX_VALUES
    strict_json.check(b"[" + b"1," * (most - 2) + b"1]")
    with pytest.raises(strict_json.BadRequest, match=f"more than {most} values"):
        strict_json.check(b"[" + b"1," * most + b"1]")


@pytest.mark.parametrize("text", [b"1,", b"[", b"{", rb"\",", rb"\\,", rb"\u002c,", rb"\n,"])
def test_commas_and_brackets_in_a_text_are_not_values(text: bytes) -> None:
    """Nothing reads such an annotation, and the recorder accepts the pod."""
    annotations = b'{"ids":"' + text * (strict_json.MAX_VALUES + 100) + rb'","end":"\\"}'
    pod = b'{"metadata":{"name":"a","annotations":' + annotations + b"}}"
    strict_json.check(pod)
    strict_json.folded(b'{"pod":' + pod + b',"nodenames":["a"]}')


@pytest.mark.parametrize("text", [b'"a,"', rb'"\\"', rb'"\","', b'"[{"', b'""'])
def test_values_are_counted_between_texts(text: bytes) -> None:
    most = strict_json.MAX_VALUES
    strict_json.check(b"[" + (text + b",") * (most - 1) + text + b"]")
    with pytest.raises(strict_json.BadRequest, match=f"more than {most} values"):
        strict_json.check(b"[" + (text + b",") * most + text + b"]")


@pytest.mark.parametrize("depth", [63, 64, 65])
@pytest.mark.parametrize("inside", [b'"[["', b'"\\"["', b'"\\\\",["]"]', b"1"])
def test_depth_is_counted_by_brackets_outside_of_strings(inside: bytes, depth: int) -> None:
    deepest = depth + (b",[" in inside)
    raw = b"[" * depth + inside + b"]" * depth
    if deepest <= strict_json.MAX_DEPTH:
        strict_json.check(raw)
    else:
        with pytest.raises(strict_json.BadRequest, match="more than 64 deep"):
            strict_json.check(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a\\u003a":1,"a:":1}',
        b'{"a":{"x":"\\u003a"},"b":{"c":1,"c":2}}',
        b'{ "a" : 1 , "a" : 1 }',
        b'{"a":"' + b"x" * 100_000 + b'","b":{"c":1,"c":"::"}}',
    ],
)
def test_a_key_given_twice_is_noticed_however_it_is_spelled(raw: bytes) -> None:
    with pytest.raises(strict_json.BadRequest, match="given twice"):
        strict_json.check(raw)


@pytest.mark.parametrize("raw", [b'{"a":"\\u003a"}', b'{ "a" : ":" , "b" : [ 1.0 ] }', b'{"a":"\\u003c:"}'])
def test_another_spelling_of_the_same_json_passes(raw: bytes) -> None:
    strict_json.check(raw)


def test_a_call_in_its_own_case_with_a_key_twice_is_refused() -> None:
    for body in (
        b'{"Pod":{},"Nodes":null,"NodeNames":["a"],"NodeNames":["b"]}',
        b'{"Pod":{}, "Nodes":null, "NodeNames":["a"], "NodeNames":["b"]}',
        b'{"Pod":{},"Nodes":null,"NodeNames":["a"],"P\\u006fd":{}}',
    ):
        with pytest.raises(strict_json.BadRequest, match="given twice"):
            calls.call(body)
