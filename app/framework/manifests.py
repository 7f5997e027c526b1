"""The parts that all Kubernetes objects have, for decoders of kinds.

msgspec decodes them in one pass: unknown fields are skipped, and ``null`` means absent, as in Go. Names and
uids are checked here because they become parts of keys and log lines.
"""

from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253, pattern=r"\A[-A-Za-z0-9._:]+\Z")]
"""An object name or uid; as DNS-1123, but upper case, ``_`` and ``:`` are allowed too."""

Word = Annotated[str, msgspec.Meta(max_length=253)]
"""A short text that the API server has checked."""


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


def shortened(text: str, limit: int) -> str:
    """The text, cut to ``limit`` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
