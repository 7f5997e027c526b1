"""The questions as they are asked: JSON objects, validated, each mistake with its path.

An unknown field or operation is a mistake, with the nearest known name: a misspelt override must not be
ignored.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from app import converters
from app.framework import plans, registry, supposed_operations
from app.store.decisions import conditions
from app.verbs.questions import errors, operations

MAX_OVERRIDES = 100
BUDGET_SECONDS, MAX_BUDGET_SECONDS = 5.0, 20.0
"""Seconds of work for one answer; a forwarded request is given up after 30."""
MAX_TOP = 1000
MEASURE = r"^(pods|resource:[A-Za-z0-9./_-]{1,317})?\Z"
"""What is compared on a map of differences."""

Moment = Annotated[
    str, Meta(max_length=200, description="An offset, a position INCARNATION/OFFSET, or an RFC 3339 time.")
]
Budget = Annotated[
    float,
    Meta(ge=0.1, le=MAX_BUDGET_SECONDS, description="Seconds after which an incomplete answer is returned."),
]
PodName = Annotated[str, Meta(max_length=507, description="NAMESPACE/NAME.")]


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a question."""


Q = TypeVar("Q", bound=Question)
_CONVERTERS: dict[type[Question], converters.Converter[Any]] = {}


def asked(kind: type[Q]) -> type[Q]:
    """Let ``read`` return questions of the class."""
    _CONVERTERS[kind] = converters.Converter(kind)
    return kind


class Configuration(Question, frozen=True):
    """Plugin settings other than those of the process; fields that are left out stay as they are."""

    enabled: Annotated[list[str] | None, Meta(description="The plugins, in order.")] = None
    weights: Annotated[dict[str, int], Meta(description="Plugin -> weight.")] = {}
    score_max: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="The largest score.")] = None
    args: Annotated[dict[str, dict[str, Any]], Meta(description="Plugin -> argument -> value.")] = {}


@asked
class Situation(Question, frozen=True):
    """A moment, and what is different from it. Nothing means: now, as it is."""

    at: Moment = ""
    overrides: Annotated[
        list[dict[str, Any]],
        Meta(max_length=MAX_OVERRIDES, description="Operations, applied in order; see Override."),
    ] = []
    configuration: Annotated[Configuration | None, Meta(description="Other plugin settings.")] = None


class WaitingPods(Question, frozen=True):
    """The pods that wait."""

    namespace: Annotated[str, Meta(max_length=63, description="Their namespace; empty for all.")] = ""
    selector: Annotated[dict[str, str], Meta(description="Labels that a pod must have.")] = {}
    most: Annotated[
        int, Meta(ge=1, le=operations.MAX_PODS, description="How many at most, the first of the queue.")
    ] = operations.MAX_PODS


class Gang(Question, frozen=True):
    """Pods that do not exist yet and are placed together."""

    members: Annotated[int, Meta(ge=1, le=plans.MAX_PLACEMENTS, description="How many.")]
    template: Annotated[
        dict[str, Any],
        Meta(description="One of them as a manifest; it may name a group that exists, as its pods do."),
    ]
    minimum: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="How many have to be placed together, by default all; a named group has its own."),
    ] = None


Candidates = Annotated[
    list[supposed_operations.NodeName] | str,
    Meta(description="recorded, all, roomy, or a list of nodes."),
]
AskedPod = Annotated[PodName | dict[str, Any], Meta(description="NAMESPACE/NAME, or a manifest.")]
GroupName = Annotated[
    PodName | None, Meta(description="NAMESPACE/NAME of a gang or another group that is placed together.")
]
SituationField = Annotated[Situation, Meta(description="The situation.")]


@asked
class Simulate(Question, frozen=True):
    """Where would a pod, several pods in order, a gang, a group, or all that wait be placed? Exactly one."""

    pod: AskedPod | None = None
    pods: Annotated[
        Annotated[list[PodName | dict[str, Any]], Meta(min_length=1, max_length=operations.MAX_PODS)] | None,
        Meta(description="Pods, placed in this order."),
    ] = None
    gang: Annotated[Gang | None, Meta(description="Pods that are placed together, or none of them.")] = None
    group: GroupName = None
    pending: Annotated[WaitingPods | None, Meta(description="The pods that wait.")] = None
    situation: SituationField = Situation()
    candidates: Candidates = ""
    preemption: Annotated[
        bool,
        Meta(description="With ``pod``: also which pods would be evicted for it, over all nodes."),
    ] = False
    top: Annotated[int, Meta(ge=1, le=MAX_TOP, description="Rows of each list in the answer.")] = 20
    budget: Budget = BUDGET_SECONDS


Allowed = Literal["objects", "nodes", "labels", "pods"]


@asked
class Fit(Question, frozen=True):
    """Which smallest changes would let a pod, a gang or a group fit? Exactly one of the three."""

    pod: AskedPod | None = None
    gang: Annotated[Gang | None, Meta(description="Pods that are placed together, or none of them.")] = None
    group: GroupName = None
    situation: SituationField = Situation()
    candidates: Candidates = ""
    allow: Annotated[
        list[Allowed],
        Meta(
            min_length=1,
            description="Changes of objects such as policies, of nodes, of the pod's labels, deleted pods.",
        ),
    ] = msgspec.field(default_factory=lambda: list(ALLOWED))
    most: Annotated[int, Meta(ge=1, le=20, description="Changes in the answer.")] = 5
    budget: Budget = BUDGET_SECONDS


@asked
class Diff(Question, frozen=True):
    """What differs between two situations?"""

    from_: SituationField = msgspec.field(default=Situation(), name="from")
    to: SituationField = Situation()
    only: Annotated[
        list[Literal["nodes", "pods", "objects", "counts", "placements", "pending"]],
        Meta(description="The sections to compare; empty for all."),
    ] = []
    limit: Annotated[int, Meta(ge=1, le=MAX_TOP, description="Rows of each section.")] = 100
    namespace: Annotated[
        str, Meta(max_length=63, description="Only what is in this namespace, which no node is.")
    ] = ""
    measure: Annotated[
        str,
        Meta(
            pattern=MEASURE,
            description="pods or resource:NAME: also the map of the nodes that differ in it.",
        ),
    ] = ""


Mode = Annotated[
    Literal["each", "chain"],
    Meta(
        description="each: every decision on its own snapshot; chain: the whole range once, with knock-on"
        " effects: verbs, namespace and where then select only what is counted."
    ),
]
Choice = Annotated[
    Literal["recorded", "best"],
    Meta(description="With chain: whether the recorded node is taken where it is allowed, or the best."),
]
Verb = Literal["filter", "filter_onlyone", "prioritize", "bind", "preempt"]


@asked
class Replay(Question, frozen=True):
    """Which recorded decisions would have been others under another situation?"""

    from_: Moment = msgspec.field(default="", name="from")
    to: Moment = ""
    overrides: Annotated[
        list[dict[str, Any]],
        Meta(max_length=MAX_OVERRIDES, description="Operations, applied to each snapshot; see Override."),
    ] = []
    configuration: Annotated[Configuration | None, Meta(description="Other plugin settings.")] = None
    mode: Mode = "each"
    choice: Choice = "recorded"
    compare: Annotated[
        Literal["verdicts", "scores"], Meta(description="Whether the scores of prioritize are compared too.")
    ] = "verdicts"
    verbs: Annotated[list[Verb], Meta(description="Only decisions of these verbs; empty for all.")] = []
    namespace: Annotated[str, Meta(max_length=63, description="Only pods of this namespace.")] = ""
    where: Annotated[str, Meta(max_length=conditions.LONGEST, description=conditions.ABOUT)] = ""
    limit: Annotated[int, Meta(ge=0, le=1000, description="Decisions that differ in the answer.")] = 100
    first: Annotated[
        list[Literal["refused", "admitted", "node", "nodes", "reason", "scores"]],
        Meta(description="Classes of which the answer has the decisions first; then come the gravest."),
    ] = []
    budget: Budget = BUDGET_SECONDS
    continue_: Annotated[
        str,
        Meta(max_length=40, pattern=r"^([0-9]{1,18}-[0-9]{1,18})?\Z", description="Of the answer before."),
    ] = msgspec.field(default="", name="continue")


class CountAtLeast(Question, frozen=True):
    """Whether a count has reached a value."""

    count: Annotated[str, Meta(max_length=1024, description="Its name, such as shop/spread|role=host.")]
    at_least: Annotated[int, Meta(ge=1, description="The value.")] = 1


class WaitingAtLeast(Question, frozen=True):
    """Whether that many pods wait."""

    at_least: Annotated[int, Meta(ge=1, description="How many.")] = 1
    namespace: Annotated[str, Meta(max_length=63, description="Their namespace; empty for all.")] = ""


@asked
class Bisect(Question, frozen=True):
    """Since when? Exactly one of fits, count, waiting and exists."""

    fits: Annotated[
        PodName | None, Meta(description="NAMESPACE/NAME: whether some node would be kept for the pod.")
    ] = None
    count: Annotated[CountAtLeast | None, Meta(description="Whether a count has reached a value.")] = None
    waiting: Annotated[WaitingAtLeast | None, Meta(description="Whether that many pods wait.")] = None
    exists: Annotated[
        str | None,
        Meta(description="node:NAME, pod:NAMESPACE/NAME or KIND:NAMESPACE/NAME: whether it exists."),
    ] = None
    candidates: Annotated[
        Literal["all", "roomy"],
        Meta(description="With fits: all nodes of each moment, or those that the pod fits on there (roomy)."),
    ] = "all"
    from_: Moment = msgspec.field(default="", name="from")
    to: Moment = ""
    budget: Budget = BUDGET_SECONDS


ALLOWED: tuple[Allowed, ...] = ("objects", "nodes", "labels", "pods")
_PLACE = re.compile(r" - at (?:`key` in )?`\$(?P<path>[^` ]*)`\Z")
_FIELD = re.compile(r"\.?(?P<name>\w+)")
_SPELLED = {
    f"Expected `str` matching regex {pattern!r}": f"must be {form}"
    for pattern, form in (
        (supposed_operations.NAMESPACED, "NAMESPACE/NAME"),
        (supposed_operations.QUALIFIED, "a qualified name, such as role or example.com/role"),
        (supposed_operations.LABEL_VALUE, "a label value: at most 63 letters, digits, -, _ and ."),
        (supposed_operations.PREFIX, "how a DNS subdomain begins: lower-case letters, digits, - and ."),
        (MEASURE, "pods or resource:NAME"),
    )
}
"""What people write, by the message about the pattern that it has to match."""
_NAMED = re.compile(r"unknown field `(?P<name>[^`]*)`")
_Converter = converters.Converter[supposed_operations.Operation]
_CORE: dict[str, _Converter] = {
    str(kind.__struct_config__.tag): converters.Converter(kind) for kind in operations.CORE
}


def read(document: Mapping[str, Any], kind: type[Q]) -> Q:
    """The question in a decoded JSON object. Raises Mistake."""
    try:
        found: Q = _CONVERTERS[kind].convert(document)
        return found
    except msgspec.ValidationError as error:
        raise _mistake(error, "", kind) from error


def overrides(
    given: Sequence[Mapping[str, Any]], plugins: registry.Registry, path: str = "overrides"
) -> tuple[supposed_operations.Operation, ...]:
    """The operations, those of the plugins included. Raises Mistake."""
    known = operations_of(plugins)
    return tuple(_override(one, known, f"{path}[{at}]") for at, one in enumerate(given))


def operations_of(plugins: registry.Registry) -> dict[str, _Converter]:
    """Name -> operation: those on nodes, pods and declared kinds, then those of the plugins."""
    return {**_CORE, **plugins.operations}


def _override(
    given: Mapping[str, Any], known: Mapping[str, _Converter], path: str
) -> supposed_operations.Operation:
    name = given.get("op")
    operation = known.get(name) if isinstance(name, str) else None
    if operation is None:
        raise errors.Mistake(
            f"{path}.op", f"there is no operation {_short(name)}{errors.nearest(name, known)}"
        )
    try:
        return operation.convert(given)
    except msgspec.ValidationError as error:
        raise _mistake(error, path, operation.type) from error


def _mistake(error: msgspec.ValidationError, path: str, kind: type[msgspec.Struct]) -> errors.Mistake:
    text = str(error)
    place = _PLACE.search(text)
    text, below = (text[: place.start()], place["path"]) if place else (text, "")
    unknown = _NAMED.search(text)
    if unknown:
        text = f"there is no field {_short(unknown['name'])}{errors.nearest(unknown['name'], _names(kind))}"
    text = _SPELLED.get(text, text)
    field = _FIELD.match(below)
    if field and text.startswith("Invalid enum value"):
        text += f"; known: {', '.join(_words_of(kind, field['name']))}"
    where = f"{path}{below}" if path else below.removeprefix(".")
    return errors.Mistake(_short(where, quoted=False), text[:1].lower() + text[1:])


def _words_of(kind: type[msgspec.Struct], name: str) -> list[str]:
    """The words that a field, or an item of it, may be."""
    shape = msgspec.inspect.type_info(kind)
    fields = shape.fields if isinstance(shape, msgspec.inspect.StructType) else ()
    found: list[str] = []
    left: list[msgspec.inspect.Type] = [one.type for one in fields if one.encode_name == name]
    while left:
        match left.pop():
            case msgspec.inspect.LiteralType(values=values):
                found += map(str, values)
            case msgspec.inspect.UnionType(types=types):
                left += types
            case msgspec.inspect.ListType(item_type=inner) | msgspec.inspect.Metadata(type=inner):
                left.append(inner)
    return found


def _names(kind: type[msgspec.Struct]) -> list[str]:
    """The names of the fields, those of nested parts included."""
    found = list(kind.__struct_encode_fields__)
    for nested in (Situation, Configuration, WaitingPods, Gang):
        if nested is not kind and issubclass(kind, Question):
            found += nested.__struct_encode_fields__
    return found


def _short(value: object, *, quoted: bool = True) -> str:
    text = str(value)
    shown = text if len(text) <= 80 else f"{text[:79]}…"
    return repr(shown) if quoted else shown


def where(text: str) -> conditions.Condition:
    """The condition on decisions. Raises Mistake."""
    try:
        return conditions.parse(text)
    except conditions.Invalid as error:
        raise errors.Mistake("where", f"{error}") from error
