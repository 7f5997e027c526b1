"""Operations of a hypothetical situation, as data: each becomes ordinary events, folded onto a snapshot.

The operations on nodes and pods are in app.verbs.questions.operations; a plugin declares those on its own
objects (capabilities.Supposes).
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from app.domain import events, model, snapshots

NodeName = Annotated[model.NodeName, msgspec.Meta(min_length=1, max_length=253)]
Name = Annotated[model.NamespacedName, msgspec.Meta(pattern=r"^[^/\s]+/[^/\s]+\Z", max_length=507)]
"""``namespace/name``."""


class Impossible(ValueError):
    """The operation does not apply to the snapshot; ``field`` is the part that names what is missing."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}")
        self.field = field
        self.text = text


class Group(NamedTuple):
    """Pods of which a plugin places those that are needed at once, or none (capabilities.Groups)."""

    name: model.NamespacedName
    waiting: tuple[model.Pod, ...]
    """The pods without a node, in the order in which they are placed."""
    needed: int
    """How many of them have to be placed together; 0 if each may be placed alone."""


class Operation(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", tag_field="op"
):
    """One override of a situation; the tag of a subclass is its name in JSON."""

    def events(self, snapshot: snapshots.Snapshot) -> Sequence[events.AnyEvent]:
        """The events that the operation becomes in the snapshot; none if it changes nothing.

        Raises Impossible.
        """
        raise NotImplementedError
