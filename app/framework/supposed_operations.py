"""Operations of a hypothetical situation, as data: each becomes ordinary events, folded onto a snapshot.

The operations on nodes and pods are in app.verbs.questions.operations; a plugin declares those on its own
objects (capabilities.Supposes).
"""

import re
from collections.abc import Iterable
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

import msgspec
import msgspec.inspect

from app.domain import events, model, selectors, snapshots

RESERVED: Final = frozenset(
    (
        "addNodes",
        "addPods",
        "cordon",
        "deleteObject",
        "deletePods",
        "labelNodes",
        "labelPods",
        "patchObject",
        "removeNodes",
        "setObject",
        "uncordon",
    )
)
"""Names of the operations that need no plugin: no plugin may declare one of them."""
NodeName = Annotated[model.NodeName, msgspec.Meta(min_length=1, max_length=253)]
NAMESPACED: Final = r"^[^/\s]+/[^/\s]+\Z"
Name = Annotated[model.NamespacedName, msgspec.Meta(pattern=NAMESPACED, max_length=507)]
"""``namespace/name``."""
QUALIFIED: Final = rf"^{selectors.KEY}\Z"
LABEL_VALUE: Final = rf"^{selectors.VALUE}\Z"
PREFIX: Final = rf"^(?:{selectors.DNS_LABEL}\.)*[a-z0-9][-a-z0-9]*\Z"
"""What IsDNS1123Subdomain of k8s.io/apimachinery allows before ``-1``."""
QualifiedName = Annotated[str, msgspec.Meta(pattern=QUALIFIED, max_length=selectors.MAX_KEY)]
"""The key of a label, or the name of a resource."""
LabelValue = Annotated[str, msgspec.Meta(pattern=LABEL_VALUE)]


class Impossible(ValueError):
    """The operation does not apply to the snapshot; ``field`` is the part that names what is missing."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}")
        self.field = field
        self.text = text


class Invalid(Impossible):
    """The operation applies to no snapshot, such as one with a manifest that is invalid."""


class Group(NamedTuple):
    """Pods of which a plugin places those that are needed at once, or none (capabilities.Groups)."""

    name: model.NamespacedName
    waiting: tuple[model.Pod, ...]
    """The pods without a node, in the order in which they are placed."""
    needed: int
    """How many of them have to be placed together; 0 if each may be placed alone."""
    placed: frozenset[model.Uid] = frozenset()
    """The pods of the group that have a node."""


class Operation(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", tag_field="op"
):
    """One override of a situation; the tag of a subclass is its name in JSON.

    The first line of a subclass's docstring, and the descriptions and examples of its fields (msgspec.Meta),
    are what the command line and the dashboard show.
    """

    usage: ClassVar[str] = ""
    """The option and its values in the help of commands, such as ``--scale NS/POLICY DOMAIN=N``; by default
    from the tag and the names of the fields."""

    def events(self, snapshot: snapshots.Snapshot) -> Iterable[events.AnyEvent]:
        """The events that the operation becomes in the snapshot; none if it changes nothing.

        Of an iterator no more are taken than a situation may have. Raises Impossible, and Invalid if that
        does not depend on the snapshot.
        """
        raise NotImplementedError


Shape = Literal["value", "list", "map"]


class Field(NamedTuple):
    """A field of an operation, as a form or an option asks for it."""

    name: str
    about: str
    example: str
    required: bool
    shape: Shape
    text: bool
    """Whether a value, or each part of a list or map, may be text; else it is JSON, such as a number."""


class Described(NamedTuple):
    """The part of an operation that its callers need."""

    op: str
    about: str
    option: str
    """Name of its option in commands, with its dashes."""
    metavar: str
    fields: tuple[Field, ...]


def described(operation: type[Operation]) -> Described:
    """What the class declares."""
    info = msgspec.inspect.type_info(operation)
    assert isinstance(info, msgspec.inspect.StructType)
    fields = tuple([_field(one) for one in info.fields])
    op = str(info.tag)
    option, _, metavar = operation.usage.partition(" ")
    return Described(
        op=op,
        about=(operation.__doc__ or "").partition("\n")[0],
        option=option or f"--{re.sub('(?=[A-Z])', '-', op).lower()}",
        metavar=metavar or _metavar(fields),
        fields=fields,
    )


def _field(one: msgspec.inspect.Field) -> Field:
    held: msgspec.inspect.Type = one.type
    notes: dict[str, object] = {}
    if isinstance(held, msgspec.inspect.Metadata):
        notes = held.extra_json_schema or {}
        held = held.type
    shape: Shape = "value"
    part = held
    if isinstance(held, msgspec.inspect.DictType):
        shape, part = "map", held.value_type
    elif isinstance(held, msgspec.inspect.ListType):
        shape, part = "list", held.item_type
    if isinstance(part, msgspec.inspect.Metadata):
        part = part.type
    parts = part.types if isinstance(part, msgspec.inspect.UnionType) else (part,)
    examples = notes.get("examples")
    return Field(
        name=one.encode_name,
        about=str(notes.get("description", "")),
        example=str(examples[0]) if isinstance(examples, list) and examples else "",
        required=one.required,
        shape=shape,
        text=any(isinstance(each, msgspec.inspect.StrType) for each in parts),
    )


def _metavar(fields: tuple[Field, ...]) -> str:
    """``LIMIT N`` of one more field, ``LIMIT KEY=N`` of one more map, ``QUOTA FIELD=N`` of several more."""
    first, rest = [one.name.upper() for one in fields[:1]], fields[1:]
    if not rest:
        return " ".join(first)
    if len(rest) > 1:
        return " ".join([*first, "FIELD=VALUE,..."])
    return " ".join([*first, "KEY=VALUE,..." if rest[0].shape == "map" else rest[0].name.upper()])
