"""docs/how-to/quotas.md, tried as it is written."""

import pathlib

import pytest

from tests.support import how_to_pages

PAGE = "quotas.md"


@pytest.mark.parametrize(("request_of_web", "shown"), [("35", 0), ("25", 1)])
def test_the_file_gives_the_output_that_the_page_shows(
    tmp_path: pathlib.Path, request_of_web: str, shown: int
) -> None:
    found = how_to_pages.scored(PAGE, '{"cpu": "35"}', f'{{"cpu": "{request_of_web}"}}', tmp_path)
    assert found == how_to_pages.blocks(PAGE, "text")[shown].splitlines()
