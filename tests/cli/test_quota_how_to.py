"""docs/how-to/quotas.md, tried as it is written."""

import pathlib
import re

import pytest

import app
from tests.support import commands

PAGE = pathlib.Path(app.__file__).parent.parent / "docs" / "how-to" / "quotas.md"


def blocks(kind: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [text for language, text in found if language == kind]


@pytest.mark.parametrize(("request_of_web", "shown"), [("35", 1), ("25", 2)])
def test_the_file_gives_the_output_that_the_page_shows(
    tmp_path: pathlib.Path, request_of_web: str, shown: int
) -> None:
    (cluster,), plain = blocks("json"), blocks("")
    setting, program, command, name = plain[0].split()
    assert program == "topolog"
    variable, _, value = setting.partition("=")
    file = tmp_path / name
    file.write_text(cluster.replace('{"cpu": "35"}', f'{{"cpu": "{request_of_web}"}}'))
    done = commands.topolog(command, str(file), **{variable: value})
    assert [line.rstrip() for line in done.stdout.splitlines()] == plain[shown].splitlines()
