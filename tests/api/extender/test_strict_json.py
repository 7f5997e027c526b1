"""Ambiguous JSON is refused, and all other JSON is accepted."""

import json

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
