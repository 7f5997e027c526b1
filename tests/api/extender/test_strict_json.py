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


_KEYS = st.sampled_from(["a", ":", "\\u003a", '"', "\\"])
_VALUES = st.recursive(
    st.sampled_from(["", ":", "\\u003a:", '":"', 1, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=10,
)
_PADDING = '"padding":"' + "x" * 100_000 + '"'


@given(value=_VALUES, key=_KEYS, other=_VALUES, escaped=st.booleans())
def test_a_repeated_key_is_noticed_in_large_json_whatever_its_texts_are(
    value: object, key: str, other: object, escaped: bool
) -> None:
    """Colons are counted there: in texts and keys, escaped, or behind an escaped backslash."""
    spelled, name, more = map(json.dumps, (value, key, other))
    if escaped:
        name = name.replace(":", r"\u003a")
        spelled = spelled.replace(":", r"\u003a") if isinstance(value, str) else spelled
    once = f'{{{_PADDING},{name}:{spelled},"more":{more}}}'
    strict_json.check(once.encode())
    twice = f'{{{_PADDING},{name}:{spelled},"more":{{"b":1,{name}:{more},{name}:{more}}}}}'
    with pytest.raises(strict_json.BadRequest, match="given twice"):
        strict_json.check(twice.encode())


def test_json_has_a_limit_of_bytes() -> None:
    strict_json.check(b'"' + b"x" * (strict_json.MAX_BYTES - 2) + b'"')
    with pytest.raises(strict_json.BadRequest, match=f"has {strict_json.MAX_BYTES + 1} bytes; the limit is"):
        strict_json.check(b'"' + b"x" * (strict_json.MAX_BYTES - 1) + b'"')


def test_keys_of_another_case_have_a_limit_of_bytes() -> None:
    beside = b'{"pod":{},"' + b"x" * strict_json.MAX_BESIDE + b'":1}'
    with pytest.raises(
        strict_json.BadRequest, match="bytes beside the values of the call; the limit is 65536"
    ):
        strict_json.folded(beside)


@pytest.mark.parametrize("name", ["\U0001f600".encode(), rb"\u006e", b"a"])
def test_a_long_list_of_names_has_no_escapes(name: bytes) -> None:
    names = b'["' + name + b"a" * strict_json.MAX_BYTES + b'"]'
    if name == b"a":
        strict_json.refuse_wide(names)
    else:
        with pytest.raises(strict_json.BadRequest, match="escapes or characters that no name has"):
            strict_json.refuse_wide(names)
