"""The parts that all Kubernetes objects have, for decoders of kinds.

msgspec decodes them in one pass: unknown fields are skipped, and ``null`` means absent, as in Go. Names and
uids are checked here because they become parts of keys and log lines.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec

from app import converters
from app.domain import declared_objects, model, selectors

T = TypeVar("T", bound=model.DeclaredObject)

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253, pattern=r"\A[-A-Za-z0-9._:]+\Z")]
"""An object name or uid; as DNS-1123, but upper case, ``_`` and ``:`` are allowed too."""

Word = Annotated[str, msgspec.Meta(max_length=253)]
"""A short text that the API server has checked."""

_KEY = re.compile(selectors.KEY)
_VALUE = re.compile(selectors.VALUE)

SELECTOR: declared_objects.Fields = {
    "matchLabels": {},
    "matchExpressions": {"key": {}, "operator": {}, "values": {}},
}
"""The fields of metav1.LabelSelector."""


class ApiStruct(msgspec.Struct, rename="camel", gc=False):
    """A part of an object in its JSON form; exists only while the object is decoded."""


class Owner(ApiStruct):
    """metav1.OwnerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(ApiStruct):
    """metav1.ObjectMeta."""

    name: Name
    uid: Name
    namespace: Annotated[str, msgspec.Meta(max_length=63, pattern=r"\A[-A-Za-z0-9._]*\Z")] = ""
    resource_version: Word = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None
    creation_timestamp: Word | None = None
    deletion_timestamp: Word | None = None


class _Manifest(ApiStruct):
    metadata: Metadata
    spec: dict[str, Any] | None = None


_manifest = msgspec.json.Decoder(_Manifest)


def kind(
    kept: type[T], api_version: str, resource: str, *, optional: bool = False
) -> declared_objects.Kind[T]:
    """A namespaced kind ``example.com/v1`` whose kept part has the name of the kind and fields of ``spec``.

    Placements that depend on it expect all its objects of the pod's namespace (``RESOURCE-in:NAMESPACE``).
    A kind that differs from this is a ``declared_objects.Kind`` with all its fields.
    """
    group, _, version = api_version.rpartition("/")
    return declared_objects.Kind(
        name=resource,
        group=group,
        versions=(version,),
        resource=resource,
        manifest=kept.__name__,
        type=kept,
        decode=decoder(kept),
        optional=optional,
        moves=lambda namespace: (f"{resource}-in:{namespace}",),
    )


def decoder(kept: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """A function for Kind.decode that keeps fields of ``spec``: ``perNode`` as the field ``per_node``.

    It raises ValueError for a value that does not have the field's type. A plugin that shows invalid objects
    with their errors, or keeps something beside the specification, has a function of its own.
    """
    fields = [name for name in kept.__struct_fields__ if name not in model.DeclaredObject.__struct_fields__]
    spelled = {_camel(name): name for name in fields}
    converter = converters.Converter(kept)

    def decode(raw: bytes | msgspec.Raw) -> T:
        seen = _manifest.decode(raw)
        spec = {key: value for key, value in (seen.spec or {}).items() if value is not None}
        named = {"uid": seen.metadata.uid, "namespace": seen.metadata.namespace, "name": seen.metadata.name}
        return converter.convert({**{spelled[key]: spec[key] for key in spelled.keys() & spec}, **named})

    return decode


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def shortened(text: str, limit: int) -> str:
    """The text, cut to ``limit`` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def is_annotation(key: object, value: object) -> bool:
    """Whether the API server accepts the annotation."""
    if not isinstance(key, str) or not isinstance(value, str) or not _KEY.fullmatch(key):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_label(key: object, value: object) -> bool:
    """Whether the API server accepts the label."""
    return is_annotation(key, value) and _VALUE.fullmatch(str(value)) is not None
