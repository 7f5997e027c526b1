"""What a declared override shows of itself to those that ask for it."""

import pytest

from app.framework import registry_builder, supposed_operations
from app.plugins import IN_TREE
from app.verbs.questions import operations
from tests.support.decisions import rack_operations


def test_fields_have_a_shape_and_may_allow_text() -> None:
    found = supposed_operations.described(rack_operations.DrainRack)
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
        (rack_operations.DrainRack, "--drain-rack", "RACK FIELD=VALUE,..."),
        (rack_operations.RenameRack, "--rename", "OLD NEW"),
        (rack_operations.CloseRack, "--close-rack", "RACK"),
        (rack_operations.WeighRacks, "--weigh-racks", "ROW KEY=VALUE,..."),
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
