"""The query parameters of the REST API, each described once."""

import re
from typing import get_args

from marshmallow import Schema, ValidationError, fields, pre_load, validate
from webargs import multidictproxy

from app.api.introspection import moments, pages
from app.domain import events
from app.store.decisions import conditions
from app.telemetry import metrics

NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
END = r"$(?!\n)"
"""Python's $ also matches before a final newline; the patterns of OpenAPI have no \\Z."""
NAMESPACED = re.compile(rf"^{NAME}/{NAME}{END}", re.ASCII)
LEVELS = re.compile(rf"^[^,\x00-\x20]{{1,317}}(,[^,\x00-\x20]{{1,317}}){{0,7}}{END}")
SUBJECT = re.compile(rf"^[^:\x00-\x20]+:[^\x00-\x20]+{END}")
_OFFSET = r"([^/\s]*/)?[0-9]{1,18}"
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}[0-9.]*([Zz]|[+ -][0-9:]{5})"
MOMENT = rf"^({_OFFSET}|{_TIME}){END}"
VERBS = tuple(metrics.OUTCOMES)


class At(fields.Field[moments.At]):
    """An offset, a position or a time."""

    def _deserialize(self, value: object, attr: str | None, data: object, **_: object) -> moments.At:
        try:
            return moments.parse(str(value))
        except ValueError as error:
            raise ValidationError(str(error)) from error


class Where(fields.Field[conditions.Condition]):
    """A condition on decisions."""

    def _deserialize(
        self, value: object, attr: str | None, data: object, **_: object
    ) -> conditions.Condition:
        try:
            return conditions.parse(str(value))
        except conditions.Invalid as error:
            raise ValidationError(str(error)) from error


def at(description: str, *, data_key: str | None = None) -> At:
    """A parameter that names a moment."""
    return At(
        data_key=data_key,
        metadata={
            "type": "string",
            "pattern": MOMENT,
            "description": f"{description}: an offset of the log, a position as in X-Topolog-Position,"
            " or an RFC 3339 time.",
            "examples": ["42", "2026-07-01T12:00:00Z"],
        },
    )


class Parameters(Schema):
    """The parameters of a query. One of another name is an error that lists them; so is a repeated one."""

    def __init__(self) -> None:
        super().__init__()
        names = [field.data_key or name for name, field in self.fields.items()]
        known = f"known: {', '.join(names)}" if names else "there are none here"
        self.error_messages["unknown"] = f"there is no parameter of this name; {known}"

    @pre_load
    def _single(self, given: multidictproxy.MultiDictProxy, **_: object) -> multidictproxy.MultiDictProxy:
        repeated = {name: ["is given more than once"] for name in given if len(given.getlist(name)) > 1}
        if repeated:
            raise ValidationError(repeated)
        return given


class Empty(Parameters):
    """No parameters."""


class Moment(Parameters):
    """The moment of the request."""

    at = at("The moment to show, instead of now")


def _limit() -> fields.Integer:
    return fields.Integer(
        load_default=pages.DEFAULT,
        strict=False,
        validate=validate.Range(1, pages.MAX_LIMIT),
        metadata={"description": "Maximum number of items."},
    )


def _continue() -> fields.String:
    return fields.String(
        data_key="continue",
        validate=validate.Length(max=2000),
        metadata={"description": "metadata.continue of the previous page."},
    )


class Page(Moment):
    """A page of a list."""

    limit = _limit()
    continue_ = _continue()


def text(description: str, **more: object) -> fields.String:
    """A text parameter."""
    return fields.String(validate=validate.Length(1, 512), metadata={"description": description, **more})


def pod(description: str) -> fields.String:
    """A parameter that names a pod."""
    return fields.String(
        validate=validate.Regexp(NAMESPACED, error="must be NAMESPACE/NAME"),
        metadata={"description": description},
    )


def _prefix(what: str) -> fields.String:
    return fields.String(
        validate=validate.Length(1, 512),
        metadata={"description": f"Only those whose {what} begins with this."},
    )


class Nodes(Page):
    """Parameters that select nodes."""

    prefix = _prefix("name")


class Pods(Page):
    """Parameters that select pods."""

    prefix = _prefix("NAMESPACE/NAME")
    namespace = text("Only pods of this namespace.")


class Decisions(Page):
    """Parameters that select decisions."""

    pod = pod("Only decisions about this pod, NAMESPACE/NAME.")
    namespace = text("Only decisions about pods of this namespace.")
    node = text("Only decisions that chose this node, or preemptions with victims on it.")
    plugin = text("Only decisions in which this plugin refused nodes.")
    reason = text("Only decisions with a reason that contains this text.")
    object = text("Only decisions that concern this object of a plugin, such as policy:NAMESPACE/NAME.")
    outcome = text("Only decisions with this outcome: kept, refused, scored, bound or error.")
    verb = fields.String(
        validate=validate.OneOf(VERBS), metadata={"description": "Only decisions of this verb."}
    )
    where = Where(
        metadata={
            "type": "string",
            "maxLength": conditions.LONGEST,
            "description": conditions.ABOUT,
            "examples": ["verb=filter,outcome!=kept"],
        },
    )
    since = at("Only decisions at or after this moment")
    until = at("Only decisions before this moment")


def subject(description: str) -> fields.String:
    """A parameter that names the subject of events."""
    return fields.String(
        validate=[
            validate.Length(1, 512),
            validate.Regexp(SUBJECT, error="must be KIND:NAME, such as pod:NAMESPACE/NAME or node:NAME"),
        ],
        metadata={"description": description},
    )


def about() -> fields.String:
    """The parameter that selects events by their subject."""
    return subject(
        "Only events about this subject: pod:NS/NAME, pod:UID, node:NAME, flag:LETTER, shadow:NAME,"
        " kind:KIND, relist:KIND, store:ASPECT, or an object of a declared kind, such as policy:NS/NAME."
    )


def event_type() -> fields.String:
    """A parameter that names a type of events."""
    return fields.String(
        validate=validate.OneOf(sorted(kind.__name__ for kind in get_args(events.AnyEvent))),
        metadata={"description": "Only events of this type."},
    )


class Events(Page):
    """Parameters that select events."""

    from_ = at("Only events at or after this moment", data_key="from")
    to = at("Only events up to this moment")
    type = event_type()
    object = about()


def levels() -> fields.String:
    """A parameter that names label keys."""
    return fields.String(
        validate=validate.Regexp(LEVELS, error="must be label keys, comma-separated"),
        metadata={"description": "Label keys from the widest to the narrowest, comma-separated."},
    )


class Topology(Page):
    """Parameters that select levels, and a domain."""

    levels = levels()
    within = text(
        "Only the domain with these values of the first label keys of levels, comma-separated, and those"
        " inside it. The value - stands for the nodes without a value of the label."
    )


class Explain(Moment):
    """Parameters that select an attempt and a format."""

    format = fields.String(
        validate=validate.OneOf(("json", "markdown", "csv")),
        metadata={"description": "The format; by default the one that the Accept header prefers."},
    )
    attempt = fields.Integer(
        validate=validate.Range(1, 10**9),
        metadata={
            "description": "The number of a scheduling attempt among those found, from 1; without it the"
            " latest."
        },
    )
    decision = text("The id of a decision, of any verb.")
    limit = _limit()


class DryRun(Moment):
    """Parameters of a dry run."""

    limit = _limit()


class Flag(Parameters):
    """How long a flag is in force, and for which pods."""

    ttl = fields.String(
        validate=validate.Length(1, 32),
        metadata={"description": "The flag returns to its value at start after this time, such as 5m."},
    )
    pod = pod("The flag is in force for this pod only, NAMESPACE/NAME.")
