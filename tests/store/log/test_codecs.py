"""Events <-> bytes: nothing is lost, and unreadable payloads are refused."""

from collections.abc import Callable
from typing import get_args

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app import shared_texts
from app.domain import events, model, projections, snapshots
from app.store import errors
from app.store.log import codecs
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.decisions import recomputation, strategies

PENDING = model.Pod(uid="u1", namespace="blue", name="one", labels={"app": "a"})
BOUND = msgspec.structs.replace(PENDING, node="n1")
GONE = events.PodGone(uid="u1", namespace="blue", name="one")


@given(strategies.any_event)
@settings(max_examples=sizes.examples(100), deadline=None)
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
    ("payload", "message"),
    [
        pytest.param(b'{"v":2,"type":"PodGone","uid":"u","namespace":"n"}', "version 2", id="newer"),
        pytest.param(b'{"v":1,"type":"PodEaten","uid":"u"}', "PodEaten", id="unknown tag"),
        pytest.param(b'{"type":"PodGone","uid":"u","namespace":"n"}', "version None", id="no version"),
        pytest.param(b'{"v":"1","type":"PodGone","uid":"u"}', "version '1'", id="version as text"),
        pytest.param(b'{"v":true,"type":"PodGone","uid":"u"}', "version True", id="version as truth"),
        pytest.param(b'{"v":1}', "None", id="no tag"),
        pytest.param(b'{"v":1,"type":"pod gone"}', "'pod gone'", id="no tag of any version"),
        pytest.param(b'{"v":1,"type":"PodGone"}', "cannot be read", id="fields missing"),
        pytest.param(b'{"v":1,"type":"PodGone","uid":7}', "cannot be read", id="wrong type"),
        pytest.param(b'{"v":1,"type":"PodGone","uid":"u","na', "cannot be read", id="torn"),
        pytest.param(b"", "cannot be read", id="empty"),
        pytest.param(b"[]", "cannot be read", id="no object"),
        pytest.param(b'{"v":1,"type":"PodGone","uid":"\xff"}', "cannot be read", id="no text"),
        pytest.param(b'{"v":1,"type":' + b"[" * 100_000, "cannot be read", id="nested"),
    ],
)
def test_an_unreadable_payload_is_refused(payload: bytes, message: str) -> None:
    for read in (codecs.decode, lambda one: codecs.decode_all([one]), lambda one: codecs.decode_run([one])):
        with pytest.raises(errors.Unreadable, match=message):
            read(payload)


@pytest.mark.parametrize(
    ("payload", "newer"),
    [
        (b'{"v":2,"type":"PodGone","uid":"u","namespace":"n"}', True),
        (b'{"v":7,"type":"PodEaten","uid":"u"}', True),
        (b'{"v":0,"type":"PodEaten","uid":"u"}', False),
        (b'{"type":"PodEaten","uid":"u"}', False),
        (b'{"v":1,"type":"PodGone","uid":7}', False),
        (b"PodEaten", False),
    ],
)
def test_an_event_of_a_newer_version_is_distinguished_from_a_damaged_one(payload: bytes, newer: bool) -> None:
    with pytest.raises(errors.Unreadable) as raised:
        codecs.decode(payload)
    assert isinstance(raised.value, errors.Newer) is newer
    assert str(raised.value).endswith("; upgrade this process") is newer


@given(st.one_of(strategies.histories, strategies.crowds))
@example([events.PodSeen(pod=PENDING), GONE, events.PodSeen(pod=BOUND)])
@example([events.placed(PENDING, "n0"), events.PodSeen(pod=BOUND), events.PodSeen(pod=PENDING)])
@settings(max_examples=sizes.examples(100), deadline=None)
def test_a_run_comes_to_the_same_as_its_events(history: list[events.AnyEvent]) -> None:
    history = [strategies.namesake(event) for event in history]
    one_by_one = snapshots.empty(schema=declared.SCHEMA, indexed=frozenset(("app",)))
    for event in history:
        one_by_one = projections.project(one_by_one, event)
    run = codecs.decode_run([codecs.encode(event) for event in history])
    at_once = projections.project_all(
        snapshots.empty(schema=declared.SCHEMA, indexed=frozenset(("app",))), run
    )
    assert recomputation.kept(at_once) == recomputation.kept(one_by_one)
    assert at_once.offset == one_by_one.offset
    assert {**at_once.versions} == {**one_by_one.versions}
    assert {**at_once.names} == {**one_by_one.names}


def test_superseded_observations_of_a_run_are_not_decoded() -> None:
    seen = [events.PodSeen(pod=msgspec.structs.replace(PENDING, uid=uid)) for uid in ("u1", "u2", "u1")]
    bound = events.PodSeen(pod=BOUND)
    torn = codecs.encode(seen[0])[:-5]
    other = codecs.encode(seen[1])
    assert codecs.decode_run([torn, other, codecs.encode(bound)]) == [bound, seen[1], bound]
    for last in (seen[2], GONE):  # neither has the node of the pod: the earlier event counts
        with pytest.raises(errors.Unreadable):
            codecs.decode_run([torn, other, codecs.encode(last)])


def test_invalid_unicode_never_enters_the_log() -> None:
    with pytest.raises((UnicodeEncodeError, msgspec.EncodeError)):
        codecs.encode(events.PodGone(uid="u", namespace="blue", name="\ud800"))


@pytest.mark.parametrize("read", [codecs.decode_all, codecs.decode_run])
def test_nodes_share_equal_label_values(read: Callable[[list[bytes]], list[events.AnyEvent]]) -> None:
    seen = [
        events.NodeSeen(node=model.Node(name=name, uid=name, labels={"host": name, "zone": "zone-a"}))
        for name in ("node-1", "node-2")
    ]
    found = read([codecs.encode(event) for event in seen])
    assert found == seen
    one, other = (event.node for event in found if isinstance(event, events.NodeSeen))
    assert one.labels["zone"] is other.labels["zone"]
    assert one.labels["host"] is one.name


def test_texts_that_are_shared_are_bounded() -> None:
    """A tenant may choose any label values, and the process outlives most of them."""
    for number in range(shared_texts.MOST + 1_000):
        shared_texts.shared(f"value-{number}")
    assert shared_texts.shared.cache_info().currsize <= shared_texts.MOST
    assert shared_texts.shared("".join(["zone", "-a"])) is shared_texts.shared("".join(["zone-", "a"]))
