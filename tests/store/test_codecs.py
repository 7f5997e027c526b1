"""Events <-> bytes: nothing is lost, and what cannot be understood is refused."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings

from app.domain import events
from app.store import codecs, errors
from tests.domain import generating


@given(generating.any_event)
@settings(max_examples=300, deadline=None)
def test_what_was_encoded_comes_back(event: events.AnyEvent) -> None:
    assert codecs.decode(codecs.encode(event)) == event


def test_version_and_tag_stand_first() -> None:
    payload = codecs.encode(events.PodGone(uid="u", namespace="blue", name="x"))
    assert payload == b'{"v":1,"type":"PodGone","uid":"u","namespace":"blue","name":"x"}'


def test_every_event_has_a_version_and_its_tag_is_its_name() -> None:
    kinds = get_args(events.AnyEvent)
    assert codecs.VERSIONS.keys() == {kind.__struct_config__.tag for kind in kinds}
    assert codecs.VERSIONS.keys() == {kind.__name__ for kind in kinds}


def test_the_order_of_fields_does_not_matter() -> None:
    payload = b'{"name":"x","type":"PodGone","namespace":"blue","uid":"u","v":1}'
    assert codecs.decode(payload) == events.PodGone(uid="u", namespace="blue", name="x")


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        pytest.param(b'{"v":2,"type":"PodGone","uid":"u","namespace":"n"}', "version 2", id="newer"),
        pytest.param(b'{"v":1,"type":"PodEaten","uid":"u"}', "PodEaten", id="unknown tag"),
        pytest.param(b'{"type":"PodGone","uid":"u","namespace":"n"}', "version None", id="no version"),
        pytest.param(b'{"v":"1","type":"PodGone","uid":"u"}', "version '1'", id="version as text"),
        pytest.param(b'{"v":1}', "None", id="no tag"),
        pytest.param(b'{"v":1,"type":"PodGone"}', "cannot be read", id="fields missing"),
        pytest.param(b'{"v":1,"type":"PodGone","uid":7}', "cannot be read", id="wrong type"),
        pytest.param(b'{"v":1,"type":"PodGone","uid":"u","na', "cannot be read", id="torn"),
        pytest.param(b"", "cannot be read", id="empty"),
        pytest.param(b"[]", "cannot be read", id="no object"),
    ],
)
def test_what_cannot_be_understood_is_refused(payload: bytes, said: str) -> None:
    with pytest.raises(errors.Unreadable, match=said):
        codecs.decode(payload)


def test_text_that_is_no_text_never_enters_the_log() -> None:
    with pytest.raises((UnicodeEncodeError, msgspec.EncodeError)):
        codecs.encode(events.PodGone(uid="u", namespace="blue", name="\ud800"))
