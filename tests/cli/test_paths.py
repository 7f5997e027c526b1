"""Paths into documents: order by what people mean, and columns between commas."""

import json

import hypothesis
import pytest
from hypothesis import strategies as st

from app.cli.output import paths


@pytest.mark.parametrize(
    "given",
    [
        ["500m", "1", 1.5, "2", 10, "1Ki", "1Mi"],
        ["n1", "n2", "n10", "n10a", "n11"],
        [None, False, True, -3, "7", "2026-07-01T09:00:00Z", "2026-07-01T10:00:00Z", "a"],
    ],
)
def test_values_are_ordered_as_people_read_them(given: list[object]) -> None:
    items = [{"value": value} for value in given]
    assert paths.ordered(items[::-1], ".value") == items


@hypothesis.given(
    st.lists(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=5)
        | st.lists(st.integers(), max_size=2),
        max_size=6,
    )
)
def test_any_values_can_be_ordered_and_equal_ones_stay(values: list[object]) -> None:
    items = [{"value": value, "at": at} for at, value in enumerate(values)]
    found = paths.ordered(items, ".value")
    assert sorted(item["at"] for item in found) == list(range(len(items)))
    assert paths.ordered(found, ".value") == found


@pytest.mark.parametrize("path", [".a.b", "{.a.b}", "{ .a.b }", "$.a.b", "$['a'].b", "['a']['b']"])
def test_a_path_may_be_written_as_for_kubectl(path: str) -> None:
    assert paths.compiled(path)({"a": {"b": (1, 2)}}) == [[1, 2]]


def test_columns_are_split_at_commas_outside_of_brackets_and_quotes() -> None:
    found = paths.columns("""A:$['x','y,z'],B:$.l[?(@.n == "a,b")].v,C:.none""")
    assert found.headings == ["A", "B", "C"]
    item = {"x": 1, "y,z": 2, "l": [{"n": "a,b", "v": 3}]}
    assert json.dumps(found.row(item)) == "[[1, 2], 3, null]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A B\n.a\n", "has 2 headings and 1 paths"),
        ("A\n", "has 1 lines; write headings on one and paths on the next"),
        ("A\nb\n", "column A: 'b' is not a path; write .b"),
    ],
)
def test_a_wrong_file_of_columns_is_named(tmp_path: object, text: str, message: str) -> None:
    file = f"{tmp_path}/columns"
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)
    with pytest.raises(paths.Wrong, match=message):
        paths.columns_of_file(file)
