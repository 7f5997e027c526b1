"""Encodes and decodes events.

An event is one JSON object with its version first and its tag second:
``{"v":1,"type":"PodGone","uid":...}``. The version is that of the event's own shape. A reader that
meets a newer version or an unknown tag raises Newer; an older version goes through the upcasters.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import get_args

import msgspec

from app import shared_texts
from app.domain import event_subjects, events, projections, schema
from app.store import errors
from migrations import upcasters

_LATER = {"PlacementReleased": 2, "PlacementsCommitted": 2, "PodSeen": 2}
"""Tag -> the version written now, if it is not 1."""

VERSIONS: Mapping[str, int] = MappingProxyType(
    {tag: _LATER.get(tag, 1) for tag in (kind.__struct_config__.tag for kind in get_args(events.AnyEvent))}
)
"""Tag -> the version written now."""

_READ: Mapping[str, int] = MappingProxyType({**upcasters.RETIRED, **VERSIONS})
"""Tag -> the highest version that is read."""

_HEADS = {kind: b'{"v":%d,' % VERSIONS[kind.__struct_config__.tag] for kind in get_args(events.AnyEvent)}
_CURRENT = frozenset(b'{"v":%d,"type":"%s' % (version, tag.encode()) for tag, version in VERSIONS.items())
"""Prefixes of events of the current version, up to the end of the tag."""
_TAG_FROM = len(b'{"v":1,"type":"')
_POD_SEEN = _HEADS[events.PodSeen] + b'"type":"PodSeen","pod":{"uid":"'
"""Prefix of a PodSeen as written here, up to the pod's uid."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[events.AnyEvent] = msgspec.json.Decoder(events.AnyEvent)
_fields = msgspec.json.Decoder(dict[str, object])
_tag = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
"""What the tag of an event looks like in every version."""


def encode(event: events.AnyEvent) -> bytes:
    """The event as stored in the log."""
    return _HEADS[type(event)] + _encoder.encode(event)[1:]


def decode(payload: bytes) -> events.AnyEvent:
    """The event, upcast to its current version; raises Unreadable."""
    try:
        if payload[: payload.find(b'"', _TAG_FROM)] in _CURRENT:
            event: events.AnyEvent = _decoder.decode(payload)
        else:
            event = _decoder.decode(msgspec.json.encode(_upcast(payload)))
    except errors.MALFORMED as error:
        raise errors.Unreadable(f"event cannot be read: {error}; it begins with {payload[:80]!r}") from error
    if type(event) is events.NodeSeen:
        shared_texts.share_values(event.node.labels, event.node.name)
    return event


def decode_all(payloads: Sequence[bytes]) -> list[events.AnyEvent]:
    """The events of a run of the log; raises Unreadable."""
    decode_one, current, start = _decoder.decode, _CURRENT, _TAG_FROM
    try:
        found = [
            decode_one(one) if one[: one.find(b'"', start)] in current else decode(one) for one in payloads
        ]
    except errors.MALFORMED:
        return [decode(one) for one in payloads]  # raises Unreadable with the payload
    for event in found:
        if type(event) is events.NodeSeen:
            shared_texts.share_values(event.node.labels, event.node.name)
    return found


def decode_run(payloads: Sequence[bytes]) -> list[events.AnyEvent]:
    """Equally many events with the same final state, for replays that skip states in between.

    A PodSeen that is superseded by the next one of the pod is not decoded but replaced by that one, if it
    settles where the pod is and no other event about the pod lies between them. Raises Unreadable.
    """
    try:
        return _decoded_run(payloads)
    except errors.MALFORMED:
        return [decode(one) for one in payloads]  # raises Unreadable with the payload


@contextmanager
def folding() -> Iterator[None]:
    """Raise Unreadable for an event whose object its kind cannot read, which only a fold finds out."""
    try:
        yield
    except schema.UnreadableObject as error:
        raise errors.Unreadable(str(error)) from error


def _decoded_run(payloads: Sequence[bytes]) -> list[events.AnyEvent]:
    found: list[events.AnyEvent] = []
    later: dict[bytes, events.AnyEvent] = {}
    decode_one, pod_seen, start = _decoder.decode, _POD_SEEN, len(_POD_SEEN)
    for payload in reversed(payloads):
        if payload.startswith(pod_seen):
            uid = payload[start : payload.find(b'"', start)]
            event = later.get(uid)
            if event is None:
                event = decode_one(payload)
                # The end of a uid with an escape is not found by the prefix: such a uid is never skipped.
                if type(event) is events.PodSeen and projections.settles(event.pod) and b"\\" not in uid:
                    later[uid] = event
        else:
            event = decode(payload)
            for about in event_subjects.pods_of(event):
                later.pop(about.encode(), None)
        found.append(event)
    found.reverse()
    return found


def _upcast(payload: bytes) -> dict[str, object]:
    fields = _fields.decode(payload)
    tag, version = fields.get("type"), fields.pop("v", None)
    if not isinstance(tag, str) or _tag.fullmatch(tag) is None:
        raise errors.Unreadable(f"event of type {tag!r}, which no version of Topolog writes")
    if type(version) is not int or version < 1:
        raise errors.Unreadable(f"{tag} of version {version!r}, which no version of Topolog writes")
    current = _READ.get(tag)
    if current is None:
        raise errors.Newer(f"event of unknown type {tag!r}: written by a newer Topolog")
    if version > current:
        raise errors.Newer(f"{tag} of version {version}, but this process reads up to {current}")
    return upcasters.upcast(tag, version, VERSIONS, fields)
