"""The page of the bars names each once, with cases that exist."""

import pathlib
import re

from tests.bench import cases

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "design" / "bars.md"


def test_each_bar_names_the_case_that_measures_it() -> None:
    found = re.findall(r"^\| (PB-\d+) \|.* \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name, _ in found] == [f"PB-{number}" for number in range(1, 23)]
    named = {case for _, column in found for case in re.findall(r"`([^`]+)`", column)}
    assert named
    assert named <= cases.CASES.keys()
