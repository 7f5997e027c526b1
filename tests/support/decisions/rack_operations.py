"""Operations with fields of every shape, as a plugin may declare them."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from app.framework import supposed_operations


class DrainRack(supposed_operations.Operation, frozen=True, tag="drainRack"):
    """Pods leave a rack.

    What is not in the first line is not shown.
    """

    rack: Annotated[str, Meta(min_length=1, description="Its name.", examples=["r1"])]
    but: list[supposed_operations.NodeName] = msgspec.field(default_factory=list)
    limits: dict[str, Annotated[int, Meta(ge=0)]] = msgspec.field(default_factory=dict)
    share: float | str = 1.0


class RenameRack(supposed_operations.Operation, frozen=True, tag="renameRack"):
    """A rack has another name."""

    usage: ClassVar[str] = "--rename OLD NEW"
    rack: str
    name: str


class CloseRack(supposed_operations.Operation, frozen=True, tag="closeRack"):
    """A rack is closed."""

    rack: str


class WeighRacks(supposed_operations.Operation, frozen=True, tag="weighRacks"):
    """Racks have other weights."""

    row: str
    weights: dict[str, int]
