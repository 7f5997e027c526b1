"""Ambiguous JSON is refused, and all other JSON is accepted."""

import json
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.extender import strict_json

DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000


@pytest.mark.parametrize(
    "pod",
    [b'{"a":1,"a":2}', b'{"m":{"labels":{"x":"1","x":"2"}}}', DEEP, b'{"a":[' * 40 + b"]}" * 40],
    ids=lambda body: repr(body[:24]),
)
def test_a_pod_that_go_would_read_differently_is_refused(pod: bytes) -> None:
    with pytest.raises(strict_json.BadRequest):
        strict_json.check(pod)


@given(
    st.recursive(
        st.none() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=40,
    )
)
def test_json_within_the_depth_limit_passes(value: object) -> None:
    strict_json.check(json.dumps({"a": value}).encode())


@given(
    texts=st.lists(st.text('"\\[]{}/abfnu\n\x01é', max_size=8), min_size=1, max_size=4),
    depth=st.integers(strict_json.MAX_DEPTH - 2, strict_json.MAX_DEPTH + 2),
    piece=st.integers(1, 9),
)
def test_depth_is_counted_outside_of_texts_whatever_these_escape(
    texts: list[str], depth: int, piece: int
) -> None:
    value: object = texts
    for level in range(depth - 1):
        value = {"k" + "".join(texts): value, "": texts[0]} if level % 2 else [*texts, value]
    raw = json.dumps(value).encode()
    with mock.patch.object(strict_json, "_PIECE", piece):
        if depth <= strict_json.MAX_DEPTH:
            strict_json.check(raw)
        else:
            with pytest.raises(strict_json.BadRequest, match="more than 64 deep"):
                strict_json.check(raw)
