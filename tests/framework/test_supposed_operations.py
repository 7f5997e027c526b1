"""What a declared override shows of itself to those that ask for it."""

from typing import Annotated, ClassVar

import msgspec
import pytest
from msgspec import Meta

from app.framework import registry_builder, supposed_operations
from app.plugins import IN_TREE
from app.verbs.questions import operations


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


def test_fields_have_a_shape_and_say_whether_text_is_allowed() -> None:
    found = supposed_operations.described(DrainRack)
    assert (found.op, found.about) == ("drainRack", "Pods leave a rack.")
    assert found.fields == (
        supposed_operations.Field("rack", "Its name.", "r1", True, "value", True),
        supposed_operations.Field("but", "", "", False, "list", True),
        supposed_operations.Field("limits", "", "", False, "map", False),
        supposed_operations.Field("share", "", "", False, "value", True),
    )


@pytest.mark.parametrize(
    ("operation", "option", "metavar"),
    [
        (DrainRack, "--drain-rack", "RACK FIELD=VALUE,..."),
        (RenameRack, "--rename", "OLD NEW"),
        (CloseRack, "--close-rack", "RACK"),
        (WeighRacks, "--weigh-racks", "ROW KEY=VALUE,..."),
    ],
)
def test_the_option_follows_from_the_tag_and_the_fields_or_is_declared(
    operation: type[supposed_operations.Operation], option: str, metavar: str
) -> None:
    found = supposed_operations.described(operation)
    assert (found.option, found.metavar) == (option, metavar)


def test_all_overrides_of_plugins_describe_themselves_and_their_fields() -> None:
    declared = [supposed_operations.described(one) for one in registry_builder.operations_of(IN_TREE)]
    assert declared
    for one in declared:
        assert one.about.endswith(".")
        assert all(field.about and field.example for field in one.fields), one
    names = [one.op for one in declared] + [supposed_operations.described(one).op for one in operations.CORE]
    assert len(set(names)) == len(names)
    assert len({one.option for one in declared}) == len(declared)
