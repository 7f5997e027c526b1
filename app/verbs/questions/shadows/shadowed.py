"""Limits what a shadow holds, and reads it from a request and from the log."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.domain import events, model, snapshots
from app.framework import registry
from app.store.log import batches
from app.verbs.questions import errors, operations, question_schema, situations

MOST = 8
"""Shadows that can be set: each costs `topolog view` about a millisecond for every decision."""
LARGEST = 64 * 1024
"""Bytes of a shadow as JSON: every snapshot and every checkpoint holds it."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


@question_schema.asked
class SetShadow(question_schema.Question, frozen=True):
    """A shadow as it is sent: what would be decided by."""

    overrides: Annotated[
        list[dict[str, Any]],
        Meta(
            max_length=question_schema.MAX_OVERRIDES,
            description="Operations on objects of declared kinds such as policies, applied to each snapshot.",
        ),
    ] = msgspec.field(default_factory=list)
    configuration: Annotated[
        question_schema.Configuration | None, Meta(description="Plugin settings other than those in force.")
    ] = None
    until: Annotated[
        str, Meta(max_length=64, description="When it ends (RFC 3339); empty for no end, or with ttl.")
    ] = ""
    ttl: Annotated[
        str, Meta(max_length=32, description="Instead of until: how long it lasts, such as 24h.")
    ] = ""
    note: Annotated[str, Meta(max_length=512, description="What it is for.")] = ""


def shadow(name: str, asked: SetShadow, *, until: str, by: str) -> model.Shadow:
    """The shadow of a request. Raises Mistake. ``until``: RFC 3339 in UTC, or empty."""
    if not _NAME.fullmatch(name):
        raise errors.Mistake("name", "must be a DNS label: at most 63 of a-z, 0-9 and -")
    configuration = None
    if asked.configuration is not None:
        sent: dict[str, Any] = msgspec.to_builtins(asked.configuration)
        configuration = {field: value for field, value in sent.items() if value not in (None, {})}
    made = model.Shadow(name, tuple(asked.overrides), configuration, until, asked.note, by)
    size = len(msgspec.json.encode(made))
    if size > LARGEST:
        raise errors.TooMuch("shadow", f"it has {size} bytes as JSON; at most {LARGEST} are allowed")
    return made


def check(
    made: model.Shadow,
    snapshot: snapshots.Snapshot,
    plugins: registry.Registry,
    known: Sequence[type[Any]],
) -> None:
    """Raise Mistake unless the shadow applies to the snapshot, and is about objects and settings only."""
    supposed = hypothesis(made, plugins, known)
    for operation, path in zip(supposed.operations, supposed.paths, strict=True):
        if isinstance(operation, operations.CORE) and not isinstance(operation, operations.OBJECTS):
            raise errors.Mistake(f"{path}.op", "a shadow changes objects such as policies, not nodes or pods")
    situations.resolve(snapshot, supposed)


def hypothesis(
    made: model.Shadow, plugins: registry.Registry, known: Sequence[type[Any]]
) -> situations.Supposition:
    """What the shadow changes of the plugins. Raises Mistake."""
    held: Mapping[str, Any] = {"overrides": list(made.overrides), "configuration": made.configuration}
    asked = question_schema.read(held, question_schema.Situation)
    return situations.hypothesis(asked, plugins, known, "")


def guard(snapshot: snapshots.Snapshot) -> batches.Guard:
    """The condition that no shadow was set or deleted since the snapshot."""
    return batches.Guard(
        incarnation=snapshot.position.incarnation,
        versions={events.SHADOWS: snapshot.version(events.SHADOWS)},
    )
