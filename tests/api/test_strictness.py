"""JSON that could be read in two ways is refused, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api import strictness

DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000


@pytest.mark.parametrize(
    "pod",
    [b'{"a":1,"a":2}', b'{"m":{"labels":{"x":"1","x":"2"}}}', DEEP, b'{"a":[' * 40 + b"]}" * 40],
    ids=lambda body: repr(body[:24]),
)
def test_a_pod_that_go_would_read_differently_is_refused(pod: bytes) -> None:
    with pytest.raises(strictness.BadRequest):
        strictness.check(pod)


@given(
    st.recursive(
        st.none() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=40,
    )
)
def test_what_is_not_too_deep_passes(value: object) -> None:
    strictness.check(json.dumps({"a": value}).encode())
