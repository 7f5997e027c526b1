"""Cells, headings and columns of tables."""

import pytest

from app.cli.output import tables


def test_objects_of_a_list_are_apart_in_a_cell() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    assert tables.cell(taints) == "key=a, effect=NoSchedule; key=b, effect=NoExecute"
    assert tables.cell(["a", "b"]) == "a, b"


@pytest.mark.parametrize(
    ("field", "heading"),
    [("name", "NAME"), ("inFlight", "IN FLIGHT"), ("waitingForBindChildren", "WAITING FOR BIND CHILDREN")],
)
def test_a_heading_has_the_words_of_the_field(field: str, heading: str) -> None:
    assert tables.heading(field) == heading


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0s"), (119.0, "119s"), (120.0, "2m"), (7_200.0, "2h"), (15_674_460.0, "181d"), (None, None)],
)
def test_an_age_is_in_its_largest_unit(seconds: float | None, shown: str | None) -> None:
    assert tables.pick({"age": seconds}, "age~") == shown
